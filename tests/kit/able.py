"""A toy that knows of roles, topology, bundles and taints, and four that get one of them wrong.

Who starts together is planned in one piece: every gang of a bundle within its label, with all that
are needed, or nothing happens. It shares no code with the library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import permutations, product
from typing import Any

Plan = dict[str, str]
NO_LABELS: Mapping[str, str] = {}


class Able:
    """See the module."""

    features: Collection[str] = ("roles", "topology", "bundles", "taints")

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
            for uid in members:
                self.where.update(self.plan([uid], self.value(gang)) or {})
            return
        party = [gang, *self.bundle(gang)]
        party = [each for each in party if not any(u in self.where for u in self.members(each))]
        values = [list(self.values(each)) if self.members(each) else [] for each in party]
        for chosen in product(*values):
            for order in permutations(zip(party, chosen, strict=True)):
                if plan := self.together(order):
                    self.where.update(plan)
                    return

    def together(self, order: tuple[tuple[str, str | None], ...]) -> Plan | None:
        """Place as many of each gang as it needs, or nobody."""
        whole: Plan = {}
        for gang, value in order:
            uids = self.needed(gang)
            plan = self.plan(uids, value, whole) if uids else None
            if plan is None:
                return None
            whole |= plan
        return whole

    def needed(self, gang: str) -> list[str]:
        """Choose who starts: who is needed for a role first; nobody when too few are there."""
        members, chosen = self.members(gang), list[str]()
        first = self.pods[members[0]]
        for role, least in self.roles(gang).items():
            some = [uid for uid in members if self.pods[uid].role == role][:least]
            if len(some) < least:
                return []
            chosen += some
        chosen += [uid for uid in members if uid not in chosen]
        return chosen[: first.min_available] if len(members) >= first.min_available else []

    def plan(self, uids: list[str], value: str | None, taken: Plan | None = None) -> Plan | None:
        """Say where some pods could run, within one value of their label; None if not all can."""
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

    # What each feature asks -----------------------------------------------------------------

    def roles(self, gang: str) -> Mapping[str, int]:
        return dict(self.pods[self.members(gang)[0]].roles)

    def bundle(self, gang: str) -> Collection[str]:
        return tuple(self.pods[self.members(gang)[0]].bundle)

    def suits(self, uid: str, name: str, value: str | None) -> bool:
        key, tolerated = self.pods[uid].within, self.pods[uid].tolerates
        is_there = key is None or self.labels[name].get(key) == value is not None
        return is_there and all(taint in tolerated for taint in self.taints[name])

    def values(self, gang: str) -> Iterator[str | None]:
        key = self.pods[self.members(gang)[0]].within
        found = dict.fromkeys(self.labels[name].get(key) for name in self.nodes)
        yield from (None,) if key is None else [value for value in found if value]

    def value(self, gang: str) -> str | None:
        """Where a gang is that has started."""
        members = self.members(gang)
        key = self.pods[members[0]].within
        on = [self.where[uid] for uid in members if uid in self.where]
        return self.labels[on[0]].get(key) if key and on else None

    def members(self, gang: str) -> list[str]:
        return [uid for uid, pod in self.pods.items() if (pod.group or uid) == gang]


class AnyRole(Able):
    """Counts members, whatever their role."""

    def roles(self, gang: str) -> Mapping[str, int]:
        return {}


class AnyZone(Able):
    """Takes any node that has the label at all."""

    def suits(self, uid: str, name: str, value: str | None) -> bool:
        return super().suits(uid, name, self.labels[name].get(self.pods[uid].within))


class EachAlone(Able):
    """Starts each gang of a bundle when it fits."""

    def bundle(self, gang: str) -> Collection[str]:
        return ()


class Intruder(Able):
    """Looks at taints only where a gang is to be started."""

    def suits(self, uid: str, name: str, value: str | None) -> bool:
        pod, taints = self.pods[uid], self.taints[name]
        self.taints[name] = taints if pod.group else ()
        suits = super().suits(uid, name, value)
        self.taints[name] = taints
        return suits


UNABLE: dict[type[Able], tuple[int, str]] = {
    AnyRole: (1, r"of which 0 are (ps|worker), and needs \d"),
    AnyZone: (1, "belongs within one zone, and is placed with"),
    EachAlone: (1, "without gang g2, with which it belongs together"),
    Intruder: (8, "whose taint kept it does not tolerate"),
}
"""Each with the law that it breaks, and what is said of it."""
