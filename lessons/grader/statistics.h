// Watches the running maximum m and the running sum l of every row while a schedule goes from tile to tile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu_reference/oracle.h"
#include "cpu_reference/tolerance.h"
#include "simulator/executors/numeric.h"

namespace flashsim::lessons {

/// Compares the tiles named m and l with what the keys loaded so far give, each time a thread block that
/// holds one block of Q loads its next block of K. Keys may come in any order; a schedule that loads one
/// block ahead is accepted too. Results pass unchanged.
template <class Real>
class Statistics final : public Executor {
 public:
  /// q and k in the problem's shapes, rounded as in memory. `numeric` executes the operations, before this
  /// object sees them.
  Statistics(const Problem& p, const std::vector<double>& q, const std::vector<double>& k,
             const Tolerance& allowed, const Numeric<Real>& numeric);
  void begin_block(const ThreadBlock& b) override;
  void execute(const Operation& o) override;
  void release(const TileRef& t, int role) noexcept override;

  /// How often both were there to be compared.
  std::int64_t compared() const { return compared_; }
  /// Empty, or the first difference, as a sentence.
  const std::string& fault() const { return fault_; }

 private:
  struct Row {
    double m, l;
  };
  std::vector<Row> expected(std::size_t loaded) const;
  void compare_now();
  std::string difference(const std::vector<Row>& expected) const;

  const Problem& p_;
  const std::vector<double>&q_, &k_;
  const Tolerance allowed_;
  const Numeric<Real>& numeric_;
  ThreadBlock block_;
  Block queries_{};
  bool has_queries_ = false;
  std::vector<Block> loaded_;  ///< blocks of K, in order
  std::vector<TileRef> live_;  ///< tiles named m and l, by slot
  std::int64_t compared_ = 0;
  std::string fault_;
};

extern template class Statistics<float>;
extern template class Statistics<double>;

}  // namespace flashsim::lessons
