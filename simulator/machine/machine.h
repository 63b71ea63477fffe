// What a schedule is written against: one streaming multiprocessor that holds tiles and works on them.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "simulator/machine/operation.h"

namespace flashsim {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

class Machine;

/// A tile on chip. It lives as long as this handle: SRAM in use is what is alive. Move-only.
class Tile {
 public:
  Tile(Tile&& o) noexcept : machine_(std::exchange(o.machine_, nullptr)), ref_(o.ref_) {}
  Tile& operator=(Tile&& o) noexcept {
    if (this != &o) {
      release();
      machine_ = std::exchange(o.machine_, nullptr);
      ref_ = o.ref_;
    }
    return *this;
  }
  ~Tile() { release(); }
  /// Ends the tile's life early, e.g. to free a stage of a ring.
  void release() noexcept;

  int rows() const { return ref_.rows; }
  int cols() const { return ref_.cols; }
  const TileRef& ref() const { return ref_; }

 private:
  friend class Machine;
  Tile(Machine* m, const TileRef& r) : machine_(m), ref_(r) {}
  Machine* machine_;
  TileRef ref_;
};

/// A ring of buffers that asynchronous loads of one tensor go round.
struct Ring {
  std::int8_t id;
};

/// Every member function is one line of pseudo-code and issues one Operation; nothing is computed here.
/// Results of matrix products and row operations are in the accumulator's dtype (fp32, or fp64 for fp64
/// problems); a matrix product reads its operands in the problem's dtype and a store rounds to the tensor's.
/// Operations on one tile work in place and return that tile under its new name, as in `Tile& Pij =
/// sm.exp(Sij, m_new);`. Shapes are given as (rows, columns). All functions throw ScheduleError where shapes
/// do not fit.
class Machine {
 public:
  Machine(const Problem& p, Executor& e) : p_(p), executor_(&e) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // ---- memory: rows `r` (and columns `c`, of score-shaped tensors) of tensor `x`
  Tile load(Tensor x, Block r) { return load(x, r, {}); }
  Tile load(Tensor x, Block r, Block c);
  /// The same by one bulk tensor load (TMA), whose box of `box_rows` >= r.rows rows reaches over the tensor's
  /// edge where r is the last block: those rows are asked for, too, and arrive as zeros. Loads into a ring
  /// are such loads.
  Tile load_box(Tensor x, Block r, int box_rows);
  void store(Tensor x, Block r, const Tile& t) { store(x, r, {}, t); }
  void store(Tensor x, Block r, Block c, const Tile& t);
  /// Adds the tile to memory, atomically (dQ of FA2's backward).
  void reduce_add(Tensor x, Block r, const Tile& t);
  /// Takes the maximum of the tile and memory, atomically (fp8's largest magnitudes).
  void reduce_max(Tensor x, Block r, const Tile& t);

  // ---- new tiles, of x's shape in rows r
  Tile zeros(Tensor x, Block r) { return fill(x, r, 0); }
  Tile fill(Tensor x, Block r, double value);
  Tile copy(Tensor x, const Tile& t);

  // ---- tensor cores
  /// scale * a b^T, (a.rows, b.rows), called x.
  Tile matmul_nt(Tensor x, const Tile& a, const Tile& b, double scale = 1);
  /// c += scale * a b.
  void add_matmul(Tile& c, const Tile& a, const Tile& b, double scale = 1);
  /// c += scale * a^T b.
  void add_matmul_tn(Tile& c, const Tile& a, const Tile& b, double scale = 1);

  // ---- element by element
  /// Hidden elements of tile (i, j) of S become -infinity. No operation where every element is visible.
  void mask(Tile& s, Block i, Block j);
  /// Drops elements of tile (i, j) of P and scales the rest by 1 / (1 - p). No operation without dropout.
  void dropout(Tile& x, Block i, Block j);
  /// S becomes P = exp(S - m); a row with m = -infinity becomes zeros.
  Tile& exp(Tile& s, const Tile& m);
  /// exp(a - b) of two columns; 0 where b is -infinity.
  Tile exp_difference(const Tile& a, const Tile& b);
  /// dP becomes dS = P o (dP - D).
  Tile& softmax_gradient(Tile& dp, const Tile& p, const Tile& d);
  Tile& multiply(Tile& x, double factor);
  /// Element-wise product with another tile (the eager backward's dP o P).
  Tile& multiply(Tile& x, const Tile& y);
  /// x + y, element by element.
  Tile& add(Tile& x, const Tile& y);
  /// Rounds factor * t to a dtype. With quantise the only rounding besides stores and operands of matrix
  /// products.
  Tile& convert(Tile& t, Dtype to, double factor = 1);

