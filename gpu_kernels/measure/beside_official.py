#!/usr/bin/env python3
"""fa3 beside official FlashAttention-3, which was measured in a run of its own.

    python3 gpu_kernels/measure/beside_official.py [--peers FILE] [--official FILE] [--library FILE [--json FILE]]

fp16  (ours / cuDNN) / (official / cuDNN), cuDNN being what both runs timed: from the record of peers.py and the table of
      the official kernel's run. Needs no GPU.
fp8   with --library (libflashsim_c.so): times fa3 in e4m3, alone and with its quantisation, and cuDNN in fp16, on this GPU, in
      the blocks of protocol.py, beside the official fp8 kernel's TFLOP/s times cuDNN's ratio of now to then.
"""
import argparse
import csv
import datetime
import json
import math
import os
import statistics
import sys

MEASUREMENTS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "measurements")
E4M3 = 4  # flashsim_problem.dtype
FP8_LENGTHS = (4096, 8192, 16384)


def official_rates(path):
    """{(dtype, d, causal, n): {"fa3": TFLOP/s, "cudnn": ...}}, forward."""
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t")
        return {(r["dtype"], int(r["d"]), r["causal"] == "1", int(r["n"])):
                {name: float(r[column]) for name, column in (("fa3", "fa3_first"), ("cudnn", "cudnn")) if r[column]}
                for r in rows if r["pass"] == "fwd"}


def geometric_mean(numbers):
    return math.exp(statistics.fmean(map(math.log, numbers)))


def print_fp16(ratios, official):
    """Returns the geometric mean of each protocol."""
    means = {}
    ours = [r for r in ratios if (r["kernel"], r["peer"], r["pass"]) == ("ours fa3", "cuDNN", "forward")]
    for protocol in dict.fromkeys(r["protocol"] for r in ours):
        print(f"\nfp16: (ours / cuDNN) / (official / cuDNN), {protocol}")
        all_of_them = []
        for d, causal in dict.fromkeys((r["head_dim"], r["causal"]) for r in ours):
            line = []
            for r in sorted(ours, key=lambda r: r["n"]):
                if (r["head_dim"], r["causal"], r["protocol"]) == (d, causal, protocol):
                    then = official["float16", d, causal, r["n"]]
                    line.append((r["n"], r["ratio"] / (then["fa3"] / then["cudnn"])))
            all_of_them += [x for _, x in line]
            print(f"  d {d:3} {'causal' if causal else '':6}", *(f"{n}: {x:.3f}" for n, x in line))
        means[protocol] = geometric_mean(all_of_them)
        print(f"  geometric mean of {len(all_of_them)} cases: {means[protocol]:.3f}")
    return means


def fp8_records(library_path, official):
    import torch
    from peers import Library, Ours, SDPBackend, alternate, in_blocks, peer

    library, records = Library(library_path), []
    for d in (128, 256):
        for causal in (False, True):
            for n in FP8_LENGTHS:
                b, h = 16384 // n, 2048 // d
                q, k, v = (torch.randn(b, h, n, d, device="cuda", dtype=torch.float16) for _ in range(3))
                both, alone = (Ours(library, "fa3", q, k, v, causal, variant=x) for x in ("", "fp8-forward-only"))
                for kernel in (both, alone):
                    kernel.problem.dtype = E4M3
                    if not kernel.supports():
                        raise RuntimeError(f"fa3 in e4m3 does not run here: {library.c.flashsim_error().decode()}")
                alone.workspace = both.workspace  # it takes what the whole left there
                runs = {"kernel": alone.forward, "with quantisation": both.forward,
                        "cuDNN fp16": lambda: peer(SDPBackend.CUDNN_ATTENTION, q, k, v, causal)}
                both.forward()
                with torch.no_grad():
                    rounds = in_blocks(runs, alternate(runs, 3))
                then = official["float8_e4m3", d, causal, n]["fa3"]
                cudnn_then = official["float16", d, causal, n]["cudnn"]
                operations = 4e-12 * b * h * n * n * d * (0.5 if causal else 1)
                rates = {name: operations / statistics.median(s) for name, s in rounds.items()}
                bar = then * rates["cuDNN fp16"] / cudnn_then
                records.append(dict(head_dim=d, causal=causal, n=n, tflops=rates, seconds_of_rounds=rounds, official=then,
                                    cudnn_then=cudnn_then, official_corrected=bar, ratio=rates["kernel"] / bar))
    return records


def print_fp8(records):
    print("\nfp8, TFLOP/s: kernel alone (with quantisation) against official: as it was, corrected by cuDNN, ratio to the latter")
    for r in records:
        print(f"  d {r['head_dim']:3} {'causal' if r['causal'] else '':6} n {r['n']:5}: {r['tflops']['kernel']:6.0f}"
              f" ({r['tflops']['with quantisation']:5.0f})  {r['official']:6.0f} {r['official_corrected']:6.0f}  {r['ratio']:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=os.path.join(MEASUREMENTS, "gpu_peers.json"), help="record of peers.py")
    parser.add_argument("--official", default=os.path.join(MEASUREMENTS, "h200_peers_same_run.tsv"))
    parser.add_argument("--library", help="libflashsim_c.so of a build with CUDA: time fp8, too")
    parser.add_argument("--commit", default="unknown", help="the commit the library was built from")
    parser.add_argument("--json", help="write the record to this file")
    o = parser.parse_args()
    official = official_rates(o.official)
    with open(o.peers, encoding="utf-8") as file:
        peers = json.load(file)
    record = dict(schema_version=1, command="beside_official", command_line=" ".join(["beside_official.py", *sys.argv[1:]]),
                  commit=o.commit, date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                  device=peers["device"], fp16=print_fp16(peers["ratios"], official))
    if o.library:
        import torch

        if not torch.cuda.is_available():
            print("beside_official.py --library needs a GPU that PyTorch can use", file=sys.stderr)
            return 4
        record["device"] = dict(name=torch.cuda.get_device_name())
        record["fp8"] = fp8_records(o.library, official)
        print_fp8(record["fp8"])
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
