#!/usr/bin/env python3
"""Measures how long a class takes to grade and writes the record.

    tests/benchmarks/grade_record.py FLASHSIM [--students N] [--exercises 1-10] [--output docs/measurements/grading.json]

Grades N copies of the keys with `flashsim grade --each --format csv` and a seed, and takes the processor time of flashsim, of the
compilers and of the students' programs together: it depends little on what else the machine does. Every copy must earn all points.
"""
import argparse
import datetime
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from cpu_record import processor

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("flashsim", type=pathlib.Path)
    arguments.add_argument("--students", type=int, default=20)
    arguments.add_argument("--exercises", default="1-10")
    arguments.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/measurements/grading.json")
    chosen = arguments.parse_args()
    version = json.loads(subprocess.run([chosen.flashsim, "exercise", "list", "--json"], capture_output=True, check=True).stdout)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for student in range(chosen.students):
            shutil.copytree(ROOT / "lessons/keys", pathlib.Path(folder) / f"student{student:03}")
        command = [chosen.flashsim, "grade", folder, "--each", "-x", chosen.exercises, "--seed", "s", "--format", "csv"]
        start = time.monotonic()
        graded = subprocess.run(command, capture_output=True, text=True, check=False)
        wall = time.monotonic() - start
    if graded.returncode != 0 or len(graded.stdout.splitlines()) != chosen.students + 1:
        sys.exit(f"grade_record.py: not every copy of the keys earns all points:\n{graded.stdout}{graded.stderr}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (used.ru_utime + used.ru_stime) / chosen.students
    record = {
        "schema_version": 1,
        "command": "grade_record",
        "command_line": f"tests/benchmarks/grade_record.py FLASHSIM --students {chosen.students} --exercises {chosen.exercises}",
        "flashsim_version": version["flashsim_version"],
        "device": {"name": processor(), "processors": os.cpu_count()},
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "load_average_before": load,
        "students": chosen.students,
        "exercises": chosen.exercises,
        "processor_seconds_a_student": seconds,
        "wall_seconds": wall,
        "processor_minutes_for_200_students": 200 * seconds / 60,
    }
    chosen.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{seconds:.2f} s of processor time a student; 200 students: {200 * seconds / 60:.0f} processor minutes")


if __name__ == "__main__":
    main()