  // ---- rows
  Tile row_max(const Tile& s) { return column(Tensor::m, Op::row_max, s); }
  Tile row_sum(const Tile& s) { return column(Tensor::l, Op::row_sum, s); }
  /// rowsum(a o b).
  Tile row_dot(const Tile& a, const Tile& b);
  /// The larger of two columns.
  Tile max(const Tile& a, const Tile& b);
  /// l += rowsum(s).
  Tile& add_row_sum(Tile& l, const Tile& s);
  Tile& scale_rows(Tile& x, const Tile& factor) { return by_rows(Op::scale_rows, x, factor); }
  /// Rows over a column; 0 where the column is 0.
  Tile& divide_rows(Tile& x, const Tile& l) { return by_rows(Op::divide_rows, x, l); }
  /// m becomes LSE = m + log l; -infinity where l = 0.
  Tile& log_sum(Tile& m, const Tile& l);

  // ---- fp8
  /// Incoherent processing: rows times random signs times a Hadamard matrix / sqrt(d). Orthogonal, so Q K^T
  /// stays.
  Tile& rotate(Tile& x);
  /// The largest magnitude of the tile, (1, 1), called x.
  Tile abs_max(Tensor x, const Tile& t);
  /// Rounds x * 448 / largest to e4m3 (448 is its largest number) and names it x8; `largest` is a (1, 1)
  /// tile.
  Tile& quantise(Tensor x8, Tile& x, const Tile& largest);
  /// Every element times a (1, 1) tile times `factor`.
  Tile& scale_all(Tile& x, const Tile& by, double factor = 1);

  // ---- roles (FA3). Here the closures run one after another; executors that care about time replay the
  // roles' operations against each other.
  /// `stages` buffers for tiles of `rows` rows of x.
  Ring ring(Tensor x, int rows, int stages);
  template <class F>
  void producer(F&& body) {
    role_ = 0;
    body(*this);
    role_ = 1;
  }
  template <class F>
  void consumers(int n, F&& body) {
    for (int w = 0; w < n; ++w) {
      role_ = static_cast<std::uint8_t>(1 + w);
      for (Queue& q : queues_) q.taken = 0;
      body(*this, w);
    }
    role_ = 1;
  }
  /// Producer: waits for a free stage, then loads asynchronously.
  void load(Ring g, Block r);
  /// Consumer: the ring's next tile, once it has arrived. The handle's death frees the stage.
  Tile take(Ring g);
  Tile matmul_nt_async(Tensor x, const Tile& a, const Tile& b, double scale = 1);
  void add_matmul_async(Tile& c, const Tile& a, const Tile& b, double scale = 1);
  /// Until what was issued on this tile, and everything before it, is done.
  void wait(const Tile& t);

  /// Called by devices before each thread block.
  void begin_block();

 private:
  friend class Tile;
  struct Queue {
    Tensor tensor;
    int rows = 0;  ///< of a buffer
    std::vector<Block> loaded;
    std::size_t taken = 0;
  };

  Tile make(Tensor x, int rows, int cols, Dtype dtype, std::int8_t ring = -1);
  Tile column(Tensor x, Op kind, const Tile& a, const Tile* b = nullptr);
  Tile& by_rows(Op kind, Tile& x, const Tile& column);
  Tile product(Tensor x, const Tile& a, const Tile& b, double scale, bool async);
  void issue(Operation&& op);
  void give_back(const TileRef& r) noexcept;
  void require(bool ok, const char* what) const {
    if (!ok) throw ScheduleError(what);
  }

  const Problem& p_;
  Executor* executor_;
  std::vector<std::uint16_t> free_slots_;
  std::uint16_t next_slot_ = 0;
  std::vector<Queue> queues_;
  std::uint8_t role_ = 1;
};

inline void Tile::release() noexcept {
  if (machine_ != nullptr) std::exchange(machine_, nullptr)->give_back(ref_);
}

}  // namespace flashsim
