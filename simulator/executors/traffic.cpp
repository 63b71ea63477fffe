#include "simulator/executors/traffic.h"

#include <algorithm>

#include "simulator/executors/work.h"

namespace flashsim {

TensorTraffic KernelTraffic::total() const {
  TensorTraffic sum;
  for (const TensorTraffic& x : tensor) sum += x;
  return sum;
}

void KernelTraffic::add(const KernelTraffic& o, std::int64_t times) {
  const auto add_times = [times](Moved& to, const Moved& from) {
    to.bytes += from.bytes * times;
    to.elements += from.elements * times;
  };
  for (int i = 0; i < tensor_count; ++i) {
    add_times(tensor[i].read, o.tensor[i].read);
    add_times(tensor[i].written, o.tensor[i].written);
    add_times(tensor[i].reduced, o.tensor[i].reduced);
  }
  blocks += o.blocks * times;
  sram_filled += o.sram_filled * times;
  sram_fetched += o.sram_fetched * times;
  matmul_flops += o.matmul_flops * times;
  exps += o.exps * times;
  other_flops += o.other_flops * times;
  operations += o.operations * times;
}

void Traffic::begin_kernel(const Launch& launch) {
  kernels_.emplace_back();
  now_ = &kernels_.back();
  now_->name = launch.name;
}

void Traffic::begin_block(const ThreadBlock&) {
  ++now_->blocks;
  has_rings_ = false;
}

void Traffic::moved(TensorTraffic& x, Moved TensorTraffic::*direction, const TileRef& tile,
                    Tensor in_memory) {
  (x.*direction).bytes += tile.size() * bytes_in_hbm(in_memory, p_);
  (x.*direction).elements += tile.size();
}

void Traffic::made(const TileRef& tile, bool shared) {
  if (tile.slot >= shared_.size()) shared_.resize(tile.slot + 1);
  shared_[tile.slot] = shared;
}

void Traffic::product(const Operation& o) {
  // How often each warp's share makes the hardware fetch an operand. A warpgroup of FA3 works alone on its
  // rows.
  const std::int64_t readers = has_rings_ ? 1 : t_.warps;
  const bool along_keys = t_.split == WarpSplit::key && readers > 1;
  const std::int64_t a_bytes = o.a->size() * bytes_of(o.a->dtype),
                     b_bytes = o.b->size() * bytes_of(o.b->dtype);
  if (o.kind == Op::add_matmul_tn && !is_shared(*o.a))  // a^T of a result goes through shared memory
    now_->sram_filled += o.a->size() * bytes_of(p_.dtype),
        now_->sram_fetched += o.a->size() * bytes_of(p_.dtype);
  else if (is_shared(*o.a))  // warps along K all read the whole of Q
    now_->sram_fetched += a_bytes * (along_keys && o.kind == Op::matmul_nt ? readers : 1);
  if (is_shared(*o.b)) now_->sram_fetched += b_bytes * (along_keys ? 1 : readers);
  if (along_keys &&
      o.kind == Op::add_matmul) {  // every warp has a part of every element: they meet in shared memory
    now_->sram_filled += o.out->size() * bytes_of(o.out->dtype) * readers;
    now_->sram_fetched += o.out->size() * bytes_of(o.out->dtype) * readers;
  }
}

void Traffic::execute(const Operation& o) {
  KernelTraffic& k = *now_;
  ++k.operations;
  const Work work = work_of(o);
  k.matmul_flops += work.matmul_flops;
  k.exps += work.exps;
  k.other_flops += work.other_flops;
  TensorTraffic* x = o.tensor != Tensor::count ? &k.tensor[static_cast<int>(o.tensor)] : nullptr;
  switch (o.kind) {
    case Op::load:
      moved(*x, &TensorTraffic::read, *o.out, o.tensor);
      if (o.out->cols > 1) k.sram_filled += o.out->size() * bytes_in_hbm(o.tensor, p_);
      if (!o.async) made(*o.out, o.out->cols > 1);
      break;
    case Op::take: made(*o.out, true); break;
    case Op::store: moved(*x, &TensorTraffic::written, *o.a, o.tensor); break;
    case Op::reduce_add:
    case Op::reduce_max: moved(*x, &TensorTraffic::reduced, *o.a, o.tensor); break;
    case Op::fill:
    case Op::copy:
    case Op::row_max:
    case Op::row_sum:
    case Op::row_dot:
    case Op::abs_max:
    case Op::max:
    case Op::exp_difference: made(*o.out, false); break;
    case Op::matmul_nt:
      made(*o.out, false);
      product(o);
      break;
    case Op::add_matmul:
    case Op::add_matmul_tn: product(o); break;
    default: break;  // in place, or nothing but a name
  }
}

std::vector<KernelTraffic> count_traffic(const Program& program, const Problem& p, const Tiling& t) {
  Traffic executor(p, t);
  program(executor, Heads::one);
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  std::vector<KernelTraffic> all;
  for (const KernelTraffic& one : executor.kernels()) {
    all.emplace_back();
    all.back().name = one.name;
    all.back().add(one, heads);
  }
  return all;
}

std::vector<KernelTraffic> count_traffic(const std::function<void(Device&)>& schedule, const Problem& p,
                                         const Tiling& t) {
  const Program program = [&](Executor& executor, Heads heads) {
    SerialDevice gpu(p, executor, heads);
    schedule(gpu);
  };
  return count_traffic(program, p, t);
}

std::vector<KernelTraffic> count_traffic(Schedule schedule, const Problem& p, const Tiling& t) {
  return count_traffic(program_of(schedule, p, t), p, t);
}

KernelTraffic sum(const std::vector<KernelTraffic>& kernels, std::string name) {
  KernelTraffic total;
  total.name = std::move(name);
  for (const KernelTraffic& k : kernels) total.add(k);
  return total;
}

}  // namespace flashsim
