#include <algorithm>
#include <iterator>
#include <limits>

#include "lessons/exercises/given/tiling_question.h"
#include "lessons/grader/grade_calls.h"
#include "simulator/executors/sram.h"
#include "simulator/executors/traffic.h"

namespace flashsim::lessons {
namespace {

struct TilingQuestion {
  const char* name;
  double points;
  int queries, keys, head_dim;
  Dtype dtype;
  bool causal;
  std::int64_t sram_bytes;
};
constexpr TilingQuestion questions[] = {
    {"d 64 in 48 KiB", 2, 512, 512, 64, Dtype::fp16, false, 48 << 10},
    {"d 128 in 100 KiB", 2, 768, 768, 128, Dtype::bf16, false, 100 << 10},
    {"fp32, d 32 in 32 KiB", 2, 640, 384, 32, Dtype::fp32, false, 32 << 10},
    {"causal, d 64 in 64 KiB", 2, 512, 512, 64, Dtype::fp16, true, 64 << 10},
    {"few queries, plenty of room", 2, 100, 640, 64, Dtype::fp16, true, 160 << 10}};
constexpr int step = 16, largest = 256;

Problem problem_of(const TilingQuestion& q, std::uint64_t seed) {
  Problem p;
  p.seqlen_q = q.queries;
  p.seqlen_k = q.keys;
  if (seed != 0) {  // lengths a little longer, so that a table of answers does not help
    p.seqlen_q += static_cast<int>(seed % 7) * 8 + 3;
    p.seqlen_k += static_cast<int>(seed / 7 % 7) * 8 + 5;
  }
  p.head_dim = q.head_dim;
  p.dtype = q.dtype;
  p.causal = q.causal;
  return p;
}

std::int64_t bytes_of_choice(const Problem& p, const Tiling& t) {
  return sum(count_traffic(fa2_forward, p, t)).requested_bytes();
}
std::int64_t sram_of_choice(const Problem& p, const Tiling& t) {
  return sram_use(fa2_forward, p, t, Placement::paper, std::int64_t{1} << 40).peak_sram;
}

/// The fewest bytes of all choices that fit.
std::int64_t fewest_bytes(const Problem& p, std::int64_t sram_bytes) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  Tiling t;
  for (t.block_q = step; t.block_q <= largest && t.block_q < p.seqlen_q + step; t.block_q += step)
    for (t.block_k = step; t.block_k <= largest && t.block_k < p.seqlen_k + step; t.block_k += step) {
      if (sram_of_choice(p, t) > sram_bytes) break;  // a larger block_k needs more
      fewest = std::min(fewest, bytes_of_choice(p, t));
    }
  return fewest;
}

bool allowed(int block, int rows) {
  return block >= step && block <= largest && block % step == 0 && block < rows + step;
}

}  // namespace

std::vector<CheckGrade> tiling_checks() {
  std::vector<CheckGrade> all;
  for (const TilingQuestion& q : questions) all.push_back({q.name, q.points, 0, {}});
  return all;
}

void grade_tiling(const UserFunction& user, const GradeOptions& options, ExerciseGrade& grade) {
  for (const TilingQuestion& q : questions) {
    CheckGrade g{q.name, q.points, 0, {}};
    try {
      UserFunction::Calls calls = user.calls();
      const given::TilingQuestion question{problem_of(q, options.seed), q.sram_bytes};
      given::TilingAnswer answer{};
      calls.ask(&question, sizeof question, &answer, sizeof answer);
      const std::string choice = std::to_string(answer.block_q) + " x " + std::to_string(answer.block_k);
      const Problem& p = question.problem;
      Tiling t;
      t.block_q = answer.block_q;
      t.block_k = answer.block_k;
      if (!allowed(t.block_q, p.seqlen_q) || !allowed(t.block_k, p.seqlen_k)) {
        g.message = choice +
                    " is no choice: each block is a multiple of 16, from 16 to 256 and no longer than the "
                    "sequence rounded up to 16";
      } else if (const std::int64_t sram = sram_of_choice(p, t); sram > q.sram_bytes) {
        g.message = choice + " needs " + std::to_string(sram) + " bytes on chip, and there are " +
                    std::to_string(q.sram_bytes);
        grade.mistake = "the blocks do not fit";
        grade.hint = "Count every tile that is alive at once: Q, O, K, V, S and four columns.";
      } else {
        const std::int64_t bytes = bytes_of_choice(p, t), best = fewest_bytes(p, q.sram_bytes);
        if (bytes <= best) g.earned = g.points;
        if (bytes > best && 10 * bytes <= 11 * best) g.earned = g.points / 2;
        if (bytes > best) {
          g.message = choice + " requests " + std::to_string(bytes) + " bytes; " + std::to_string(best) +
                      " are enough";
          if (grade.mistake.empty() && t.block_k > t.block_q) {
            grade.mistake = "block_k takes the room that block_q needs";
            grade.hint = "All of K and V is read once for every block of Q: only block_q makes that rarer.";
          }
        }
      }
    } catch (const UserScheduleError& e) {
      g.message = e.what();
    }
    grade.checks.push_back(g);
  }
}

}  // namespace flashsim::lessons
