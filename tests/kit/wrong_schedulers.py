"""Eight wrong schedulers: ``SimpleScheduler`` with one classic fault each.

The F numbers are those of ``docs/explanation/failure-modes.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kit.simple_scheduler import SimpleScheduler


class Interleaving(SimpleScheduler):
    """F1, F56: gangs that failed at one instant are sorted by the names of their pods.

    So two gangs interleave and each holds half of the nodes. Both time out, and are then tried in
    the same order again.
    """

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        pending = [uid for uid in self.pods if uid in self.pending(self.gang(uid))]
        for uid in sorted(pending, key=lambda uid: (self.place(self.gang(uid)), self.name(uid))):
            yield self.gang(uid), [uid]

    def name(self, uid: str) -> str:
        return str(self.pods[uid].name)

    def may_start_attempt(self, gang: str) -> bool:
        return True

    def reject_gang(self, gang: str) -> None:
        super().reject_gang(gang)
        self.failed[gang] = int(self.now)

    def tick(self, seconds: float) -> None:
        end = self.now + seconds
        self.decide()
        while due := min((at for at in self.deadlines.values() if at <= end), default=None):
            self.now = due
            for gang in [gang for gang, at in self.deadlines.items() if at <= due]:
                self.reject_gang(gang)
            self.decide()
        self.now = end


class RunningOnly(SimpleScheduler):
    """F16: released members that are not bound yet are not counted."""

    def needed(self, gang: str) -> int:
        members = self.members(gang)
        running = sum(uid in self.running for uid in members)
        return 1 if running else self.pods[members[0]].min_available


class DoubleCount(SimpleScheduler):
    """F15: the member being decided is counted twice."""

    def is_quorum(self, held: int, needed: int) -> bool:
        return held + 1 >= needed


class SiblingsNotReleased(SimpleScheduler):
    """F5: on a timeout, one member gives its node back, and its siblings keep theirs."""

    in_tick = False

    def tick(self, seconds: float) -> None:
        self.in_tick = True
        super().tick(seconds)
        self.in_tick = False

    def waiting_members(self, gang: str) -> list[str]:
        waiting = super().waiting_members(gang)
        return waiting[:1] if self.in_tick else waiting


class LostWakeUp(SimpleScheduler):
    """F8: a rejected gang is requeued when a node is added, but not when one is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.parked: set[str] = set()

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        return ((gang, uids) for gang, uids in super().turns() if gang not in self.parked)

    def reject_gang(self, gang: str) -> None:
        super().reject_gang(gang)
        self.parked.add(gang)

    def add_node(self, name: str, capacity: Mapping[str, int]) -> None:
        super().add_node(name, capacity)
        self.parked.clear()


class ActivationStorm(SimpleScheduler):
    """F7: each member that gets a node activates all its siblings, which are tried again."""

    def after_hold(self, gang: str) -> None:
        self.done += len(self.members(gang))


class ByName(SimpleScheduler):
    """F21: placed members are known by name, so a recreated pod is taken for the old one."""

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[tuple[str, str], str] = {}
        self.assigned: set[tuple[str, str]] = set()

    def submit(self, pod: Any) -> None:
        super().submit(pod)
        self.latest[self.gang(pod.uid), pod.name] = pod.uid

    def cancel(self, uid: str) -> None:
        name = self.gang(uid), self.pods[uid].name
        super().cancel(uid)
        if self.latest.get(name) == uid:
            self.assigned.discard(name)

    def needed(self, gang: str) -> int:
        self.assigned |= {(self.gang(uid), self.pods[uid].name) for uid in self.placements()}
        placed = any(group == gang for group, _name in self.assigned)
        return 1 if placed else super().needed(gang)


class GivesBackTwice(SimpleScheduler):
    """F18: the node of a failed bind is given back twice."""

    def __init__(self) -> None:
        super().__init__()
        self.surplus: dict[tuple[str, str], int] = {}

    def bind_failed(self, uid: str) -> None:
        node = self.where[uid]
        for resource, amount in self.pods[uid].requests.items():
            key = (node, resource)
            self.surplus[key] = self.surplus.get(key, 0) + amount
        super().bind_failed(uid)

    def free(self, node: str, resource: str) -> int:
        return super().free(node, resource) + self.surplus.get((node, resource), 0)


WRONG = {
    Interleaving: 5,
    RunningOnly: 5,
    DoubleCount: 1,
    SiblingsNotReleased: 2,
    LostWakeUp: 5,
    ActivationStorm: 5,
    ByName: 1,
    GivesBackTwice: 8,
}
"""The wrong schedulers, each with the law that it breaks first."""
