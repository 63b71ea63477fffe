// flashsim softmax: online softmax chunk by chunk.
#include "cpu_reference/softmax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "simulator/cli/commands.h"
#include "simulator/cli/json.h"
#include "simulator/cli/step_frame.h"
#include "simulator/cli/terminal.h"

namespace flashsim::cli {
namespace {

constexpr std::size_t most_scores = 4096;

struct SoftmaxOptions {
  std::vector<double> scores{1.2, 3.0, 0.4, 2.1, 4.5, 1.8, 3.6, 0.9};
  int chunk = 2;
  std::vector<std::pair<int, double>> edits;
};

/// One chunk further: what a reader who stopped here would take for the softmax.
struct Stage {
  OnlineStep step;
  std::vector<double> weights;    ///< exp(score - m) / l of the scores seen so far
  double largest_difference = 0;  ///< from the softmax over all scores
};

struct Lesson {
  std::vector<double> scores, full;
  std::vector<Stage> stages;
  double overflow_at = 0;
  Accesses naive, safe, online;
};

Lesson lesson_of(const SoftmaxOptions& o) {
  Lesson x;
  x.scores = o.scores;
  for (const auto& [index, value] : o.edits) {
    if (index >= static_cast<int>(x.scores.size()))
      throw UsageError(
          fmt::format("--edit names score {}; there are {}, counted from 0", index, x.scores.size()));
    x.scores[index] = value;
  }
  if (x.scores.size() > most_scores)
    throw UsageError(
        fmt::format("{} scores are too many to look at; give at most {}", x.scores.size(), most_scores));
  const Softmax<double> safe = safe_softmax(x.scores);
  x.full = safe.y;
  x.safe = safe.accesses;
  x.naive = naive_softmax(x.scores).accesses;
  x.online = online_softmax(x.scores).accesses;
  for (const OnlineStep& step : chunked_softmax(x.scores, o.chunk).steps) {
    Stage stage{step, {}, 0};
    // The scores so far, taken by themselves, end with this very m and l.
    const std::vector<double> seen(x.scores.begin(), x.scores.begin() + step.first + step.count);
    stage.weights = chunked_softmax(seen, o.chunk).weights;
    for (std::size_t k = 0; k < x.full.size(); ++k) {
      const double now = k < stage.weights.size() ? stage.weights[k] : 0;
      stage.largest_difference = std::max(stage.largest_difference, std::abs(now - x.full[k]));
    }
    x.stages.push_back(std::move(stage));
  }
  return x;
}

std::string number(double x) {
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  return fmt::format("{:.4f}", x);
}

/// `length` columns for a weight, and where the full softmax's bar ends.
std::string bar(double weight, double full, int length, bool unicode, const Style& style) {
  const auto columns = [length](double x) { return static_cast<int>(std::lround(x * length)); };
  std::string text;
  const int filled = columns(weight), end = columns(full);
  for (int k = 0; k < length; ++k) {
    const char* mark = k < filled ? (unicode ? "█" : "#") : k < end ? (unicode ? "░" : ".") : " ";
    text += k < filled ? style.green(mark) : style.dim(mark);
  }
  return text;
}

void print_text(const Lesson& x, Output& out) {
  const bool unicode = locale_is_utf8();
  const Style& style = out.style();
  const int length = std::clamp(out.width() - 44, 10, 60);
  const auto line = [&](const std::string& text) { out.print(with_signs(text, unicode) + "\n"); };
  line(wrapped("Online softmax: one pass over the scores, a chunk at a time. m is the largest so far, l the "
               "sum of "
               "exp(score - m). When m grows, l is multiplied by exp(m_before - m).",
               out.width()) +
       "\n");
  for (std::size_t k = 0; k < x.stages.size(); ++k) {
    const Stage& s = x.stages[k];
    const OnlineStep& c = s.step;
    std::string chunk;
    for (int i = c.first; i < c.first + c.count; ++i)
      chunk += fmt::format("{}{}", i > c.first ? " " : "", x.scores[i]);
    line(style.bold(fmt::format("chunk {} of {}", k + 1, x.stages.size())) + ": " + chunk);
    line(fmt::format("  m = max({}, {}) = {}", number(c.m_before), number(c.chunk_max),
                     style.cyan(number(c.m))));
    line(fmt::format("  rescale factor exp(m_before - m) = {}",
                     style.in(c.rescale < 1 && c.l_before > 0 ? "1;33" : "36", number(c.rescale))));
    line(fmt::format("  l = {} * {} + {} = {}", number(c.rescale), number(c.l_before), number(c.chunk_sum),
                     style.cyan(number(c.l))));
    const std::size_t shown = std::min<std::size_t>(x.scores.size(), 32);
    for (std::size_t i = 0; i < shown; ++i) {
      const bool seen = i < s.weights.size();
      const double weight = seen ? s.weights[i] : 0;
      line(fmt::format(
          "  x{:<3} {:>9.4g}  {}  {} {}", i, x.scores[i], seen ? fmt::format("{:.4f}", weight) : "      ",
          bar(weight, x.full[i], length, unicode, style), style.dim(fmt::format("{:.4f}", x.full[i]))));
    }
    if (shown < x.scores.size()) line(style.dim(fmt::format("  ... {} more", x.scores.size() - shown)));
    line(fmt::format("  seen {} of {}; largest |online - full| {:.3g}\n", s.weights.size(), x.scores.size(),
                     s.largest_difference));
  }
  line(style.dim(fmt::format("Bars: exp(score - m) / l so far; {} and last column: softmax of all scores.",
                             unicode ? "░" : "dots")));
  const std::size_t n = x.scores.size();
  line(fmt::format("Accesses to memory per score: naive {:g} (overflows), safe {:g}, online {:g}.",
                   x.naive.per_element(n), x.safe.per_element(n), x.online.per_element(n)));
  const double largest = *std::max_element(x.scores.begin(), x.scores.end());
  line(fmt::format("Without subtracting m, exp({:g}) = {:.4g}{}", largest, std::exp(largest),
                   std::exp(largest) > 65504 ? " overflows fp16, which ends at 65504 = exp(11.09)."
                                             : "; fp16 ends at 65504 = exp(11.09)."));
}

Json finite(double x) { return std::isfinite(x) ? Json(x) : Json(x < 0 ? "-inf" : "inf"); }

void print_json_lesson(const Lesson& x, int chunk, Output& out) {
  Json document = json_document("softmax");
  document["scores"] = Json::array();
  for (const double s : x.scores) document["scores"].push_back(finite(s));
  document["chunk"] = chunk;
  document["full"] = x.full;
  document["chunks"] = Json::array();
  for (const Stage& s : x.stages)
    document["chunks"].push_back({{"first", s.step.first},
                                  {"count", s.step.count},
                                  {"m_before", finite(s.step.m_before)},
                                  {"m", finite(s.step.m)},
                                  {"rescale", s.step.rescale},
                                  {"l_before", s.step.l_before},
                                  {"l", s.step.l},
                                  {"weights", s.weights},
                                  {"largest_difference", s.largest_difference}});
  const std::size_t n = x.scores.size();
  document["accesses_per_element"] = {{"naive", x.naive.per_element(n)},
                                      {"safe", x.safe.per_element(n)},
                                      {"online", x.online.per_element(n)}};
  print_json(out, document);
}

}  // namespace

Command softmax_command() {
  return {"softmax",
          "online softmax, chunk by chunk",
          {"flashsim softmax --scores 1.2,3,.4,2.1,4.5,1.8,3.6,.9 --chunk 2",
           "flashsim softmax --chunk 4 --edit 4=9"},
          "What FlashAttention does to one row of S: its tiles are the chunks.",
          [](Options& options) -> Run {
            auto o = std::make_shared<SoftmaxOptions>();
            options.value("--scores", "LIST", "the scores, separated by commas",
                          [o](const std::string& text) { o->scores = parse_numbers("--scores", text); });
            options.integer("--chunk", o->chunk, 1, most_scores, "scores a chunk (default 2)");
            options.value(
                "--edit", "I=VALUE", "change score I, counted from 0; may be repeated",
                [o](const std::string& text) {
                  const std::size_t equals = text.find('=');
                  if (equals == std::string::npos)
                    throw UsageError(fmt::format("--edit is '{}'; expected INDEX=VALUE, e.g. 4=9", text));
                  o->edits.emplace_back(
                      static_cast<int>(parse_integer("--edit", text.substr(0, equals), 0, most_scores)),
                      parse_number("--edit", text.substr(equals + 1), -1e308, 1e308));
                });
            return [o](Output& out) {
              const Lesson x = lesson_of(*o);
              if (out.json())
                print_json_lesson(x, o->chunk, out);
              else
                print_text(x, out);
              return ExitCode::ok;
            };
          }};
}

}  // namespace flashsim::cli
