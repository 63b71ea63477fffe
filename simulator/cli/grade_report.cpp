#include "simulator/cli/grade_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace flashsim::cli {
namespace {

using lessons::CheckGrade;
using lessons::ExerciseGrade;

std::string title_of(const ExerciseGrade& g) {
  return fmt::format("{} {}", g.exercise->number, g.exercise->title);
}

/// Text in XML: marks escaped, and what XML cannot hold replaced.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\n')
      out += "&#10;";
    else if (static_cast<unsigned char>(c) < 0x20 && c != '\t')
      out += '?';
    else
      out += c;
  }
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string advice_of(const ExerciseGrade& g) {
  if (g.mistake.empty()) return {};
  return "It looks as if " + g.mistake + ". " + g.hint;
}

/// What a check's owner reads: the message, and once an exercise the advice.
std::string output_of(const ExerciseGrade& g, const CheckGrade& c) {
  std::string text = c.message;
  if (c.earned < c.points && !g.problem.empty()) text += (text.empty() ? "" : "\n") + g.problem;
  if (c.earned < c.points && !g.mistake.empty()) text += (text.empty() ? "" : "\n") + advice_of(g);
  return text;
}

void print_lines(const std::string& text, int width, int indent, Output& out) {
  std::string::size_type begin = 0;
  while (begin <= text.size()) {
    const auto end = std::min(text.find('\n', begin), text.size());
    out.print(std::string(static_cast<std::size_t>(indent), ' ') +
              indented(wrapped(text.substr(begin, end - begin), width - indent), indent) + "\n");
    begin = end + 1;
  }
}

}  // namespace

std::string points_text(double points) { return fmt::format("{:.4g}", points); }

double Submission::points() const {
  double sum = 0;
  for (const ExerciseGrade& g : grades)
    if (g.skipped.empty()) sum += g.points();
  return sum;
}
double Submission::earned() const {
  double sum = 0;
  for (const ExerciseGrade& g : grades)
    if (g.skipped.empty()) sum += g.earned();
  return sum;
}
bool Submission::passed() const {
  return std::all_of(grades.begin(), grades.end(),
                     [](const ExerciseGrade& g) { return g.passed() || !g.skipped.empty(); });
}

void print_checks(const ExerciseGrade& g, Output& out) {
  const Style& style = out.style();
  const int width = std::min(out.width(), 100);
  const std::string score = g.skipped.empty()
                                ? fmt::format("{} of {}", points_text(g.earned()), points_text(g.points()))
                                : std::string("skipped");
  out.print(fmt::format("{}  {}\n", style.bold("Exercise " + title_of(g)),
                        g.passed() ? style.green(score) : style.yellow(score)));
  if (!g.skipped.empty()) return print_lines(g.skipped, width, 2, out);
  // A compiler's messages keep their lines: carets point into them.
  const std::size_t first_line = std::min(g.problem.find('\n'), g.problem.size());
  if (!g.problem.empty()) print_lines(g.problem.substr(0, first_line), width, 2, out);
  if (first_line < g.problem.size()) out.print(g.problem.substr(first_line + 1) + "\n");
  std::string last;
  for (const CheckGrade& c : g.checks) {
    if (c.message == "not run" || c.message == "not submitted") continue;
    const bool all = c.earned >= c.points;
    out.print(fmt::format("  {} {:>3} / {:<3}  {}\n", all ? style.green("ok  ") : style.red("lost"),
                          points_text(c.earned), points_text(c.points), c.name));
    if (!c.message.empty() && c.message != last) print_lines(c.message, width, 19, out);
    last = c.message;
  }
  if (!g.mistake.empty()) print_lines(advice_of(g), width, 2, out);
}

void print_grades(const Submission& s, Output& out) {
  for (const ExerciseGrade& g : s.grades) {
    print_checks(g, out);
    out.print("\n");
  }
  out.print(fmt::format("{}: {} of {} points\n", s.name, points_text(s.earned()), points_text(s.points())));
}

