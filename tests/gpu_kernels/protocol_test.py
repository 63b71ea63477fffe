#!/usr/bin/env python3
"""The protocol's ratio on a card made up for it: drifting clocks and slow outliers do not move it, a faster kernel does."""
import random
import sys

sys.path.insert(0, sys.argv[1])
import protocol


def expect(condition, what):
    if not condition:
        sys.exit(f"protocol_test: {what}")


class Card:
    """Kernels of given seconds on a clock that falls by `drift` a block; some blocks take twice as long."""

    def __init__(self, seconds, drift=0.0, slow_blocks=()):
        self.seconds, self.drift, self.slow, self.block, self.order = seconds, drift, slow_blocks, 0, []

    def measure(self, name):
        self.order.append(name)
        self.block += 1
        return self.seconds[name] * (1 + self.drift * self.block) * (2 if self.block in self.slow else 1)


def ratio_on(card):
    rounds = protocol.rounds_in_turn(card.measure, card.seconds)
    return protocol.ratio_over_rounds(rounds["ours"], rounds["peer"])


steady = Card({"ours": 1.0, "peer": 1.25})
expect(ratio_on(steady) == dict(ratio=1.25, ratio_low=1.25, ratio_high=1.25), "a steady card shows the kernels' ratio")
expect(steady.order == ["ours", "peer", "peer", "ours"] * (protocol.ROUNDS // 2), "every second round is in reverse order")
drifting = ratio_on(Card({"ours": 1.0, "peer": 1.0}, drift=0.02))
expect(abs(drifting["ratio"] - 1) < 0.001, f"drift favours a kernel: {drifting}")
expect(drifting["ratio_low"] < 1 < drifting["ratio_high"], f"drift must show in the quartiles: {drifting}")
outlier = ratio_on(Card({"ours": 1.0, "peer": 1.1}, slow_blocks=(2,)))
expect(abs(outlier["ratio"] - 1.1) < 1e-9, f"one slow block of the peer moves the median: {outlier}")
draw = random.Random(1)
noisy = protocol.rounds_in_turn(lambda name: {"ours": 1.0, "peer": 1.2}[name] * draw.uniform(0.99, 1.01), ("ours", "peer"), 40)
found = protocol.ratio_over_rounds(noisy["ours"], noisy["peer"])
expect(abs(found["ratio"] - 1.2) < 0.01 and found["ratio_low"] <= found["ratio"] <= found["ratio_high"], f"noise: {found}")
for seconds in (1e-6, 1e-4, 3e-3, 1.0):
    warm, counted = protocol.launches_in_block(seconds)
    expect(warm >= 3 and counted >= 5 and warm * seconds >= protocol.WARM_SECONDS and counted * seconds >= protocol.COUNTED_SECONDS,
           f"a block of {seconds} s launches: {warm}, {counted}")
try:
    protocol.ratio_over_rounds([1.0, 1.0], [1.0])
except ValueError:
    pass
else:
    expect(False, "unequal numbers of rounds were accepted")
