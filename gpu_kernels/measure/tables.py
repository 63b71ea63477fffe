#!/usr/bin/env python3
"""Records of flashsim bench and check --fp8-table, peers.py, beside_official.py, sanitize.py, compile_time.py and cpu_record.py as
Markdown tables, for the pages that quote them.

    python3 gpu_kernels/measure/tables.py docs/measurements/gpu_bench_gap.json [FILE...]     prints tables
    python3 gpu_kernels/measure/tables.py --update docs/performance.md docs/kernels/*.md     writes them into pages
    python3 gpu_kernels/measure/tables.py --check PAGE...                                    exit code 1 where they are others

Each table is headed by the command, the device, the date and the commit that the record names. In a page it stands between
`<!-- table FILE [VIEW] -->` and `<!-- end of table -->`, FILE relative to the page; VIEW: `means` (peers, beside_official), `gap` (bench).
"""
import json
import os
import re
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


def means_rows(record):
    """Geometric means of ours over a peer's, over all head_dims and each."""
    dims = sorted({m["head_dim"] for m in record["geometric_means"] if m["head_dim"]})
    yield ("pass", "ours / peer", "protocol", "geometric mean", "cases", "smallest", *(f"head_dim {d}" for d in dims))
    rows = {}
    for m in record["geometric_means"]:
        rows.setdefault((m["pass"], f"{m['kernel']} / {m['peer']}", m["protocol"]), {})[m["head_dim"]] = m
    for key, by_dim in rows.items():
        whole = by_dim[None]
        yield (*key, f"{whole['ratio']:.3f}", str(whole["cases"]), f"{whole['smallest']:.3f}",
               *(f"{by_dim[d]['ratio']:.3f}" if d in by_dim else "" for d in dims))


def gap_rows(record):
    """Milliseconds, a kernel a column."""
    rows, kernels = {}, {}
    for r in record["results"]:
        rows.setdefault((problem_text(r["problem"]), r["pass"]), {})[r["kernel"]] = r["seconds_median"]
        if "/" not in r["kernel"]:  # fa3's variants have a page of their own
            kernels[r["kernel"]] = None
    yield ("batch x heads x length", "pass", *kernels)
    for key, by_kernel in rows.items():
        yield (*key, *(f"{by_kernel[k] * 1e3:.3f} ms" if k in by_kernel else "" for k in kernels))


def sanitize_rows(record):
    tools, cells = [], {}
    for r in record["results"]:
        if r["tool"] not in tools:
            tools.append(r["tool"])
        clean, all_of_them, cases = cells.setdefault((r["kernel"], r["tool"]), ([], [], {}))
        all_of_them.append(r)
        clean += [r] if r["clean"] else []
        cases[r["case"]] = None
    yield ("kernel", "cases", *tools)
    for kernel in dict.fromkeys(r["kernel"] for r in record["results"]):
        yield (kernel, " ".join(map(str, cells[kernel, tools[0]][2])),
               *(f"{len(cells[kernel, t][0])} of {len(cells[kernel, t][1])} clean" for t in tools))


def official_rows(record):
    """fp8: TFLOP/s of the kernel, and of quantisation and kernel, beside the official kernel's of another run."""
    yield ("d", "mask", "n", "fa3, kernel alone", "with quantisation", "official", "corrected by cuDNN", "alone / corrected")
    for r in record["fp8"]:
        yield (str(r["head_dim"]), "causal" if r["causal"] else "none", str(r["n"]), f"{r['tflops']['kernel']:.0f}",
               f"{r['tflops']['with quantisation']:.0f}", f"{r['official']:.0f}", f"{r['official_corrected']:.0f}", f"{r['ratio']:.3f}")


def official_means_rows(record):
    yield ("protocol of ours / cuDNN", "(ours / cuDNN) / (official / cuDNN), geometric mean")
    for protocol, mean in record["fp16"].items():
        yield (protocol, f"{mean:.3f}")


def fp8_table_rows(record):
    """Errors in the mean, RMSE."""
    columns = list(record["rows"][0]["rmse"])
    yield ("", "published", *columns)
    for r in record["rows"]:
        yield (r["row"], f"{r['published']:.1e}", *(f"{r['rmse'][c]:.2e}" for c in columns))


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


def compile_time_rows(record):
    yield ("folder", "files", "kernels", "processor time", "that spill registers")
    folders = {}
    for f in record["files"]:
        folders.setdefault(os.path.dirname(f["file"]), []).append(f)
    for folder, files in folders.items():
        yield (f"`{folder}/`", str(len(files)), str(sum(f["kernels"] for f in files) // len(record["architectures"])),
               f"{sum(f['cpu_seconds'] for f in files):.1f} s", str(sum(f["kernels_that_spill"] for f in files)))
    yield ("all of them", str(len(record["files"])), str(sum(f["kernels"] for f in record["files"]) // len(record["architectures"])),
           f"{record['cpu_seconds']:.0f} s, {record['cpu_seconds'] / 2:.0f} s on two cores",
           str(sum(f["kernels_that_spill"] for f in record["files"])))


VIEWS = {("bench", ""): bench_rows, ("bench", "gap"): gap_rows, ("peers", ""): peers_rows, ("peers", "means"): means_rows,
         ("beside_official", ""): official_rows, ("beside_official", "means"): official_means_rows,
         ("check --fp8-table", ""): fp8_table_rows, ("cpu_record", ""): cpu_rows, ("sanitize", ""): sanitize_rows, ("compile_time", ""): compile_time_rows}


def table_of(record, view=""):
    """The record's table as Markdown; KeyError where it is a record of something else."""
    rows = list(VIEWS[record["command"], view](record))
    lines = [f"`{record['command_line']}`, {record['device']['name']}, {record['date']}, commit {record['commit']}", ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(3, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def table_of_file(file, view=""):
    with open(file, encoding="utf-8") as opened:
        return table_of(json.load(opened), view)


def with_tables(page):
    """The page's text as it is, and with the tables of its records as they are now."""
    with open(page, encoding="utf-8") as opened:
        text = opened.read()
    table = lambda m: f"{m[1]}\n{table_of_file(os.path.join(os.path.dirname(page), m[2]), m[3] or '')}\n\n{m[4]}"
    return text, re.sub(r"(<!-- table (\S+)(?: (\w+))? -->\n).*?(<!-- end of table -->)", table, text, flags=re.DOTALL)


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments else 2
    pages = arguments[0] in ("--update", "--check")
    stale = 0
    for file in arguments[1:] if pages else arguments:
        try:
            if not pages:
                print(f"{table_of_file(file)}\n")
                continue
            before, after = with_tables(file)
            if before == after:
                continue
            stale += 1
            if arguments[0] == "--check":
                print(f"tables.py: the tables in {file} are not those of the records; write them with --update", file=sys.stderr)
                continue
            with open(file, "w", encoding="utf-8") as opened:
                opened.write(after)
            print(f"updated {file}")
        except OSError as error:
            print(f"tables.py: cannot read {error.filename}: {error.strerror}", file=sys.stderr)
            return 3
        except (KeyError, TypeError, ValueError) as error:
            print(f"tables.py: {file} is or quotes no record of flashsim bench or peers.py ({error!r})", file=sys.stderr)
            return 3
    return 1 if stale and arguments[0] == "--check" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
