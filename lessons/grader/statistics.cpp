#include "lessons/grader/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace flashsim::lessons {
namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

}  // namespace

template <class Real>
Statistics<Real>::Statistics(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
                             const Tolerance& allowed, const Numeric<Real>& numeric)
    : p_(p), q_(q), k_(k), allowed_(allowed), numeric_(numeric) {}

template <class Real>
void Statistics<Real>::begin_block(const ThreadBlock& b) {
  block_ = b;
  has_queries_ = false;
  loaded_.clear();
  live_.clear();
}

template <class Real>
void Statistics<Real>::execute(const Operation& o) {
  if (o.kind == Op::load && o.tensor == Tensor::Q && o.rows.pack == 1) {
    queries_ = o.rows;
    has_queries_ = true;
    loaded_.clear();  // a schedule whose inner loop is over Q starts anew
  }
  if (o.kind == Op::load && o.tensor == Tensor::K && has_queries_) {
    if (!loaded_.empty()) compare_now();
    loaded_.push_back(o.rows);
  }
  if (o.out != nullptr && o.out->slot != TileRef::no_slot) {
    if (o.out->slot >= live_.size()) live_.resize(std::size_t{o.out->slot} + 1);
    live_[o.out->slot] = *o.out;
  }
}

template <class Real>
void Statistics<Real>::release(const TileRef& t, int) noexcept {
  if (t.slot < live_.size()) live_[t.slot] = {};
}

template <class Real>
auto Statistics<Real>::expected(std::size_t loaded) const -> std::vector<Row> {
  const int head = block_.batch * p_.heads_q + block_.head_kv * p_.group() + queries_.group;
  const auto q = matrix_of(q_, head, p_.seqlen_q, p_.head_dim);
  const auto k = matrix_of(k_, block_.batch * p_.heads_kv + block_.head_kv, p_.seqlen_k, p_.head_dim);
  std::vector<Row> rows;
  for (int row = queries_.begin; row < queries_.end(); ++row) {
    std::vector<double> scores;
    for (std::size_t b = 0; b < loaded; ++b)
      for (int key = loaded_[b].begin; key < loaded_[b].end(); ++key)
        if (p_.sees(row, key)) scores.push_back(scale_of(p_) * q.row(row).dot(k.row(key)));
    Row r{-infinity, 0};
    for (double s : scores) r.m = std::max(r.m, s);
    for (double s : scores) r.l += std::exp(s - r.m);
    rows.push_back(r);
  }
  return rows;
}

template <class Real>
std::string Statistics<Real>::difference(const std::vector<Row>& rows) const {
  // Some live tile must hold m, and some l; others may hold what the schedule likes.
  const auto best = [&](Tensor x, auto&& want, auto&& tolerance) {
    std::string first;
    bool any = false;
    for (const TileRef& t : live_) {
      if (t.tensor != x || t.cols != 1 || t.rows != queries_.rows) continue;
      any = true;
      const auto& tile = numeric_.tile(t);
      std::string here;
      for (int r = 0; r < t.rows && here.empty(); ++r) {
        const double got = static_cast<double>(tile(r, 0)), w = want(rows[r]);
        if (!(got == w || std::abs(got - w) <= tolerance(rows[r])))
          here = "row " + std::to_string(queries_.begin + r) + " has " + std::string(name_of(x)) + " = " +
                 number(got) + ", expected " + number(w);
      }
      if (here.empty()) return std::string();
      first = here;
    }
    return any ? first : "no tile named " + std::string(name_of(x)) + " with a value for every row is alive";
  };
  // The maximum is off by as much as a score may be, which tolerance.h's bound for LSE contains, as it does
  // l's relative error.
  std::string m_fault = best(
      Tensor::m, [](const Row& r) { return r.m; }, [&](const Row&) { return allowed_.lse; });
  if (!m_fault.empty()) return m_fault;
  return best(
      Tensor::l, [](const Row& r) { return r.l; },
      [&](const Row& r) { return std::expm1(2 * allowed_.lse) * r.l; });
}

template <class Real>
void Statistics<Real>::compare_now() {
  ++compared_;
  if (!fault_.empty()) return;
  const std::string now = difference(expected(loaded_.size()));
  if (now.empty()) return;
  if (loaded_.size() > 1 && difference(expected(loaded_.size() - 1)).empty())
    return;  // loads one block ahead
  const Block& last = loaded_.back();
  fault_ = "after the tile of keys " + std::to_string(last.begin) + " ... " + std::to_string(last.end() - 1) +
           ", " + now;
}

template class Statistics<float>;
template class Statistics<double>;

}  // namespace flashsim::lessons
