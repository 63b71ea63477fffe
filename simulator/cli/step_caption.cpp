// What a step does, in words. Every sentence follows from the operations that ran.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/cli/step_frame.h"

namespace flashsim::cli {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// What ran in a step, asked by text.
class Ran {
 public:
  Ran(const Recording& r, const Frame& f) {
    for (const ExecutedLine& x : f.lines) {
      lines_.push_back(r.kernels[f.at.kernel].listing[x.line].text);
      bytes_.push_back(x.bytes);
    }
  }
  /// A line that starts so.
  bool starts(std::string_view text) const {
    return std::any_of(lines_.begin(), lines_.end(), [&](auto& l) { return l.rfind(text, 0) == 0; });
  }
  bool contains(std::string_view text) const {
    return std::any_of(lines_.begin(), lines_.end(), [&](auto& l) { return has(l, text); });
  }
  /// What was loaded, and how many bytes.
  std::string loaded() const {
    std::string all;
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < lines_.size(); ++k)
      for (const std::string_view verb : {"load ", "prefetch "})
        if (lines_[k].rfind(verb, 0) == 0) {
          all += (all.empty() ? "" : ", ") + lines_[k].substr(verb.size());
          bytes += bytes_[k];
        }
    return all.empty() ? all : fmt::format("{} ({})", all, decimal_bytes(static_cast<double>(bytes)));
  }
  bool stores_scores() const {
    return std::any_of(lines_.begin(), lines_.end(),
                       [](auto& l) { return has(l, "store") && has(l, "_ij"); });
  }
  bool loads_scores() const {
    return std::any_of(lines_.begin(), lines_.end(),
                       [](auto& l) { return l.rfind("load", 0) == 0 && has(l, "_ij"); });
  }

 private:
  std::vector<std::string> lines_;
  std::vector<std::int64_t> bytes_;
};

/// "row 3", "rows 0-63".
std::string range(const char* one, const Block& b) {
  return b.rows == 1 ? fmt::format("{} {}", one, b.begin)
                     : fmt::format("{}s {}-{}", one, b.begin, b.end() - 1);
}

/// How the running maximum moved.
std::string maximum(const Frame& f, bool stays) {
  const RowValues& before = f.of(RowQuantity::m_before);
  if (before.values.empty()) return {};
  const auto n = static_cast<int>(std::min(before.values.size(), f.of(RowQuantity::m).values.size()));
  int first = 0, grew = 0;
  for (int k = 0; k < n; ++k) {
    const float a = before.values[k], b = f.of(RowQuantity::m).values[k];
    if (std::isinf(a)) ++first;
    if (!std::isinf(a) && a < b) ++grew;
  }
  const char* keeps = stays ? "l and O so far are" : "what came before is";
  if (first == n) return " These rows have seen nothing yet: m starts at -inf, and nothing is rescaled.";
  if (grew == 0) return " No row's maximum grew: every correction is 1.";
  return fmt::format(
      " In {} of {} rows the maximum grew: {} multiplied by the correction, exp(m_before - m).", grew, n,
      keeps);
}

bool moves_scores(const Recording& r) {
  return std::any_of(r.moves.begin(), r.moves.end(), [](const Move& m) { return is_score_shaped(m.tensor); });
}

/// What stays on chip while the inner loop runs, told when it arrives.
std::string stays(const Recording& r, const Frame& f) {
  const auto depth_of = [&](std::string_view name, bool must_run) {
    const auto& listing = r.kernels[f.at.kernel].listing;
    for (std::size_t k = 0; k < listing.size(); ++k)
      if (listing[k].text.rfind("load ", 0) == 0 && has(listing[k].text, name) &&
          (!must_run || std::any_of(f.lines.begin(), f.lines.end(),
                                    [&](const ExecutedLine& x) { return x.line == static_cast<int>(k); })))
        return listing[k].depth;
    return -1;
  };
  const int q = depth_of("Q_i", false), k = depth_of("K_j", false);
  if (q < 0 || k < 0) return {};
  if (q < k && depth_of("Q_i", true) >= 0)
    return " Q_i stays on chip while the tiles of K and V stream past it.";
  if (k < q && depth_of("K_j", true) >= 0) return " K_j and V_j stay on chip while the tiles of Q pass.";
  return {};
}

