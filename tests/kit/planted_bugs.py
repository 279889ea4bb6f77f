"""Bugs as they are made, planted in ``SimpleScheduler``; each has the laws that it breaks.

The table of ``docs/how-to/test-your-scheduler.md`` says how often each is found. This prints it::

    (cd tests && PYTHONPATH=. ../.venv/bin/python -m kit.planted_bugs --seeds 40)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import hypothesis.core
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from gangsched.testing import GangSchedulingMachine, LawViolation
from kit.simple_scheduler import SimpleScheduler

LOOKED_AT: Final = 4


class LeaksAtTimeout(SimpleScheduler):
    """When an attempt times out, what one of its members held stays taken."""

    def __init__(self) -> None:
        super().__init__()
        self.leaked: list[tuple[str, Mapping[str, int]]] = []

    def reject_gang(self, gang: str) -> None:
        waiting = self.waiting_members(gang)
        if waiting and self.deadlines.get(gang) == self.now:
            self.leaked.append((self.where[waiting[0]], self.pods[waiting[0]].requests))
        super().reject_gang(gang)

    def free(self, node: str, resource: str) -> int:
        leaked: int = sum(amounts[resource] for on, amounts in self.leaked if on == node)
        return super().free(node, resource) - leaked


class ForgetsFailedBinds(SimpleScheduler):
    """A pod whose bind has failed is never tried again."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[str] = set()

    def bind_failed(self, uid: str) -> None:
        super().bind_failed(uid)
        self.forgotten.add(uid)

    def pending(self, gang: str) -> list[str]:
        return [uid for uid in super().pending(gang) if uid not in self.forgotten]


class CountsTwiceAfterRestart(SimpleScheduler):
    """After a restart, each placed pod takes its capacity twice."""

    def __init__(self) -> None:
        super().__init__()
        self.twice: set[str] = set()

    def restart(self) -> None:
        super().restart()
        self.twice = set(self.where)

    def free(self, node: str, resource: str) -> int:
        again = [uid for uid in self.twice if self.where.get(uid) == node]
        more: int = sum(self.pods[uid].requests[resource] for uid in again)
        return super().free(node, resource) - more


class OneShort(SimpleScheduler):
    """A gang of several starts with one member less than it needs."""

    def is_quorum(self, held: int, needed: int) -> bool:
        return held >= max(1, needed - 1)


class LooksAtFourNodes(SimpleScheduler):
    """Only the first four nodes are looked at."""

    def take(self, uid: str) -> bool:
        every = self.nodes
        self.nodes = dict(islice(every.items(), LOOKED_AT))
        taken = super().take(uid)
        self.nodes = every
        return taken


class LooksAtFourGangs(SimpleScheduler):
    """Only the first four gangs and pods of the queue are looked at."""

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        return islice(super().turns(), LOOKED_AT)


class RemembersNodesByName(SimpleScheduler):
    """A node that comes back under its name has what the pods of the old one took."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: dict[str, dict[str, int]] = {}

    def cancel(self, uid: str) -> None:
        node = self.where.get(uid)
        if node is not None and node not in self.nodes:
            lost = self.lost.setdefault(node, {})
            for name, amount in self.pods[uid].requests.items():
                lost[name] = lost.get(name, 0) + amount
        super().cancel(uid)

    def free(self, node: str, resource: str) -> int:
        return super().free(node, resource) - self.lost.get(node, {}).get(resource, 0)


class KeepsCapacityByName(SimpleScheduler):
    """A node that comes back under its name has the capacity of the old one."""

    def __init__(self) -> None:
        super().__init__()
        self.capacity: dict[str, Mapping[str, int]] = {}

    def add_node(self, name: str, capacity: Mapping[str, int]) -> None:
        super().add_node(name, self.capacity.setdefault(name, capacity))


class CountsCancelledMembers(SimpleScheduler):
    """A cancelled member that waited still counts for the quorum of its gang."""

    def __init__(self) -> None:
        super().__init__()
        self.ghosts: dict[str, int] = {}

    def cancel(self, uid: str) -> None:
        gang, waited = self.gang(uid), self.waiting.pop(uid, None)
        if waited is not None:
            self.ghosts[gang] = self.ghosts.get(gang, 0) + 1
        super().cancel(uid)

    def needed(self, gang: str) -> int:
        return max(1, super().needed(gang) - self.ghosts.get(gang, 0))


class RestoresOldNodes(SimpleScheduler):
    """A restored scheduler does not see the nodes that were added while it was stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Mapping[str, int]] | None = None
        self.unseen: set[str] = set()

    def stop(self) -> None:
        self.known = dict(self.nodes)

    def start(self, seconds: float) -> None:
        self.unseen |= self.nodes.keys() - (self.known or {}).keys()
        super().start(seconds)

    def free(self, node: str, resource: str) -> int:
        return 0 if node in self.unseen else super().free(node, resource)


BUGS: Final[dict[type[SimpleScheduler], tuple[int, ...]]] = {
    LeaksAtTimeout: (5,),
    ForgetsFailedBinds: (5,),
    CountsTwiceAfterRestart: (5,),
    OneShort: (1,),
    LooksAtFourNodes: (5,),
    LooksAtFourGangs: (5,),
    RemembersNodesByName: (5,),
    KeepsCapacityByName: (5, 8),
    CountsCancelledMembers: (1,),
    RestoresOldNodes: (5,),
}


def law_found(bug: type[Any], *, examples: int, seed: int) -> int | None:
    """Return the law that the kit finds broken; None if it finds none, or the bug raises.

    What is found is not shrunk, which takes longer than the search.
    """
    few = settings(
        settings.get_profile("default"),
        max_examples=examples,
        derandomize=False,
        database=None,
        deadline=None,
        phases=[Phase.generate],
    )
    forced: Any = hypothesis.core  # which is typed as if it could not be set
    forced.global_force_seed = seed
    try:
        run_state_machine_as_test(GangSchedulingMachine.for_(bug), settings=few)
    except LawViolation as found:
        return found.law
    finally:
        forced.global_force_seed = None
    return None


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--examples", type=int, nargs="+", default=[10, 25, 100])
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    for bug in BUGS:
        if options.only and bug.__name__ not in options.only:
            continue
        counts = [
            sum(
                law_found(bug, examples=examples, seed=seed) is not None
                for seed in range(options.seeds)
            )
            for examples in options.examples
        ]
        print(f"{bug.__name__:25}", *(f"{count:4}" for count in counts), flush=True)


if __name__ == "__main__":
    _main()
