// Typical wrong solutions of the CUDA exercises, as changes of the keys, and the mistake that each shows.
#pragma once

#include <algorithm>
#include <atomic>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/lessons/submissions.h"

namespace flashsim::testing {

struct WrongKernel {
  int exercise;
  const char* mistake;  ///< as the grader names it
  std::vector<std::pair<const char*, const char*>> changes;
};

inline constexpr const char* merge_rule = "l = l * expf(m - m_new) + other_l * expf(other_m - m_new);";
inline constexpr const char* lane_loop = "merge(m, l, scores[size_t(row) * cols + c], 1);";
inline constexpr const char* lane_merge = "    merge(m, l, other_m, other_l);\n";

inline const WrongKernel wrong_kernels[] = {
    {11,
     "the lanes' sums are not rescaled when they are merged",
     {{lane_merge, "    l += other_l;\n    m = fmaxf(m, other_m);\n"}}},
    {11,
     "one of two lanes' sums is not rescaled when they are merged",
     {{lane_merge,
       "    const float m_new = fmaxf(m, other_m);\n    if (m_new == -INFINITY) continue;\n    l += other_l "
       "* "
       "expf(other_m - m_new);\n    m = m_new;\n"}}},
    {11,
     "one of two lanes' sums is not rescaled when they are merged",
     {{lane_merge,
       "    const float m_new = fmaxf(m, other_m);\n    if (m_new == -INFINITY) continue;\n    l = l * "
       "expf(m - "
       "m_new) + other_l;\n    m = m_new;\n"}}},
    {11,
     "a lane's l is not rescaled when its maximum grows",
     {{lane_loop,
       "{ const float x = scores[size_t(row) * cols + c], m_new = fmaxf(m, x); if (m_new == -INFINITY) "
       "continue; "
       "l += expf(x - m_new); m = m_new; }"}}},
    {11,
     "l is not rescaled, neither in a lane nor between lanes",
     {{merge_rule, "l = l + other_l * expf(other_m - m_new);"}}},
    {11,
     "l is not rescaled, neither in a lane nor between lanes",
     {{lane_loop,
       "{ const float x = scores[size_t(row) * cols + c], m_new = fmaxf(m, x); if (m_new == -INFINITY) "
       "continue; "
       "l += expf(x - m_new); m = m_new; }"},
      {lane_merge, "    l += other_l;\n    m = fmaxf(m, other_m);\n"}}},
    {11, "l counts the columns: no exponential is taken", {{merge_rule, "l = l + other_l;"}}},
    {11,
     "the factor is inverted",
     {{merge_rule, "l = l * expf(m_new - m) + other_l * expf(m_new - other_m);"}}},
    {11,
     "the factor is inverted",
     {{lane_merge,
       "    const float m_new = fmaxf(m, other_m);\n    if (m_new == -INFINITY) continue;\n    l = l * "
       "expf(m_new "
       "- m) + other_l * expf(m_new - other_m);\n    m = m_new;\n"}}},
    {11,
     "no maximum is subtracted",
     {{lane_loop, "{ const float x = scores[size_t(row) * cols + c]; m = fmaxf(m, x); l += expf(x); }"},
      {lane_merge, "    m = fmaxf(m, other_m);\n    l += other_l;\n"}}},
    {11, "m begins with 0", {{"float m = -INFINITY, l = 0;", "float m = 0, l = 0;"}}},
    {11, "m begins with a finite number", {{"float m = -INFINITY, l = 0;", "float m = -1e30f, l = 0;"}}},
    {11,
     "-infinity is subtracted from -infinity",
     {{"  if (m_new == -INFINITY) return;  // nothing seen by either\n", ""}}},
    {11,
     "the tail is missing: columns behind the last multiple of 32",
     {{"c < cols;", "c < cols / 32 * 32;"}}},
    {11,
     "each lane reads one column only",
     {{"for (int c = lane; c < cols; c += 32)", "if (int c = lane; c < cols)"}}},
    {11, "the lanes are not merged", {{lane_merge, "    (void)other_m, (void)other_l;\n"}}},
    {11, "the lanes' sums are not added up", {{lane_merge, "    (void)other_l, m = fmaxf(m, other_m);\n"}}},
    {11,
     "the lanes' sums are not added up",
     {{lane_merge, "    (void)other_l;\n    merge(m, l, other_m, 0);\n"}}},
    {11, "a step of the merge is missing", {{"offset > 0;", "offset > 1;"}}},
    {11, "l stays 0", {{"l_out[row] = l;", "l_out[row] = 0;"}}},

    {12,
     "O is not rescaled when the maximum grows",
     {{"    for (int c = 0; c < head_dim; ++c) O[c] *= correction;\n", ""}}},
    {12, "l is not rescaled when the maximum grows", {{"    l *= correction;\n", ""}}},
    {12,
     "neither l nor O is rescaled when the maximum grows",
     {{"    l *= correction;\n    for (int c = 0; c < head_dim; ++c) O[c] *= correction;\n",
       "    (void)correction;\n"}}},
    {12,
     "the correction factor is inverted",
     {{"expf(m - m_new);", "m == -INFINITY ? 0 : expf(m_new - m);"}}},
    {12, "l ends as 0 or NaN in every row", {{"expf(m - m_new);", "expf(m_new - m);"}}},
    {12,
     "the maximum is that of this tile or key, not the running one",
     {{"m_new = m;", "m_new = -INFINITY;"}}},
    {12, "m is never set to the new maximum", {{"    m = m_new;\n", ""}}},
    {12,
     "no maximum is subtracted",
     {{"    if (m_new == -INFINITY) continue;", "    m_new = 0;"},
      {"m = -INFINITY, l = 0;", "m = 0, l = 0;"}}},
    {12, "the scores are not scaled", {{"      S[j] *= p.scale;\n", ""}}},
    {12, "the scores are scaled twice", {{"S[j] *= p.scale;", "S[j] *= p.scale * p.scale;"}}},
    {12,
     "O is normalised twice",
     {{"    m = m_new;\n", "    m = m_new;\n    for (int c = 0; c < head_dim; ++c) O[c] /= l;\n"}}},
    {12,
     "O is normalised twice",
     {{"O[c] *= correction;", "O[c] *= correction * before;"},
      {"    l *= correction;\n", "    const float before = l;\n    l *= correction;\n"},
      {"    m = m_new;\n", "    m = m_new;\n    for (int c = 0; c < head_dim; ++c) O[c] /= l;\n"}}},
    {12,
     "the last, ragged tile is left out",
     {{"    const int seen =", "    if (count < keys) continue;\n    const int seen ="}}},
    {12, "the last tile's missing tail is read", {{"min(count, last_key - begin)", "keys"}}},
    {12,
     "the mask is applied after the softmax",
     {{"min(count, last_key - begin)", "count"},
      {"O[c] += weight", "O[c] += (begin + j < last_key ? weight : 0)"}}},
    {12, "the mask is missing", {{"min(count, last_key - begin)", "count"}}},
};

/// The whole file.
inline std::string text_with(const WrongKernel& w) {
  std::string text = text_of(key_of(*lessons::find_exercise(w.exercise)));
  for (const auto& [from, to] : w.changes) text = replaced(std::move(text), from, to);
  return text;
}

/// Grades of all of them, in their order: several at a time, for a compiler takes seconds for each.
inline std::vector<lessons::ExerciseGrade> graded_wrong_kernels(const lessons::GradeOptions& options) {
  std::vector<lessons::ExerciseGrade> grades(std::size(wrong_kernels));
  std::atomic<std::size_t> next{0};
  std::vector<std::future<void>> workers;
  for (unsigned w = 0; w < std::clamp(std::thread::hardware_concurrency(), 1U, 16U); ++w)
    workers.push_back(std::async(std::launch::async, [&] {
      for (std::size_t i; (i = next++) < grades.size();)
        grades[i] = graded(wrong_kernels[i].exercise, text_with(wrong_kernels[i]), options);
    }));
  for (std::future<void>& w : workers) w.get();
  return grades;
}

/// Each is rejected with the hint that names its mistake.
inline void check_wrong_kernels(const lessons::GradeOptions& options) {
  const std::vector<lessons::ExerciseGrade> grades = graded_wrong_kernels(options);
  for (std::size_t i = 0; i < grades.size(); ++i) {
    const lessons::ExerciseGrade& g = grades[i];
    const std::string mistake = wrong_kernels[i].mistake;
    CAPTURE(i);
    CAPTURE(mistake);
    INFO(all_text(g), g.skipped);
    CHECK_FALSE(g.passed());
    CHECK(g.earned() < g.points());
    CHECK(g.mistake == mistake);
    CHECK(g.hint.size() > 20);
  }
}

}  // namespace flashsim::testing
