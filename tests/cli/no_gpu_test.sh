#!/bin/sh
# no_gpu_test.sh FLASHSIM: where no GPU can be used, commands that need one say so and exit with 4.
export CUDA_VISIBLE_DEVICES=
flashsim=$1
failed=0
check() { # check NAME CONDITION...
  name=$1
  shift
  if ! "$@"; then echo "FAILED: $name"; failed=1; fi
}
# with_code CODE ARGUMENTS...: runs flashsim; output in $out and $err
with_code() {
  expected=$1
  shift
  out=$("$flashsim" "$@" 2>no_gpu_test.err)
  code=$?
  err=$(cat no_gpu_test.err)
  rm -f no_gpu_test.err
  check "flashsim $* exits with $expected, not $code" [ "$code" = "$expected" ]
}
contains() { case $1 in *"$2"*) true ;; *) false ;; esac; }

for command in "check --gpu" "check --gpu --kernel fa2 --case 3" bench "bench --n 128 --json"; do
  with_code 4 $command
  check "$command prints no data" [ -z "$out" ]
  check "$command says what is missing" contains "$err" "needs a GPU"
done
with_code 4 kernels
check "kernels says why none can run: $err" [ -n "$err" ]
with_code 4 doctor
check "doctor reports on the standard output" contains "$out" GPU
check "doctor says what is missing" contains "$out" missing
with_code 4 doctor --json
check "doctor --json is JSON" contains "$out" '"findings"'
with_code 2 bench --suite nonsense
with_code 2 bench --order sideways
with_code 2 bench --heads-together 0
with_code 2 check --gpu --order sideways
with_code 2 check --heads-together 2
check "check says that turns of heads are about CUDA kernels" contains "$err" "--gpu"
with_code 2 check --gpu --case x
with_code 0 bench --help
exit $failed
