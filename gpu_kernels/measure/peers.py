#!/usr/bin/env python3
"""Our kernels beside PyTorch's, in one process on the same tensors: accuracy and time.

    python3 gpu_kernels/measure/peers.py --library build/lib/libflashsim_c.so [--quick] [--json FILE]

accuracy  RMSE against float64 over 32 heads, N(0, 1) and outliers, beside PyTorch's eager attention in the same
          dtype; then random shapes: largest error at most twice eager's plus one ulp. Exit code 1 if ours is worse.
speed     medians, one launch of everybody in turn: ours, PyTorch's FlashAttention-2, cuDNN (and eager attention and
          the older algorithms at n = 1024). FLOPs: 4 d a visible pair forward, 10 d backward. Without --quick the
          forward passes of fa3 and cuDNN are timed a second time, in blocks of their own that put the card into the same
          state (protocol.py). The record's `ratios` compare case by case.
"""
import argparse
import ctypes
import datetime
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from protocol import NAME as IN_BLOCKS, REST_SECONDS, launches_in_block, ratio_over_rounds, rounds_in_turn

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
INT = ctypes.c_int32


class Problem(ctypes.Structure):
    _fields_ = [(n, INT) for n in ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "head_dim", "dtype",
                                   "causal", "window_left", "window_right")]
    _fields_ += [("softmax_scale", ctypes.c_float), ("dropout_p", ctypes.c_float), ("dropout_seed", ctypes.c_uint64)]
    _fields_ += [(n, INT) for n in ("narrow_temporaries", "deterministic", "num_splits")]


class Tensors(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in ("q", "k", "v", "o", "lse", "l", "m", "s", "p", "d_o", "dq", "dk", "dv",
                                               "q_scale", "k_scale", "v_scale", "workspace")]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.flashsim_error.restype = ctypes.c_char_p
        self.c.flashsim_kernel_name.restype = self.c.flashsim_kernel_variant.restype = ctypes.c_char_p

    def kernels(self):
        index, all_names = 0, []
        while (name := self.c.flashsim_kernel_name(INT(index))) is not None:
            all_names.append((name.decode(), self.c.flashsim_kernel_variant(INT(index)).decode()))
            index += 1
        return all_names


