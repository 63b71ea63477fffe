#!/usr/bin/env bash
# Builds, checks and times everything on a machine with a GPU and writes the records.
#
#   gpu_kernels/measure/gpu_run.sh [--quick] [--build DIR] [--records DIR] [--commit TEXT] [STEP...]
#
# Steps, in this order (all of them without any): build check test sanitize bench peers. --quick takes fewer cases
# (2 minutes instead of 6). Records go to docs/measurements/ unless --records says otherwise, and from there into the
# pages' tables; logs to DIR/gpu_run/. A step that fails does not stop the later ones; the exit code is 1 if any did, 4
# without a GPU, 3 where the build fails. Needs nvcc, CMake, Ninja, python3 and what flashsim needs; peers PyTorch, too.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=build/gpu records=docs/measurements quick= commit= steps=()
while [ $# -gt 0 ]; do
  case $1 in
  --quick) quick=1 ;;
  --build) build=$2; shift ;;
  --records) records=$2; shift ;;
  --commit) commit=$2; shift ;;
  build | check | test | sanitize | bench | peers) steps+=("$1") ;;
  *) echo "gpu_run.sh: unknown argument '$1'; see the head of the script" >&2; exit 2 ;;
  esac
  shift
done
[ ${#steps[@]} -gt 0 ] || steps=(build check test sanitize bench peers)
export PATH=$PATH:/usr/local/cuda/bin
[ -n "$commit" ] || commit=$(git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
logs=$build/gpu_run
mkdir -p "$build" "$records" "$logs"
flashsim=$build/bin/flashsim
summary=()
begin=$SECONDS

# run NAME LIMIT COMMAND...: with a time limit, output to a log, one line in the summary. All of it ends within 10
# minutes: a command gets what is left, and none starts when nothing is.
run() {
  local name=$1 limit=$2 start=$SECONDS status left=$((590 - (SECONDS - begin)))
  shift 2
  [ "$limit" -le $left ] || limit=$left
  if [ "$limit" -le 0 ]; then
    summary+=("$(printf '%-16s %-8s' "$name" "NO TIME")") failed=1
    return 1
  fi
  echo "--- $name: $*"
  timeout --kill-after=5 "$limit" "$@" > "$logs/$name.log" 2>&1
  status=$?
  summary+=("$(printf '%-16s %-8s %4d s' "$name" "$([ $status = 0 ] && echo ok || echo "FAILED:$status")" $((SECONDS - start)))")
  [ $status = 0 ] || { failed=1; tail -n 25 "$logs/$name.log"; }
  return $status
}
# record FILE COMMAND...: what the command prints becomes the record, if it succeeds or a check fails.
record() {
  local file=$1
  shift
  run "$(basename "$file" .json)" "${limit:-240}" "$@" --json --output "$records/$file"
}
failed=0

build() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  [ -n "$architecture" ] || { echo "gpu_run.sh: nvidia-smi finds no GPU" >&2; exit 4; }
  [ "$architecture" != 90 ] || architecture=90a
  run configure 120 cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFLASHSIM_CUDA=ON \
    -DFLASHSIM_CUDA_ARCHITECTURES="$architecture" -DFLASHSIM_TESTS_GPU_ONLY=ON \
    -DFLASHSIM_COMMIT="$commit" || return
  run build 400 ninja -C "$build"
}
check() {
  record gpu_fp8_table.json "$flashsim" check --fp8-table
  limit=240 record gpu_check.json "$flashsim" check --gpu --cases $([ "$quick" ] && echo 60 || echo 500) --seed 1
}
test() { FLASHSIM_REQUIRE_GPU=1 run test 240 ctest --test-dir "$build" -L gpu --output-on-failure -j 1; }
sanitize() {
  run gpu_sanitizers 240 python3 gpu_kernels/measure/sanitize.py --flashsim "$flashsim" --logs "$logs/sanitize" --commit "$commit" \
    --json "$records/gpu_sanitizers.json" $([ "$quick" ] && echo --quick)
}
bench() {
  record gpu_bench_gap.json "$flashsim" bench --suite gap
  record gpu_bench_decoding.json "$flashsim" bench --suite decoding
  record gpu_bench_softmax.json "$flashsim" bench --suite softmax
  [ "$quick" ] || record gpu_bench_flash.json "$flashsim" bench --suite flash --kernel fa2
  [ "$quick" ] || record gpu_bench_flash_fa3.json "$flashsim" bench --suite flash --kernel fa3
}
peers() {
  run peers 280 python3 gpu_kernels/measure/peers.py --library "$build/lib/libflashsim_c.so" --commit "$commit" \
    --json "$records/gpu_peers.json" $([ "$quick" ] && echo --quick)
  grep -v '^WORSE\|^FAILED' "$logs/peers.log" | tail -n 200
  [ "$quick" ] && return
  run beside_official 120 python3 gpu_kernels/measure/beside_official.py --library "$build/lib/libflashsim_c.so" --commit "$commit" \
    --peers "$records/gpu_peers.json" --json "$records/gpu_beside_official.json"
  cat "$logs/beside_official.log"
}

for step in "${steps[@]}"; do
  $step
  if [ "$step" = build ] && [ $failed = 1 ]; then
    echo "gpu_run.sh: the build failed, see $logs" >&2
    exit 3
  fi
done
[ "$records" != docs/measurements ] || run tables 20 python3 gpu_kernels/measure/tables.py --update docs/performance.md docs/kernels/*.md
"$flashsim" doctor
printf '\n%s\n' "$(printf '%s\n' "${summary[@]}")" "total $((SECONDS - begin)) s, records in $records, logs in $logs"
exit $failed
