// flashsim grade: points for students' exercises.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "simulator/cli/commands.h"
#include "simulator/cli/exercise_options.h"
#include "simulator/cli/grade_report.h"
#include "simulator/user_schedule/confinement.h"

namespace flashsim::cli {
namespace fs = std::filesystem;
namespace {

enum class Format : std::uint8_t { text, json, junit, gradescope, csv };

struct GradeCommand {
  std::string folder, seed, seed_file, exercises;
  Format format = Format::text;
  bool each = false, open_files = false;

  std::uint64_t seed_number() const {
    std::string secret = seed;
    if (!seed_file.empty()) {
      std::ifstream in(seed_file);
      secret.assign(std::istreambuf_iterator<char>(in), {});
      while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
      if (!in || secret.empty())
        throw InputError("cannot read a seed from " + seed_file + "; put one line of any text there");
    }
    if (const char* variable = std::getenv("FLASHSIM_GRADE_SEED"); secret.empty() && variable != nullptr)
      secret = variable;
    return secret.empty() ? 0 : lessons::seed_of(secret);
  }

  Submission grade(const fs::path& where, const std::string& name,
                   const lessons::GradeOptions& options) const {
    Submission s{name, {}};
    for (const lessons::Exercise* e :
         exercises.empty() ? lessons::exercises_in(where) : exercises_named(exercises))
      s.grades.push_back(lessons::grade_exercise(*e, where, options));
    return s;
  }

  std::vector<Submission> grade_all(Output& out) const {
    lessons::GradeOptions options;
    options.seed = seed_number();
    options.open_files = open_files;
    if (options.seed == 0) out.note("no --seed, so these are the inputs that students check with themselves");
    if (const std::string note = confinement_support().note(); !note.empty()) out.note(note);
    const fs::path base = folder;
    if (!fs::is_directory(base)) throw InputError(folder + " is not a folder; give a student's folder");
    std::vector<Submission> all;
    if (!each) {
      all.push_back(grade(base, fs::weakly_canonical(base).filename().string(), options));
      if (all.back().grades.empty())
        throw InputError(folder +
                         " holds no exercise; name what should be there with --exercises, or grade the "
                         "folders in it with --each");
      return all;
    }
    std::vector<fs::path> students;
    for (const auto& entry : fs::directory_iterator(base))
      if (entry.is_directory() && !entry.is_symlink()) students.push_back(entry.path());
    std::sort(students.begin(), students.end());
    if (students.empty()) throw InputError(folder + " holds no folders; --each wants one for every student");
    for (const fs::path& student : students) {
      all.push_back(grade(student, student.filename().string(), options));
      out.note(fmt::format("{:>4} of {}  {}: {} of {}", all.size(), students.size(), all.back().name,
                           points_text(all.back().earned()), points_text(all.back().points())));
    }
    return all;
  }

  ExitCode run(Output& out) const {
    if (folder.empty()) throw UsageError("give a student's folder: flashsim grade DIR");
    const Format f = out.json() ? Format::json : format;
    if (f == Format::gradescope && each)
      throw UsageError("gradescope results are for one student; leave out --each");
    const std::vector<Submission> all = grade_all(out);
    const std::uint64_t number = seed_number();
    const std::string fingerprint =
        number == 0 ? "none" : fmt::format("{:08x}", lessons::seed_of(std::to_string(number)) >> 32);
    switch (f) {
      case Format::text:
        for (const Submission& s : all) print_grades(s, out);
        break;
      case Format::json: print_json(out, json_of(all, fingerprint)); break;
      case Format::junit: out.print(junit_of(all)); break;
      case Format::gradescope: print_json(out, gradescope_of(all.front())); break;
      case Format::csv: out.print(csv_of(all)); break;
    }
    return std::all_of(all.begin(), all.end(), [](const Submission& s) { return s.passed(); })
               ? ExitCode::ok
               : ExitCode::check_failed;
  }
};

}  // namespace

Command grade_command() {
  return {"grade",
          "grade a student's exercises, with points for every check",
          {"flashsim grade lessons/keys --exercises 3",
           "flashsim grade lessons/keys --exercises 3 --format junit"},
          "Each file is compiled and run in a process of its own, with limits and, where the kernel can, "
          "without access "
          "to files, other processes or the network. It only issues operations: flashsim executes them on "
          "inputs that "
          "the process never sees, and counts them. Graded are results, intermediate sums, counted bytes and "
          "SRAM; "
          "never time. Exit code 1 unless all points are earned.",
          [](Options& options) -> Run {
            auto g = std::make_shared<GradeCommand>();
            options.positional("DIR", "the student's folder",
                               [g](const std::string& text) { g->folder = text; });
            options.heading("What to grade");
            options.text(
                "-x,--exercises", "LIST", g->exercises,
                "the assignment, e.g. 1-4,6: what is missing earns nothing (default: those that are there)");
            options.flag("--each", g->each, "DIR holds one folder for every student");
            options.text("--seed", "TEXT", g->seed,
                         "staff's secret: lengths and inputs that no student has seen; also the variable "
                         "FLASHSIM_GRADE_SEED");
            options.text("--seed-file", "FILE", g->seed_file, "the same from a file, which ps does not show");
            options.flag(
                "--open-files", g->open_files,
                "CUDA exercises only: their programs may use all files of this user, where the driver does "
                "not start otherwise; grade in a container then");
            options.choice("--format", g->format,
                           std::vector<std::pair<std::string, Format>>{{"text", Format::text},
                                                                       {"json", Format::json},
                                                                       {"junit", Format::junit},
                                                                       {"gradescope", Format::gradescope},
                                                                       {"csv", Format::csv}},
                           "text for people; the others for programs that collect grades");
            return [g](Output& out) { return g->run(out); };
          }};
}

}  // namespace flashsim::cli
