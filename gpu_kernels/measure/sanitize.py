#!/usr/bin/env python3
"""compute-sanitizer's tools on a reduced list of cases: every compiled kernel of the ladder at least once.

    python3 gpu_kernels/measure/sanitize.py --flashsim build/gpu/bin/flashsim --logs DIR [--json FILE] [--quick]

One process for each tool and instance (`flashsim check --gpu --kernel NAME --case NUMBER`, which also compares the results),
several at a time. An instance is clean where the tool and flashsim both exit 0 and the tool's summary counts nothing.
Exit code 1 where one is not clean, 4 without compute-sanitizer.
"""
import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import subprocess
import sys

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Numbers of gpu_kernels/check/cases.cpp. Each dtype, padded head_dim, with dropout and without, masks, rows that share tiles
# with Inf and NaN; ragged tiles throughout. --quick takes the first of each kernel.
INSTANCES = {
    "standard": (23, 10, 35),
    "softmax": (10, 95, 98),
    "fa1": (35, 5, 10, 23, 48, 50, 54),
    "fa2": (35, 3, 5, 10, 11, 22, 23, 31, 48, 50, 54, 70, 74, 81),
    "fa3": (23, 5, 10, 35, 81),
    "decoding": (35, 10, 23, 64, 81),
}
SECONDS = 150  # for one process; racecheck takes 15
COUNTS = re.compile(r"(\d+) (errors?|hazards?|warnings?)\b")


def verdict(tool, status, output):
    """The tool's summary, and whether it counts nothing and everybody exited 0."""
    summaries = [line.split("=", 9)[-1].strip() for line in output.splitlines() if " SUMMARY: " in line]
    counted = [int(number) for summary in summaries for number, _ in COUNTS.findall(summary)]
    return (summaries or ["no summary"])[-1], status == 0 and bool(counted) and not any(counted)


def run(tool, kernel, case, o):
    words = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", o.flashsim, "check", "--gpu", "--kernel", kernel,
             "--case", str(case)]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = 124, (late.stdout or b"").decode(errors="replace")
    summary, clean = verdict(tool, status, output)
    log = os.path.join(o.logs, f"{tool}_{kernel}_{case}.txt")
    with open(log, "w", encoding="utf-8") as file:
        file.write(output)
    if not clean:
        print(f"NOT CLEAN  {tool} {kernel} case {case}: exit code {status}, {summary}; see {log}", flush=True)
    return dict(tool=tool, kernel=kernel, case=case, exit_code=status, summary=summary, clean=clean)


def device():
    fields = ("name", "driver_version")
    if not shutil.which("nvidia-smi"):
        return dict(name="unknown")
    said = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"], capture_output=True, text=True)
    if said.returncode != 0 or not said.stdout:
        return dict(name="unknown")
    return dict(zip(("name", "driver"), said.stdout.splitlines()[0].split(", ")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashsim", required=True, help="the program, built with CUDA")
    parser.add_argument("--logs", required=True, help="folder for the tools' output")
    parser.add_argument("--json", help="write the record to this file")
    parser.add_argument("--commit", default="unknown", help="the commit flashsim was built from")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1), help="processes at a time")
    parser.add_argument("--quick", action="store_true", help="one case a kernel")
    o = parser.parse_args()
    if not shutil.which("compute-sanitizer"):
        print("sanitize.py: no compute-sanitizer on PATH; it comes with the CUDA Toolkit", file=sys.stderr)
        return 4
    os.makedirs(o.logs, exist_ok=True)
    work = [(tool, kernel, case) for tool in sorted(TOOLS, key="racecheck".__ne__)  # the slow one first
            for kernel, cases in INSTANCES.items() for case in cases[:1 if o.quick else None]]
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        results = list(pool.map(lambda w: run(*w, o), work))
    clean = collections.Counter(r["tool"] for r in results if r["clean"])
    for tool in TOOLS:
        print(f"{tool:10} {clean[tool]} of {sum(r['tool'] == tool for r in results)} instances clean")
    if o.json:
        version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True).stdout
        record = dict(schema_version=1, command="sanitize", command_line=" ".join(["sanitize.py", *sys.argv[1:]]), commit=o.commit,
                      date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), device=device(),
                      version=(re.findall(r"[Vv]ersion (\S+)", version) or ["unknown"])[0],
                      passed=all(r["clean"] for r in results), results=results)
        with open(o.json + ".part", "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
        os.replace(o.json + ".part", o.json)
    return 0 if all(r["clean"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