std::string outside_visits(const Recording& r, const Frame& f, const Ran& ran) {
  if (r.kernels[f.at.kernel].roles && f.at.role == 0)
    return fmt::format(
        "The producer only loads, asynchronously: {}. It fills the ring's stages as fast as the consumers, "
        "who do all "
        "the arithmetic, free them.",
        ran.loaded());
  if (ran.starts("O_i = O_i / l_i"))
    return fmt::format(
        "Every visible tile of {} is done: O is divided by l and stored{}.{}",
        f.row_count == 1 ? "this row" : "these rows",
        ran.contains("LSE") ? " with LSE = m + log l, from which a backward pass computes P again" : "",
        moves_scores(r) ? "" : " S and P never left the chip.");
  if (ran.contains("O_part_is = O_i"))
    return "This split of the keys is done. Its O and LSE wait in memory for the kernel that merges the "
           "parts.";
  if (ran.starts("store dK_j") || ran.starts("store dV_j"))
    return "Every visible tile of these columns is done: dK and dV, summed on chip, are stored once.";
  if (r.tile_cols() * r.tile_rows() > 0 && f.lines.empty()) return {};
  const std::string& kernel = r.kernels[f.at.kernel].name;
  if (kernel == "initialise") return "What later tiles update in memory gets its first values.";
  if (kernel == "prepare")
    return "D = rowsum(dO o O) stands for the sum over a row of P o dP: n numbers instead of an n x n "
           "matrix.";
  return fmt::format("Kernel \"{}\" visits no tile of S here: {}.", kernel,
                     f.row_count > 0 ? range("row", {0, f.first_row, f.row_count}) : "keys of this block");
}

}  // namespace

std::string step_caption(const Recording& r, std::size_t frame) {
  const Frame& f = r.frames[frame];
  const Ran ran(r, f);
  if (!f.at.visits_tile()) return outside_visits(r, f, ran);
  const int i = f.at.rows.begin / r.tiling.block_q, j = f.at.cols.begin / r.tiling.block_k;
  const bool one_tile = f.at.cols.rows <= r.tiling.block_k;
  std::string text = one_tile ? fmt::format("Tile (i, j) = ({}, {}): {} of Q, {}.", i, j,
                                            range("row", f.at.rows), range("key", f.at.cols))
                              : fmt::format("Tiles ({}, {}) to ({}, {}): {} of Q, {}.", i, j, i,
                                            (f.at.cols.end() - 1) / r.tiling.block_k, range("row", f.at.rows),
                                            range("key", f.at.cols));
  if (const std::string loaded = ran.loaded(); !loaded.empty()) text += " Loads " + loaded + ".";
  text += stays(r, f);
  text += maximum(f, ran.contains("correction * O_i") || ran.contains("correction * O_sum_i"));
  if (ran.starts("mask")) text += " The diagonal or window crosses it: some of its scores are masked.";
  if (ran.loads_scores() && ran.stores_scores())
    text += " A whole n x n matrix is read from memory and another written.";
  else if (ran.stores_scores())
    text += " The result goes to memory: a later kernel reads these n x n numbers back.";
  else if (ran.loads_scores())
    text += " The n x n matrix comes back from memory.";
  else if (r.backward && ran.starts("P_ij = exp("))
    text += " S and P are computed again from Q, K and row statistics: no n x n matrix was kept.";
  return text;
}

std::string with_signs(std::string text, bool unicode) {
  if (!unicode) return text;
  const auto replace = [&text](std::string_view from, std::string_view to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("^T", "ᵀ");
  replace("-inf", "−∞");
  replace(" * ", " · ");
  replace(" o ", " ∘ ");
  replace(" - ", " − ");
  replace(" x ", " × ");
  return text;
}

}  // namespace flashsim::cli
