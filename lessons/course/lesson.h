// The lessons of the course.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lessons/course/facts.h"
#include "lessons/course/script.h"
#include "lessons/course/settings.h"

namespace flashsim::course {

struct Lesson {
  int number = 0;
  std::string_view file;  ///< its text in lessons/text
  Settings defaults;
  std::vector<Use> uses;  ///< what of the settings matters here
  /// Runs schedules, models and references with the settings. Takes seconds at most.
  Facts (*run)(const Settings&) = nullptr;
};

/// In the order of the course.
const std::vector<Lesson>& lessons();
/// Null where there is no such lesson.
const Lesson* find_lesson(int number);

/// The lesson's text, its gaps not filled.
Script script_of(const Lesson& lesson);

/// A lesson that was run: its facts, and its text with the gaps filled. Settings that texts may quote as
/// {n}, {d}, {heads}, {block}, {chunk}, {bytes}, {gpu} (what --gpu takes) and {gpu_title} are added.
struct Session {
  Facts facts;
  Script script;
};
Session run_lesson(const Lesson& lesson, const Settings& settings);

/// A question that people ask in public, and the lesson that answers it.
struct AskedQuestion {
  std::string where;  ///< e.g. "FlashAttention 741": repository and issue
  std::string question;
  int lesson = 0;
  std::string answered_by;  ///< the screen's title
};
const std::vector<AskedQuestion>& asked_questions();

Facts lesson_hierarchy(const Settings& s);
Facts lesson_round_trips(const Settings& s);
Facts lesson_tiling(const Settings& s);
Facts lesson_online_softmax(const Settings& s);
Facts lesson_io_savings(const Settings& s);
Facts lesson_exactness(const Settings& s);
Facts lesson_backward(const Settings& s);
Facts lesson_fa2(const Settings& s);
Facts lesson_fa3(const Settings& s);
Facts lesson_decoding(const Settings& s);
Facts lesson_profiler(const Settings& s);
Facts lesson_detective(const Settings& s);

}  // namespace flashsim::course
