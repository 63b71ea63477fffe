#!/usr/bin/env python3
"""The tables that pages quote hold the records' numbers and provenance, and other files are refused."""
import json
import os
import subprocess
import sys
import tempfile

script = sys.argv[1]
source = {"device": {"name": "A GPU"}, "date": "2026-01-02T03:04:05Z", "commit": "abc1234"}
problem = {"batch": 64, "heads_q": 16, "heads_kv": 2, "seqlen_q": 1, "seqlen_k": 4096, "head_dim": 128, "dtype": "fp16", "causal": True}
bench = dict(source, command="bench", command_line="flashsim bench --suite gap", results=[
    {"problem": problem, "kernel": "decoding", "pass": "forward", "seconds_median": 0.00025, "rate": 4.2e12,
     "rate_unit": "bytes/s", "share_of_ceiling": 0.9, "ceiling": "read"},
    {"problem": dict(problem, seqlen_q=4096, heads_kv=16, causal=False), "kernel": "fa2", "pass": "backward",
     "seconds_median": 0.002, "rate": 3.5e14, "rate_unit": "FLOP/s", "share_of_ceiling": 0.5, "ceiling": "matmul"}])
ratio = {"kernel": "ours fa2", "peer": "cuDNN", "pass": "forward", "protocol": "alternating", "head_dim": 64, "causal": True}
peers = dict(source, command="peers", command_line="peers.py", ratios=[dict(ratio, n=512, ratio=1.25), dict(ratio, n=1024, ratio=0.875, ratio_low=0.8714, ratio_high=0.88)])

cpu = dict(source, command="cpu_record", command_line="cpu_record.py --jobs 2", device={"name": "A processor"},
           build={"jobs": 2, "program_seconds": 99.6, "tests_and_benchmarks_seconds": 50.2},
           start_up={"command": "flashsim --help", "runs": 51, "median_seconds": 0.0123},
           benchmarks=[{"name": "traffic/1", "real_time": 12.3, "time_unit": "ms"},
                       {"name": "numeric/2", "real_time": 45.6, "time_unit": "ms", "schedule_GFLOPs": 80.12, "ratio": 0.876}])

peers["geometric_means"] = [dict(kernel="ours fa2", peer="cuDNN", protocol="alternating", head_dim=d, ratio=r, smallest=r - 0.25, cases=c,
                                 **{"pass": "forward"}) for d, r, c in ((64, 1.25, 6), (None, 1.125, 12))]
sanitized = dict(source, command="sanitize", command_line="sanitize.py", results=[
    dict(tool=t, kernel="fa2", case=c, clean=(t, c) != ("racecheck", 35)) for t in ("memcheck", "racecheck") for c in (3, 35)])
compiled = dict(source, command="compile_time", command_line="compile_time.py BUILD", architectures=["sm_80", "sm_90a"], cpu_seconds=101.4,
                files=[dict(file=f"gpu_kernels/fa2/{n}.cu", cpu_seconds=s, kernels=8, kernels_that_spill=n == "b") for n, s in (("a", 50.71), ("b", 50.72))])
official = dict(source, command="beside_official", command_line="beside_official.py", fp16={"alternating": 1.0468}, fp8=[
    dict(head_dim=128, causal=True, n=4096, tflops={"kernel": 889.4, "with quantisation": 542.1, "cuDNN fp16": 600.0}, official=853.0,
         official_corrected=909.2, ratio=0.9782)])
fp8 = dict(source, command="check --fp8-table", command_line="flashsim check --fp8-table",
           rows=[dict(row="both", published=0.0091, rmse=dict(numeric_executor=0.009074, fa3=0.009172))])


def run(*arguments):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)


def expect(condition, what):
    if not condition:
        sys.exit(f"tables_test: {what}")


