#include "simulator/executors/l2/card.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "simulator/executors/l2/sweep.h"

namespace flashsim {

const std::vector<int>* Card::sides_of(std::size_t blocks) const {
  for (const std::vector<int>& launch : sides)
    if (launch.size() >= blocks) return &launch;
  return nullptr;
}

std::vector<int> sides_of_sms(const std::vector<std::vector<double>>& waits) {
  if (waits.empty() || waits[0].empty())
    throw std::invalid_argument("no waits: expected a row for every SM, with a number for every line");
  const auto sms = static_cast<Eigen::Index>(waits.size()),
             lines = static_cast<Eigen::Index>(waits[0].size());
  Eigen::MatrixXd w(sms, lines);
  for (Eigen::Index i = 0; i < sms; ++i) {
    const std::vector<double>& row = waits[static_cast<std::size_t>(i)];
    if (static_cast<Eigen::Index>(row.size()) != lines)
      throw std::invalid_argument("an SM has waits for " + std::to_string(row.size()) +
                                  " lines, the first for " + std::to_string(lines));
    w.row(i) = Eigen::Map<const Eigen::RowVectorXd>(row.data(), lines);
  }
  const double mean = w.mean();
  const Eigen::VectorXd of_sm = w.rowwise().mean();
  const Eigen::RowVectorXd of_line = w.colwise().mean();
  w = (w.colwise() - of_sm).rowwise() - of_line;
  w.array() += mean;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> by_sm(w * w.transpose());
  const double all = by_sm.eigenvalues().sum(), first = by_sm.eigenvalues()(sms - 1);  // ascending
  std::vector<int> side(waits.size(), 0);
  if (!(first > all / 2)) return side;
  const Eigen::VectorXd pattern = by_sm.eigenvectors().col(sms - 1);
  for (Eigen::Index i = 0; i < sms; ++i)
    side[static_cast<std::size_t>(i)] = (pattern(i) > 0) != (pattern(0) > 0) ? 1 : 0;
  return side;
}

double usable_share(const Gpu& gpu, const std::vector<RereadPoint>& points, int repeats) {
  constexpr int places = 3;
  const auto l2 = static_cast<double>(gpu.l2_bytes);
  double best = 0.95, least = -1;
  for (int percent = 80; percent <= 100; ++percent) {
    double squares = 0;
    int used = 0;
    for (const RereadPoint& p : points) {
      const auto bytes = static_cast<double>(p.buffer_bytes);
      if (bytes < 0.4 * l2 || bytes > 0.7 * l2) continue;
      double misses = 0;  // the mean of several places in memory: where the measured buffer lay is not known
      for (std::uint64_t seed = 1; seed <= places; ++seed)
        misses += simulate_reread(gpu, p.buffer_bytes, repeats, seed, percent / 100.).warm_miss_share;
      squares += std::pow(misses / places - p.miss_share, 2);
      ++used;
    }
    if (used > 0 && (least < 0 || squares < least)) best = percent / 100., least = squares;
  }
  return best;
}

}  // namespace flashsim
