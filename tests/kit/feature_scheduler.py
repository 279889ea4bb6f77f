"""A correct scheduler with roles, topology, bundles, taints and copies; and others with one wrong.

It plans a whole bundle at once: a quorum of each gang within one topology value, or nothing. It
shares no code with gangsched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import permutations, product
from typing import Any

Plan = dict[str, str]
NO_LABELS: Mapping[str, str] = {}


class FeatureScheduler:
    """A correct scheduler with all features; see the module."""

    features: Collection[str] = ("roles", "topology", "bundles", "taints", "copies")

    def __init__(self) -> None:
        self.nodes: dict[str, Mapping[str, int]] = {}
        self.labels: dict[str, Mapping[str, str]] = {}
        self.taints: dict[str, Collection[str]] = {}
        self.pods: dict[str, Any] = {}
        self.where: dict[str, str] = {}

    # The contract ---------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        labels: Mapping[str, str] = NO_LABELS,
        taints: Collection[str] = (),
    ) -> None:
        self.nodes[name], self.labels[name], self.taints[name] = capacity, labels, taints

    def remove_node(self, name: str) -> None:
        del self.nodes[name]

    def submit(self, pod: Any) -> None:
        self.pods[pod.uid] = pod

    def cancel(self, uid: str) -> None:
        del self.pods[uid]
        self.where.pop(uid, None)

    def tick(self, seconds: float) -> None:
        for gang in dict.fromkeys(pod.group or uid for uid, pod in self.pods.items()):
            self.start(gang)

    def placements(self) -> Mapping[str, str]:
        return self.where

    def bind_succeeded(self, uid: str) -> None:
        pass

    def bind_failed(self, uid: str) -> None:
        del self.where[uid]

    def restart(self) -> None:
        pass

    # Decisions ------------------------------------------------------------------------------

    def start(self, gang: str) -> None:
        members = self.members(gang)
        if any(uid in self.where for uid in members) or not self.pods[members[0]].group:
            for uids in self.units(gang):
                self.where.update(self.plan(uids, self.value(gang)) or {})
            return
        gangs = [gang, *self.bundle(gang)]
        gangs = [each for each in gangs if not any(u in self.where for u in self.members(each))]
        values = [list(self.values(each)) if self.members(each) else [] for each in gangs]
        for chosen in product(*values):
            for order in permutations(zip(gangs, chosen, strict=True)):
                if plan := self.together(order):
                    self.where.update(plan)
                    return

    def together(self, order: tuple[tuple[str, str | None], ...]) -> Plan | None:
        """Return a plan for a quorum of each gang, or None."""
        whole: Plan = {}
        for gang, value in order:
            uids = self.needed(gang)
            plan = self.plan(uids, value, whole) if uids else None
            if plan is None:
                return None
            whole |= plan
        return whole

    def needed(self, gang: str) -> list[str]:
        """Return a quorum of a gang, required roles first; [] if members are missing."""
        members, chosen = self.members(gang), list[str]()
        first = self.pods[members[0]]
        if first.copies and self.has_copies:
            copies = [uids[: first.copy_size] for uids in self.copies(gang).values()]
            whole = [uids for uids in copies if len(uids) == first.copy_size]
            needed = first.min_available // first.copy_size
            return [u for uids in whole[:needed] for u in uids] if len(whole) >= needed else []
        for role, least in self.roles(gang).items():
            some = [uid for uid in members if self.pods[uid].role == role][:least]
            if len(some) < least:
                return []
            chosen += some
        chosen += [uid for uid in members if uid not in chosen]
        return chosen[: first.min_available] if len(members) >= first.min_available else []

    def plan(self, uids: list[str], value: str | None, taken: Plan | None = None) -> Plan | None:
        """Return nodes for all pods within one topology value, or None if they do not fit."""
        plan: Plan = {}
        for uid in uids:
            if uid in self.where:
                continue
            for name in self.nodes:
                if self.suits(uid, name, value) and self.has_room(
                    uid, name, {**(taken or {}), **plan}
                ):
                    plan[uid] = name
                    break
            else:
                return None
        return plan

    def has_room(self, uid: str, name: str, plan: Plan) -> bool:
        there = [self.pods[u] for u, on in {**self.where, **plan}.items() if on == name]
        taken: int = sum(pod.requests["gpu"] for pod in there)
        return int(self.nodes[name]["gpu"]) >= taken + int(self.pods[uid].requests["gpu"])

    # Features -----------------------------------------------------------------

    has_copies = True

    def copies(self, gang: str) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for uid in self.members(gang):
            found.setdefault(self.pods[uid].copy, []).append(uid)
        return found

    def units(self, gang: str) -> Iterator[list[str]]:
        """Yield what goes together once a gang has started: members, or whole copies."""
        for uids in self.copies(gang).values():
            size = self.pods[uids[0]].copy_size
            if size and not any(uid in self.where for uid in uids):
                if len(uids) >= size:
                    yield uids[:size]
            else:
                yield from ([uid] for uid in uids)

    def roles(self, gang: str) -> Mapping[str, int]:
        return dict(self.pods[self.members(gang)[0]].roles)

    def bundle(self, gang: str) -> Collection[str]:
        return tuple(self.pods[self.members(gang)[0]].bundle)

    def suits(self, uid: str, name: str, value: str | None) -> bool:
        key, tolerated = self.pods[uid].topology_key, self.pods[uid].tolerates
        is_there = key is None or self.labels[name].get(key) == value is not None
        return is_there and all(taint in tolerated for taint in self.taints[name])

    def values(self, gang: str) -> Iterator[str | None]:
        key = self.pods[self.members(gang)[0]].topology_key
        found = dict.fromkeys(self.labels[name].get(key) for name in self.nodes)
        yield from (None,) if key is None else [value for value in found if value]

    def value(self, gang: str) -> str | None:
        """Return the topology value of a gang that has started."""
        members = self.members(gang)
        key = self.pods[members[0]].topology_key
        on = [self.where[uid] for uid in members if uid in self.where]
        return self.labels[on[0]].get(key) if key and on else None

    def members(self, gang: str) -> list[str]:
        return [uid for uid, pod in self.pods.items() if (pod.group or uid) == gang]


class AnyRole(FeatureScheduler):
    """Wrong: counts members of any role."""

    def roles(self, gang: str) -> Mapping[str, int]:
        return {}


class AnyZone(FeatureScheduler):
    """Wrong: takes nodes with any value of the topology key."""

    def suits(self, uid: str, name: str, value: str | None) -> bool:
        return super().suits(uid, name, self.labels[name].get(self.pods[uid].topology_key))


class EachAlone(FeatureScheduler):
    """Wrong: starts each gang of a bundle alone."""

    def bundle(self, gang: str) -> Collection[str]:
        return ()


class Intruder(FeatureScheduler):
    """Wrong: ignores taints for pods without a gang."""

    def suits(self, uid: str, name: str, value: str | None) -> bool:
        pod, taints = self.pods[uid], self.taints[name]
        self.taints[name] = taints if pod.group else ()
        suits = super().suits(uid, name, value)
        self.taints[name] = taints
        return suits


class AnyMembers(FeatureScheduler):
    """Wrong: counts members of any copy."""

    has_copies = False


class HalfCopies(FeatureScheduler):
    """Wrong: once the gang has started, members of its other copies start one by one."""

    def units(self, gang: str) -> Iterator[list[str]]:
        yield from ([uid] for uid in self.members(gang))


WRONG_FEATURES: dict[type[FeatureScheduler], tuple[int, str]] = {
    AnyRole: (1, r"of which 0 have role (ps|worker), and needs \d"),
    AnyZone: (1, "must be within one zone, and is placed with"),
    EachAlone: (1, "without gang g2 of its bundle"),
    AnyMembers: (1, r"which are \d whole copies, and needs \d"),
    HalfCopies: (1, r"copy \d of gang g\d starts with \d .* and needs \d together"),
    Intruder: (8, "does not tolerate its taint dedicated"),
}
"""The wrong schedulers, each with the law that it breaks and the message."""
