#include "lessons/course/facts.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

namespace flashsim::course {
namespace {

template <class Map>
const typename Map::mapped_type& found(const Map& map, const std::string& name, const char* what) {
  const auto it = map.find(name);
  if (it == map.end()) throw std::out_of_range(fmt::format("the lesson has no {} '{}'", what, name));
  return it->second;
}

}  // namespace

bool Answer::accepts(double prediction) const {
  // The last digit of a number typed by hand is rounded, hence the small allowance where it is exact.
  const double allowed = std::abs(value) * (tolerance > 0 ? tolerance : 1e-9);
  return std::abs(prediction - value) <= allowed;
}

void Facts::text(const std::string& name, std::string shown) { texts_[name] = std::move(shown); }

void Facts::number(const std::string& name, double value, std::string_view format) {
  values_[name] = value;
  texts_[name] = fmt::format(fmt::runtime(format), value);
}

void Facts::table(const std::string& name, Table t) { tables_[name] = std::move(t); }

void Facts::answer(const std::string& id, double value, const std::string& unit, double tolerance,
                   std::string_view format) {
  number(id, value, format);
  answers_[id] = {value, unit, tolerance, texts_[id]};
}

const std::string& Facts::text(const std::string& name) const { return found(texts_, name, "text"); }
const Table& Facts::table(const std::string& name) const { return found(tables_, name, "table"); }
const Answer& Facts::answer(const std::string& id) const { return found(answers_, id, "answer"); }
double Facts::value(const std::string& name) const { return found(values_, name, "number"); }

}  // namespace flashsim::course
