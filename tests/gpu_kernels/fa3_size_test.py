"""fa3's forward kernel stays small: all headers that nothing but fa3 uses, wherever they lie, have fewer than 900 lines.

    python3 fa3_size_test.py SOURCE_FOLDER
"""
import pathlib
import re
import sys

LIMIT = 900
root = pathlib.Path(sys.argv[1])
files = [f for folder in ("gpu_kernels", "cpu_reference", "simulator") for f in (root / folder).rglob("*")
         if f.suffix in (".h", ".cuh", ".cu", ".cpp")]
users = {}  # of a header: the files that include it
for f in files:
    for name in re.findall(r'#include "([^"]+)"', f.read_text(encoding="utf-8")):
        users.setdefault(root / name, set()).add(f)


def only_fa3(header, seen=()):
    """Whether each use of `header` is fa3's: by a file of its folder, or by a header that is only fa3's."""
    return all((root / "gpu_kernels" / "fa3") in f.parents or f in seen or
               (f.suffix in (".h", ".cuh") and f in users and only_fa3(f, (*seen, header))) for f in users[header])


lines = {f.relative_to(root): len(f.read_text(encoding="utf-8").splitlines())
         for f in files if f.suffix in (".h", ".cuh") and f in users and only_fa3(f)}
for name, count in sorted(lines.items(), key=str):
    print(f"{count:5} {name}")
total = sum(lines.values())
print(f"{total:5} in all; fewer than {LIMIT} are allowed")
found = pathlib.Path("gpu_kernels/fa3/forward.cuh") in lines
sys.exit(0 if found and total < LIMIT else 1)