class Ours:
    """A kernel on given tensors. Results are attributes o, dq, dk, dv."""

    def __init__(self, library, name, q, k, v, causal=False, window=(-1, -1), variant="", narrow=False):
        self.c, self.name, self.variant = library.c, name.encode(), variant.encode()
        b, h, n, d = q.shape
        self.problem = Problem(b, h, k.shape[1], n, k.shape[2], d, DTYPES[q.dtype], causal, *window, 0, 0, 0, narrow, 0, 0)
        new = lambda *shape, dtype=torch.float32: torch.full(shape, math.nan, device=q.device, dtype=dtype)
        self.o, self.dq, self.dk, self.dv = (torch.full_like(x, math.nan) for x in (q, q, k, v))
        self.lse, self.l, self.m = (new(b, h, n) for _ in range(3))
        scores = name.startswith("standard")
        pitch = (k.shape[2] + 15) // 16 * 16  # rows of S and P are whole 32-byte sectors
        self.s, self.p = (new(b, h, n, pitch, dtype=q.dtype) if scores else None for _ in range(2))
        self.keep = (q, k, v)
        self.workspace, self.tensors = {}, Tensors()
        self.set(q=q, k=k, v=v, o=self.o, lse=None if scores else self.lse, l=self.l, m=self.m, s=self.s, p=self.p,
                 dq=self.dq, dk=self.dk, dv=self.dv)

    def set(self, **tensors):
        for name, tensor in tensors.items():
            setattr(self.tensors, name, None if tensor is None else tensor.data_ptr())

    def supports(self, backward=False):
        size = ctypes.c_size_t()
        code = self.c.flashsim_supports(self.name, self.variant, ctypes.byref(self.problem), INT(backward), ctypes.byref(size))
        if code == 0 and backward not in self.workspace:
            self.workspace[backward] = torch.empty(max(size.value, 16), dtype=torch.uint8, device="cuda")
        return code == 0

    def launch(self, backward):
        self.tensors.workspace = self.workspace[backward].data_ptr()
        code = self.c.flashsim_launch(self.name, self.variant, ctypes.byref(self.problem), INT(backward),
                                      ctypes.byref(self.tensors), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if code != 0:
            raise RuntimeError(self.c.flashsim_error().decode())

    def forward(self):
        self.launch(False)

    def backward(self, d_o):
        self.keep_d_o = d_o
        self.set(d_o=d_o)
        self.launch(True)


# ------------------------------------------------------------------------------------------------- accuracy

def visible(n_q, n_k, causal, window):
    """(n_q, n_k) booleans, aligned bottom-right; None where everything is visible."""
    if not causal and window == (-1, -1):
        return None
    distance = torch.arange(n_k, device="cuda")[None, :] - torch.arange(n_q, device="cuda")[:, None] - (n_k - n_q)
    seen = torch.ones(n_q, n_k, dtype=torch.bool, device="cuda")
    right = 0 if causal else window[1]
    if right >= 0:
        seen &= distance <= right
    if window[0] >= 0:
        seen &= distance >= -window[0]
    return seen


def eager(q, k, v, causal, window):
    """Softmax attention in the tensors' dtype, as a user of PyTorch writes it; rows that see nothing give 0."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) if group > 1 else x for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    seen = visible(q.shape[2], k.shape[2], causal, window)
    if seen is None:
        return s.softmax(-1) @ v
    some = seen.any(-1, keepdim=True)
    s = s.masked_fill(~seen & some, -math.inf)
    return (s.softmax(-1) * (seen & some)) @ v


def with_gradients(q, k, v, d_o, causal, window):
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    o = eager(*leaves, causal, window)
    return [o.detach(), *torch.autograd.grad(o, leaves, d_o)]


def inputs(shape_q, shape_k, dtype, outliers, generator):
    def one(shape):
        x = torch.randn(shape, device="cuda", generator=generator)
        if outliers:
            hit = torch.rand(shape, device="cuda", generator=generator) < 0.001
            x = x + 10 * torch.randn(shape, device="cuda", generator=generator) * hit
        return x.to(dtype)
    return one(shape_q), one(shape_k), one(shape_k), one(shape_q)


RESULTS = ("O", "dQ", "dK", "dV")


def kernels_under_test(library):
    """Name, variant, narrow temporaries, and whether the accuracy bar holds for it."""
    names = [n for n, v in library.kernels() if v == ""]
    for name in ("fa1", "fa2", "fa3", "decoding"):
        if name in names:
            yield name, "", False, True
    if "fa1" in names:
        yield "fa1", "", True, False


def our_results(library, name, variant, narrow, q, k, v, d_o, causal, window):
    kernel = Ours(library, name, q, k, v, causal, window, variant, narrow)
    if not kernel.supports():
        return None
    kernel.forward()
    got = [kernel.o]
    if kernel.supports(backward=True):
        kernel.backward(d_o)
        got += [kernel.dq, kernel.dk, kernel.dv]
    torch.cuda.synchronize()
    return got


def label(name, narrow):
    return name + (", narrow temporaries" if narrow else "")


def pooled_errors(library, quick):
    """RMSE over 32 heads, ours beside eager's."""
    records, failures = [], 0
    generator = torch.Generator("cuda").manual_seed(1)
    for dtype in (torch.float16, torch.bfloat16):
        for d in (64, 128) if quick else (64, 128, 256):
            for n, causal in ((512, False), (1024, True)):
                for outliers in (False, True):
                    q, k, v, d_o = inputs((2, 16, n, d), (2, 16, n, d), dtype, outliers, generator)
                    window = (-1, -1)
                    exact = with_gradients(*(x.double() for x in (q, k, v, d_o)), causal, window)
                    theirs = with_gradients(q, k, v, d_o, causal, window)
                    rmse = lambda x, y: (x.double() - y).square().mean().sqrt().item()
                    for name, variant, narrow, bar in kernels_under_test(library):
                        got = our_results(library, name, variant, narrow, q, k, v, d_o, causal, window)
                        if got is None:
                            continue
                        for what, x, y, z in zip(RESULTS, got, theirs, exact):
                            ours, peer = rmse(x, z), rmse(y, z)
                            ok = ours <= peer or not bar
                            failures += not ok
                            records.append(dict(kernel=label(name, narrow), result=what, dtype=str(dtype)[6:], head_dim=d, n=n,
                                                causal=causal, outliers=outliers, rmse=ours, rmse_eager=peer, bar=bar, passed=ok))
                            if not ok:
                                print("WORSE THAN EAGER", records[-1], flush=True)
    print("\nRMSE against float64 over 32 heads, worst ratio to PyTorch's eager attention in the same dtype")
    for name in dict.fromkeys(r["kernel"] for r in records):
        cells = [f"{w} {max(r['rmse'] / r['rmse_eager'] for r in records if r['kernel'] == name and r['result'] == w):.3f}"
                 for w in RESULTS if any(r["kernel"] == name and r["result"] == w for r in records)]
        print(f"  {name:28}", "  ".join(cells))
    return records, failures


def ulp(x, dtype):
    """The distance of neighbouring numbers of dtype around the largest magnitude in x, around 0 the smallest number.

    x is 0 where every row sees one key: P = 1, so dS = 0 for everybody, and no error is allowed but that.
    """
    bits, smallest = (10, -14) if dtype == torch.float16 else (7, -126)
    largest = x.abs().max().item()
    return 2.0 ** (max(math.floor(math.log2(largest)) if largest > 0 else smallest, smallest) - bits)


def random_shapes(library, count):
    """Largest error at most twice eager's plus one ulp."""
    draw = torch.Generator().manual_seed(2)
    pick = lambda low, high: int(torch.randint(low, high + 1, (1,), generator=draw))
    generator = torch.Generator("cuda").manual_seed(3)
    failures, worst, compared = [], {}, 0
    for case in range(count):
        dtype = (torch.float16, torch.bfloat16)[pick(0, 1)]
        d = (64, 128, 256)[pick(0, 2)] if pick(0, 1) else 8 * pick(1, 32)
        b, kv, group = pick(1, 3), pick(1, 3), (1, 1, 2, 4)[pick(0, 3)]
        n_q = pick(1, 8) if pick(0, 3) == 0 else pick(1, 700)
        n_k = n_q if pick(0, 2) == 0 else pick(1, 1200)
        kind = pick(0, 3)
        causal, window = kind == 1, (pick(0, 200), pick(0, 200)) if kind == 2 else (-1, -1)
        q, k, v, d_o = inputs((b, kv * group, n_q, d), (b, kv, n_k, d), dtype, False, generator)
        exact = with_gradients(*(x.double() for x in (q, k, v, d_o)), causal, window)
        theirs = with_gradients(q, k, v, d_o, causal, window)
        for name, variant, narrow, bar in kernels_under_test(library):
            got = our_results(library, name, variant, narrow, q, k, v, d_o, causal, window)
            for what, x, y, z in zip(RESULTS, got or [], theirs, exact):
                error, peer = (x.double() - z).abs().max().item(), (y.double() - z).abs().max().item()
                allowed = 2 * peer + ulp(z, dtype)
                compared += 1
                key = (label(name, narrow), what)
                worst[key] = max(worst.get(key, 0.0), error / allowed if error == error else math.inf)
                if bar and not error <= allowed:
                    failures.append(dict(case=case, kernel=label(name, narrow), result=what, error=error, eager=peer, allowed=allowed,
                                         shape=[b, kv * group, kv, n_q, n_k, d], dtype=str(dtype)[6:], causal=causal, window=window))
                    print("FAILED", failures[-1], flush=True)
    print(f"\n{count} random shapes, {compared} comparisons: worst error / (2 x eager's + 1 ulp)")
    for name in dict.fromkeys(k[0] for k in worst):
        print(f"  {name:28}", "  ".join(f"{w} {worst[(name, w)]:.3f}" for w in RESULTS if (name, w) in worst))
    return dict(shapes=count, comparisons=compared, failures=failures,
                worst={f"{n} {w}": x for (n, w), x in worst.items()})


# ---------------------------------------------------------------------------------------------------- speed

SPIN_CYCLES = 1_000_000  # about 0.6 ms, longer than a dispatch of autograd takes
ALTERNATING = "alternating"


def alternate(runs, repeats, warmup=2):
    """Median seconds of each callable, one launch of everybody in turn.

    A kernel that spins for a while stands in the stream before each measurement, so that the launches are queued when
    the first event is recorded: what Python and PyTorch need to dispatch them is not measured.
    """
    seconds = {name: [] for name in runs}
    for i in range(warmup + repeats):
        for name, run in runs.items():
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(SPIN_CYCLES)
            start.record()
            run()
            stop.record()
            stop.synchronize()
            if i >= warmup:
                seconds[name].append(start.elapsed_time(stop) * 1e-3)
    return {name: statistics.median(s) for name, s in seconds.items()}


def in_blocks(runs, seconds_each):
    """Seconds of each callable in each round of protocol.py's; `seconds_each` need not be exact."""

    def measure(name):
        warm, counted = launches_in_block(seconds_each[name])
        events = [torch.cuda.Event(enable_timing=True) for _ in range(counted + 1)]
        time.sleep(REST_SECONDS)
        torch.cuda._sleep(SPIN_CYCLES)
        for _ in range(warm):
            runs[name]()
        events[0].record()
        for event in events[1:]:
            runs[name]()
            event.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:])) * 1e-3

    return rounds_in_turn(measure, runs)


