#include "cpu_reference/problem.h"

#include <cmath>

namespace flashsim {
namespace {

std::string positive(const char* name, std::int64_t value) {
  if (value > 0) return {};
  return std::string(name) + " is " + std::to_string(value) + "; it must be at least 1";
}

/// The first of several checks that found something.
template <class... Checks>
std::string first_of(const Checks&... checks) {
  std::string found;
  ((found.empty() ? void(found = checks) : void()), ...);
  return found;
}

}  // namespace

double scale_of(const Problem& p) {
  return p.softmax_scale != 0 ? double{p.softmax_scale} : 1.0 / std::sqrt(double(p.head_dim));
}

std::string fault_of(const Problem& p) {
  std::string fault = first_of(positive("batch", p.batch), positive("heads_q", p.heads_q),
                               positive("heads_kv", p.heads_kv), positive("seqlen_q", p.seqlen_q),
                               positive("seqlen_k", p.seqlen_k), positive("head_dim", p.head_dim));
  if (!fault.empty()) return fault;
  if (p.heads_q % p.heads_kv != 0)
    return "heads_q is " + std::to_string(p.heads_q) + " and heads_kv " + std::to_string(p.heads_kv) +
           "; heads_kv must divide heads_q";
  if (p.window_left < -1 || p.window_right < -1)
    return "a window reaches " + std::to_string(p.window_left) + " keys left and " +
           std::to_string(p.window_right) + " right; each must be 0 or more, or -1 for no limit";
  if (!(p.softmax_scale >= 0 && std::isfinite(p.softmax_scale)))
    return "softmax_scale must be a finite number above 0 (0 stands for 1 / sqrt(head_dim))";
  if (!(p.dropout_p >= 0 && p.dropout_p < 1)) return "dropout must lie in [0, 1)";
  return {};
}

std::string fault_of(const Tiling& t) {
  return first_of(
      positive("block_q", t.block_q), positive("block_k", t.block_k), positive("stages", t.stages),
      positive("warps", t.warps), positive("heads_together", t.heads_together),
      positive("num_splits", t.num_splits),
      t.late_blocks < 0 ? "late_blocks must not be negative; it is " + std::to_string(t.late_blocks) : "");
}

std::string describe(const Problem& p) {
  std::string s = "batch " + std::to_string(p.batch) + ", heads " + std::to_string(p.heads_q);
  if (p.heads_kv != p.heads_q) s += "/" + std::to_string(p.heads_kv);
  s += ", seqlen " + std::to_string(p.seqlen_q);
  if (p.seqlen_k != p.seqlen_q) s += " x " + std::to_string(p.seqlen_k);
  s += ", d " + std::to_string(p.head_dim) + ", " + name_of(p.dtype);
  if (p.causal) s += ", causal";
  if (p.window_left >= 0 || p.window_right >= 0)
    s += ", window " + std::to_string(p.window_left) + "," + std::to_string(p.window_right);
  if (p.dropout_p > 0) s += ", dropout " + std::to_string(p.dropout_p).substr(0, 5);
  return s;
}

std::string describe(const Tiling& t) {
  std::string s = std::to_string(t.block_q) + " x " + std::to_string(t.block_k) + ", " +
                  std::to_string(t.warps) + (t.warps == 1 ? " warp" : " warps");
  if (t.split == WarpSplit::key) s += " along K";
  if (t.stages > 1) s += ", " + std::to_string(t.stages) + " stages";
  if (t.order == BlockOrder::last_to_first) s += ", last block first";
  if (t.key_order == BlockOrder::last_to_first) s += ", keys from the last";
  if (t.heads_together > 1) s += ", " + std::to_string(t.heads_together) + " heads together";
  if (t.late_blocks > 0) s += ", " + std::to_string(t.late_blocks) + " a head at the end";
  if (t.num_splits > 1) s += ", " + std::to_string(t.num_splits) + " splits";
  return s;
}

}  // namespace flashsim
