"""How kernels are timed against each other so that the state of the card favours none.

A GPU under load runs into its power limit, a rested one at its highest clock, and the first launches after a rest ramp the
clock up: which of these a launch meets decides more than the kernels do. So every kernel gets blocks of its own, all alike: a
rest, launches uncounted for some milliseconds, then launches counted for as long. Rounds of one block each follow one another,
every second one in reverse order, so that what drifts hits all alike. Each round gives one ratio; their median is the result,
and their quartiles say how far to trust it.
"""
import math
import statistics

ROUNDS = 6  # even: as many forward as in reverse
REST_SECONDS, WARM_SECONDS, COUNTED_SECONDS = 0.05, 0.01, 0.01
NAME = f"median of {ROUNDS} rounds of blocks after {REST_SECONDS} s of rest"


def launches_in_block(seconds_each):
    """Launches uncounted and counted in a block of a kernel that takes `seconds_each`: at least 3 and 5."""
    return (max(3, math.ceil(WARM_SECONDS / seconds_each)), max(5, math.ceil(COUNTED_SECONDS / seconds_each)))


def rounds_in_turn(measure, names, rounds=ROUNDS):
    """{name: [measure(name) of each round]}."""
    names = list(names)
    seconds = {name: [] for name in names}
    for i in range(rounds):
        for name in names if i % 2 == 0 else reversed(names):
            seconds[name].append(measure(name))
    return seconds


def ratio_over_rounds(ours, peer):
    """How many times as fast as the peer we are: the median over rounds, and its quartiles."""
    ratios = [p / o for o, p in zip(ours, peer, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return dict(ratio=median, ratio_low=low, ratio_high=high)
