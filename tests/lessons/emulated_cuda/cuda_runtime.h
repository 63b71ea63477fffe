// As much of CUDA as the exercises use, on the processor: thread blocks one after another, and each of its
// threads a thread of the system, so that barriers and shuffles wait for each other as on a GPU.
#pragma once

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __shared__ static  // of the one block that runs; the next one finds what it left, as on a GPU

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

/// Until all that have not left have arrived. (C++20's, whose header takes longer to compile than all the
/// rest.)
class Barrier {
 public:
  void set(unsigned threads) { expected_ = threads; }
  void wait() { arrive(false); }
  void leave() { arrive(true); }

 private:
  void arrive(bool for_good) {
    pthread_mutex_lock(&mutex_);
    if (for_good)
      --expected_;
    else
      ++arrived_;
    if (arrived_ == expected_) {
      arrived_ = 0;
      ++round_;
      pthread_cond_broadcast(&all_here_);
    } else if (!for_good) {
      for (const unsigned mine = round_; round_ == mine;) pthread_cond_wait(&all_here_, &mutex_);
    }
    pthread_mutex_unlock(&mutex_);
  }
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t all_here_ = PTHREAD_COND_INITIALIZER;
  unsigned expected_ = 0, arrived_ = 0, round_ = 0;
};

constexpr unsigned most_threads = 1024;
struct Warp {
  Barrier barrier;
  float values[32];
};
struct Block {
  Barrier barrier;
  Warp warps[most_threads / 32];
};
inline thread_local Block* block = nullptr;
inline Warp& warp() { return block->warps[threadIdx.x / 32]; }

/// A grid of blocks of whole warps, one-dimensional.
class Launch {
 public:
  Launch(dim3 grid, dim3 threads) : grid_(grid), threads_(threads) {}
  template <class Kernel>
  void operator()(const Kernel& kernel) const {
    for (unsigned y = 0; y < grid_.y; ++y)
      for (unsigned x = 0; x < grid_.x; ++x) run({x, y, 0}, kernel);
  }

 private:
  template <class Kernel>
  struct Thread {
    const Launch* launch;
    const Kernel* kernel;
    Block* of;
    dim3 block_index, thread_index;
    pthread_t id;
    static void* run(void* self) {
      const Thread& t = *static_cast<Thread*>(self);
      threadIdx = t.thread_index;
      blockIdx = t.block_index;
      blockDim = t.launch->threads_;
      gridDim = t.launch->grid_;
      block = t.of;
      (*t.kernel)();
      warp().barrier.leave();
      block->barrier.leave();
      return nullptr;
    }
  };
  template <class Kernel>
  void run(dim3 index, const Kernel& kernel) const {
    Block of_all;
    of_all.barrier.set(threads_.x);
    Thread<Kernel> all[most_threads];
    for (unsigned t = 0; t < threads_.x; ++t) of_all.warps[t / 32].barrier.set(32);
    for (unsigned t = 0; t < threads_.x; ++t) {
      all[t] = {this, &kernel, &of_all, index, {t, 0, 0}, {}};
      if (pthread_create(&all[t].id, nullptr, all[t].run, &all[t]) != 0) abort();
    }
    for (unsigned t = 0; t < threads_.x; ++t) pthread_join(all[t].id, nullptr);
  }
  dim3 grid_, threads_;
};

}  // namespace emulated

inline void __syncthreads() { emulated::block->barrier.wait(); }
inline float __shfl_xor_sync(unsigned, float mine, int offset) {
  emulated::Warp& w = emulated::warp();
  const unsigned lane = threadIdx.x % 32;
  w.values[lane] = mine;
  w.barrier.wait();
  const float other = w.values[lane ^ static_cast<unsigned>(offset)];
  w.barrier.wait();
  return other;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

enum cudaError_t { cudaSuccess, cudaErrorNoDevice };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaMalloc(float** to, size_t bytes) {
  *to = static_cast<float*>(malloc(bytes));
  return cudaSuccess;
}
inline void cudaFree(void* p) { free(p); }
inline void cudaMemset(void* p, int value, size_t bytes) { memset(p, value, bytes); }
inline void cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { memcpy(to, from, bytes); }
