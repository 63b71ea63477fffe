// What each warpgroup of a thread block issues, in its order: the operations of a schedule, recorded so that
// they can be replayed against those of other warpgroups and other thread blocks.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "simulator/executors/pseudocode.h"
#include "simulator/executors/timeline/timeline.h"

namespace flashsim::timeline {

/// One line of a warpgroup's stream.
struct Step {
  enum class What : std::uint8_t {
    work,      ///< occupies units
    prefetch,  ///< an asynchronous load into the next stage of a ring
    take,      ///< waits for the ring's next tile
    free,      ///< gives a taken tile's stage back
    wait       ///< until asynchronous work on a tile, and all before it, is done
  } what = What::work;
  Op op = Op::count;
  Tensor tensor = Tensor::count;
  bool async = false;
  std::int8_t ring = -1;
  std::uint16_t slot = TileRef::no_slot;
  std::int32_t text = 0;
  std::array<double, unit_count>
      clocks{};  ///< on each unit, one after the other in the order of stages_of_work
};

/// exp subtracts on the CUDA cores before it reaches the exp unit.
inline constexpr std::array<Unit, unit_count> stages_of_work = {Unit::copies, Unit::tensor_cores,
                                                                Unit::cuda_cores, Unit::exponentials};

struct RingStreams {
  int stages = 1;
  std::vector<int> takers;  ///< of each load in turn: how many consumers take it
};

/// What one thread block does.
struct BlockStreams {
  ThreadBlock block;
  std::vector<std::vector<Step>> roles;
  std::vector<RingStreams> rings;
};

struct KernelStreams {
  std::string name;
  std::int64_t blocks_per_head = 0;
  std::vector<std::int64_t> chosen;             ///< thread blocks of the whole grid, as the SM gets them
  std::map<std::int64_t, BlockStreams> blocks;  ///< by their place among one head's
  std::vector<std::string> texts;
};

/// Records one head's thread blocks, as far as the SM runs them or their like.
class StreamRecorder final : public Executor {
 public:
  StreamRecorder(const Problem& p, const Request& r) : p_(p), request_(r) {}
  void begin_kernel(const Launch& l) override;
  void begin_block(const ThreadBlock& b) override;
  void execute(const Operation& o) override;
  void allocate_ring(const TileRef& shape, int stages) override;
  void release(const TileRef& t, int role) noexcept override;

  std::vector<KernelStreams> take() { return std::move(kernels_); }

 private:
  void add(const Operation& o, Step&& s);
  std::vector<Step>& stream(int role);
  std::int32_t text_of(const Operation& o);

  const Problem& p_;
  const Request& request_;
  std::vector<KernelStreams> kernels_;
  BlockStreams* now_ = nullptr;  ///< null in thread blocks that are not recorded
  std::int64_t next_ = 0;        ///< of the kernel's thread blocks
  std::int64_t steps_ = 0;
  Pseudocode pseudocode_;
  std::map<std::string, std::int32_t> text_number_;
  std::map<std::pair<int, int>, int> taken_;  ///< tiles taken from a ring, by role and ring
};

/// How many thread blocks of kernel `k` the SM holds at once.
int resident_of(const Request& r, std::size_t k);

}  // namespace flashsim::timeline
