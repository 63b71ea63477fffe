/* The kernels for callers in C, or in Python by way of ctypes: gpu_kernels/measure/peers.py times them beside
 * PyTorch's in one process. Numbers mean what Problem, Tiling and Tensors (kernels.h) say they mean. */
#ifndef FLASHSIM_C_API_H
#define FLASHSIM_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLASHSIM_C __attribute__((visibility("default")))

typedef struct {
  int32_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim;
  int32_t dtype; /* 1 fp32, 2 fp16, 3 bf16, 4 e4m3 */
  int32_t causal, window_left, window_right;
  float softmax_scale, dropout_p;
  uint64_t dropout_seed;
  int32_t narrow_temporaries; /* fa1: not 0 keeps O and dQ in the inputs' dtype between visits */
  int32_t deterministic;      /* fa2 backward */
  int32_t num_splits;         /* decoding; 0: the kernel's choice */
} flashsim_problem;

/* Device pointers, null where unused. */
typedef struct {
  const void *q, *k, *v;
  void *o, *lse, *l, *m, *s, *p;
  const void* d_o;
  void *dq, *dk, *dv;
  const void *q_scale, *k_scale, *v_scale;
  void* workspace;
} flashsim_tensors;

enum { FLASHSIM_OK = 0, FLASHSIM_UNSUPPORTED = 1, FLASHSIM_CUDA_ERROR = 2, FLASHSIM_NO_SUCH_KERNEL = 3 };

/* What went wrong in this thread's last call that returned another code than FLASHSIM_OK. */
FLASHSIM_C const char* flashsim_error(void);

/* The registry; null beyond its end. */
FLASHSIM_C const char* flashsim_kernel_name(int32_t index);
FLASHSIM_C const char* flashsim_kernel_variant(int32_t index);

/* FLASHSIM_OK where the kernel computes the problem, in `bytes` the workspace it needs (bytes may be null).
 */
FLASHSIM_C int32_t flashsim_supports(const char* name, const char* variant, const flashsim_problem* problem,
                                     int32_t backward, size_t* bytes);

/* Launches on `stream` (a cudaStream_t) without waiting. */
FLASHSIM_C int32_t flashsim_launch(const char* name, const char* variant, const flashsim_problem* problem,
                                   int32_t backward, const flashsim_tensors* tensors, void* stream);

#ifdef __cplusplus
}
#endif

#endif
