#include "simulator/cli/tensor_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "cpu_reference/random.h"
#include "cpu_reference/rounding.h"
#include "simulator/cli/errors.h"
#include "simulator/cli/npy.h"

namespace flashsim::cli {
namespace {

struct Shape {
  int batch = 1, heads = 1, rows = 1, cols = 1;
  friend bool operator==(const Shape&, const Shape&) = default;
};

std::string text_of(const Shape& s) {
  return fmt::format("({}, {}, {}, {})", s.batch, s.heads, s.rows, s.cols);
}

Shape shape_of(const NpyArray& a) {
  const auto& n = a.shape;
  const std::size_t d = n.size();
  return {d > 3 ? n[0] : 1, d > 2 ? n[d - 3] : 1, n[d - 2], n[d - 1]};
}

NpyArray read_finite(const std::string& file, Dtype wanted, const Output& out) {
  NpyArray a = read_npy(file);
  const Dtype kept = wanted == Dtype::e4m3 ? Dtype::fp16 : wanted;
  bool rounds = false;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i];
    if (!std::isfinite(x)) {
      std::vector<std::size_t> place(a.shape.size());
      std::size_t rest = i;
      for (std::size_t d = a.shape.size(); d-- > 0; rest /= a.shape[d]) place[d] = rest % a.shape[d];
      throw InputError(
          fmt::format("{}: element ({}) is {}; attention needs finite numbers, and one that is not spreads "
                      "over every row that sees it. Clean the tensor first",
                      file, fmt::join(place, ", "), x));
    }
    const double there = rounded(kept, x);
    if (std::isinf(there))
      throw InputError(fmt::format("{}: {} is beyond the largest {} number, {}; give --dtype fp32 or bf16",
                                   file, x, name_of(kept), largest_finite(kept)));
    rounds = rounds || there != x;
  }
  if (rounds) out.note(fmt::format("{} is rounded to {}; --dtype chooses another", file, name_of(kept)));
  return a;
}

}  // namespace

void TensorOptions::declare(Options& options) {
  options.heading("Real tensors (.npy; random normal numbers otherwise)");
  options.text("--q", "FILE", files_[0], "Q as (seqlen, d), (heads, seqlen, d) or (batch, heads, seqlen, d)");
  options.text("--k", "FILE", files_[1], "K, which may have fewer heads and another length");
  options.text("--v", "FILE", files_[2], "V, shaped as K");
  options.text("--do", "FILE", files_[3], "the gradient of O, shaped as Q, for a backward pass");
}

std::string TensorOptions::command_line() const {
  std::string text;
  const char* const names[] = {"--q", "--k", "--v", "--do"};
  for (int i = 0; i < 4; ++i)
    if (!files_[i].empty()) text += fmt::format("{}{} {}", text.empty() ? "" : " ", names[i], files_[i]);
  return text;
}

Tensors TensorOptions::load(Problem& p, std::uint64_t seed, bool lengths_given, const Output& out) const {
  if (given()) {
    if (files_[0].empty() || files_[1].empty() || files_[2].empty())
      throw UsageError("--q, --k and --v belong together; give all three, or none for random numbers");
    if (lengths_given)
      throw UsageError(
          "lengths are given twice: the shapes of --q and --k say how many queries and keys there are; leave "
          "out --n, --seqlen-q and --seqlen-k");
  }
  Tensors x;
  if (given()) {
    NpyArray q = read_finite(files_[0], p.dtype, out), k = read_finite(files_[1], p.dtype, out),
             v = read_finite(files_[2], p.dtype, out);
    const Shape sq = shape_of(q), sk = shape_of(k), sv = shape_of(v);
    if (!(sk == sv))
      throw InputError(fmt::format("{} has shape {}, {} has {}; V must be shaped as K", files_[1],
                                   text_of(sk), files_[2], text_of(sv)));
    if (sq.batch != sk.batch || sq.cols != sk.cols)
      throw InputError(fmt::format("{} has shape {}, {} has {}; batch and head dimension must agree",
                                   files_[0], text_of(sq), files_[1], text_of(sk)));
    p.batch = sq.batch;
    p.heads_q = sq.heads;
    p.heads_kv = sk.heads;
    p.seqlen_q = sq.rows;
    p.seqlen_k = sk.rows;
    p.head_dim = sq.cols;
    if (const std::string fault = fault_of(p); !fault.empty())
      throw InputError(fmt::format("{} and {}: {}", files_[0], files_[1], fault));
    x.q = std::move(q.values);
    x.k = std::move(k.values);
    x.v = std::move(v.values);
  } else {
    const auto random = [&](std::uint32_t tensor, int heads, int rows) {
      return random_tensor(Distribution::normal, seed, tensor,
                           static_cast<std::size_t>(elements(p, heads, rows, p.head_dim)));
    };
    x.q = random(tensor_id::q, p.heads_q, p.seqlen_q);
    x.k = random(tensor_id::k, p.heads_kv, p.seqlen_k);
    x.v = random(tensor_id::v, p.heads_kv, p.seqlen_k);
  }
  if (!files_[3].empty()) {
    NpyArray d_o = read_finite(files_[3], p.dtype, out);
    const Shape wanted{p.batch, p.heads_q, p.seqlen_q, p.head_dim};
    if (!(shape_of(d_o) == wanted))
      throw InputError(fmt::format("{} has shape {}; dO must be shaped as Q, {}", files_[3],
                                   text_of(shape_of(d_o)), text_of(wanted)));
    x.d_o = std::move(d_o.values);
  } else {
    x.d_o = random_tensor(Distribution::normal, seed, tensor_id::d_o,
                          static_cast<std::size_t>(elements(p, p.heads_q, p.seqlen_q, p.head_dim)));
  }
  return x;
}

}  // namespace flashsim::cli
