#!/usr/bin/env python3
"""Measures what the README promises of the processor side and writes the record.

    tests/benchmarks/cpu_record.py [--jobs N] [--output docs/measurements/cpu_benchmark.json]

Builds the release without CUDA from nothing, in a scratch folder and without a compiler cache: first the program,
then the tests and benchmarks. Then times the start of `flashsim --help` (median of 51) and runs simulator_benchmark. Needs what
flashsim needs, Google Benchmark, and a machine that does nothing else.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def processor():
    """The processor's name as Linux gives it."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def seconds(command, **options):
    """Runs `command` to its end, silently, and gives the wall time; ends this program if it fails."""
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"cpu_record.py: {' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.monotonic() - start


def build(folder, jobs):
    environment = dict(os.environ, CCACHE_DISABLE="1")
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DFLASHSIM_CUDA=OFF",
                 "-DFLASHSIM_BENCHMARKS=ON", "-DFLASHSIM_NATIVE=ON"]
    make = ["cmake", "--build", folder, "-j", str(jobs)]
    return {
        "jobs": jobs,
        "configure_seconds": seconds(configure, env=environment),
        "program_seconds": seconds(make + ["--target", "flashsim"], env=environment),
        "tests_and_benchmarks_seconds": seconds(make, env=environment),
    }


def start_up(flashsim, runs=51):
    times = [seconds([flashsim, "--help"]) for _ in range(runs)]
    return {"command": "flashsim --help", "runs": runs, "median_seconds": statistics.median(times),
            "largest_seconds": max(times)}


def benchmarks(folder):
    command = ["./simulator_benchmark", "--benchmark_format=json"]
    done = subprocess.run(command, cwd=folder / "bin", capture_output=True, text=True, check=True)
    # Of Google Benchmark's own fields only the name, the time and our counters tell of the program.
    kept = ("name", "iterations", "real_time", "cpu_time", "time_unit", "requested_GB", "schedule_GFLOPs",
            "products_GFLOPs", "ratio")
    return [{key: row[key] for key in kept if key in row} for row in json.loads(done.stdout)["benchmarks"]]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=2, help="compilers at once (default 2)")
    arguments.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/measurements/cpu_benchmark.json")
    chosen = arguments.parse_args()
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude", "*"], cwd=ROOT, capture_output=True,
                            text=True, check=False).stdout.strip() or "unknown"
    record = {
        "schema_version": 1,
        "command": "cpu_record",
        "command_line": f"tests/benchmarks/cpu_record.py --jobs {chosen.jobs}",
        "device": {"name": processor(), "processors": os.cpu_count()},
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit,
        "load_average_before": round(os.getloadavg()[0], 2),
    }
    with tempfile.TemporaryDirectory(prefix="flashsim-benchmark-") as scratch:
        folder = pathlib.Path(scratch)
        record["build"] = build(folder, chosen.jobs)
        record["start_up"] = start_up(folder / "bin/flashsim")
        record["benchmarks"] = benchmarks(folder)
    chosen.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
