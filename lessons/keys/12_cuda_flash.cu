#include <cmath>

#include "lessons/exercises/given/cuda_flash.h"

namespace {

constexpr int rows = 64, keys = 32;  // a tile of queries, one a thread; a tile of keys in shared memory

__global__ void kernel(const float* q, const float* k, const float* v, float* o, float* lse, FlashProblem p) {
  __shared__ float K[keys][head_dim], V[keys][head_dim];
  const int head = blockIdx.y, row = blockIdx.x * rows + threadIdx.x;
  const bool alive = row < p.n_q;
  const float* key_rows = k + size_t(head) * p.n_k * head_dim;
  const float* value_rows = v + size_t(head) * p.n_k * head_dim;

  float Q[head_dim], O[head_dim], m = -INFINITY, l = 0;
  for (int c = 0; c < head_dim; ++c) {
    Q[c] = alive ? q[(size_t(head) * p.n_q + row) * head_dim + c] : 0;
    O[c] = 0;
  }
  const int last_key =
      p.causal ? min(p.n_k, row + p.n_k - p.n_q + 1) : p.n_k;  // one past the last this query sees

  for (int begin = 0; begin < p.n_k; begin += keys) {
    const int count = min(keys, p.n_k - begin);
    __syncthreads();  // nobody still reads the tile before
    for (int x = threadIdx.x; x < count * head_dim; x += rows) {
      K[x / head_dim][x % head_dim] = key_rows[size_t(begin) * head_dim + x];
      V[x / head_dim][x % head_dim] = value_rows[size_t(begin) * head_dim + x];
    }
    __syncthreads();
    const int seen = min(count, last_key - begin);
    float S[keys], m_new = m;
    for (int j = 0; j < seen; ++j) {
      S[j] = 0;
      for (int c = 0; c < head_dim; ++c) S[j] += Q[c] * K[j][c];
      S[j] *= p.scale;
      m_new = fmaxf(m_new, S[j]);
    }
    if (m_new == -INFINITY) continue;  // nothing seen yet
    const float correction = expf(m - m_new);
    l *= correction;
    for (int c = 0; c < head_dim; ++c) O[c] *= correction;
    for (int j = 0; j < seen; ++j) {
      const float weight = expf(S[j] - m_new);
      l += weight;
      for (int c = 0; c < head_dim; ++c) O[c] += weight * V[j][c];
    }
    m = m_new;
  }
  if (!alive) return;
  for (int c = 0; c < head_dim; ++c) o[(size_t(head) * p.n_q + row) * head_dim + c] = l > 0 ? O[c] / l : 0;
  lse[size_t(head) * p.n_q + row] = l > 0 ? m + logf(l) : -INFINITY;
}

}  // namespace

void flash_forward(const float* q, const float* k, const float* v, float* o, float* lse,
                   const FlashProblem& p) {
  kernel<<<dim3((p.n_q + rows - 1) / rows, p.heads), rows>>>(q, k, v, o, lse, p);
}
