#!/bin/sh
# no_spills_test.sh FOLDER: fails where ptxas reported spilled registers for a kernel of head_dim 64 or 128. FOLDER
# holds what ptxas said while the kernels were compiled, a file an object (cmake/keep_ptxas_report.sh). Kernels for
# head_dim 256 have 256 as a template argument and may spill.
set -eu
ls "$1"/*.txt >/dev/null 2>&1 || { echo "no reports of ptxas in $1"; exit 1; }
awk '
  /Compiling entry function/ { entry = $0; sub(/.*entry function ./, "", entry); sub(/. for .*/, "", entry); kernels++ }
  /bytes spill stores/ {
    for (i = 2; i <= NF; i++) if ($i == "spill") spilled = $(i - 2) != 0 || spilled
    if (spilled && entry ~ /Li256E/) wide++
    else if (spilled) { print "spills: " entry ": " $0; bad = 1 }
    spilled = 0
  }
  END {
    print kernels + 0 " kernels, " wide + 0 " with head_dim 256 spill"
    if (kernels + 0 == 0) { print "the reports name no kernel"; bad = 1 }
    exit bad
  }' "$1"/*.txt
