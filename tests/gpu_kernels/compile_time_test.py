"""compile_time_test.py SCRIPT: gpu_kernels/measure/compile_time.py with a stand-in for nvcc."""
import json
import os
import subprocess
import sys
import tempfile

NVCC = """#!/bin/sh
[ "$1" = --version ] && { echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0; }
case "$*" in *broken*) echo "broken.cu(1): error: stand-in" >&2; exit 2 ;; esac
i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done
while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done
echo "ptxas info    : Compiling entry function 'a' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
ptxas info    : Compiling entry function 'b' for 'sm_90a'
    8 bytes stack frame, 0 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers" >&2
"""


def run(script, *arguments):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)


def main():
    script = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        nvcc = os.path.join(folder, "nvcc")
        with open(nvcc, "w") as file:
            file.write(NVCC)
        os.chmod(nvcc, 0o755)
        names = ["one/a.cu", "two/b.cu", "two/broken.cu", "host.cpp"]
        entries = [dict(directory=folder, file=os.path.join(folder, n),
                        command=f"keep_report.sh ccache {nvcc} -gencode arch=compute_90a,code=sm_90a -c {n} -o {n}.o") for n in names]
        with open(os.path.join(folder, "compile_commands.json"), "w") as file:
            json.dump(entries, file)
        record = os.path.join(folder, "record.json")

        good = run(script, folder, "--leave-out", "broken", "--json", record)
        assert good.returncode == 0, good.stderr
        with open(record) as file:
            got = json.load(file)
        assert [f["kernels"] for f in got["files"]] == [2, 2], got  # the C++ file is left out, too
        assert all(f["most_registers"] == 255 and f["kernels_that_spill"] == 1 for f in got["files"]), got
        assert all(f["cpu_seconds"] > 0 for f in got["files"]), got
        assert abs(got["cpu_seconds"] - sum(f["cpu_seconds"] for f in got["files"])) < 0.02, got
        assert got["compiler"] == "V13.0.88" and got["architectures"] == ["sm_90a"], got
        assert not os.path.exists(os.path.join(folder, "one/a.cu.o"))  # objects are thrown away

        assert len(run(script, folder, "--only", "two/b.cu").stdout.splitlines()) == 2
        failed = run(script, folder)
        assert failed.returncode == 1 and "error: stand-in" in failed.stderr, failed
        none = run(script, folder, "--only", "three")
        assert none.returncode == 3 and "FLASHSIM_CUDA=ON" in none.stderr, none
        missing = run(script, os.path.join(folder, "one"))
        assert missing.returncode == 3 and "CMake has configured" in missing.stderr, missing
    return 0


if __name__ == "__main__":
    sys.exit(main())