def peer(backend, q, k, v, causal):
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def time_problem(library, b, h, n, d, causal, dtype, names, with_eager, repeats, blocks=False):
    q, k, v = (torch.randn(b, h, n, d, device="cuda", dtype=dtype) for _ in range(3))
    d_o = torch.randn_like(q)
    ours = {}
    for name, narrow in names:
        kernel = Ours(library, name, q, k, v, causal, narrow=narrow)
        if kernel.supports():
            ours["ours " + label(name, narrow)] = kernel
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    theirs = {}
    for name, backend in (("PyTorch FA2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        try:
            theirs[name] = (backend, peer(backend, *leaves, causal))
        except RuntimeError as error:
            print(f"  {name} does not run here: {str(error).splitlines()[0]}", flush=True)
    forward = {name: kernel.forward for name, kernel in ours.items()}
    with torch.no_grad():
        for name, (backend, _) in theirs.items():
            forward[name] = lambda backend=backend: peer(backend, q, k, v, causal)
        if with_eager:
            forward["PyTorch eager"] = lambda: eager(q, k, v, causal, (-1, -1))
        times = {(ALTERNATING, "forward", name): t for name, t in alternate(forward, repeats).items()}
        rounds = {}
        if blocks:
            some = {name: run for name, run in forward.items() if name in ("ours fa3", "cuDNN")}
            rounds = in_blocks(some, {name: times[ALTERNATING, "forward", name] for name in some})
            times.update({(IN_BLOCKS, "forward", name): statistics.median(t) for name, t in rounds.items()})
    backward = {}
    for name, kernel in ours.items():
        if kernel.supports(backward=True):
            backward[name] = lambda kernel=kernel: kernel.backward(d_o)
    for name, (_, o) in theirs.items():
        backward[name] = lambda o=o: torch.autograd.grad(o, leaves, d_o, retain_graph=True)
    if with_eager:
        o = eager(*leaves, causal, (-1, -1))
        backward["PyTorch eager"] = lambda: torch.autograd.grad(o, leaves, d_o, retain_graph=True)
    times.update({(ALTERNATING, "backward", name): t for name, t in alternate(backward, max(3, repeats // 2)).items()})
    pairs = b * h * (n * (n + 1) / 2 if causal else n * n)
    return [dict(batch=b, heads=h, n=n, head_dim=d, causal=causal, dtype=str(dtype)[6:], kernel=name, protocol=protocol,
                 **{"pass": what}, seconds_median=t, flops_per_s=(4 if what == "forward" else 10) * d * pairs / t,
                 **({"seconds_of_rounds": rounds[name]} if protocol == IN_BLOCKS else {}))
            for (protocol, what, name), t in times.items()]


def ratios_of(records):
    """How much faster ours is than each peer in the same case of the same run: one entry a case."""
    case_of = lambda r: (r["pass"], r["protocol"], r["head_dim"], r["causal"], r["n"])
    rates = {(case_of(r), r["kernel"]): r["flops_per_s"] for r in records}
    rounds = {(case_of(r), r["kernel"]): r["seconds_of_rounds"] for r in records if "seconds_of_rounds" in r}

    def ratio(case, ours, theirs):
        if (case, ours) in rounds:
            return ratio_over_rounds(rounds[case, ours], rounds[case, theirs])
        return dict(ratio=rates[case, ours] / rates[case, theirs])

    return [dict(kernel=ours, peer=theirs, **dict(zip(("pass", "protocol", "head_dim", "causal", "n"), case)),
                 flops_per_s=rate, peer_flops_per_s=rates[case, theirs], **ratio(case, ours, theirs))
            for (case, ours), rate in rates.items() if ours.startswith("ours ")
            for theirs in ("PyTorch FA2", "cuDNN") if (case, theirs) in rates]


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def geometric_means_of(ratios):
    """Over lengths and masks: one entry a head dimension, and one (head_dim None) over all."""
    means = []
    for what, protocol, ours, theirs in dict.fromkeys((r["pass"], r["protocol"], r["kernel"], r["peer"]) for r in ratios):
        for d in (64, 128, 256, None):
            some = [r["ratio"] for r in ratios if d in (None, r["head_dim"])
                    and (r["pass"], r["protocol"], r["kernel"], r["peer"]) == (what, protocol, ours, theirs)]
            if some:
                means.append(dict(kernel=ours, peer=theirs, **{"pass": what}, protocol=protocol, head_dim=d,
                                  ratio=geometric_mean(some), smallest=min(some), cases=len(some)))
    return means


def print_ratios(ratios, means, lengths):
    print(f"\nours / peer, case by case: n = {', '.join(map(str, lengths))}")
    rows = {}
    for r in ratios:
        key = (r["pass"], r["protocol"], r["kernel"], r["peer"], r["head_dim"], r["causal"])
        rows.setdefault(key, []).append(r["ratio"])
    for (what, protocol, ours, theirs, d, causal), cells in rows.items():
        print(f"  {what:8} {ours} / {theirs:11} d {d:3} {'causal' if causal else '':6}",
              *(f"{x:6.3f}" for x in cells), "", protocol)
    print("\ngeometric means of ours / peer")
    for m in means:
        print(f"  {m['pass']:8} {m['kernel']} / {m['peer']:11} {'d %3d' % m['head_dim'] if m['head_dim'] else 'all d'}"
              f"  {m['ratio']:.3f} over {m['cases']} cases, smallest {m['smallest']:.3f}, {m['protocol']}", flush=True)


def speed(library, quick):
    """Records of single kernels, their ratios, and the ratios' geometric means."""
    records = []
    lengths = (1024, 4096, 16384) if quick else (512, 1024, 2048, 4096, 8192, 16384)
    for d in (64, 128, 256):
        for causal in (False, True):
            for n in lengths:
                records += time_problem(library, 16384 // n, 2048 // d, n, d, causal, torch.float16,
                                        [("fa2", False), ("fa3", False)], False, 6 if quick else 10, not quick)
            for what in ("forward", "backward"):
                rows = [r for r in records
                        if (r["head_dim"], r["causal"], r["pass"], r["protocol"]) == (d, causal, what, ALTERNATING)]
                print(f"\n{what}, head_dim {d}{', causal' if causal else ''}: TFLOP/s at n = {', '.join(map(str, lengths))}")
                for name in dict.fromkeys(r["kernel"] for r in rows):
                    rates = [r["flops_per_s"] * 1e-12 for r in rows if r["kernel"] == name]
                    print(f"  {name:16}", *(f"{x:7.1f}" for x in rates), f"  geometric mean {geometric_mean(rates):6.1f}", flush=True)
    ratios = ratios_of(records)
    means = geometric_means_of(ratios)
    print_ratios(ratios, means, lengths)
    print("\nn = 1024, 16 heads, batch 64, fp16: ms forward, backward")
    for d in (64, 128):
        older = [("standard", False), ("standard-cublas", False), ("fa1", False), ("fa1", True), ("fa2", False), ("fa3", False)]
        rows = time_problem(library, 64, 16, 1024, d, False, torch.float16, older, True, 6)
        for name in dict.fromkeys(r["kernel"] for r in rows):
            cells = [f"{r['pass']} {r['seconds_median'] * 1e3:8.3f}" for r in rows if r["kernel"] == name]
            print(f"  d {d:3} {name:30}", "  ".join(cells), flush=True)
        records += rows
        torch.cuda.empty_cache()
    return records, ratios, means


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libflashsim_c.so of a build with CUDA")
    parser.add_argument("--quick", action="store_true", help="fewer lengths and shapes")
    parser.add_argument("--shapes", type=int, default=0, help="random shapes (default 500, quick 100)")
    parser.add_argument("--only", choices=("accuracy", "speed"), help="one of the two parts")
    parser.add_argument("--json", help="write the record to this file")
    parser.add_argument("--commit", default="unknown", help="the commit the library was built from")
    o = parser.parse_args()
    if not torch.cuda.is_available():
        print("peers.py needs a GPU that PyTorch can use", file=sys.stderr)
        return 4
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    library = Library(o.library)
    properties = torch.cuda.get_device_properties(0)
    record = dict(schema_version=1, command="peers", command_line=" ".join(["peers.py", *sys.argv[1:]]), commit=o.commit,
                  date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                  device=dict(name=properties.name, sm_count=properties.multi_processor_count,
                              memory_bytes=properties.total_memory),
                  torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    failed = 0
    if o.only != "speed":
        record["rmse"], failed = pooled_errors(library, o.quick)
        record["random_shapes"] = random_shapes(library, o.shapes or (100 if o.quick else 500))
        failed += len(record["random_shapes"]["failures"])
    if o.only != "accuracy":
        record["speed"], record["ratios"], record["geometric_means"] = speed(library, o.quick)
    if o.json:
        with open(o.json + ".part", "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
        os.replace(o.json + ".part", o.json)
    print("accuracy bar:", "not checked" if o.only == "speed" else "held" if failed == 0 else f"FAILED {failed} times")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
