#!/usr/bin/env python3
"""sanitize.py with stand-ins for compute-sanitizer: what counts as clean, what fails, and what the record says."""
import json
import os
import subprocess
import sys
import tempfile

script = sys.argv[1]
sys.path.insert(0, os.path.dirname(script))
from sanitize import INSTANCES, TOOLS, verdict  # noqa: E402


def expect(condition, what):
    if not condition:
        sys.exit(f"sanitize_test: {what}")


clean = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
expect(verdict("racecheck", 0, clean) == ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", True), "a clean run is not clean")
for status, output in ((9, clean), (0, ""), (0, "flashsim: all within tolerance"),  # the tool did not run
                       (0, clean.replace("0 warnings", "2 warnings")), (0, "========= ERROR SUMMARY: 1 error"),
                       (0, "========= ERROR SUMMARY: 3 errors\n========= ERROR SUMMARY: 0 errors")):
    expect(not verdict("memcheck", status, output)[1], f"exit code {status} with '{output}' passes for clean")

with tempfile.TemporaryDirectory() as folder:
    tool = os.path.join(folder, "compute-sanitizer")
    with open(tool, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ncase \"$*\" in --version) echo 'Version 2025.3.0'; exit;;\n"
                   "*\"$BAD\"*) echo '========= ERROR SUMMARY: 1 error'; exit 9;; esac\n"
                   "echo '========= ERROR SUMMARY: 0 errors'\n")
    os.chmod(tool, 0o755)
    record_file = os.path.join(folder, "record.json")

    def run(bad, *arguments, path=folder):
        return subprocess.run([sys.executable, "-B", script, "--flashsim", "flashsim", "--logs", os.path.join(folder, "logs"), *arguments],
                              capture_output=True, text=True, env=dict(os.environ, PATH=f"{path}:/usr/bin:/bin", BAD=bad))

    everything = run("no such argument", "--json", record_file, "--commit", "abc")
    expect(everything.returncode == 0, f"clean runs fail: {everything}")
    with open(record_file, encoding="utf-8") as file:
        record = json.load(file)
    expect(record["passed"] and record["commit"] == "abc" and record["version"] == "2025.3.0", f"record: {record}")
    ran = {(r["tool"], r["kernel"], r["case"]) for r in record["results"]}
    expect(ran == {(t, k, c) for t in TOOLS for k, cases in INSTANCES.items() for c in cases}, "not every tool ran on every instance")
    bad = run("racecheck --error-exitcode 9 flashsim check --gpu --kernel fa2 --case 35", "--json", record_file)
    with open(record_file, encoding="utf-8") as file:
        record = json.load(file)
    expect(bad.returncode == 1 and not record["passed"] and "NOT CLEAN  racecheck fa2 case 35" in bad.stdout, f"an error passes: {bad}")
    expect([r for r in record["results"] if not r["clean"]] ==
           [dict(tool="racecheck", kernel="fa2", case=35, exit_code=9, summary="ERROR SUMMARY: 1 error", clean=False)], "record of the error")
    quick = run("", "--quick", path="/nowhere")
    expect(quick.returncode == 4 and "CUDA Toolkit" in quick.stderr, f"without the tool: {quick}")
