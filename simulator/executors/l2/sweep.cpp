#include "simulator/executors/l2/sweep.h"

#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "simulator/executors/l2/agenda.h"
#include "simulator/executors/l2/cache.h"

namespace flashsim {
namespace {

constexpr std::int64_t piece_bytes = 256 * 16;
constexpr int shift = 160;  // pieces a repeat begins further on: 40,961 x 16 bytes

// Nothing holds the thread blocks of a streaming kernel together, so they drift apart faster than those of
// attention: processing clusters by up to 2.5 %, single pieces by 30 %, and a miss costs 40 % of a piece.
constexpr int clusters = 8;
constexpr double cluster_spread = 0.025, noise = 0.3, miss_penalty = 0.4;

struct Reader {
  double speed = 1;
  int side = 0;
  int repeat = 0;
  std::int64_t at = 0;  // the piece, before the repeat's shift
};

}  // namespace

SweepPoint simulate_reread(const Gpu& gpu, std::int64_t buffer_bytes, int repeats, std::uint64_t seed,
                           double usable) {
  if (buffer_bytes < piece_bytes || repeats < 2)
    throw std::invalid_argument(
        "re-reading needs a buffer of at least 4,096 bytes and at least 2 repeats, not " +
        std::to_string(buffer_bytes) + " and " + std::to_string(repeats));
  const std::int64_t pieces = buffer_bytes / piece_bytes;
  const int partitions = gpu.l2_partitions;
  l2::Draws draws(seed);
  l2::Cache cache(gpu.l2_bytes, partitions, piece_bytes / partitions, seed, usable);
  const std::uint32_t first = cache.add_lines(static_cast<std::uint64_t>(pieces * partitions), 0);

  const int blocks = 8 * gpu.sm_count;
  std::vector<Reader> readers(blocks);
  std::vector<int> seat(gpu.sm_count);  // SMs in random order: which cluster and side is not known
  std::iota(seat.begin(), seat.end(), 0);
  for (std::uint32_t i = static_cast<std::uint32_t>(gpu.sm_count); i > 1; --i)
    std::swap(seat[i - 1], seat[draws.below(i)]);
  std::vector<l2::Agenda::Entry> starts;
  for (int b = 0; b < blocks; ++b) {
    const int cluster = seat[b % gpu.sm_count] * clusters / gpu.sm_count;
    readers[b].speed = 1 + cluster_spread * (2.0 * cluster / (clusters - 1) - 1);
    readers[b].side = cluster % partitions;
    readers[b].at = b;
    starts.push_back({draws.uniform() * 0.5, b});
  }
  std::int64_t missed = 0;
  for (l2::Agenda agenda(std::move(starts)); !agenda.empty();) {
    const auto [now, b] = agenda.top();
    Reader& r = readers[b];
    while (r.at >= pieces && r.repeat < repeats) {
      ++r.repeat;
      r.at = b;
      if (b >= pieces) r.repeat = repeats;  // more thread blocks than pieces
    }
    if (r.repeat >= repeats) {
      agenda.remove_top();
      continue;
    }
    const std::int64_t piece = (r.at + std::int64_t{r.repeat} * shift) % pieces;
    double time = 1;
    for (int k = 0; k < partitions; ++k)
      if (reads_dram(cache.read(first + static_cast<std::uint32_t>(piece * partitions + k), r.side, 0))) {
        ++missed;
        time += miss_penalty / partitions;
      }
    r.at += blocks;
    agenda.postpone_top(now + time / r.speed * (1 + noise * (2 * draws.uniform() - 1)));
  }

  const double line = static_cast<double>(piece_bytes) / partitions;
  SweepPoint point;
  point.buffer_bytes = pieces * piece_bytes;
  point.dram_read_bytes = static_cast<double>(missed) * line;
  point.fabric_bytes = static_cast<double>(cache.fabric_lines()) * line;
  const auto bytes = static_cast<double>(point.buffer_bytes);
  point.warm_miss_share = (point.dram_read_bytes - bytes) / (bytes * (repeats - 1));
  return point;
}

}  // namespace flashsim
