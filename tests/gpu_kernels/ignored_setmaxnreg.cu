// A kernel whose setmaxnreg ptxas ignores: it does not know how many registers a thread begins with.
__global__ void ignored_setmaxnreg(float* out) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  out[threadIdx.x] = 1.f;
}
