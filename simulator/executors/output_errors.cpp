#include "simulator/executors/output_errors.h"

#include <cmath>

namespace flashsim {

OutputErrors::OutputErrors(Tensor tensor, int first_head, std::vector<MatrixD> oracle)
    : tensor_(tensor), first_head_(first_head), oracle_(std::move(oracle)) {
  rows_.resize(oracle_.size() * oracle_[0].rows());
}

void OutputErrors::finish(std::vector<Frame>& frames, std::size_t index) const {
  std::vector<std::vector<int>> finished_in(frames.size());
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].frame >= 0) finished_in[rows_[i].frame].push_back(static_cast<int>(i));
  OutputState state;
  const auto rows = static_cast<int>(oracle_[0].rows());
  for (std::size_t f = 0; f < frames.size(); ++f) {
    for (const int i : finished_in[f]) {
      ++state.finished;
      const RowError& e = rows_[i];
      if (std::isnan(state.error) || e.error <= state.error) continue;
      state.error = e.error;
      state.head = first_head_ + i / rows;
      state.row = i % rows;
      state.col = e.col;
    }
    state.distance = frames[f].outputs[index].distance;
    frames[f].outputs[index] = state;
  }
}

std::vector<OutputErrors> oracle_outputs(const Recording& r, const std::vector<double>& q,
                                         const std::vector<double>& k, const std::vector<double>& v,
                                         const std::vector<double>* d_o) {
  const Problem& p = r.problem;
  const int kv = kv_head_of(p, r.head);
  const auto queries = [&](const std::vector<double>& x, int head) {
    return matrix_of(x, head, p.seqlen_q, p.head_dim);
  };
  const auto keys = matrix_of(k, kv, p.seqlen_k, p.head_dim),
             values = matrix_of(v, kv, p.seqlen_k, p.head_dim);
  std::vector<OutputErrors> outputs;
  if (!r.backward) {
    std::vector<MatrixD> o;
    for (int h = r.head; h < r.head + r.heads; ++h)
      o.push_back(oracle_forward(p, h, queries(q, h), keys, values).o);
    outputs.emplace_back(Tensor::O, r.head, std::move(o));
    return outputs;
  }
  std::vector<MatrixD> dq;
  MatrixD dk = MatrixD::Zero(p.seqlen_k, p.head_dim), dv = dk;
  for (int h = r.head; h < r.head + r.heads; ++h) {
    HeadGradients g = oracle_backward(p, h, queries(q, h), keys, values, queries(*d_o, h));
    dq.push_back(std::move(g.dq));
    dk += g.dk;
    dv += g.dv;
  }
  outputs.emplace_back(Tensor::dQ, r.head, std::move(dq));
  outputs.emplace_back(Tensor::dK, kv, std::vector<MatrixD>{std::move(dk)});
  outputs.emplace_back(Tensor::dV, kv, std::vector<MatrixD>{std::move(dv)});
  return outputs;
}

}  // namespace flashsim
