#!/usr/bin/env bash
# Builds, checks and times everything on a machine with a GPU and writes the records.
#
#   gpu_kernels/measure/gpu_run.sh [--quick] [--build DIR] [--records DIR] [--commit TEXT] [STEP...]
#
# Steps, in this order (all of them without any): build check test sanitize bench peers. --quick takes fewer cases
# (under 2 minutes instead of 7). Records go to docs/measurements/ unless --records says otherwise, logs to
# DIR/gpu_run/. A step that fails does not stop the later ones; the exit code is 1 if any did, 4 without a GPU.
# Needs nvcc, CMake, Ninja and what flashsim needs; peers also python3 with PyTorch.
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

# run NAME LIMIT COMMAND...: with a time limit, output to a log, one line in the summary.
run() {
  local name=$1 limit=$2 start=$SECONDS status
  shift 2
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
  run build 400 ninja -C "$build" || exit 1
}
check() {
  record gpu_fp8_table.json "$flashsim" check --fp8-table
  limit=240 record gpu_check.json "$flashsim" check --gpu --cases $([ "$quick" ] && echo 60 || echo 500) --seed 1
}
test() { FLASHSIM_REQUIRE_GPU=1 run test 240 ctest --test-dir "$build" -L gpu --output-on-failure -j 1; }
# A reduced list of cases: first launches, ragged tiles, masks, dropout, Inf and NaN. racecheck is the slow one.
sanitize() {
  local tool cases=1,2,3,5 tools='memcheck racecheck initcheck synccheck'
  [ "$quick" ] && cases=2,5
  for tool in $tools; do  # all at once: they mostly wait
    (run "sanitize-$tool" 200 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$flashsim" check --gpu --case $cases; status=$?; echo "${summary[-1]}" > "$logs/$tool.summary"; exit $status) &
  done
  for tool in $tools; do wait -n || failed=1; done
  for tool in $tools; do summary+=("$(cat "$logs/$tool.summary")"); done
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

for step in "${steps[@]}"; do $step; done
"$flashsim" doctor
printf '\n%s\n' "$(printf '%s\n' "${summary[@]}")" "total $((SECONDS - begin)) s, records in $records, logs in $logs"
exit $failed
