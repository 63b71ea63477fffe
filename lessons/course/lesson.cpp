#include "lessons/course/lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lessons/course/texts.h"
#include "simulator/report/units.h"

namespace flashsim::course {

namespace {

Settings with(void (*change)(Settings&)) {
  Settings s;
  change(s);
  return s;
}

}  // namespace

const std::vector<Lesson>& lessons() {
  constexpr std::int64_t T = 1'000'000'000'000;
  const Use gpu{"gpu"}, seed{"seed"}, scores{"scores"}, d{"d", 16, 256};
  static const std::vector<Lesson> all = {
      {1, "01_memory_hierarchy.txt", {}, {gpu, {"bytes", 1000, T}}, lesson_hierarchy},
      {2, "02_round_trips.txt", {}, {gpu, {"n", 256, 32768}, d, {"heads", 1, 4096}}, lesson_round_trips},
      {3, "03_tiling.txt", {}, {gpu, {"n", 256, 8192}, d, {"block", 16, 256}}, lesson_tiling},
      {4, "04_online_softmax.txt", {}, {scores, {"chunk", 1, 1000}}, lesson_online_softmax},
      {5,
       "05_io_savings.txt",
       with([](Settings& s) { s.n = 8192; }),
       {gpu, {"n", 512, 32768}, d},
       lesson_io_savings},
      {6,
       "06_exactness.txt",
       with([](Settings& s) {
         s.n = 256;
         s.d = 64;
       }),
       {{"n", 16, 512}, {"d", 16, 128}, {"block", 16, 256}, seed},
       lesson_exactness},
      {7,
       "07_backward.txt",
       with([](Settings& s) { s.heads = 16; }),
       {{"n", 256, 8192}, d, {"heads", 1, 4096}, {"block", 16, 256}, seed},
       lesson_backward},
      {8,
       "08_fa2.txt",
       with([](Settings& s) { s.heads = 16; }),
       {gpu, {"n", 256, 8192}, d, {"heads", 1, 4096}, {"block", 16, 128}},
       lesson_fa2},
      {9,
       "09_fa3.txt",
       with([](Settings& s) { s.gpu = find_gpu("h100"); }),
       {gpu, {"n", 256, 16384}, {"d", 32, 256}, seed},
       lesson_fa3},
      {10,
       "10_decoding.txt",
       with([](Settings& s) {
         s.n = 65536;
         s.heads = 2;
       }),
       {gpu, {"n", 256, 1 << 20}, d, {"heads", 1, 64}, seed},
       lesson_decoding},
      {11, "11_profiler.txt", {}, {seed}, lesson_profiler},
      {12, "12_detective.txt", {}, {seed}, lesson_detective},
  };
  return all;
}

const Lesson* find_lesson(int number) {
  for (const Lesson& lesson : lessons())
    if (lesson.number == number) return &lesson;
  return nullptr;
}

Script script_of(const Lesson& lesson) { return parse_script(embedded_text(lesson.file)); }

Session run_lesson(const Lesson& lesson, const Settings& s) {
  Session session{lesson.run(s), {}};
  Facts& facts = session.facts;
  facts.number("n", s.n, "{:.0f}");
  facts.number("d", s.d, "{:.0f}");
  facts.number("heads", s.heads, "{:.0f}");
  facts.number("block", s.block, "{:.0f}");
  facts.number("chunk", s.chunk, "{:.0f}");
  facts.text("bytes", decimal_bytes(static_cast<double>(s.bytes)));
  facts.text("gpu", std::string(s.gpu->name));
  facts.text("gpu_title", std::string(s.gpu->title));
  facts.text("scores", fmt::format("{}", fmt::join(s.scores, ",")));
  session.script = filled(script_of(lesson), facts);
  return session;
}

namespace {

/// Lines "where | question | lesson | screen".
std::vector<AskedQuestion> parse_questions(std::string_view text) {
  std::vector<AskedQuestion> all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> fields;
    for (std::size_t bar = 0; bar != std::string_view::npos;) {
      bar = line.find(" | ");
      fields.emplace_back(line.substr(0, bar));
      if (bar != std::string_view::npos) line.remove_prefix(bar + 3);
    }
    if (fields.size() != 4)
      throw std::invalid_argument("a question needs where | question | lesson | screen: " + fields[0]);
    all.push_back({fields[0], fields[1], std::stoi(fields[2]), fields[3]});
  }
  return all;
}

}  // namespace

const std::vector<AskedQuestion>& asked_questions() {
  static const std::vector<AskedQuestion> all = parse_questions(embedded_text("questions.txt"));
  return all;
}

}  // namespace flashsim::course
