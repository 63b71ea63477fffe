// What a lesson found out by running something: the numbers its text quotes, tables, answers and charts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/report/chart.h"

namespace flashsim::course {

struct Table {
  std::vector<std::string> titles;  ///< a title that begins with '<' is of a left-aligned column
  std::vector<std::vector<std::string>> rows;
};

/// What a prediction is held against. It was computed by running something, never typed in.
struct Answer {
  double value = 0;
  std::string unit;      ///< what the prediction is asked in, e.g. "MB"
  double tolerance = 0;  ///< relative: 0.1 accepts 10 % more or less; 0 asks for the number itself
  std::string shown;     ///< the value as text, without the unit

  /// A prediction is right within the tolerance. False for NaN.
  bool accepts(double prediction) const;
};

class Facts {
 public:
  /// A number that the text quotes as {name}. `shown` is its text.
  void text(const std::string& name, std::string shown);
  /// The same, formatted as by fmt, e.g. "{:.1f}".
  void number(const std::string& name, double value, std::string_view format);
  /// A table that the text places with a line {table:name}.
  void table(const std::string& name, Table t);
  /// The answer of question `id`; the text may also quote it as {id}.
  void answer(const std::string& id, double value, const std::string& unit, double tolerance,
              std::string_view format);
  void chart(Chart c) { charts_.push_back(std::move(c)); }

  /// Throws std::out_of_range with the name where there is none.
  const std::string& text(const std::string& name) const;
  const Table& table(const std::string& name) const;
  const Answer& answer(const std::string& id) const;
  const std::vector<Chart>& charts() const { return charts_; }
  const std::map<std::string, std::string>& texts() const { return texts_; }
  const std::map<std::string, Table>& tables() const { return tables_; }
  const std::map<std::string, Answer>& answers() const { return answers_; }
  /// The value behind a number or an answer, for tests and JSON.
  double value(const std::string& name) const;
  const std::map<std::string, double>& values() const { return values_; }

 private:
  std::map<std::string, std::string> texts_;
  std::map<std::string, double> values_;
  std::map<std::string, Table> tables_;
  std::map<std::string, Answer> answers_;
  std::vector<Chart> charts_;
};

}  // namespace flashsim::course
