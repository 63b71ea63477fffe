// What launches kernels. How the thread blocks are run is the device's business; the schedule only says what
// they do.
#pragma once

#include <functional>
#include <string_view>

#include "simulator/machine/machine.h"

namespace flashsim {

class Device {
 public:
  using Body = std::function<void(Machine&, Block)>;
  using Body2D = std::function<void(Machine&, Block, Block)>;
  virtual ~Device() = default;

  /// Launches one thread block for every block of `grid`, of every K/V head of every batch entry.
  void kernel(std::string_view name, Blocks grid, const Body& body) {
    launch(name, grid, blocks(1, 1), [&body](Machine& sm, Block i, Block) { body(sm, i); });
  }
  /// One thread block for every pair of blocks; columns change fastest.
  void kernel(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) {
    launch(name, rows, cols, body);
  }

 private:
  virtual void launch(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) = 0;
};

/// Which K/V heads a device runs. All are alike to everything but the numbers, so counts may run one and
/// multiply.
struct Heads {
  int batch = -1, head_kv = -1;  ///< that head of that batch entry; -1: all of them
  static const Heads one, all;
  constexpr bool has(int b, int h) const {
    return (batch < 0 || b == batch) && (head_kv < 0 || h == head_kv);
  }
};
inline constexpr Heads Heads::one{0, 0};
inline constexpr Heads Heads::all{};

/// Runs thread block after thread block, head after head.
class SerialDevice final : public Device {
 public:
  SerialDevice(const Problem& p, Executor& e, Heads heads = Heads::all)
      : p_(p), executor_(e), heads_(heads) {}

 private:
  void launch(std::string_view name, Blocks rows, Blocks cols, const Body2D& body) override;
  const Problem& p_;
  Executor& executor_;
  Heads heads_;
};

}  // namespace flashsim
