#!/usr/bin/env python3
"""Records of flashsim bench, peers.py and cpu_record.py as Markdown tables, for the pages that quote them.

    python3 gpu_kernels/measure/tables.py docs/measurements/gpu_bench_gap.json [FILE...]

Each table is headed by the command, the device, the date and the commit that the record names.
"""
import json
import sys


def problem_text(p):
    heads = f"{p['heads_q']}" if p["heads_q"] == p["heads_kv"] else f"{p['heads_q']}/{p['heads_kv']}"
    lengths = f"{p['seqlen_q']}" if p["seqlen_q"] == p["seqlen_k"] else f"{p['seqlen_q']} x {p['seqlen_k']}"
    return f"{p['batch']} x {heads} x {lengths}, d {p['head_dim']}, {p['dtype']}{', causal' if p['causal'] else ''}"


def rate_text(rate, unit):
    return f"{rate * 1e-12:.1f} TFLOP/s" if unit == "FLOP/s" else f"{rate * 1e-9:.0f} GB/s"


def bench_rows(record):
    yield ("batch x heads x length", "kernel", "pass", "median", "rate", "of measured ceiling")
    for r in record["results"]:
        yield (problem_text(r["problem"]), r["kernel"], r["pass"], f"{r['seconds_median'] * 1e3:.3f} ms",
               rate_text(r["rate"], r["rate_unit"]), f"{r['share_of_ceiling']:.1%} ({r['ceiling']})")


def peers_rows(record):
    lengths = sorted({r["n"] for r in record["ratios"]})
    yield ("pass", "ours / peer", "d", "mask", "protocol", *(f"n = {n}" for n in lengths))
    cells = {}
    for r in record["ratios"]:
        key = (r["pass"], f"{r['kernel']} / {r['peer']}", str(r["head_dim"]), "causal" if r["causal"] else "none", r["protocol"])
        quartiles = f" ({r['ratio_low']:.3f} to {r['ratio_high']:.3f})" if "ratio_low" in r else ""
        cells.setdefault(key, {})[r["n"]] = f"{r['ratio']:.3f}{quartiles}"
    for key, by_length in cells.items():
        yield (*key, *(by_length.get(n, "") for n in lengths))


def cpu_rows(record):
    yield ("what", "measured")
    build = record["build"]
    yield (f"clean build of the program, {build['jobs']} compilers", f"{build['program_seconds']:.0f} s")
    yield ("then tests and benchmarks", f"{build['tests_and_benchmarks_seconds']:.0f} s")
    yield (f"`{record['start_up']['command']}`, median of {record['start_up']['runs']}",
           f"{record['start_up']['median_seconds'] * 1e3:.1f} ms")
    for b in record["benchmarks"]:
        rates = (f", {b['schedule_GFLOPs']:.1f} GFLOP/s, {b['ratio']:.2f} of Eigen's full-size products" if "ratio" in b else "")
        yield (f"`{b['name']}`", f"{b['real_time']:.0f} {b['time_unit']}{rates}")


def table_of(record):
    """The record's table as Markdown; KeyError where it is a record of something else."""
    rows = list({"bench": bench_rows, "peers": peers_rows, "cpu_record": cpu_rows}[record["command"]](record))
    lines = [f"`{record['command_line']}`, {record['device']['name']}, {record['date']}, commit {record['commit']}", ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(3, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def main(files):
    if not files or files[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if files else 2
    for file in files:
        try:
            with open(file, encoding="utf-8") as opened:
                text = table_of(json.load(opened))
        except OSError as error:
            print(f"tables.py: cannot read {file}: {error.strerror}", file=sys.stderr)
            return 3
        except (KeyError, TypeError, ValueError) as error:
            print(f"tables.py: {file} is no record of flashsim bench or peers.py ({error!r})", file=sys.stderr)
            return 3
        print(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
