"""What an observer outside a scheduler knows, and the laws that it checks.

Rules:
  R1  the observer knows the events sent to the adapter, and the pods it shows: placed and
      waiting ones;
  R2  it accepts everything that a scheduler may do without breaking a law;
  R3  while events are delayed, it accepts what follows from events that are not delivered yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

from attrs import define, field

from gangsched.errors import InvalidValueError
from gangsched.testing import _gang_start
from gangsched.testing._contract import PlainPod, SchedulerSpec
from gangsched.testing._families import ancestors, family_violation
from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._violation import LawBroken

__all__ = ["Observer"]

Wait = tuple[str, object]
_TOLERANCE = 1e-6


@define(eq=False)
class Observer:
    """The pods and nodes of one test case.

    Attributes:
        spec: What the kit may expect of the scheduler.
        now: Seconds since the first step.
        nodes: The capacity of each node.
        labels: The labels of each node.
        taints: The taints of each node.
        pods: The pods that exist, by UID.
        parents: The groups of groups that exist, by name.
        placed: The node of each placed pod.
        waiting: The node and the attempt of each waiting pod.
        started: The gangs that have started; see ``SchedulerSpec.once_satisfied``.
        is_delayed: Whether events are delayed.
    """

    spec: SchedulerSpec
    now: float = 0.0
    nodes: dict[str, Mapping[str, int]] = field(factory=dict[str, Mapping[str, int]])
    labels: dict[str, Mapping[str, str]] = field(factory=dict[str, Mapping[str, str]])
    taints: dict[str, Collection[str]] = field(factory=dict[str, Collection[str]])
    pods: dict[str, PlainPod] = field(factory=dict[str, PlainPod])
    parents: dict[str, PlainParent] = field(factory=dict[str, PlainParent])
    placed: dict[str, str] = field(factory=dict[str, str])
    waiting: dict[str, Wait] = field(factory=dict[str, Wait])
    started: set[str] = field(factory=set[str])
    is_delayed: bool = False
    _since: dict[tuple[str, object], float] = field(factory=dict[tuple[str, object], float])
    _unreported: dict[str, int] = field(factory=dict[str, int])
    _removed: set[str] = field(factory=set[str])
    _failed_at: dict[str, float] = field(factory=dict[str, float])
    _earlier: dict[str, list[PlainParent]] = field(factory=dict[str, list[PlainParent]])
    _lost_below: set[str] = field(factory=set[str])

    # Inputs ---------------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        labels: Mapping[str, str],
        taints: Collection[str],
    ) -> None:
        """Add a node."""
        self.nodes[name], self.labels[name], self.taints[name] = capacity, labels, taints

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        del self.nodes[name], self.labels[name], self.taints[name]
        if self.is_delayed:
            self._removed.add(name)

    def can_add_node(self, name: str) -> bool:
        """Return whether a node can get a name: the scheduler must know that the old one is gone.

        Otherwise its decisions about the old node would be taken as decisions about the new one.
        """
        return name not in self.nodes and name not in self._removed

    def cancel(self, uid: str) -> None:
        """Remove a pod."""
        pod = self.pods.pop(uid)
        self._failed_at.pop(uid, None)
        if pod.group is None:
            return
        if self.is_delayed:
            self._unreported[pod.group] = self._unreported.get(pod.group, 0) + 1
            self._lost_below.update(ancestors(self.parents, pod.parent))

    def put_parent(self, parent: PlainParent) -> None:
        """Add or change a group of groups.

        Raises:
            InvalidValueError: Its parent is below it.
        """
        if parent.name in ancestors(self.parents, parent.parent):
            raise InvalidValueError("parent", parent.parent, f"one that is not below {parent.name}")
        self.remove_parent(parent.name)
        self.parents[parent.name] = parent

    def remove_parent(self, name: str) -> None:
        """Remove a group of groups, if there is one."""
        earlier = self.parents.pop(name, None)
        if earlier is not None and self.is_delayed:
            self._earlier.setdefault(name, []).append(earlier)

    def delay_events(self, delayed: bool) -> None:
        """Note that events are delayed from now on, or that all were delivered."""
        self.is_delayed = delayed
        if not delayed:
            self._unreported.clear()
            self._earlier.clear()
            self._lost_below.clear()
            self._removed.clear()
            self._forget_starts()

    def unreported(self, group: str) -> int:
        """Return how many members of a gang are gone while their deletion is delayed."""
        return self._unreported.get(group, 0)

    def versions(self, name: str) -> list[PlainParent]:
        """Return a parent as it is, and as it was before events that are not delivered yet."""
        known = self.parents.get(name)
        return [*([] if known is None else [known]), *self._earlier.get(name, ())]

    def has_lost(self, name: str) -> bool:
        """Return whether a member below a parent is gone while its deletion is delayed."""
        return name in self._lost_below

    def time_step(self) -> float:
        """Return the largest number of seconds that may pass until the next look."""
        least = self.spec.min_backoff
        in_backoff = any(self.now - at < least for at in self._failed_at.values())
        return min(self.spec.time_step, least / 2) if in_backoff else self.spec.time_step

    def members(self, group: str) -> list[str]:
        """Return the UIDs of the members of a gang."""
        return [uid for uid, pod in self.pods.items() if pod.group == group]

    def pending(self) -> dict[str, list[str]]:
        """Return the pods that are not placed: by gang, and each other pod alone."""
        found: dict[str, list[str]] = {}
        for uid, pod in self.pods.items():
            if uid not in self.placed:
                found.setdefault(f"gang {pod.group}" if pod.group else uid, []).append(uid)
        return found

    def free(self, *, count_waiting: bool = False) -> dict[str, dict[str, int]]:
        """Return the free capacity of each node, beside placed and perhaps waiting pods."""
        free = {name: dict(capacity) for name, capacity in self.nodes.items()}
        where = list(self.placed.items())
        where += [(uid, wait[0]) for uid, wait in self.waiting.items()] if count_waiting else []
        for uid, name in where:
            if name in free and uid in self.pods:
                for resource, amount in self.pods[uid].requests.items():
                    free[name][resource] = free[name].get(resource, 0) - amount
        return free

    # Checks ---------------------------------------------------------------------------------

    def look(
        self,
        placed: Mapping[str, str],
        waiting: Mapping[str, Wait],
        *,
        failed: Collection[str] = (),
        restarted: bool = False,
    ) -> None:
        """Record what the adapter shows, and check laws 1, 2, 6 and 8.

        Args:
            placed: The node of each placed pod.
            waiting: The node and the attempt of each waiting pod.
            failed: The pods whose bind was reported as failed since the last look.
            restarted: Whether the scheduler was restarted, so that waiting pods may have given
                their nodes back one by one.

        Raises:
            LawBroken: What the adapter shows breaks a law.
        """
        before, self.placed = self.placed, dict(placed)
        waiting_before, self.waiting = self.waiting, dict(waiting)
        self._check_existence(before, failed)
        self._check_capacity()
        self._check_backoff(failed, restarted=restarted)
        self._check_starts(before)
        if not restarted:
            self._check_rejections(waiting_before)
        self._check_timeouts()
        self._forget_starts()

    def _forget_starts(self) -> None:
        """Forget the start of each gang that has no pod left: it needs a quorum again."""
        if not self.is_delayed:
            left = self.pods if self.spec.once_satisfied else self.placed
            self.started &= {self.pods[uid].group or "" for uid in left}

    def _check_existence(self, before: Mapping[str, str], failed: Collection[str]) -> None:
        """Law 8: each pod is on one node, which exists, and stays there."""
        for uid, name in self.placed.items():
            if uid not in self.pods:
                _break(8, f"{uid} is placed on {name}, and does not exist (any more)")
            if name not in self.nodes:
                _break(8, f"{uid} is placed on {name}, which does not exist")
            if before.get(uid, name) != name and uid not in failed:
                _break(8, f"{uid} was placed on {before[uid]}, and is now placed on {name}")
        for uid, name in before.items():
            may_be_gone = uid not in self.pods or uid in failed or self.spec.may_evict
            if uid not in self.placed and not may_be_gone:
                _break(8, f"{uid} was placed on {name}, and is on no node; it was not cancelled")
        for uid, (name, _attempt) in self.waiting.items():
            if uid in self.placed:
                _break(8, f"{uid} is placed on {self.placed[uid]}, and also waits on {name}")
            if uid not in self.pods and not self.is_delayed:
                _break(8, f"{uid} waits on {name}, and does not exist (any more)")
            if name not in self.nodes and not self.is_delayed:
                _break(8, f"{uid} waits on {name}, which does not exist")

    def _check_capacity(self) -> None:
        """Law 8: the pods of a node fit into its capacity, and tolerate its taints."""
        for name, free in self.free(count_waiting=True).items():
            for resource, amount in free.items():
                if amount < 0:
                    offered = self.nodes[name].get(resource, 0)
                    uids = [uid for uid, node in self.placed.items() if node == name]
                    uids += [uid for uid, wait in self.waiting.items() if wait[0] == name]
                    _break(
                        8,
                        f"{name} has {offered} {resource}, and {', '.join(uids)} "
                        f"take {offered - amount}",
                    )

        waiting = {uid: wait[0] for uid, wait in self.waiting.items()}
        _check(8, _gang_start.taint_violation(self.pods, self.placed | waiting, self.taints))

    def _check_backoff(self, failed: Collection[str], *, restarted: bool) -> None:
        """Law 5: a pod whose bind has failed is not placed again before its backoff is over."""
        if restarted:
            self._failed_at.clear()  # a new process does not know the failures of the old one
        self._failed_at.update(dict.fromkeys(failed, self.now))
        for uid, at in list(self._failed_at.items()):
            if uid in self.placed:
                del self._failed_at[uid]
                passed, least = self.now - at, self.spec.min_backoff
                # a bundle or a family is tried when the backoff of any of its gangs is over
                is_alone = not self.pods[uid].bundle and self.pods[uid].parent is None
                if passed < least - _TOLERANCE and is_alone:
                    message = f"the bind of {uid} failed, and it is placed again after"
                    _break(5, f"{message} {passed:g} s, before its backoff of {least:g} s is over")

    def _check_starts(self, before: Mapping[str, str]) -> None:
        """Law 1: a gang starts with a quorum, or not at all."""
        new = [uid for uid, name in self.placed.items() if before.get(uid) != name]
        groups = [g for g in dict.fromkeys(self.pods[uid].group for uid in new) if g is not None]
        starting = [group for group in groups if group not in self.started]
        for group in starting:
            _check(1, _gang_start.quorum_violation(self, group))
        # before the bundles are checked: the gangs of one bundle start in one step
        started = self.started.copy()
        self.started.update(starting)
        for group in starting:
            _check(1, _gang_start.bundle_violation(self, group))
            _check(1, family_violation(self, group, started))
        for group in groups:
            _check(1, _gang_start.copy_violation(self, group, before))
            _check(1, _gang_start.topology_violation(self, group))

    def _check_rejections(self, before: Mapping[str, Wait]) -> None:
        """Law 2: a rejected attempt gives all its nodes back at once."""
        released: dict[tuple[str, object], str] = {}
        for uid, (name, attempt) in before.items():
            pod = self.pods.get(uid)
            if pod is None or pod.group is None or uid in self.placed or name not in self.nodes:
                continue
            if uid not in self.waiting or self.waiting[uid][1] != attempt:
                released[pod.group, attempt] = uid
        for uid, (name, attempt) in self.waiting.items():
            pod = self.pods.get(uid)
            if pod is None or pod.group is None or before.get(uid) != (name, attempt):
                continue
            first = released.get((pod.group, attempt))
            if first is not None:
                _break(
                    2,
                    f"gang {pod.group}: {first} has given {before[first][0]} back, and {uid} "
                    f"still waits on {name}",
                )

    def _check_timeouts(self) -> None:
        """Law 6: an attempt holds nodes for one permit timeout at most."""
        before, self._since = self._since, {}
        for uid, (name, attempt) in self.waiting.items():
            pod = self.pods.get(uid)
            key = (f"gang {pod.group}" if pod and pod.group else uid, attempt)
            since = self._since[key] = before.get(key, self.now)
            if self.now - since > self.spec.permit_timeout + _TOLERANCE:
                _break(
                    6,
                    f"{key[0]} has held nodes for {self.now - since:g} s ({uid} on {name}), "
                    f"longer than its permit timeout of {self.spec.permit_timeout:g} s",
                )

    def lines(self) -> Iterable[str]:
        """Yield one line per pod that says where it is."""
        for uid, name in self.placed.items():
            yield f"{uid} is placed on {name}"
        for uid, (name, attempt) in self.waiting.items():
            yield f"{uid} waits on {name}" + (f", attempt {attempt}" if attempt else "")
        for uid in self.pods:
            if uid not in self.placed and uid not in self.waiting:
                yield f"{uid} is pending"


def _check(law: int, problem: str) -> None:
    if problem:
        _break(law, problem)


def _break(law: int, message: str) -> NoReturn:
    raise LawBroken(law, message)
