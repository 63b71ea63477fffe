#include "simulator/user_schedule/wire.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <type_traits>

#include "simulator/machine/rules.h"
#include "simulator/user_schedule/printable.h"

namespace flashsim {
namespace {

enum class Event : std::uint8_t {
  begin_kernel,
  begin_block,
  operation,
  ring,
  release,
  end_block,
  end_kernel,
  finished,
  failed,
  count
};
constexpr std::uint32_t longest_text = 4096;
constexpr std::int64_t most_elements = std::int64_t{1} << 28;

struct RingEvent {
  TileRef shape;
  int stages;
};
struct ReleaseEvent {
  TileRef tile;
  int role;
};
/// An operation without pointers; the tiles that `has` names follow in place.
struct OperationEvent {
  Op kind;
  Tensor tensor;
  std::uint8_t role, async, has;
  Block rows, cols;
  double scale;
  TileRef out, a, b;
};
static_assert(std::is_trivially_copyable_v<OperationEvent> && std::is_trivially_copyable_v<ThreadBlock>);

/// A pipe read in large pieces. The clock runs only while nothing has arrived: what is done with the
/// operations between two reads takes no time from the sender.
class Reader {
 public:
  Reader(int fd, double seconds) : fd_(fd), left_(seconds), buffer_(1 << 16) {}
  template <class T>
  T get() {
    T value;
    get(&value, sizeof value);
    return value;
  }
  std::string text() {
    const auto length = get<std::uint32_t>();
    if (length > longest_text) throw WireError("a text longer than 4 KiB arrived");
    std::string s(length, '\0');
    get(s.data(), length);
    return printable(s);
  }

 private:
  void get(void* to, std::size_t bytes) {
    auto* out = static_cast<char*>(to);
    while (bytes > 0) {
      if (begin_ == end_) refill();
      const std::size_t n = std::min(bytes, end_ - begin_);
      std::memcpy(out, buffer_.data() + begin_, n);
      begin_ += n;
      out += n;
      bytes -= n;
    }
  }
  void refill() {
    using Clock = std::chrono::steady_clock;
    pollfd waited{fd_, POLLIN, 0};
    for (;;) {
      if (!(left_.count() > 0)) throw WireTimeout("the schedule takes too long");
      const auto begin = Clock::now();
      const int ready = poll(&waited, 1, static_cast<int>(std::min(left_.count() * 1000 + 1, 1e6)));
      left_ -= Clock::now() - begin;
      if (ready > 0) break;
      if (ready < 0 && errno != EINTR) throw WireError("the pipe of operations broke");
    }
    ssize_t n;
    do n = ::read(fd_, buffer_.data(), buffer_.size());
    while (n < 0 && errno == EINTR);
    if (n <= 0) throw WireClosed("the operations end before the schedule is finished");
    begin_ = 0;
    end_ = static_cast<std::size_t>(n);
  }
  int fd_;
  std::chrono::duration<double> left_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

/// Which tiles are alive, and whether an operation may use them.
class Tiles {
 public:
  void begin_block() {
    live_.clear();
    rings_ = 0;
    elements_ = 0;
  }
  void require(const Operation& o, const Problem& p) {
    require_enums(o);
    require_dtypes(o, p);
    if (o.kind == Op::load && o.async) {  // arrives in a ring, and is a tile when it is taken
      if (o.out == nullptr || o.out->slot != TileRef::no_slot || o.out->ring < 0 || o.out->ring >= rings_)
        throw WireError("an asynchronous load names no ring");
      return;
    }
    for (const TileRef* t : {o.a, o.b})
      if (t != nullptr && !is_alive(*t)) throw WireError("an operation reads a tile that is not alive");
    if (o.out == nullptr) return;
    if (makes_new_tile(o.kind)) {
      if (o.out->slot == TileRef::no_slot || at(o.out->slot).tensor != Tensor::count)
        throw WireError("an operation makes a tile where one is alive");
      if (o.out->ring >= rings_) throw WireError("a tile is taken from a ring that does not exist");
    } else if (!is_alive(*o.out)) {
      throw WireError("an operation changes a tile that is not alive");
    }
    if (makes_new_tile(o.kind) && (elements_ += o.out->size()) > most_elements)
      throw WireError("more than " + std::to_string(most_elements) + " elements are alive");
    at(o.out->slot) = *o.out;
  }
  /// False where the tile is not alive: the operation that should have made it failed in the sender.
  bool release(const TileRef& t) {
    if (!is_alive(t)) return false;
    elements_ -= t.size();
    at(t.slot) = {};
    return true;
  }
  void add_ring(const TileRef& shape, int stages, const Problem& p) {
    if (shape.ring != rings_ || rings_ > 100 || stages < 1 || stages > 1000)
      throw WireError("a ring is out of order");
    require_shape(shape);
    if (shape.dtype != dtype_in_hbm(shape.tensor, p))
      throw WireError("a ring has another dtype than its tensor has in memory");
    ++rings_;
  }