with tempfile.TemporaryDirectory() as folder:
    def file_of(name, content):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as opened:
            opened.write(content)
        return path

    both = run(file_of("bench.json", json.dumps(bench)), file_of("peers.json", json.dumps(peers)),
               file_of("cpu.json", json.dumps(cpu)), file_of("sanitizers.json", json.dumps(sanitized)),
               file_of("compile_time.json", json.dumps(compiled)), file_of("official.json", json.dumps(official)),
               file_of("fp8.json", json.dumps(fp8)))
    expect(both.returncode == 0, both.stderr)
    for line in ("| 128 | causal | 4096 | 889 | 542 | 853 | 909 | 0.978 |", "| both | 9.1e-03 | 9.07e-03 | 9.17e-03 |",
                 "`flashsim bench --suite gap`, A GPU, 2026-01-02T03:04:05Z, commit abc1234",
                 "| 64 x 16/2 x 1 x 4096, d 128, fp16, causal | decoding | forward | 0.250 ms | 4200 GB/s | 90.0% (read) |",
                 "| 64 x 16 x 4096, d 128, fp16 | fa2 | backward | 2.000 ms | 350.0 TFLOP/s | 50.0% (matmul) |",
                 "|---|---|---|---|---|---|",
                 "| pass | ours / peer | d | mask | protocol | n = 512 | n = 1024 |",
                 "| forward | ours fa2 / cuDNN | 64 | causal | alternating | 1.250 | 0.875 (0.871 to 0.880) |",
                 "`cpu_record.py --jobs 2`, A processor, 2026-01-02T03:04:05Z, commit abc1234",
                 "| fa2 | 3 35 | 2 of 2 clean | 1 of 2 clean |",
                 "| `gpu_kernels/fa2/` | 2 | 8 | 101.4 s | 1 |", "| all of them | 2 | 8 | 101 s, 51 s on two cores | 1 |",
                 "| clean build of the program, 2 compilers | 100 s |", "| then tests and benchmarks | 50 s |",
                 "| `flashsim --help`, median of 51 | 12.3 ms |", "| `traffic/1` | 12 ms |",
                 "| `numeric/2` | 46 ms, 80.1 GFLOP/s, 0.88 of Eigen's full-size products |"):
        expect(line in both.stdout.splitlines(), f"expected the line\n{line}\nin\n{both.stdout}")
    page = file_of("page.md", "Before.\n\n<!-- table peers.json means -->\nold\n<!-- end of table -->\n\n"
                   "<!-- table bench.json gap -->\n<!-- end of table -->\nAfter.\n")
    expect(run("--check", page).returncode == 1, "a page with other tables than its records' passed")
    expect(run("--update", page).returncode == 0, "the page was not updated")
    with open(page, encoding="utf-8") as opened:
        text = opened.read()
    for line in ("Before.", "After.", "<!-- table peers.json means -->", "<!-- end of table -->",
                 "| forward | ours fa2 / cuDNN | alternating | 1.125 | 12 | 0.875 | 1.250 |",
                 "| 64 x 16/2 x 1 x 4096, d 128, fp16, causal | forward | 0.250 ms |  |",
                 "| 64 x 16 x 4096, d 128, fp16 | backward |  | 2.000 ms |"):
        expect(line in text.splitlines(), f"expected the line\n{line}\nin the page\n{text}")
    expect("old" not in text, "the old table is still there")
    expect(run("--check", page).returncode == 0, "the updated page is said to be stale")
    lost = file_of("lost.md", "<!-- table none.json -->\n<!-- end of table -->\n")
    refused = run("--check", lost)
    expect(refused.returncode == 3 and "none.json" in refused.stderr, f"a page without its record was not refused: {refused}")
    for bad in (file_of("empty", ""), file_of("other.json", '{"command": "check"}'), os.path.join(folder, "none")):
        refused = run(bad)
        expect(refused.returncode == 3 and bad in refused.stderr and not refused.stdout, f"{bad} was not refused: {refused}")
    expect(run().returncode == 2, "no file: expected a usage error")
