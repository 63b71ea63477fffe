#!/usr/bin/env bash
# check_format.sh FOLDER: fails where clang-format would change a source below FOLDER. Exits 77 (skipped) without
# clang-format 14: other versions format differently.
set -u
for tool in clang-format-14 clang-format; do
  case $("$tool" --version 2>/dev/null) in *'version 14.'*) break ;; esac
  tool=
done
if [ -z "$tool" ]; then
  echo "SKIPPED: clang-format 14 is not installed (package clang-format-14)"
  exit 77
fi
cd "$1" || exit 1
mapfile -d '' files < <(find cpu_reference simulator gpu_kernels lessons tests -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0)
[ ${#files[@]} -gt 0 ] || { echo "no sources found below $1" && exit 1; }
"$tool" --dry-run --Werror "${files[@]}" || { echo "run: $tool -i on the files above" && exit 1; }
