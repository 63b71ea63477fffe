// FlashAttention-3 forward (Shah et al. 2024, Algorithms 1 and 2): one warp loads, two warpgroups compute.
// Each owns 64 rows of Q and goes through the keys from last to first; while the tensor cores work on S of
// the next block and O of this one, the exponentials of the block between them run elsewhere.
//
// Traffic: Q and O once, K and V once per 128 rows of Q (mostly from L2). What still hurts: the first softmax
// and the last product of a tile overlap with nothing inside their warpgroup, which short sequences feel.
#pragma once

#include <cuda.h>

#include "gpu_kernels/fa3/config.cuh"
#include "gpu_kernels/fa3/nonfinite.cuh"
#include "gpu_kernels/fa3/schedule.cuh"
#include "gpu_kernels/fa3/softmax.cuh"
#include "gpu_kernels/fa3/stale_maximum.cuh"
#include "gpu_kernels/fa3/tma.cuh"
#include "gpu_kernels/fa3/wgmma.cuh"

namespace flashsim::gpu::fa3 {

/// A fragments of 16 rows of Q, from the swizzled tile.
template <class C, int N>
__device__ __forceinline__ void load_q_fragments(uint32_t (&q)[N][4], uint32_t tile, int first_row) {
  const int lane = threadIdx.x % 32, row = first_row + lane % 16;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int piece = (i % 4 * 2 + lane / 16) ^ (row & 7);
    ldmatrix_x4(q[i], tile + i / 4 * C::block_q * 128 + row * 128 + piece * 16);
  }
}

