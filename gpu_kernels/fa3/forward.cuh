// FlashAttention-3 forward (Shah et al. 2024, Algorithms 1 and 2): one warp loads, one deals out tiles, two
// warpgroups compute. Each owns 64 rows of Q and goes through the keys from last to first; while tensor cores
// work on S of the next block and O of this one, the exponentials of the block between run elsewhere.
// Traffic: Q and O once, K and V once per 128 rows of Q (mostly from L2).
#pragma once

#include <tuple>

#include "gpu_kernels/fa3/config.cuh"
#include "gpu_kernels/fa3/repair.cuh"
#include "gpu_kernels/fa3/wgmma.cuh"

namespace flashsim::gpu::fa3 {

template <class C>
__global__ void __launch_bounds__(Shared<C>::threads, 1)
    forward(const __grid_constant__ Maps maps, const ForwardParams p) {
  using D = Shared<C>;
  using E = typename C::Element;
  extern __shared__ char raw[];
  auto& sm = *reinterpret_cast<D*>(raw + (-shared_address(raw) & (D::alignment - 1)));
  const Ring<C::q_stages> q_ring{shared_address(sm.q_full), shared_address(sm.q_empty)};
  const Ring<C::stages> k_ring{shared_address(sm.k_full), shared_address(sm.k_empty)};
  const Ring<C::stages> v_ring{shared_address(sm.v_full), shared_address(sm.v_empty)};
  const Ring<2> tile_ring{shared_address(sm.tile_full), shared_address(sm.tile_empty)};
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&maps.q, &maps.k, &maps.v, &maps.o})
      asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
    q_ring.init(C::q_in_registers ? 4 * D::warpgroups : D::warpgroups);
    k_ring.init(D::warpgroups);
    v_ring.init(D::warpgroups);
    tile_ring.init((C::split_loads ? 3 : 1) + 4 * D::warpgroups);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (!C::specialised) sm.tile[0] = tile_of<C>(p, blockIdx.x);
  }
  __syncthreads();

  // Loads, a TMA instruction per 128-byte chunk of columns. `i` counts the uses of the ring since the start.
  auto load = [&](const auto& ring, unsigned i, auto& stages, const CUtensorMap& map, int rows, int column,
                  int row, int head) {
    constexpr int kBytes = sizeof(stages[0]);
    ring.wait_empty(i);
    ring.announce(i, kBytes);
#pragma unroll
    for (int c = 0; c < kBytes / (128 * rows); ++c)
      tma_load(shared_address(stages[ring.stage(i)]) + c * rows * 128, &map, ring.full_barrier(i),
               column + c * D::chunk, row, head);
  };
  auto load_q = [&](unsigned i, const Tile& tile) {
    load(q_ring, i, sm.q, maps.q, C::block_q, 0, tile.q * C::block_q, tile.head);
  };
  auto load_k = [&](unsigned i, int n, int head) {
    load(k_ring, i, sm.k, maps.k, C::block_k, 0, n * C::block_k, head);
  };
  auto load_v = [&](unsigned i, int n, int head) {  // in fp8 V^T: head_dim rows of one chunk of keys
    load(v_ring, i, sm.v, maps.v, C::fp8 ? C::head_dim : C::block_k, C::fp8 ? n * C::block_k : 0,
         C::fp8 ? 0 : n * C::block_k, head);
  };

  // The shuffle makes the role provably the same for the whole warp.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0) - (C::specialised ? 1 : 0);
  if (warpgroup < 0) {
    // ---------------------------------------------------------------------------------------- the producer
    set_registers<D::producer_registers, false>();
    if (threadIdx.x == 0) {  // a warp that loads (split_loads: only K ...
      unsigned used = 0;     // blocks of K, and of V, so far
      for (unsigned count = 0;; ++count) {
        tile_ring.wait_full(count);
        const Tile& tile = sm.tile[tile_ring.stage(count)];  // read again where needed, to save registers
        if (tile.head < 0) break;
        load_k(used, tile.end - 1, tile.kv_head);
        if (!C::split_loads) load_q(count, tile);
        for (int n = tile.end - 1; n > tile.begin; --n, ++used) {
          asm volatile("" : "+r"(n));  // or the compiler unrolls the loop, for which there are no registers
          load_k(used + 1, n - 1, tile.kv_head);
          if (!C::split_loads) load_v(used, n, tile.kv_head);
        }
        // Only now may the next tile be claimed: claimed early it is kept from others who could start sooner.
        if (count > 0) tile_ring.release(count + 1);
        if (C::split_loads)
          ++used;
        else
          load_v(used++, tile.begin, tile.kv_head);
      }
    } else if (C::split_loads && (threadIdx.x == 64 || threadIdx.x == 96)) {  // ... one V, one Q) ...
      unsigned used = 0;
      for (unsigned count = 0;; ++count) {
        tile_ring.wait_full(count);
        const Tile& tile = sm.tile[tile_ring.stage(count)];
        if (tile.head < 0) break;
        if (threadIdx.x == 96) load_q(count, tile);
        for (int n = tile.end - 1; threadIdx.x == 64 && n >= tile.begin; --n, ++used) {
          asm volatile("" : "+r"(n));
          load_v(used, n, tile.kv_head);
        }
        tile_ring.release(count);
      }
    } else if (threadIdx.x == 32) {  // ... and one that deals out tiles
      int t = blockIdx.x;
      for (unsigned i = 0; t >= 0; ++i) {
        tile_ring.wait_empty(i);
        if (i > 0) t = gridDim.x + (C::schedule == Schedule::dynamic ? claim_tile(p.counter, p.tiles) : t);
        if (t >= p.tiles) t = -1;
        sm.tile[tile_ring.stage(i)] = t < 0 ? Tile{} : tile_of<C>(p, t);
        tile_ring.fill(i);
      }
    }
  } else {
    // --------------------------------------------------------------------------------------- the consumers
    if (C::specialised) set_registers<D::consumer_registers, true>();
    const int lane = threadIdx.x % 32, quad = lane % 4;
    // First of this warp's 16 rows of the tile; computed anew where it is needed, to save registers.
    auto warp_row = [&] {
      unsigned thread;
      asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
      return warpgroup * 64 + int(thread / 32 % 4 * 16);
    };
    const bool leader = threadIdx.x % 128 == 0, loads = !C::specialised && warpgroup == 0 && leader;
    const int my_turn = 1 + warpgroup, next_turn = 1 + (warpgroup + 1) % D::warpgroups;  // named barriers
    constexpr int kN = C::block_k, kBlocks = kN / 8, kEarly = kBlocks * C::early_exp / 8;
    constexpr int kKeys = 32 / sizeof(E);  // one wgmma reduces over 32 bytes
    constexpr int kQChunk = C::block_q * 128 / 16, kKChunk = kN * 128 / 16, kStage = sizeof(sm.k[0]) / 16;
    const uint64_t q_start = descriptor(shared_address(sm.q) + warpgroup * 64 * 128, 0);
    const uint64_t k_start = descriptor(shared_address(sm.k), 0);
    const uint64_t v_start = descriptor(shared_address(sm.v), C::fp8 ? 0 : kN * 128);
    float o[C::head_dim / 2], s[kN / 2], rescale[2];
    float fresh[C::two_level ? C::head_dim / 2 : 1];             // P V of one block
    auto& product = std::get<C::two_level>(std::tie(o, fresh));  // what P V is added to
    uint32_t q[C::q_in_registers ? C::head_dim / 16 : 1][4], pr[kN * sizeof(E) / 8];
    float scale_log2 = p.scale_log2, q_scale = 0.f, next_k_scale = 0.f;  // fp8: of S of this block, ...
    Softmax softmax;
    unsigned used = 0, count = 0;  // blocks of K (and of V), tiles so far
    if (C::ping_pong && warpgroup == D::warpgroups - 1)
      asm volatile("bar.arrive %0, 256;" ::"r"(next_turn) : "memory");  // 0 goes first
    for (;; ++count) {
      if (C::specialised) tile_ring.wait_full(count);
      // The shuffles make branches and wgmma's descriptors provably the same for the whole warp.
      Tile tile = sm.tile[tile_ring.stage(count)];
      for (int* x :
           {&tile.q, &tile.head, &tile.kv_head, &tile.begin, &tile.end, &tile.clean_begin, &tile.clean_end})
        *x = __shfl_sync(~0u, *x, 0);
      if (tile.head < 0) break;
      __syncwarp();
      if (C::specialised && lane == 0) tile_ring.release(count);
      const int row = tile.q * C::block_q + warp_row() + lane / 4;  // this thread's rows: it and row + 8
      const Place place{int64_t{tile.head} * p.seqlen_q, int64_t{tile.kv_head} * p.seqlen_k, row};
      auto release = [&](const auto& ring, unsigned i) {
        if (leader) ring.release(i);
      };
      const uint64_t q_tile = q_start + q_ring.stage(count) * (sizeof(sm.q[0]) / 16);
      auto start_qk = [&](unsigned i) {  // S = Q K^T, one group of wgmmas
        pin(s);
        wgmma_fence();
        const uint64_t k = k_start + k_ring.stage(i) * kStage;
#pragma unroll
        for (int j = 0; j < C::head_dim / kKeys; ++j) {
          const uint64_t kj = k + j / 4 * kKChunk + j % 4 * 2;
          if constexpr (C::q_in_registers)
            Wgmma<kN>::template rs<E, false>(s, q[j], kj, j > 0);
          else
            Wgmma<kN>::template ss<E>(s, q_tile + j / 4 * kQChunk + j % 4 * 2, kj, j > 0);
        }
        wgmma_commit();
      };
      auto start_pv = [&](unsigned i) {  // O += P V
        pin(product);
        pin(pr);
        wgmma_fence();
        const uint64_t v = v_start + v_ring.stage(i) * kStage;
#pragma unroll
        for (int j = 0; j < kN / kKeys; ++j)  // 16 keys of V are 2048 bytes; 32 of V^T are 32 in each row
          Wgmma<C::head_dim>::template rs<E, !C::fp8>(product, pr + 4 * j, v + j * (C::fp8 ? 2 : 128),
                                                      !C::two_level || j > 0);
        wgmma_commit();
      };
      auto finish_pv = [&](unsigned i) {
        wgmma_wait<0>();
        pin(pr);
        pin(product);
#pragma unroll
        for (int j = 0; C::two_level && j < C::head_dim / 2; ++j) o[j] += fresh[j];
        release(v_ring, i);
      };
      auto mask = [&](int n) {
        const int column = n * kN + 2 * quad, last = p.seqlen_k - column;
        int end[2] = {last, last};
        for (int r = 0; C::masked && r < 2; ++r) end[r] = min(last, row + 8 * r + p.end_offset - column);
        mask_where(s, [&](int j, int r) { return j >= end[r]; });
        if (C::masked && p.first_offset > -p.seqlen_q)
          mask_where(s, [&](int j, int r) { return j < row + 8 * r + p.first_offset - column; });
      };

      // One step: S of block n, its softmax, and O += P V of the block before it; the first has none before.
      auto step = [&](int n, auto first, auto masked) {
        constexpr bool kFirst = decltype(first)::value, kMasked = decltype(masked)::value;
        constexpr bool kStale = C::stale_maximum && !kMasked && !kFirst;
        if (loads) load_v(used, n, tile.kv_head);
        if (loads && n > tile.begin) load_k(used + 1, n - 1, tile.kv_head);
        if (C::fp8) {  // loaded a step before it is needed
          const float* k_scale = p.k_scale + int64_t{tile.kv_head} * p.k_blocks;
          if (kFirst) q_scale = p.scale_log2 * p.q_scale[int64_t{tile.head} * p.q_tiles + tile.q];
          scale_log2 = q_scale * (kFirst ? k_scale[n] : next_k_scale);
          next_k_scale = k_scale[max(n - 1, 0)];
          if (C::two_level && !kFirst) pin(scale_log2);  // computed here, before the products
        }
        if (kFirst || kEarly == 0) k_ring.wait_full(used);
        if (C::ping_pong && !kFirst) asm volatile("bar.sync %0, 256;" ::"r"(my_turn) : "memory");
        if (C::overlap || kFirst) start_qk(used);
        if (!kFirst) {
          v_ring.wait_full(used - 1);
          start_pv(used - 1);
          if (!C::overlap) wgmma_wait<0>(), start_qk(used);
          if (C::ping_pong) asm volatile("bar.arrive %0, 256;" ::"r"(next_turn) : "memory");
        }
        wgmma_wait<C::overlap && !kFirst ? 1 : 0>();
        pin(s);
        release(k_ring, used);
        if (C::early_q && n == tile.begin) release(q_ring, count);  // so that the next may come
        if (kMasked && (!kFirst || tile.clean_end < tile.end)) mask(n);
        if (!kStale) softmax.update_max<C::headroom>(s, rescale, scale_log2);
        // Part of the exponentials run behind P V. The compiler would move the wait for P V above them all;
        // the loop inside this (free) wait for the next K block ends a basic block and stops it.
        float sum[2] = {0.f, 0.f};
        softmax.exponentials<0, kEarly, false>(s, sum, scale_log2);
        if (kEarly > 0) {
          pin(s);
          if (n > tile.begin) k_ring.wait_full(used + 1);
          if (C::late_pv) come_first(sum, k_ring.full);
        }
        if (!kFirst) finish_pv(used - 1);
        softmax.exponentials<kEarly, kBlocks, C::stale_maximum && !kFirst && !C::late_pv>(s, sum, scale_log2);
        convert<E>(pr, s);
        if (!kStale && !kFirst) scale_rows(o, rescale);
        if constexpr (kStale)
          if (!fits<E, C::late_pv>(sum, pr)) {
            repair<E, C::headroom>(softmax, s, sum, rescale, scale_log2, p, place, n * kN);
            convert<E>(pr, s);
            scale_rows(o, rescale);
          }
        softmax.row_sum[0] += sum[0];
        softmax.row_sum[1] += sum[1];
        ++used;
      };
      if (loads) load_q(count, tile), load_k(used, tile.end - 1, tile.kv_head);
      q_ring.wait_full(count);
      if constexpr (C::q_in_registers) {
        const uint32_t rows = shared_address(sm.q[q_ring.stage(count)]) + warp_row() * 128;
#pragma unroll
        for (int j = 0; j < C::head_dim / 16; ++j)
          ldmatrix_x4(q[j], rows + j / 4 * C::block_q * 128 + swizzled<64>(lane % 16, j % 4 * 2 + lane / 16));
        tma_fence();  // or the next Q may overtake these reads: TMA writes it by another proxy
        __syncwarp();
        if (lane == 0) q_ring.release(count);
      }
      softmax = {};
#pragma unroll
      for (int i = 0; i < C::head_dim / 2; ++i) o[i] = 0.f;
      int n = tile.end - 1;
      step(n--, std::true_type{}, std::true_type{});
      if (C::masked)
        for (; n >= tile.clean_end; --n) step(n, std::false_type{}, std::true_type{});
      if (C::stale_maximum) expect_first_score(softmax);
      for (; n >= tile.clean_begin; --n) step(n, std::false_type{}, std::false_type{});
      if (C::masked)
        for (; n >= tile.begin; --n) step(n, std::false_type{}, std::true_type{});
      if (!C::q_in_registers && !C::early_q) release(q_ring, count);
      // The last O += P V.
      v_ring.wait_full(used - 1);
      start_pv(used - 1);
      float inverse[2];
      for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(softmax.row_sum[r]);
        const bool empty = sum == 0.f;
        inverse[r] = empty ? 0.f : (C::fp8 ? p.v_scale[tile.kv_head] : 1.f) / sum;
        if (p.lse != nullptr && quad == 0 && row + 8 * r < p.seqlen_q)
          p.lse[place.query_row + row + 8 * r] =
              empty ? -INFINITY : (softmax.reference[r] + __log2f(sum)) * 0.6931471805599453f;
      }
      finish_pv(used - 1);
      // Normalise and store, by way of shared memory, where 64 columns of 16 rows are a box.
      scale_rows(o, inverse);
      float zero = 0.f;  // NaN where O holds Inf or NaN
#pragma unroll
      for (int i = 0; C::masked && !C::fp8 && i < C::head_dim / 2; ++i) zero += o[i] * 0.f;
      auto packed = [&](int i) { return pack<typename D::Output>(o[2 * i], o[2 * i + 1]); };
      const uint32_t staged = shared_address(sm.o[warp_row() / 16]);
      for (int part = 0; part < C::head_dim / D::o_columns; ++part) {
        if (lane == 0) tma_store_wait_read();  // what lies there has left
        __syncwarp();
#pragma unroll
        for (int j = 0; j < D::o_columns / 16; ++j) {
          const int i = part * D::o_columns / 4 + 4 * j;
          stmatrix_x4(staged + j / 4 * 2048 + swizzled<64>(lane % 16, j % 4 * 2 + lane / 16), packed(i),
                      packed(i + 1), packed(i + 2), packed(i + 3));
        }
        tma_fence();
        __syncwarp();
        if (lane == 0) {
          for (int c = 0; c < D::o_columns; c += 64)
            tma_store(&maps.o, staged + c * 32, part * D::o_columns + c, row, tile.head);
          tma_store_commit();
        }
      }
      if constexpr (C::masked && !C::fp8)
        if (!__all_sync(~0u, zero == 0.f)) {
          if (lane == 0) tma_store_wait();
          __syncwarp();
          redo_rows<E>(p, place, softmax.reference, inverse);
        }
      if (!C::specialised) break;
    }
    if (lane == 0) tma_store_wait_read();  // before this shared memory is given back
  }
}

/// The kernel of a Config, as the host launches it.
template <template <class, int, bool> class C, class E, int HeadDim>
Instance instance(bool masked) {
  const auto of = [](auto config) -> Instance {
    using X = decltype(config);
    constexpr int kBytes = sizeof(Shared<X>) + Shared<X>::alignment;
    static_assert(kBytes <= 232448, "the tiles do not fit in shared memory");
    return {forward<X>, X::block_k, Shared<X>::threads, kBytes, X::schedule};
  };
  return masked ? of(C<E, HeadDim, true>{}) : of(C<E, HeadDim, false>{});
}

}  // namespace flashsim::gpu::fa3
