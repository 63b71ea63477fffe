#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>

#include "cpu_reference/random.h"
#include "lessons/exercises/given/calls.h"
#include "lessons/exercises/given/softmax.h"
#include "lessons/grader/grade_calls.h"
#include "simulator/machine/machine.h"

namespace flashsim::lessons {
namespace {

/// A step from any state: the truth, written with long double so that its own rounding does not matter.
RowState truth_of(const RowState& before, const std::vector<double>& scores) {
  RowState after{before.m, 0};
  for (double s : scores) after.m = std::max(after.m, s);
  if (std::isinf(after.m)) return after;
  long double l = static_cast<long double>(before.l) * std::exp(static_cast<long double>(before.m) - after.m);
  for (double s : scores) l += std::exp(static_cast<long double>(s) - after.m);
  after.l = static_cast<double>(l);
  return after;
}

RowState ask(UserFunction::Calls& calls, const RowState& before, const std::vector<double>& scores) {
  const given::SoftmaxQuestion q{before.m, before.l, static_cast<unsigned>(scores.size())};
  std::vector<char> bytes(sizeof q + scores.size() * sizeof(double));
  std::copy_n(reinterpret_cast<const char*>(&q), sizeof q, bytes.data());
  std::copy_n(reinterpret_cast<const char*>(scores.data()), scores.size() * sizeof(double),
              bytes.data() + sizeof q);
  RowState after;
  calls.ask(bytes.data(), bytes.size(), &after, sizeof after);
  return after;
}

/// Every rounding is relative: one for each exponential (its argument's rounding counts |s - m|, at most 745
/// where it does not underflow) and each sum.
bool right(const RowState& got, const RowState& want, std::size_t terms) {
  const double u = std::ldexp(1.0, -53), l_bound = (static_cast<double>(terms) + 750 + 8) * u * want.l;
  return got.m == want.m && (got.l == want.l || std::abs(got.l - want.l) <= l_bound);
}

struct Steps {
  const char* name;
  double points;
  double stretch;  ///< of the scores
  double rise;     ///< added with every chunk: negative, and no chunk after the first brings a new maximum
  double hidden;   ///< share of hidden scores
  bool from_random_states;
};
constexpr Steps steps[] = {{"from any state, with and without a new maximum", 3, 3, 0, 0, true},
                           {"one row in chunks of any size", 2, 1, 0, 0, false},
                           {"every chunk has a larger maximum", 1, 1, 10, 0, false},
                           {"no chunk after the first has", 1, 1, -10, 0, false},
                           {"scores in the thousands", 1, 1000, 0, 0, false},
                           {"hidden scores, and chunks and rows that are all hidden", 2, 2, 0, 0.8, false}};

/// What typical mistakes make of a step.
struct WrongStep {
  const char *name, *hint;
  std::function<RowState(const RowState&, const std::vector<double>&)> step;
};
const std::vector<WrongStep>& wrong_steps() {
  const auto sum = [](const RowState& after, const std::vector<double>& x) {
    double l = 0;
    for (double s : x) l += std::exp(s - after.m);
    return l;
  };
  static const std::vector<WrongStep> all = {
      {"the old sum is not rescaled", "l was summed with the old maximum: multiply it by exp(m_old - m_new).",
       [sum](const RowState& b, const std::vector<double>& x) {
         RowState after = truth_of(b, x);
         after.l = b.l + sum(after, x);
         return after;
       }},
      {"the correction factor is inverted", "The factor is exp(m_old - m_new), at most 1.",
       [sum](const RowState& b, const std::vector<double>& x) {
         RowState after = truth_of(b, x);
         after.l = b.l * std::exp(after.m - b.m) + sum(after, x);
         return after;
       }},
      {"the old sum is forgotten", "The scores before count too: keep before.l, rescaled.",
       [sum](const RowState& b, const std::vector<double>& x) {
         RowState after = truth_of(b, x);
         after.l = sum(after, x);
         return after;
       }},
      {"the maximum is this chunk's only",
       "m is the largest score so far: before.m may be larger than all of these.",
       [](const RowState& b, const std::vector<double>& x) {
         RowState after{*std::max_element(x.begin(), x.end()), 0};
         after.l = b.l * std::exp(b.m - after.m);
         for (double s : x) after.l += std::exp(s - after.m);
         return after;
       }},
      {"no maximum is subtracted in the sum", "exp(score) overflows; exp(score - m) does not.",
       [](const RowState& b, const std::vector<double>& x) {
         RowState after = truth_of(b, x);
         after.l = b.l;
         for (double s : x) after.l += std::exp(s);
         return after;
       }},
      {"l is not touched", "l is the sum of exp(score - m) over old and new scores.",
       [](const RowState& b, const std::vector<double>& x) {
         return RowState{truth_of(b, x).m, b.l};
       }}};
  return all;
}

bool same(const RowState& a, const RowState& b) {
  const auto alike = [](double x, double y) {
    return x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= 1e-9 * std::abs(y);
  };
  return alike(a.m, b.m) && alike(a.l, b.l);
}

std::string text_of(const RowState& s) {
  char text[80];
  std::snprintf(text, sizeof text, "m = %.6g, l = %.6g", s.m, s.l);
  return text;
}

}  // namespace

std::vector<CheckGrade> softmax_checks() {
  std::vector<CheckGrade> all;
  for (const Steps& s : steps) all.push_back({s.name, s.points, 0, {}});
  return all;
}

void grade_softmax(const UserFunction& user, const GradeOptions& options, ExerciseGrade& grade) {
  std::uint64_t drawn = 0;
  const auto draw = [&](Distribution d) { return random_value(d, options.seed, 2001, drawn++); };
  for (const Steps& s : steps) {
    CheckGrade g{s.name, s.points, 0, {}};
    try {
      UserFunction::Calls calls = user.calls();
      RowState state{-infinity, 0};
      for (int chunk = 0; chunk < 24 && g.message.empty(); ++chunk) {
        // A row of six chunks; then the next one begins.
        if (chunk % 6 == 0) state = {-infinity, 0};
        if (s.from_random_states)
          state = {3 * draw(Distribution::normal), 1 + 9 * std::abs(draw(Distribution::uniform))};
        const bool all_hidden = s.hidden > 0 && chunk % 6 < 2;
        std::vector<double> scores(1 + static_cast<std::size_t>(8 * std::abs(draw(Distribution::uniform))));
        for (double& x : scores) {
          x = s.stretch * draw(Distribution::normal) + s.rise * (chunk % 6);
          if (all_hidden || (draw(Distribution::uniform) + 1) / 2 < s.hidden) x = -infinity;
        }
        const RowState want = truth_of(state, scores), got = ask(calls, state, scores);
        if (!right(got, want, scores.size())) {
          g.message = "from " + text_of(state) + " and " + std::to_string(scores.size()) +
                      " scores: " + text_of(got) + ", expected " + text_of(want);
          for (const WrongStep& w : wrong_steps())
            if (grade.mistake.empty() && same(got, w.step(state, scores)) &&
                !same(want, w.step(state, scores))) {
              grade.mistake = w.name;
              grade.hint = w.hint;
            }
        }
        state = want;  // one mistake does not spoil what follows
      }
      if (g.message.empty()) g.earned = g.points;
    } catch (const UserScheduleError& e) {
      g.message = e.what();
    }
    grade.checks.push_back(g);
  }
}

}  // namespace flashsim::lessons