/// 4 x 4 transpose across the four lanes of a quad: lane q's v[i] becomes lane i's v[q].
__device__ __forceinline__ void quad_transpose(uint32_t (&v)[4], int q) {
  const bool odd = q & 1, high = q & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(~0u, odd ? v[i] : v[i + 1], 1);
    (odd ? v[i] : v[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(~0u, high ? v[i] : v[i + 2], 2);
    (high ? v[i] : v[i + 2]) = got;
  }
}

template <class C>
__global__ void __launch_bounds__(Derived<C>::threads, 1)
    forward(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
            const __grid_constant__ CUtensorMap map_v, const __grid_constant__ CUtensorMap map_o,
            const ForwardParams p) {
  using D = Derived<C>;
  using E = typename C::Element;
  extern __shared__ char raw[];
  auto& sm = *reinterpret_cast<Shared<C>*>(raw + (-shared_address(raw) & (D::alignment - 1)));
  const Ring<1> q_ring{shared_address(&sm.q_full), shared_address(&sm.q_empty)};
  const Ring<C::stages> k_ring{shared_address(sm.k_full), shared_address(sm.k_empty)};
  const Ring<C::stages> v_ring{shared_address(sm.v_full), shared_address(sm.v_empty)};
  const Ring<1> tile_ring{shared_address(&sm.tile_full), shared_address(&sm.tile_empty)};

  if (threadIdx.x == 0) {
    prefetch_map(&map_q);
    prefetch_map(&map_k);
    prefetch_map(&map_v);
    if (C::tma_store) prefetch_map(&map_o);
    q_ring.init(C::q_in_registers ? 4 * D::warpgroups : D::warpgroups);
    k_ring.init(D::warpgroups);
    v_ring.init(D::warpgroups);
    tile_ring.init(D::warpgroups * 128);
    mbarrier_init_fence();
  }
  __syncthreads();

  // Loads, one TMA instruction per 128-byte chunk of columns. `i` counts the uses of the ring since the
  // start.
  auto load = [&](char* dst, const CUtensorMap& map, uint32_t bar, int bytes, int rows, int column, int row,
                  int head) {
    mbarrier_expect(bar, bytes);
#pragma unroll
    for (int c = 0; c < bytes / (128 * rows); ++c)
      tma_load(shared_address(dst) + c * rows * 128, &map, bar, column + c * D::chunk, row, head);
  };
  auto load_q = [&](int i, const Tile& tile) {
    q_ring.wait_empty(i);
    load(sm.q, map_q, q_ring.full_barrier(i), D::q_bytes, C::block_q, 0, tile.q * C::block_q, tile.head);
  };
  auto load_k = [&](int i, int n, int head) {
    k_ring.wait_empty(i);
    load(sm.k[k_ring.stage(i)], map_k, k_ring.full_barrier(i), D::kv_bytes, C::block_k, 0, n * C::block_k,
         head);
  };
  auto load_v = [&](int i, int n, int head) {  // in fp8 V^T: head_dim rows of one chunk of keys
    v_ring.wait_empty(i);
    load(sm.v[v_ring.stage(i)], map_v, v_ring.full_barrier(i), D::kv_bytes, C::fp8 ? C::head_dim : C::block_k,
         C::fp8 ? n * C::block_k : 0, C::fp8 ? 0 : n * C::block_k, head);
  };

  // The shuffle makes the role provably the same for the whole warp.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0) - (C::specialised ? 1 : 0);
  if (warpgroup < 0) {
    // ---------------------------------------------------------------------------------------- the producer
    give_up_registers<D::producer_registers>();
    if (threadIdx.x == 0) {
      int used = 0;  // blocks of K, and of V, loaded so far
      int count = 0;
      for (int t = blockIdx.x; t < p.tiles; ++count) {
        const Tile tile = tile_of<C::masked>(p, t);
        const KeyBlocks blocks = key_blocks<C::masked, C::block_q, C::block_k>(p, tile.q);
        const int head = tile.head / p.group;
        load_k(used, blocks.end - 1, head);
        load_q(count, tile);
        // The answer is needed at the end of this tile; its latency hides behind the loads.
        if (C::schedule == Schedule::dynamic) t = gridDim.x + atomicAdd(p.counter, 1);
        for (int n = blocks.end - 1; n > blocks.begin; --n, ++used) {
          load_k(used + 1, n - 1, head);
          load_v(used, n, head);
        }
        load_v(used++, blocks.begin, head);
        if (C::schedule == Schedule::dynamic) {
          tile_ring.wait_empty(count);
          sm.next_tile = t;
          mbarrier_arrive(tile_ring.full);
        } else {
          t = C::schedule == Schedule::fixed ? t + gridDim.x : p.tiles;
        }
      }
    }
  } else {
    // --------------------------------------------------------------------------------------- the consumers
    if (C::specialised) take_registers<D::consumer_registers>();
    const int lane = threadIdx.x % 32, quad = lane % 4;
    const int warp_row =
        warpgroup * 64 + threadIdx.x / 32 % 4 * 16;  // first of this warp's 16 rows of the tile
    const bool leader = threadIdx.x % 128 == 0;
    const bool loads = !C::specialised && warpgroup == 0 && leader;
    const int my_turn = 1 + warpgroup, next_turn = 1 + (warpgroup + 1) % D::warpgroups;  // named barriers

    constexpr int kN = C::block_k, kBlocks = kN / 8, kEarly = kBlocks * C::early_exp / 8;
    constexpr int kKeys = 32 / sizeof(E);  // one wgmma reduces over 32 bytes
    constexpr int kQChunk = C::block_q * 128 / 16, kKChunk = kN * 128 / 16, kStage = D::kv_bytes / 16;
    const uint64_t q_start = descriptor(shared_address(sm.q) + warpgroup * 64 * 128, 0);
    const uint64_t k_start = descriptor(shared_address(sm.k), 0);
    const uint64_t v_start = descriptor(shared_address(sm.v), C::fp8 ? 0 : kN * 128);
    constexpr int kHeadroom = C::headroom;

    float o[C::head_dim / 2], s[kN / 2], rescale[2];
    uint32_t pr[kN * sizeof(E) / 8];
    float fresh[C::two_level ? C::head_dim / 2 : 1];                     // P V of one block
    float scale_log2 = p.scale_log2, q_scale = 0.f, next_k_scale = 0.f;  // fp8: of S of this block, ...
    uint32_t q[C::q_in_registers ? C::head_dim / 16 : 1][4];
    Softmax softmax;
    int used = 0;  // blocks of K, and of V, finished
    int count = 0;

    if (C::ping_pong && warpgroup == D::warpgroups - 1) named_arrive(next_turn, 256);  // 0 goes first

    for (int t = blockIdx.x; t < p.tiles; ++count) {
      const Tile tile = tile_of<C::masked>(p, t);
      const KeyBlocks blocks = key_blocks<C::masked, C::block_q, kN>(p, tile.q);
      const int kv_head = tile.head / p.group;
      const int row = tile.q * C::block_q + warp_row + lane / 4;  // this thread's rows: this one and row + 8
      const Place place{int64_t{tile.head} * p.seqlen_q, int64_t{kv_head} * p.seqlen_k, row};

      auto take_turn = [&] {
        if (C::ping_pong) named_sync(my_turn, 256);
      };
      auto pass_turn = [&] {
        if (C::ping_pong) named_arrive(next_turn, 256);
      };
      auto release = [&](const auto& ring, int i) {
        if (leader) ring.release(i);
      };
      auto start_qk = [&](int i) {  // S = Q K^T, one group of wgmmas
        pin(s);
        wgmma_fence();
        const uint64_t k = k_start + k_ring.stage(i) * kStage;
#pragma unroll
        for (int j = 0; j < C::head_dim / kKeys; ++j) {
          if constexpr (C::q_in_registers)
            Wgmma<kN>::template rs<E, false>(s, q[j], k + j / 4 * kKChunk + j % 4 * 2, j > 0);
          else
            Wgmma<kN>::template ss<E>(s, q_start + j / 4 * kQChunk + j % 4 * 2,
                                      k + j / 4 * kKChunk + j % 4 * 2, j > 0);
        }
        wgmma_commit();
      };
      auto start_pv = [&](int i) {  // O += P V; 16 keys of V are 2048 bytes
        if constexpr (C::two_level)
          pin(fresh);
        else
          pin(o);
        pin(pr);
        wgmma_fence();
        const uint64_t v = v_start + v_ring.stage(i) * kStage;
#pragma unroll
        for (int j = 0; j < kN / kKeys; ++j) {
          if constexpr (C::two_level)
            Wgmma<C::head_dim>::template rs<E, false>(fresh, pr + 4 * j, v + j * 2, j > 0);
          else if constexpr (C::fp8)
            Wgmma<C::head_dim>::template rs<E, false>(o, pr + 4 * j, v + j * 2, 1);
          else
            Wgmma<C::head_dim>::template rs<E, true>(o, pr + 4 * j, v + j * 128, 1);
        }
        wgmma_commit();
      };
      auto finish_pv = [&] {
        wgmma_wait<0>();
        pin(pr);
        if constexpr (C::two_level) {
          pin(fresh);
#pragma unroll
          for (int i = 0; i < C::head_dim / 2; ++i) o[i] += fresh[i];
        } else {
          pin(o);
        }
      };
      auto mask = [&](int n) {
        const int column = n * kN + 2 * quad;
        int end[2] = {p.seqlen_k - column, p.seqlen_k - column};
        if (C::masked) {
#pragma unroll
          for (int r = 0; r < 2; ++r) end[r] = min(end[r], row + 8 * r + p.end_key - column);
        }
        mask_end(s, end);
        if (C::masked && p.first_key > -p.seqlen_q) {
          const int begin[2] = {row + p.first_key - column, row + 8 + p.first_key - column};
          mask_begin(s, begin);
        }
      };

      // The first block (the last in memory): S and its softmax; nothing to overlap with yet.
      if (loads) {
        load_q(count, tile);
        load_k(used, blocks.end - 1, kv_head);
        load_v(used, blocks.end - 1, kv_head);
        if (blocks.end - 2 >= blocks.begin) load_k(used + 1, blocks.end - 2, kv_head);
      }
      q_ring.wait_full(count);
      if constexpr (C::q_in_registers) {
        load_q_fragments<C>(q, shared_address(sm.q), warp_row);
        __syncwarp();
        if (lane == 0) q_ring.release(count);
      }
      k_ring.wait_full(used);
      start_qk(used);
      wgmma_wait<0>();
      pin(s);
      release(k_ring, used);
      if (blocks.clean_end < blocks.end) mask(blocks.end - 1);
      if (C::fp8) {
        const float* k_scale = p.k_scale + int64_t{kv_head} * p.k_blocks;
        q_scale = p.scale_log2 * p.q_scale[int64_t{tile.head} * p.q_tiles + tile.q];
        scale_log2 = q_scale * k_scale[blocks.end - 1];
        next_k_scale = k_scale[max(blocks.end - 2, 0)];
      }
      softmax.reset();
      softmax.update_max<kHeadroom>(s, rescale, scale_log2);
      softmax.exponentials<0, kBlocks, false>(s, softmax.row_sum, scale_log2);
      convert<E>(pr, s);
#pragma unroll
      for (int i = 0; i < C::head_dim / 2; ++i) o[i] = 0.f;

      // One step: S of block n (use `used + 1` of the ring), its softmax, and O += P V of the block before
      // it.
      auto step = [&](int n, auto masked) {
        constexpr bool kMasked = decltype(masked)::value, kStale = C::stale_maximum && !kMasked;
        if (loads) {
          load_v(used + 1, n, kv_head);
          if (n > blocks.begin) load_k(used + 2, n - 1, kv_head);
        }
        float sum[2] = {0.f, 0.f};
        if (C::fp8) {  // loaded a step before it is needed
          scale_log2 = q_scale * next_k_scale;
          next_k_scale = p.k_scale[int64_t{kv_head} * p.k_blocks + max(n - 1, 0)];
        }
        if (kEarly == 0) k_ring.wait_full(used + 1);
        take_turn();
        if (C::overlap) start_qk(used + 1);
        v_ring.wait_full(used);
        start_pv(used);
        if (!C::overlap) {
          wgmma_wait<0>();
          start_qk(used + 1);
        }
        pass_turn();
        wgmma_wait<C::overlap ? 1 : 0>();
        pin(s);
        release(k_ring, used + 1);
        if (kMasked) mask(n);
        if (!kStale) softmax.update_max<kHeadroom>(s, rescale, scale_log2);
        // Part of the exponentials run behind P V. The compiler would move the wait for P V above all of
        // them; the loop inside this (free) wait for the next K block ends a basic block and stops it.
        softmax.exponentials<0, kEarly, false>(s, sum, scale_log2);
        if (kEarly > 0) {
          pin(s);
          if (n > blocks.begin) k_ring.wait_full(used + 2);
        }
        finish_pv();
        release(v_ring, used);
        softmax.exponentials<kEarly, kBlocks, C::stale_maximum>(s, sum, scale_log2);
        convert<E>(pr, s);
        if (!kStale) scale_rows(o, rescale);
        if constexpr (kStale)
          if (!fits<E>(sum, pr)) {
            repair<E, kHeadroom>(softmax, s, sum, rescale, scale_log2, p, place, n * kN);
            convert<E>(pr, s);
            scale_rows(o, rescale);
          }
        softmax.row_sum[0] += sum[0];
        softmax.row_sum[1] += sum[1];
        ++used;
      };
      int n = blocks.end - 2;
      if (kEarly > 0 && n >= blocks.begin) k_ring.wait_full(used + 1);
      if (C::masked)
        for (; n >= max(blocks.begin, blocks.clean_end); --n) step(n, std::true_type{});
      if (C::stale_maximum) expect_first_score(softmax);
      for (; n >= max(blocks.begin, blocks.clean_begin); --n) step(n, std::false_type{});
      if (C::masked)
        for (; n >= blocks.begin; --n) step(n, std::true_type{});
      if (!C::q_in_registers) release(q_ring, count);

      // The last O += P V.
      v_ring.wait_full(used);
      start_pv(used);
      if (C::schedule == Schedule::one_tile) t = p.tiles;
      if (C::schedule == Schedule::fixed) t += gridDim.x;
      if (C::schedule == Schedule::dynamic) {
        tile_ring.wait_full(count);
        t = __shfl_sync(~0u, sm.next_tile, 0);
        tile_ring.release(count);
      }
      float inverse[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(softmax.row_sum[r]);
        const bool empty = sum == 0.f;
        inverse[r] = empty ? 0.f : (C::fp8 ? p.v_scale[kv_head] : 1.f) / sum;
        if (p.lse != nullptr && quad == 0 && row + 8 * r < p.seqlen_q)
          p.lse[int64_t{tile.head} * p.seqlen_q + row + 8 * r] =
              empty ? -INFINITY : (softmax.reference[r] + __log2f(sum)) * 0.6931471805599453f;
      }
      finish_pv();
      release(v_ring, used);
      ++used;

      // Normalise and store.
      scale_rows(o, inverse);
      uint32_t not_finite = 0;
      auto packed = [&](int i) {
        const uint32_t v = pack<typename D::Output>(o[2 * i], o[2 * i + 1]);
        if (C::masked && !C::fp8) not_finite = add_zero_times<E>(v, not_finite);
        return v;
      };
      if constexpr (C::tma_store) {  // 64 columns of 16 rows are a box; through shared memory
        const uint32_t staged = shared_address(sm.o[warp_row / 16]);
#pragma unroll
        for (int part = 0; part < C::head_dim / D::o_columns; ++part) {
          if (lane == 0) tma_store_wait_read();  // what lies there has left
          __syncwarp();
#pragma unroll
          for (int j = 0; j < D::o_columns / 16; ++j) {
            const int i = part * D::o_columns / 4 + 4 * j, piece = (j % 4 * 2 + lane / 16) ^ (lane & 7);
            stmatrix_x4(staged + j / 4 * 2048 + lane % 16 * 128 + piece * 16, packed(i), packed(i + 1),
                        packed(i + 2), packed(i + 3));
          }
          tma_fence();
          __syncwarp();
          if (lane == 0) {
#pragma unroll
            for (int c = 0; c < D::o_columns; c += 64)
              tma_store(&map_o, staged + c * 32, part * D::o_columns + c, row, tile.head);
            tma_store_commit();
          }
        }
      } else {  // quads exchange columns so that every lane writes 16 bytes
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          E* dst = static_cast<E*>(p.o) + (place.query_row + row + 8 * r) * p.head_dim;
#pragma unroll
          for (int j = 0; j < C::head_dim / 8; j += 4) {
            uint32_t v[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) v[i] = packed(2 * (j + i) + r);
            quad_transpose(v, quad);
            if (row + 8 * r < p.seqlen_q && 8 * (j + quad) < p.head_dim)
              *reinterpret_cast<uint4*>(dst + 8 * (j + quad)) = make_uint4(v[0], v[1], v[2], v[3]);
          }
        }
      }
      if constexpr (C::masked && !C::fp8)
        if (__any_sync(~0u, (not_finite & 0x7fff7fff) != 0)) {
          if (C::tma_store && lane == 0) tma_store_wait();
          __syncwarp();
          redo_rows<E, C::head_dim>(p, place, softmax.reference, inverse);
        }
    }
    if (C::tma_store && lane == 0) tma_store_wait_read();  // before this shared memory is given back
  }
}

}  // namespace flashsim::gpu::fa3
