#!/bin/sh
# refuse_slow_code.sh fails where ptxas says that it serialised wgmma or ignored setmaxnreg, passes on the compiler's own
# status else.
# Arguments: the script, nvcc, the source folder, a scratch folder.
set -u
refuse=$1 nvcc=$2 source=$3 scratch=$4
mkdir -p "$scratch" || exit 1
compile() {
  "$refuse" "$nvcc" -std=c++17 -gencode arch=compute_90a,code=sm_90a -I"$source" -cubin -o "$scratch/out.cubin" "$1" 2>"$scratch/said"
}
fail() { echo "$1"; cat "$scratch/said"; exit 1; }

compile "$source/tests/gpu_kernels/serialised_wgmma.cu" && fail "serialised wgmma was not refused"
grep -q "refused: the kernel would be slow" "$scratch/said" || fail "expected the refusal to say why; it said:"

sed 's/d\[0\] += out\[i\];//' "$source/tests/gpu_kernels/serialised_wgmma.cu" >"$scratch/clean.cu"
compile "$scratch/clean.cu" || fail "the same kernel without the read was refused:"

setmaxnreg="$source/tests/gpu_kernels/ignored_setmaxnreg.cu"
compile "$setmaxnreg" && fail "ignored setmaxnreg was not refused"
grep -q "setmaxnreg" "$scratch/said" || fail "expected the message to name setmaxnreg; it said:"
sed 's/__global__ void/__global__ void __launch_bounds__(128, 1)/' "$setmaxnreg" >"$scratch/heeded.cu"
compile "$scratch/heeded.cu" || fail "the same kernel with launch bounds was refused:"

echo "this is not C++" >"$scratch/wrong.cu"
compile "$scratch/wrong.cu" && fail "a compiler error was swallowed"
exit 0
