"""A correct scheduler with all features; and others with one wrong.

It plans a whole bundle at once: a quorum of each gang within one topology value, or nothing. Of a
family it plans enough children at once. It shares no code with gangsched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, permutations, product
from typing import Any

Plan = dict[str, str]
NO_LABELS: Mapping[str, str] = {}


class FeatureScheduler:
    """A correct scheduler with all features; see the module."""

    features: Collection[str] = ("roles", "topology", "bundles", "taints", "copies", "families")

    def __init__(self) -> None:
        self.nodes: dict[str, Mapping[str, int]] = {}
        self.labels: dict[str, Mapping[str, str]] = {}
        self.taints: dict[str, Collection[str]] = {}
        self.pods: dict[str, Any] = {}
        self.where: dict[str, str] = {}
        self.parents: dict[str, Any] = {}

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

    def put_parent(self, parent: Any) -> None:
        self.parents[parent.name] = parent

    def remove_parent(self, name: str) -> None:
        del self.parents[name]

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
        if self.runs(gang) or not self.pods[self.members(gang)[0]].group:
            for uids in self.units(gang):
                self.where.update(self.plan(uids, self.value(gang)) or {})
            return
        for gangs in self.ways(gang):
            gangs = [each for each in gangs if not self.runs(each)]
            values = [list(self.values(each)) if self.members(each) else [] for each in gangs]
            for chosen in product(*values):
                for order in permutations(zip(gangs, chosen, strict=True)):
                    if plan := self.together(order):
                        self.where.update(plan)
                        return

    def runs(self, gang: str) -> bool:
        return any(uid in self.where for uid in self.members(gang))

    def ways(self, gang: str) -> Iterator[Collection[str]]:
        """Yield which gangs may start together: *gang*, or those that it waits for."""
        above = self.above(gang)
        if not above:
            yield [gang, *self.bundle(gang)]
        elif all(name in self.parents for name in above):
            unmet = [name for name in reversed(above) if not self.stands(name)]
            yield from self.choices([*unmet, gang][0])

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

    def above(self, gang: str) -> list[str]:
        """Return the parents above a gang, the nearest first."""
        found, name = list[str](), self.pods[self.members(gang)[0]].parent
        while name is not None:
            found.append(name)
            name = self.parents[name].parent if name in self.parents else None
        return found

    def children(self, parent: str) -> list[str]:
        gangs = {pod.group: None for pod in self.pods.values() if pod.parent == parent}
        return [*gangs, *(name for name, each in self.parents.items() if each.parent == parent)]

    def least(self, parent: str) -> int:
        return int(self.parents[parent].min_groups)

    def stands(self, name: str) -> bool:
        """Return whether a gang runs, or enough children of a parent stand."""
        if name not in self.parents:
            return self.runs(name)
        return sum(map(self.stands, self.children(name))) >= self.least(name)

    def choices(self, name: str) -> Iterator[Collection[str]]:
        """Yield the gangs with which a gang or parent stands."""
        if name not in self.parents:
            yield [name]
            return
        standing = [each for each in self.children(name) if self.stands(each)]
        others = [each for each in self.children(name) if each not in standing]
        for some in combinations(others, max(self.least(name) - len(standing), 0)):
            for chosen in product(*map(self.choices, some)):
                yield [gang for each in chosen for gang in each]

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


class FamilyScheduler(FeatureScheduler):
    """With groups of groups alone, so that most test cases use them."""

    features: Collection[str] = ("families",)


class AnyChildren(FamilyScheduler):
    """Wrong: starts each child of a parent by itself."""

    def least(self, parent: str) -> int:
        return 0


class AnyOfInner(FamilyScheduler):
    """Wrong: a parent below another one counts if any of its children runs."""

    def least(self, parent: str) -> int:
        return 1 if self.parents[parent].parent else super().least(parent)


class HalfChildren(FamilyScheduler):
    """Wrong: once a family has started, members of its other children start one by one."""

    def start(self, gang: str) -> None:
        above = self.above(gang) if self.pods[self.members(gang)[0]].group else []
        if above and above[-1] in self.parents and self.stands(above[-1]):
            for uid in self.members(gang):
                self.where.update(self.plan([uid], self.value(gang)) or {})
        else:
            super().start(gang)


class NoParentNeeded(FamilyScheduler):
    """Wrong: children of a parent that does not exist start alone."""

    def above(self, gang: str) -> list[str]:
        return [name for name in super().above(gang) if name in self.parents]


class NeverMore(FamilyScheduler):
    """Wrong: does not notice that a parent needs more children than before."""

    def put_parent(self, parent: Any) -> None:
        known = self.parents.get(parent.name, parent)
        self.parents[parent.name] = min(known, parent, key=lambda each: int(each.min_groups))


class SurplusFirst(FamilyScheduler):
    """Wrong: members beyond the minimum of one gang go before the minimum of its sibling."""

    def together(self, order: tuple[tuple[str, str | None], ...]) -> Plan | None:
        whole: Plan = {}
        arrived = list(self.pods)
        for gang, value in sorted(order, key=lambda each: arrived.index(self.members(each[0])[0])):
            needed = self.needed(gang)
            plan = self.plan(needed, value, whole) if needed else None
            if plan is None:
                return None
            whole |= plan
            for uid in self.members(gang):
                if uid not in whole and self.above(gang) and not self.pods[uid].copies:
                    whole |= self.plan([uid], value, whole) or {}
        return whole


WRONG_FEATURES: dict[type[FeatureScheduler], tuple[int, str]] = {
    AnyRole: (1, r"of which 0 have role (ps|worker), and needs \d"),
    AnyZone: (1, "must be within one zone, and is placed with"),
    EachAlone: (1, "without gang g2 of its bundle"),
    AnyMembers: (1, r"which are \d whole copies, and needs \d"),
    HalfCopies: (1, r"copy \d of gang g\d starts with \d .* and needs \d together"),
    AnyChildren: (1, r"of p\d only .*: it needs \d whole children together"),
    AnyOfInner: (1, r"of p\d only .*: it needs \d whole children together"),
    HalfChildren: (1, r"gang g\d starts with \d .* and needs \d together"),
    NoParentNeeded: (1, r"gang g\d starts, and p\d, the parent of .*, does not exist"),
    NeverMore: (1, r"of p\d only .*: it needs \d whole children together"),
    SurplusFirst: (5, r"gang g\d .* fits, and no pod has started"),
    Intruder: (8, "does not tolerate its taint dedicated"),
}
"""The wrong schedulers, each with the law that it breaks and the message."""
