#!/usr/bin/env python3
"""Processor time that compiling the CUDA kernels takes, file by file, and what ptxas says of their registers.

    python3 gpu_kernels/measure/compile_time.py BUILD [--only TEXT] [--leave-out TEXT] [--json FILE]

BUILD is a configured build folder with CUDA (it has compile_commands.json). Every CUDA file is compiled once, one after
another, without ccache; the object is thrown away. User and system time of the compiler and all it starts, so that a
machine that is busy with other things changes the figures little; half of their sum is what two idle cores need.
"""
import argparse
import datetime
import json
import os
import platform
import re
import resource
import shlex
import subprocess
import sys
import tempfile


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def command_of(entry, target):
    """The compiler's own words, without the programs that launch it, writing to `target`."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, w in enumerate(words) if os.path.basename(w) == "nvcc"):]
    words[words.index("-o") + 1] = target
    return words if any("-Xptxas" in w for w in words) else [*words, "-Xptxas=-v"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a configured build folder with CUDA")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--leave-out", help="no files whose path contains this")
    parser.add_argument("--json", help="write the record to this file")
    parser.add_argument("--commit", default="unknown", help="the commit of the sources")
    o = parser.parse_args()
    try:
        with open(os.path.join(o.build, "compile_commands.json")) as file:
            entries = [e for e in json.load(file) if e["file"].endswith(".cu") and o.only in e["file"]
                       and not (o.leave_out and o.leave_out in e["file"])]
    except OSError as error:
        print(f"compile_time.py: {error}; expected a folder that CMake has configured", file=sys.stderr)
        return 3
    if not entries:
        print("compile_time.py: the build has no CUDA files (of that name); configure it with FLASHSIM_CUDA=ON", file=sys.stderr)
        return 3
    files = []
    for entry in entries:
        with tempfile.TemporaryDirectory() as folder:
            words = command_of(entry, os.path.join(folder, "object.o"))
            before = used()
            run = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True)
            seconds = used() - before
        if run.returncode != 0:
            print(run.stderr, file=sys.stderr)
            return 1
        said = run.stdout + run.stderr
        spills = [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)]
        name = os.path.relpath(entry["file"], os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        files.append(dict(file=name, cpu_seconds=round(seconds, 2), kernels=len(re.findall("Compiling entry function", said)),
                          most_registers=max(map(int, re.findall(r"Used (\d+) registers", said)), default=0),
                          kernels_that_spill=sum(s > 0 for s in spills)))
        print(f"{seconds:7.2f} s  {files[-1]['kernels']:3d} kernels  {name}", flush=True)
    version = subprocess.run([words[0], "--version"], capture_output=True, text=True).stdout
    total = sum(f["cpu_seconds"] for f in files)
    print(f"{total:7.2f} s of processor time, {total / 2:.0f} s on two cores")
    if o.json:
        architectures = sorted(set(re.findall(r"sm_\d+a?", " ".join(words))))
        arguments = ["BUILD" if w == o.build else os.path.basename(w) if w == o.json else w for w in sys.argv[1:]]  # no folders of ours
        compiler = re.search(r"V[\d.]+", version).group(0)
        record = dict(schema_version=1, command="compile_time", command_line=" ".join(["compile_time.py", *arguments]), commit=o.commit,
                      date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                      device=dict(name=f"{platform.machine()}, nvcc {compiler[1:]}"), compiler=compiler, architectures=architectures,
                      cpu_seconds=round(total, 2), files=files)
        with open(o.json + ".part", "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
        os.replace(o.json + ".part", o.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
