#!/usr/bin/env bash
# ./test.sh [PRESET...] [-- CTEST-ARGS]: installs what is missing, builds everything and runs every test.
# PRESET is one of CMakePresets.json: release (the default), dev, asan, ci, lint. For example: ./test.sh -- -R numeric
# lint compiles with clang-tidy, where a finding is an error, and runs no test: some 20 minutes on two processors.
set -u
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/cmake/setup.sh"

presets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    -h | --help)
      sed -n '2,4s/^# //p' "$root/test.sh"
      exit
      ;;
    -*)
      say "unknown option $1: arguments for ctest follow --, as in ./test.sh -- -R numeric"
      exit 2
      ;;
    *) presets+=("$1") ;;
  esac
  shift
done
[ $# -eq 0 ] || shift
[ ${#presets[@]} -gt 0 ] || presets=(release)

failed=()
for preset in "${presets[@]}"; do
  prepare "$preset" all || {
    failed+=("$preset (build)")
    continue
  }
  [ "$preset" != lint ] || continue
  say "testing build/$preset"
  (cd "$root" && ctest --preset "$preset" -j "$(job_count)" "$@") || failed+=("$preset")
done
if [ ${#failed[@]} -gt 0 ]; then
  say "failed: ${failed[*]}"
  exit 1
fi
