#!/bin/sh
# The forward kernels as machine code: what makes them fast is there (tensor cores, TMA, registers moved between
# warpgroups), and nothing spills. Skipped (77) without a disassembler: the CUDA Toolkit's cuobjdump and nvdisasm, or
# pip's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm. Arguments: object files.
set -u
# Where pip puts the packages' programs: folder nvidia, named after CUDA's version below it.
pip_folders=$(python3 -c '
import importlib.util, os
spec = importlib.util.find_spec("nvidia")
places = spec.submodule_search_locations if spec else []
print(":".join(os.path.join(place, name, "bin") for place in places for name in os.listdir(place)))' 2>/dev/null)
PATH=$PATH:/usr/local/cuda/bin:$pip_folders
if ! command -v cuobjdump >/dev/null || ! command -v nvdisasm >/dev/null; then
  echo "skipped: cuobjdump and nvdisasm are needed to look at machine code"
  exit 77
fi
status=0 seen=0
for object in "$@"; do
  case $object in *forward_*) ;; *) continue ;; esac
  seen=$((seen + 1))
  code=$(cuobjdump -sass "$object") || { echo "cuobjdump cannot read $object"; exit 1; }
  case $object in *forward_fp8*) multiply=QGMMA ;; *) multiply=HGMMA ;; esac
  for needed in $multiply UTMALDG UTMASTG USETMAXREG; do
    case $code in *"$needed"*) ;; *) echo "$object: no $needed"; status=1 ;; esac
  done
  local_memory=$(printf '%s\n' "$code" | grep -cE '[[:space:]](STL|LDL)[.[:space:]]')
  [ "$local_memory" -eq 0 ] || { echo "$object: $local_memory accesses of local memory (registers spilled)"; status=1; }
done
[ "$seen" -gt 0 ] || { echo "no forward kernel among: $*"; exit 1; }
exit $status
