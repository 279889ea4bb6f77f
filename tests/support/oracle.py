"""The oracle of the laws: it checks a scheduler from outside, and shares no code with it.

Pass it every event that the scheduler handles, and every tuple of effects that is returned::

    oracle.event(event, now=t)
    oracle.effects(scheduler.handle(event, now=t), now=t)

Effects without an event (``advance``, ``schedule_one``) are passed alone. At the first effect
that breaks a law, the oracle raises an ``AssertionError`` that names the law, the pod or group,
and what was expected. Laws about the end of a history (no lost wake-up, no livelock, no leaks,
determinism, restart) have tests of their own.

Rules:
  R1  it knows events and effects only; see ``support.account``, and ``support.preemption_laws`` for
      preemption and reserved capacity;
  R2  it costs O(effects), plus O(members) per release and per change of a specification.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, assert_never

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    Effect,
    Event,
    Evict,
    GroupBound,
    GroupKey,
    GroupRejected,
    GroupScheduled,
    MatchPolicy,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodRejected,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    Release,
)
from gangsched.model._pod_copy import pod_with_fields
from support.account import Account, Claim, Group, Hold, Record, claim_of, role_of
from support.minima import minima
from support.placement_oracle import lacks, may_be_placed
from support.preemption_laws import PreemptionLaws

_SLACK = 1e-6
"""Deadlines are sums of floats."""
_GIVEN_UP = "the bind of pod "
"""How the reason begins for which a gang is evicted after a bind has failed for good."""


class LawOracle:
    """Checks the laws of gang scheduling, step by step.

    Law 1: a member of a group that has not started is bound only when at least ``min_available``
    distinct members hold a node at that instant, and the minimum of each role. All released
    members are bound in the same tuple. In the same call, every other group of the bundle starts
    unless it has started before. If a topology label is required, all members are on nodes with
    one value of it.

    Law 2: no member of a rejected group waits. Law 6: no member waits longer than one timeout
    from the first waiting member of its attempt. Law 8: each member has one state, no second bind
    is issued while the first is in flight, and no node is oversubscribed.

    Args:
        permit_timeout: The policy's timeout, for groups without one.
        match: Which members count for a quorum.
        group_of: Returns the group of a pod, and the minimum that its labels give.
        cluster: The cluster state, for histories in which events come late, twice or out of
            order, or binds take effect that were reported as failed. Then the oracle reads the
            object of each event from it. While events are delayed, the scheduler may know either
            state.
    """

    def __init__(
        self,
        *,
        permit_timeout: float = 10.0,
        match: MatchPolicy = MatchPolicy.ONCE_SATISFIED,
        group_of: Callable[[Pod], Claim | None] = claim_of,
        cluster: ClusterState | None = None,
    ) -> None:
        self.account = Account(group_of, cluster)
        self.keeping = PreemptionLaws(self.account)
        self._permit_timeout = permit_timeout
        self._match = match
        self._cluster = cluster
        self._touched: list[Record] = []
        self._waits: list[tuple[float, PodUID, float]] = []
        self._released: dict[PodUID, Group] = {}
        self._starting: list[tuple[Group, frozenset[PodUID]]] = []
        self._together = 0
        self._gone_together: frozenset[PodUID] = frozenset()
        self._bound_now: list[Record] = []

    # Facts ----------------------------------------------------------------------------------

    def event(self, event: Event, now: float) -> None:
        """Record an event that the scheduler is about to handle."""
        account = self.account
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                self._see_pod(pod.uid, pod)
            case PodDeleted(uid):
                self._see_pod(uid, None)
            case NodeAdded(node) | NodeUpdated(node):
                account.see_node(node.name, node)
            case NodeDeleted(name):
                account.see_node(name, None)
            case PodGroupAdded(group) | PodGroupUpdated(group):
                self._touched += account.see_group(group.key, group)
            case PodGroupDeleted(key):
                self._touched += account.see_group(key, None)
            case Bound(uid, name):
                self._see_bound(uid, name)
            case BindFailed(uid, attempt):
                self._see_failed(uid, attempt)
            case PermitAllowed() | PermitRejected():
                pass  # an answer is not in the cluster: the effects show what follows from it
            case ObjectChanged() | ObjectDeleted():
                pass  # the profiles that the oracle knows read no such objects
            case _:
                assert_never(event)
        self.keeping.see()

    def _see_pod(self, uid: PodUID, told: Pod | None) -> Record | None:
        record = self.account.see_pod(uid, told)
        if record is not None:
            self._touched.append(record)
        return record

    def _see_bound(self, uid: PodUID, name: NodeName) -> None:
        record = self.account.pods.get(uid)
        if record is None or record.gone:
            return
        if self._cluster is None:
            self._see_pod(uid, pod_with_fields(record.pod, node_name=name))
        else:
            self._see_pod(uid, record.pod)

    def _see_failed(self, uid: PodUID, attempt: int) -> None:
        record = self.account.pods.get(uid)
        if record is None:
            return
        self._see_pod(uid, record.pod)
        hold = record.hold
        shown = record.gone or record.pod.is_finished or record.bound is not None
        if not shown and hold and hold.deadline is None and hold.attempt == attempt:
            record.leaving = False
            self._let(record, None)
            self._see_pod(uid, record.pod)

    # Effects --------------------------------------------------------------------------------

    def effects(self, effects: Iterable[Effect], now: float) -> None:
        """Check the effects of one call."""
        for effect in effects:
            match effect:
                case PodWaiting():
                    self._on_waiting(effect, now)
                case Bind():
                    self._on_bind(effect, now)
                case Release():
                    self._on_release(effect)
                case Evict():
                    self._on_evict(effect)
                case PodRejected():
                    self._on_rejected(effect)
                case PodScheduled():
                    self._on_scheduled(effect)
                case PodUnschedulable(uid):
                    self._on_unschedulable(uid)
                case GroupRejected():
                    self._on_group_rejected(effect)
                case GroupScheduled():
                    self._on_group_scheduled(effect)
                case GroupBound():
                    self._is_that_of_its_start(effect)
                case Nominated():
                    self.keeping.on_nominated(effect)
                case NominationLapsed():
                    self.keeping.on_lapsed(effect)
                case _:
                    pass
        self._at_the_end(now)

    def _on_waiting(self, effect: PodWaiting, now: float) -> None:
        record = self._placed(effect.uid, effect.node)
        hold = Hold(effect.node, record.pod.requests, effect.deadline, 0, now)
        self._let(record, hold)
        first, timeout = now, self._permit_timeout
        group = record.group
        if group is not None:
            first = group.since = now if group.since is None else group.since
            told = None if group.spec is None else group.spec.schedule_timeout
            timeout = timeout if told is None else told
            late = None if self._cluster is None else self._cluster.pod_group(group.key)
            if late is not None and late != group.spec:
                own = late.schedule_timeout
                timeout = max(timeout, self._permit_timeout if own is None else own)
        if not now <= effect.deadline <= max(first + timeout, now) + _SLACK:
            due = f"one timeout of {timeout:g} after {first:g}"
            self._broken(6, f"{effect.uid} waits until {effect.deadline:g}, not until {due}")
        heapq.heappush(self._waits, (effect.deadline, effect.uid, now))

    def _on_bind(self, effect: Bind, now: float) -> None:
        record = self.account.pods.get(effect.uid)
        hold = None if record is None else record.hold
        if record is None or hold is None:
            record = self._placed(effect.uid, effect.node)
        elif hold.deadline is None:
            self._broken(8, f"{effect.uid} is bound while its bind {hold.attempt} is under way")
        elif hold.node != effect.node:
            self._broken(8, f"{effect.uid} holds {hold.node}, and is bound to {effect.node}")
        if effect.attempt <= record.attempt:
            self._broken(8, f"{effect.uid}: a second bind says attempt {effect.attempt}")
        record.attempt = effect.attempt
        self._bound_now.append(record)
        requests = record.pod.requests if hold is None else hold.requests
        self._let(record, Hold(effect.node, requests, None, effect.attempt, now))
        if record.group is None:
            return
        record.went_as = role_of(record.pod)
        if self._released.pop(effect.uid, None) is not record.group:
            self._broken(1, f"{effect.uid} is bound without a release of {record.group.key}")
        if record.group not in self._released.values():
            self._is_quorum(record.group)

    def _is_quorum(self, group: Group) -> None:
        if group.started and self._match is MatchPolicy.ONCE_SATISFIED:
            return
        need = group.need
        holding = sum(member.counts for member in group.members.values())
        if self._match is MatchPolicy.ONLY_WAITING:
            holding = self._together + group.waiting
        if need is not None:
            holding += self._succeeded(group.members.values(), need - holding)
        if self._cluster is not None and (need is None or holding < need):
            need, holding = self._latest(group)
        if need is None or holding < need:
            self._broken(1, f"{group.key} is let go with {holding} members of {need}")
        self._has_roles(group)
        if not group.started:
            self._starting.append((group, self._gone_together))
        group.started = True
        for member in group.members.values():
            member.landed = False  # it belongs to what starts now

    @staticmethod
    def _succeeded(members: Iterable[Record], missing: int) -> int:
        """Return how many succeeded members count: none if pending members could be the rest."""
        found = list(members)
        if sum(member.is_pending for member in found) >= missing:
            return 0
        return sum(member.has_succeeded for member in found)

    def _starts_with_its_bundle(self, group: Group) -> None:
        """Check that the bundle of a group has started, counting delayed events as delivered."""
        bundles = self._bundles_of(group.key)
        if not any(all(self._has_started(key, each) for key in each) for each in bundles):
            self._broken(1, f"{group.key} is let go without others of {bundles}")

    def _starts_within_its_label(self, group: Group, gone: frozenset[PodUID]) -> None:
        """Check that released members are on nodes with one value, that of placed members.

        While events are delayed, the old labels of a node are accepted, too.
        """
        topology = None if group.spec is None else group.spec.topology
        if topology is None or not topology.required or topology.key is None:
            return
        before, now = set[str | None](), list[set[str | None]]()
        for uid, member in group.members.items():
            name = member.bound if member.hold is None else member.hold.node
            if member.counts and name in self.account.nodes:
                values = {node.labels.get(topology.key) for node in self.account.nodes[name]}
                if uid in gone:
                    now.append(values)
                else:
                    before |= values
        # members on nodes without the label do not constrain the others
        where = before - {None}
        if not where and now:
            where = set[str | None].intersection(*now) - {None}
        if not all(values & where for values in now):
            self._broken(1, f"{group.key} is let go to {now}, not within one {topology.key}")

    def _bundles_of(self, key: GroupKey) -> list[list[GroupKey]]:
        """Return the bundle of a group by its delivered and by its current specification."""
        known = self.account.groups.get(key)
        specs = [None if known is None else known.spec]
        specs += [] if self._cluster is None else [self._cluster.pod_group(key)]
        return [sorted({key, *spec.bundle}) if spec and spec.bundle else [] for spec in specs]

    def _has_started(self, key: GroupKey, bundle: list[GroupKey]) -> bool:
        group = self.account.groups.get(key)
        if group is None or bundle not in self._bundles_of(key):
            return False
        need, holding = (None, 0) if self._cluster is None else self._latest(group)
        return group.started or (need is not None and holding >= need)

    def _has_roles(self, group: Group) -> None:
        """Check that enough members of each role hold a node."""
        needed = [group.roles]
        late = None if self._cluster is None else self._cluster.pod_group(group.key)
        if self._cluster is not None:
            needed.append({} if late is None else minima(late))
        held = [
            self._roles_of(uid, member)
            for uid, member in group.members.items()
            if self._holds(uid, member)
        ]
        if not any(self._meets(group, held, each) for each in needed):
            self._broken(1, f"{group.key} is let go with {held}, and needs {group.roles}")

    def _meets(self, group: Group, held: list[set[str | None]], needed: Mapping[str, int]) -> bool:
        """Return whether the roles have their minima; succeeded members fill what is missing."""
        for role, least in needed.items():
            count = sum(role in some for some in held)
            own = [m for m in group.members.values() if role_of(m.pod) == role]
            if count + self._succeeded(own, least - count) < least:
                return False
        return True

    def _roles_of(self, uid: PodUID, member: Record) -> set[str | None]:
        """Return the role of a member by its delivered and by its current pod."""
        late = None if self._cluster is None else self._cluster.pod(uid)
        roles = {role_of(member.pod), role_of(member.pod if late is None else late)}
        if member.is_being_bound:
            roles.add(member.went_as)
        return roles

    def _holds(self, uid: PodUID, member: Record) -> bool:
        """Return whether a member counts for the quorum, counting delayed events as delivered."""
        if self._match is MatchPolicy.ONLY_WAITING:
            waits = member.hold is not None and member.hold.deadline is not None
            return waits or uid in self._gone_together
        return bool(member.counts) or self._shown(uid)

    def _shown(self, uid: PodUID) -> bool:
        """Return whether the cluster state shows a pod on a node."""
        pod = None if self._cluster is None else self._cluster.pod(uid)
        bound = pod is not None and pod.node_name is not None and not pod.is_finished
        return bound and pod is not None and pod.deleted_at is None

    def _latest(self, group: Group) -> tuple[int | None, int]:
        """Return the quorum and the number of holders, counting delayed events as delivered."""
        assert self._cluster is not None
        late = self._cluster.pod_group(group.key)
        needs = [group.need, None if late is None else late.min_available]
        holding = sum(m.counts or self._shown(uid) for uid, m in group.members.items())
        holding += sum(member.has_succeeded for member in group.members.values())
        return min((need for need in needs if need is not None), default=None), holding

    def _on_release(self, effect: Release) -> None:
        group = self.account.groups.get(effect.group)
        if group is None:
            self._broken(1, f"{effect.group} is released, and nobody has heard of it")
        if self._released or len(set(effect.members)) != len(effect.members):
            self._broken(1, f"{effect.group} is released amid a release, or a member twice")
        self._released = dict.fromkeys(effect.members, group)
        self._together = len(effect.members)
        self._gone_together = frozenset(effect.members)

    def _on_evict(self, effect: Evict) -> None:
        record = self.account.pods.get(effect.uid)
        if record is None or record.evicted:
            self._broken(8, f"{effect.uid} is evicted, and is not there, or was evicted already")
        held = record.bound if record.hold is None else record.hold.node
        waits = record.hold is not None and record.hold.deadline is not None
        if held != effect.node or waits:
            self._broken(8, f"{effect.uid} is evicted from {effect.node}, and holds {held}")
        record.evicted = True
        self.account.place(record)
        self.keeping.on_evicted(record)

    def _on_rejected(self, effect: PodRejected) -> None:
        record = self.account.pods.get(effect.uid)
        hold = None if record is None else record.hold
        if record is None or hold is None or hold.node != effect.node:
            self._broken(8, f"{effect.uid} gives {effect.node} back, and does not hold it")
        if hold.deadline is None and not record.gone and not record.pod.is_finished:
            if record.bound is None:
                self._broken(8, f"{effect.uid} gives its node back with its bind under way")
            if record.bound == hold.node:
                self._broken(8, f"{effect.uid} gives back {hold.node}, to which it is bound")
        self._let(record, None)

    def _on_scheduled(self, effect: PodScheduled) -> None:
        record = self.account.pods.get(effect.uid)
        if record is None or record.hold is None or record.hold.node != effect.node:
            self._broken(8, f"{effect.uid} is scheduled to {effect.node}, and never held it")
        shown = record.pod.node_name
        if shown != effect.node:
            self._broken(8, f"{effect.uid} is scheduled to {effect.node}, facts show {shown}")
        self._let(record, None)

    def _on_unschedulable(self, uid: PodUID) -> None:
        record = self.account.pods.get(uid)
        if record is not None and record.hold is not None:
            if record.hold.deadline is None:
                self._broken(8, f"{uid} is unschedulable with its bind under way")
            self._let(record, None)

    def _on_group_rejected(self, effect: GroupRejected) -> None:
        group = self.account.groups.get(effect.group)
        if group is None:
            return
        if group.waiting:
            self._broken(2, f"{effect.group} was rejected, and {group.waiting} members wait")
        if effect.reason.startswith(_GIVEN_UP):
            self._is_that_of_its_start(effect)
            self.keeping.on_given_up(group)
            group.attempt = 0

    def _on_group_scheduled(self, effect: GroupScheduled) -> None:
        group = self.account.groups.get(effect.group)
        if group is None or effect.waited < 0 or effect.attempt < 1:
            self._broken(1, f"{effect}: no such group, no such attempt, or no such wait")
        group.attempt = effect.attempt

    def _is_that_of_its_start(self, effect: GroupBound | GroupRejected) -> None:
        """Check that a notice names the attempt by which the group started, if it is known."""
        group = self.account.groups.get(effect.group)
        if group is not None and group.attempt and effect.attempt != group.attempt:
            self._broken(1, f"{effect}: its members were released by attempt {group.attempt}")

    # Checks ---------------------------------------------------------------------------------

    def _placed(self, uid: PodUID, name: NodeName) -> Record:
        """Check that a pod may be placed on a node, and fits."""
        record = self.account.pods.get(uid)
        if record is None:
            self._broken(8, f"{uid} is given {name}, and nobody has heard of it")
        if record.hold is not None:
            self._broken(8, f"{uid} is given {name}, and holds {record.hold.node}")
        if record.evicted:
            self._broken(8, f"{uid} is given {name}, and its end was asked for")
        late = None if self._cluster is None else self._cluster.pod(uid)
        if not may_be_placed(record.pod, record.gone) and (late is None or not may_be_placed(late)):
            self._broken(8, f"{uid} is given {name}, and wants none: {record.pod}")
        problem = lacks(self.account, record.pod, name)
        if problem:
            self._broken(8, f"{uid} is given {name}, which {problem}")
        self.keeping.on_placed(record, name)
        return record

    def _let(self, record: Record, hold: Hold | None) -> None:
        """Change what a pod holds."""
        before, record.hold = record.hold, hold
        group = record.group
        if group is not None:
            group.waiting -= before is not None and before.deadline is not None
            group.waiting += hold is not None and hold.deadline is not None
            if not group.waiting:
                group.since = None
        self.account.place(record)

    def _at_the_end(self, now: float) -> None:
        if self._released:
            self._broken(1, f"{list(self._released)} were released, and not bound in that step")
        for group, gone in self._starting:
            self._starts_with_its_bundle(group)
            self._starts_within_its_label(group, gone)
        self._starting.clear()
        self.keeping.at_the_end()
        for record in self._bound_now:
            if record.evicted or record.leaving:
                self._broken(8, f"{record.pod.uid} is bound and evicted by one call")
        self._bound_now.clear()
        for record in self._touched:
            hold, pod = record.hold, record.pod
            if hold is None:
                pass
            elif record.gone or pod.is_finished or record.bound is not None:
                self._broken(8, f"{pod.uid} holds {hold.node}, though facts say: {pod}")
            elif hold.deadline is not None and not may_be_placed(pod):
                self._broken(8, f"{pod.uid} waits with {hold.node}, and wants no node: {pod}")
            if record.gone:
                self.account.forget(record)
        self._touched.clear()
        begun_now: list[tuple[float, PodUID, float]] = []
        while self._waits and self._waits[0][0] <= now:
            deadline, uid, since = heapq.heappop(self._waits)
            found = self.account.pods.get(uid)
            held = None if found is None else found.hold
            if held is None or (held.deadline, held.since) != (deadline, since):
                continue
            if since < now:
                self._broken(6, f"{uid} waits at {now:g}, its deadline was {deadline:g}")
            begun_now.append((deadline, uid, since))  # a timeout of 0 ends when time passes
        for wait in begun_now:
            heapq.heappush(self._waits, wait)

    @staticmethod
    def _broken(law: int, problem: str) -> NoReturn:
        raise AssertionError(f"law {law}: {problem}")
