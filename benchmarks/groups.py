"""What do pre-filter and permit cost a pod, and does it depend on the size of its group?

Both are asked of the plugin as the scheduler asks them, while the members of one group come to hold
nodes one after another; the last one lets the group go. The counters are kept up on the way, which
is part of what is timed. We would act above 3 microseconds a pod, or if the largest group cost
more than 1.3 times the smallest.

    python benchmarks/groups.py
"""

from __future__ import annotations

import gc
import random
from statistics import median
from time import thread_time_ns
from typing import Final

from attrs import define

from gangsched import Coscheduling, GroupKey, Pod, PodGroup, PodGroupInfo
from gangsched.model import NodeName, PodUID
from gangsched.outcomes import Success, Wait
from gangsched.primitives.counters import MemberState

_SIZES: Final = (8, 64, 512, 4_096)
_PODS: Final = 16_384
_ROUNDS: Final = 15


@define
class View:
    """The state of a cycle as the plugin reads it: the group."""

    group: PodGroupInfo


def groups(size: int) -> list[tuple[View, list[Pod]]]:
    """Return groups of one size, all members there and none placed."""
    made = []
    for number in range(_PODS // size):
        spec = PodGroup(name=f"g{number}", min_available=size)
        info = PodGroupInfo(key=GroupKey(f"default/g{number}"), uid=number, spec=spec)
        pods = [Pod(name=f"g{number}-{n}", uid=PodUID(f"g{number}-{n}")) for n in range(size)]
        for pod in pods:
            info.members.set(pod.uid, MemberState.UNSCHEDULED)
        made.append((View(info), pods))
    return made


def run(given: list[tuple[View, list[Pod]]]) -> float:
    """Return nanoseconds a pod."""
    plugin, node = Coscheduling(), NodeName("n")
    waits = 0
    begun = thread_time_ns()
    for view, pods in given:
        for pod in pods:
            plugin.pre_filter(view, pod, now=0.0)  # type: ignore[arg-type]
            view.group.members.set(pod.uid, MemberState.WAITING)
            outcome = plugin.permit(view, pod, node, now=0.0)  # type: ignore[arg-type]
            waits += isinstance(outcome, Wait)
        assert isinstance(outcome, Success)
    taken = thread_time_ns() - begun
    assert waits == _PODS - len(given)
    return taken / _PODS


def main() -> None:
    """Print the table."""
    times: dict[int, list[float]] = {size: [] for size in _SIZES}
    for turn in range(_ROUNDS):
        for size in random.Random(turn).sample(_SIZES, len(_SIZES)):
            given = groups(size)
            gc.collect()
            gc.disable()
            times[size].append(run(given))
            gc.enable()
    print(f"{'members':>8} {'us a pod':>9} {'ratio':>6}  spread")
    for size, taken in times.items():
        ratios = sorted(t / b for t, b in zip(taken, times[_SIZES[0]], strict=True))
        spread = f"{min(taken) / 1000:.2f} to {max(taken) / 1000:.2f}"
        print(f"{size:>8,} {median(taken) / 1000:>9.2f} {median(ratios):>6.2f}  {spread}")


if __name__ == "__main__":
    main()