 private:
  static bool makes_new_tile(Op op) {
    switch (op) {
      case Op::load:
      case Op::take:
      case Op::fill:
      case Op::copy:
      case Op::matmul_nt:
      case Op::row_max:
      case Op::row_sum:
      case Op::row_dot:
      case Op::max:
      case Op::exp_difference:
      case Op::abs_max: return true;
      default: return false;
    }
  }
  static void require_shape(const TileRef& t) {
    if (t.tensor >= Tensor::count || t.dtype > Dtype::e4m3 || t.rows < 0 || t.cols < 0 ||
        t.size() > most_elements)
      throw WireError("a tile has an impossible shape or name");
  }
  static void require_enums(const Operation& o) {
    if (o.kind >= Op::count || o.tensor > Tensor::count || o.role > 64)
      throw WireError("an operation has an unknown name");
    for (const TileRef* t : {o.out, o.a, o.b})
      if (t != nullptr) require_shape(*t);
  }
  /// A tile's dtype follows from what was done to it, and SRAM is counted by it: it cannot be claimed.
  void require_dtypes(const Operation& o, const Problem& p) {
    for (const TileRef* t : {o.a, o.b})
      if (t != nullptr && t->slot != TileRef::no_slot && t->dtype != at(t->slot).dtype)
        throw WireError("an operation reads a tile as another dtype than it has");
    if (o.out == nullptr || o.kind == Op::convert || o.kind == Op::quantise) return;
    Dtype expected = o.out->dtype;
    if ((o.kind == Op::load || o.kind == Op::take) && o.tensor != Tensor::count)
      expected = dtype_in_hbm(o.tensor, p);
    else if (o.kind == Op::copy && o.a != nullptr)
      expected = o.a->dtype;
    else if (makes_new_tile(o.kind))
      expected = accumulator(p);
    else if (o.out->slot != TileRef::no_slot)
      expected = at(o.out->slot).dtype;
    if (o.out->dtype != expected) throw WireError("an operation makes a tile of another dtype than it does");
  }
  TileRef& at(std::uint16_t slot) {
    if (slot >= live_.size()) live_.resize(std::size_t{slot} + 1);
    return live_[slot];
  }
  bool is_alive(const TileRef& t) {
    if (t.slot == TileRef::no_slot) return false;
    const TileRef& x = at(t.slot);
    return x.tensor != Tensor::count && x.rows == t.rows && x.cols == t.cols && x.ring == t.ring;
  }
  std::vector<TileRef> live_;
  int rings_ = 0;
  std::int64_t elements_ = 0;
};

void require_thread_block(const ThreadBlock& b, const Problem& p, Heads heads) {
  if (b.batch < 0 || b.batch >= p.batch || b.head_kv < 0 || b.head_kv >= p.heads_kv)
    throw WireError("a thread block works on a head that does not exist");
  if (!heads.has(b.batch, b.head_kv)) throw WireError("a thread block works on a head that nobody asked for");
}

}  // namespace

// ----------------------------------------------------------------------------------------------------
// sending

void WireWriter::send(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), from, from + bytes);
}

void WireWriter::flush() {
  for (std::size_t sent = 0; sent < buffer_.size();) {
    const ssize_t n = ::write(fd_, buffer_.data() + sent, buffer_.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw WireError("nobody reads the operations any more");
    sent += static_cast<std::size_t>(n);
  }
  buffer_.clear();
}

namespace {
template <class Sender, class T>
void send_event(Sender&& send, Event e, const T& value) {
  send(&e, sizeof e);
  send(&value, sizeof value);
}
}  // namespace

void WireWriter::begin_kernel(const Launch& l) {
  const Event e = Event::begin_kernel;
  const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(l.name.size(), longest_text));
  send(&e, sizeof e);
  send(&l.blocks, sizeof l.blocks);
  send(&length, sizeof length);
  send(l.name.data(), length);
  if (buffer_.size() > (1 << 16)) flush();  // launches without operations must not pile up
}