Json json_of(const std::vector<Submission>& all, const std::string& seed) {
  Json document = json_document("grade");
  document["seed_fingerprint"] = seed;
  document["submissions"] = Json::array();
  for (const Submission& s : all) {
    Json student = {
        {"name", s.name}, {"points", s.points()}, {"earned", s.earned()}, {"exercises", Json::array()}};
    for (const ExerciseGrade& g : s.grades) {
      Json exercise = {
          {"number", g.exercise->number}, {"name", g.exercise->name}, {"title", g.exercise->title},
          {"submitted", g.submitted},     {"skipped", g.skipped},     {"problem", g.problem},
          {"mistake", g.mistake},         {"hint", g.hint},           {"points", g.points()},
          {"earned", g.earned()},         {"checks", Json::array()}};
      for (const CheckGrade& c : g.checks)
        exercise["checks"].push_back(
            {{"name", c.name}, {"points", c.points}, {"earned", c.earned}, {"message", c.message}});
      student["exercises"].push_back(std::move(exercise));
    }
    document["submissions"].push_back(std::move(student));
  }
  return document;
}

std::string junit_of(const std::vector<Submission>& all) {
  std::string body;
  int tests = 0, failures = 0, skipped = 0;
  for (const Submission& s : all)
    for (const ExerciseGrade& g : s.grades) {
      std::string cases;
      int lost = 0, left_out = 0;
      for (const CheckGrade& c : g.checks) {
        cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\">",
                             xml(s.name + "." + std::string(g.exercise->name)), xml(c.name));
        if (!g.skipped.empty()) {
          cases += fmt::format("<skipped message=\"{}\"/>", xml(g.skipped));
          ++left_out;
        } else if (c.earned < c.points) {
          cases += fmt::format("<failure message=\"{} of {} points\">{}</failure>", points_text(c.earned),
                               points_text(c.points), xml(output_of(g, c)));
          ++lost;
        }
        cases += "</testcase>\n";
      }
      body += fmt::format(
          "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n",
          xml(s.name + ": " + title_of(g)), g.checks.size(), lost, left_out, cases);
      tests += static_cast<int>(g.checks.size());
      failures += lost;
      skipped += left_out;
    }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"flashsim grade\" tests=\"{}\" "
      "failures=\"{}\" skipped=\"{}\">\n{}</testsuites>\n",
      tests, failures, skipped, body);
}

Json gradescope_of(const Submission& s) {
  Json document = {{"score", s.earned()},
                   {"output", fmt::format("flashsim grade: {} of {} points", points_text(s.earned()),
                                          points_text(s.points()))},
                   {"tests", Json::array()}};
  for (const ExerciseGrade& g : s.grades) {
    int number = 0;
    for (const CheckGrade& c : g.checks) {
      const bool left_out = !g.skipped.empty();
      document["tests"].push_back({{"name", title_of(g) + ": " + c.name},
                                   {"number", fmt::format("{}.{}", g.exercise->number, ++number)},
                                   {"score", left_out ? 0 : c.earned},
                                   {"max_score", left_out ? 0 : c.points},
                                   {"output", left_out ? g.skipped : output_of(g, c)},
                                   {"visibility", "visible"}});
    }
  }
  return document;
}

std::string csv_of(const std::vector<Submission>& all) {
  std::map<int, double> columns;  // exercise: its points
  for (const Submission& s : all)
    for (const ExerciseGrade& g : s.grades) columns[g.exercise->number] = g.skipped.empty() ? g.points() : 0;
  std::string text = "student";
  for (const auto& [number, points] : columns)
    text += fmt::format(",exercise {} (of {})", number, points_text(points));
  text += ",total,of\n";
  for (const Submission& s : all) {
    text += csv_field(s.name);
    for (const auto& [number, points] : columns) {
      const auto g = std::find_if(s.grades.begin(), s.grades.end(),
                                  [n = number](const ExerciseGrade& x) { return x.exercise->number == n; });
      text += "," + (g == s.grades.end() ? "" : points_text(g->earned()));
    }
    text += fmt::format(",{},{}\n", points_text(s.earned()), points_text(s.points()));
  }
  return text;
}

}  // namespace flashsim::cli