void WireWriter::begin_block(const ThreadBlock& b) {
  send_event([this](const void* d, std::size_t n) { send(d, n); }, Event::begin_block, b);
}

void WireWriter::execute(const Operation& o) {
  OperationEvent w{};
  w.kind = o.kind;
  w.tensor = o.tensor;
  w.role = o.role;
  w.async = o.async;
  w.rows = o.rows;
  w.cols = o.cols;
  w.scale = o.scale;
  if (o.out != nullptr) w.has |= 1, w.out = *o.out;
  if (o.a != nullptr) w.has |= 2, w.a = *o.a;
  if (o.b != nullptr) w.has |= 4, w.b = *o.b;
  send_event([this](const void* d, std::size_t n) { send(d, n); }, Event::operation, w);
  if (buffer_.size() > (1 << 16)) flush();
}

void WireWriter::allocate_ring(const TileRef& shape, int stages) {
  send_event([this](const void* d, std::size_t n) { send(d, n); }, Event::ring, RingEvent{shape, stages});
}

void WireWriter::release(const TileRef& t, int role) noexcept {
  try {
    send_event([this](const void* d, std::size_t n) { send(d, n); }, Event::release, ReleaseEvent{t, role});
  } catch (...) {  // out of memory: the reader will miss the release and refuse what follows
  }
}

void WireWriter::end_block() {
  const Event e = Event::end_block;
  send(&e, sizeof e);
}
void WireWriter::end_kernel() {
  const Event e = Event::end_kernel;
  send(&e, sizeof e);
}

void WireWriter::finish() {
  const Event e = Event::finished;
  send(&e, sizeof e);
  flush();
}

void WireWriter::fail(std::string_view message) {
  const Event e = Event::failed;
  const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(message.size(), longest_text));
  send(&e, sizeof e);
  send(&length, sizeof length);
  send(message.data(), length);
  flush();
}

// --------------------------------------------------------------------------------------------------
// receiving

void replay(int fd, const Problem& p, Executor& executor, const WireLimits& limits) {
  Reader in(fd, limits.seconds);
  Tiles tiles;
  std::string name;  // Launch keeps a view of it
  std::int64_t operations = 0;
  bool in_kernel = false, in_block = false;
  const auto require = [](bool ok) {
    if (!ok) throw WireError("the operations are out of order");
  };
  for (;;) {
    const Event e = in.get<Event>();
    switch (e) {
      case Event::begin_kernel: {
        require(!in_kernel);
        in_kernel = true;
        const auto blocks = in.get<std::int64_t>();
        name = in.text();
        executor.begin_kernel({name, blocks});
        break;
      }
      case Event::begin_block: {
        require(in_kernel && !in_block);
        in_block = true;
        const auto b = in.get<ThreadBlock>();
        require_thread_block(b, p, limits.heads);
        tiles.begin_block();
        executor.begin_block(b);
        break;
      }
      case Event::operation: {
        require(in_block);
        const auto w = in.get<OperationEvent>();
        if (++operations > limits.operations)
          throw WireError("the schedule issues more than " + std::to_string(limits.operations) +
                          " operations; does a loop not end?");
        Operation o{.kind = w.kind,
                    .tensor = w.tensor,
                    .role = w.role,
                    .async = w.async != 0,
                    .rows = w.rows,
                    .cols = w.cols,
                    .scale = w.scale};
        if (w.has & 1) o.out = &w.out;
        if (w.has & 2) o.a = &w.a;
        if (w.has & 4) o.b = &w.b;
        tiles.require(o, p);
        require_sensible(o, p);
        executor.execute(o);
        break;
      }
      case Event::ring: {
        require(in_block);
        const auto r = in.get<RingEvent>();
        tiles.add_ring(r.shape, r.stages, p);
        executor.allocate_ring(r.shape, r.stages);
        break;
      }
      case Event::release: {
        require(in_block);
        const auto r = in.get<ReleaseEvent>();
        if (tiles.release(r.tile)) executor.release(r.tile, r.role);
        break;
      }
      case Event::end_block:
        require(in_block);
        in_block = false;
        executor.end_block();
        break;
      case Event::end_kernel:
        require(in_kernel && !in_block);
        in_kernel = false;
        executor.end_kernel();
        break;
      case Event::finished: require(!in_kernel); return;
      case Event::failed: throw ScheduleError(in.text());
      default: throw WireError("something that is not an operation arrived");
    }
  }
}

}  // namespace flashsim
