"""The laws of preemption, checked from outside: victims, preemptors and reserved capacity.

  P1  the gang of a victim has a lower priority than that of its preemptor;
  P2  a gang that loses a member is evicted as a whole, or keeps a quorum. A member stays if its
      bind was reported as failed, and took effect after the decision;
  P3  at its nomination, a quorum of the preemptor fits: on capacity that is free, or used by its
      victims, and not reserved for others of the same or a higher priority;
  P4  until the nomination lapses or is used, no other pod of the same or a lower priority is
      placed on that capacity;
  P5  an announced victim is evicted in the same call, and no other pod is evicted for a preemptor;
  P6  a pod whose bind is under way is evicted when its bind is reported as done, not earlier. Until
      then it counts as evicted for the laws above. So P2 is about the specification of its gang at
      its nomination: a change afterwards finds a gang that has lost the pod.

Rules:
  R1  the checks know events and effects, as the oracle does, and have their own account;
  R2  while events are delayed, what either state allows is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from gangsched import GroupKey, NodeName, Nominated, NominationLapsed, Pod, PodUID, Resources
from support.account import Account, Group, Record, role_of
from support.minima import minima
from support.placement_oracle import may_be_placed

__all__ = ["PreemptionLaws"]


@define(eq=False)
class _Room:
    """The capacity reserved for one pod."""

    node: NodeName
    pod: Pod


@define(eq=False)
class _Nomination:
    """The capacity reserved for a pod or a gang."""

    group: GroupKey | None
    priority: int
    rooms: dict[PodUID, _Room]

    def is_for(self, record: Record) -> bool:
        """Return whether the capacity is reserved for a pod."""
        return record.pod.uid in self.rooms or (
            record.group is not None and record.group.key == self.group
        )


@define(eq=False)
class PreemptionLaws:
    """Checks the laws of preemption.

    Attributes:
        account: The pods and the nodes, as the oracle knows them.
        nominations: The reserved capacity.
        nominated: The number of nominations.
    """

    account: Account
    nominations: list[_Nomination] = field(factory=list)
    nominated: int = 0
    _fresh: list[tuple[Nominated, _Nomination]] = field(factory=list)
    _announced: dict[PodUID, int] = field(factory=dict)
    _leaving: dict[PodUID, Record] = field(factory=dict)
    _losing: dict[GroupKey, Group] = field(factory=dict)

    def see(self) -> None:
        """Drop reservations for changed pods, and on deleted nodes."""
        for nomination in self.nominations:
            for uid, room in list(nomination.rooms.items()):
                record = self.account.pods.get(uid)
                as_it_was = record is not None and may_be_placed(record.pod, record.gone)
                if (
                    not as_it_was
                    or room.node not in self.account.nodes
                    or (record is not None and record.pod != room.pod)
                ):
                    del nomination.rooms[uid]

    def on_nominated(self, effect: Nominated) -> None:
        """Record a nomination."""
        self.nominated += 1
        rooms: dict[PodUID, _Room] = {}
        for uid, node in effect.places:
            record = self.account.pods.get(uid)
            assert record is not None, f"P3: {uid} is nominated, and nobody has heard of it"
            said = f"P1: kept up to {effect.priority}, for {uid} of {record.pod.priority}"
            assert self._priority_of(record) >= effect.priority, said
            rooms[uid] = _Room(node, record.pod)
        made = _Nomination(effect.group, effect.priority, rooms)
        for (
            uid
        ) in effect.victims:  # now: one whose bind is under way is evicted when that has ended
            victim = self.account.pods.get(uid)
            said = f"P1: {uid} is to go for {effect.priority}"
            assert victim is None or self._priority_of(victim) < effect.priority, said
        self._announced.update(dict.fromkeys(effect.victims, effect.priority))
        self._fresh.append((effect, made))
        self.nominations.append(made)

    def on_lapsed(self, effect: NominationLapsed) -> None:
        """Record that a nomination lapsed."""
        self.nominations = [
            each
            for each in self.nominations
            if (each.group != effect.group)
            or (each.group is None and each.rooms and effect.pods[:1] != tuple(each.rooms)[:1])
        ]

    def on_evicted(self, record: Record) -> None:
        """Record an eviction."""
        assert not record.is_being_bound, f"P6: {record.pod.uid} is evicted during its bind"
        self._announced.pop(record.pod.uid, None)
        if record.group is not None and not record.leaving:
            self._losing[record.group.key] = record.group

    def on_given_up(self, group: Group) -> None:
        """Record that a gang is evicted since a bind of it failed: also what is being bound."""
        for member in group.members.values():
            if member.is_being_bound:
                self._leaves_after_its_bind(member)
        self._losing[group.key] = group

    def on_placed(self, record: Record, name: NodeName) -> None:
        """Record a placement."""
        others = [
            each
            for each in self.nominations
            if not each.is_for(record) and each.priority >= self._priority_of(record)
        ]
        kept = self._kept(others, name)
        # resources that a pod does not request are irrelevant, even if overcommitted
        short = self._short(name, [record.pod, *kept], leaving=False, of=[record.pod])
        if kept:
            assert not short, f"P4: {record.pod.uid} takes {short} on {name}, kept for others"
        self.nominations = [each for each in self.nominations if record.pod.uid not in each.rooms]

    def at_the_end(self) -> None:
        """Check the effects of one whole call."""
        for uid in self._announced:
            record = self.account.pods.get(uid)
            if record is not None and record.is_being_bound and uid not in self._leaving:
                self._leaves_after_its_bind(record)
                if record.group is not None:
                    self._losing[record.group.key] = record.group
        late = self._announced.keys() - self._leaving.keys()
        assert not late, f"P5: {list(late)} are victims, and not evicted"
        for uid, record in list(self._leaving.items()):
            if record.is_being_bound and record.leaving:
                continue
            goes = record.evicted or record.gone or record.pod.is_finished or record.pod.deleted_at
            assert goes or record.bound is None, f"P6: {uid} is bound, and its gang was evicted"
            self._announced.pop(uid, None)
            del self._leaving[uid]
        for group in self._losing.values():
            self._falls_or_goes_on(group)
        self._losing.clear()
        for effect, made in self._fresh:
            if made in self.nominations:
                self._fits(effect, made)
        self._fresh.clear()

    # Inside ---------------------------------------------------------------------------------

    def _leaves_after_its_bind(self, record: Record) -> None:
        record.leaving = True
        self._leaving[record.pod.uid] = record
        self.account.place(record)

    def _falls_or_goes_on(self, group: Group) -> None:
        left = [member for member in group.members.values() if member.counts]
        if all(member.landed for member in left):
            group.started = False
            group.settle()
            return
        roles = [role_of(member.pod) for member in left]
        enough = group.need is not None and len(left) >= group.need
        enough = enough and all(roles.count(role) >= n for role, n in group.roles.items())
        if not enough and self._cluster_says(group, roles):
            enough = True
        binding = [member for member in left if member.is_being_bound]
        if not enough and binding and all(m.is_being_bound or m.landed for m in left):
            for member in binding:
                self._leaves_after_its_bind(member)
            self._falls_or_goes_on(group)
            return
        assert enough, f"P2: {group.key} has {len(left)} left of {group.need} ({group.roles})"

    def _cluster_says(self, group: Group, roles: list[str | None]) -> bool:
        """Return whether enough members are left for the current specification."""
        cluster = self.account.cluster
        late = None if cluster is None else cluster.pod_group(group.key)
        if late is None:
            return False
        enough = len(roles) >= late.min_available
        return enough and all(roles.count(role) >= n for role, n in minima(late).items())

    def _fits(self, effect: Nominated, made: _Nomination) -> None:
        above = [
            each
            for each in self.nominations
            if each is not made and each.priority >= effect.priority
        ]
        for name in {node for _uid, node in effect.places}:
            pods = [*self._kept(above, name), *self._kept([made], name)]
            short = self._short(name, pods, leaving=True)
            assert not short, f"P3: {effect.places} lack {short} on {name}"
        placed = [self.account.pods[uid] for uid, _node in effect.places]
        groups = {record.group.key: record.group for record in placed if record.group is not None}
        for group in groups.values():
            if group.started:
                continue
            there = [r for r in group.members.values() if r.counts or r in placed]
            spec = group.spec
            if self.account.cluster is not None:
                spec = self.account.cluster.pod_group(group.key) or spec
            needs = [each for each in (group.need, spec and spec.min_available) if each]
            said = f"P3: room for {len(there)} of {group.key}, which needs {group.need}"
            assert not needs or len(there) >= min(needs), said

    def _kept(self, nominations: list[_Nomination], name: NodeName) -> list[Pod]:
        return [
            room.pod for each in nominations for room in each.rooms.values() if room.node == name
        ]

    def _short(
        self, name: NodeName, pods: list[Pod], *, leaving: bool, of: list[Pod] | None = None
    ) -> str:
        """Return the resources that a node lacks for some pods beside its present or staying pods.

        If *of* is given, only resources that those pods request are compared.
        """
        cluster = self.account.cluster
        late = None if cluster is None else cluster.node(name)
        nodes = [*self.account.nodes.get(name, ()), *([] if late is None else [late])]
        there = list(self._there(name, leaving=leaving))
        taken: dict[str, int] = {}
        for requests in [*(pod.requests for pod in pods), *there]:
            for resource, amount in requests.items():
                taken[resource] = taken.get(resource, 0) + amount
        asked = {
            resource for pod in of or pods for resource, amount in pod.requests.items() if amount
        }
        for resource in sorted(asked):
            offered = max((node.allocatable.amount(resource) for node in nodes), default=0)
            if taken[resource] > offered:
                return resource
        limits = [node.allocatable.amount("pods") for node in nodes]
        if limits and all(0 < limit < (len(there) + len(pods)) * 1000 for limit in limits):
            return "pods"
        return ""

    def _there(self, name: NodeName, *, leaving: bool) -> Iterator[Resources]:
        usage = self.account.usage.get(name)
        cluster = self.account.cluster
        for uid, record in {} if usage is None else usage.holders.items():
            pod = record.pod
            truth = pod if cluster is None else cluster.pod(uid)
            gone = truth is None or truth.is_finished or truth.deleted_at is not None
            goes = record.evicted or record.leaving or pod.deleted_at is not None or gone
            if not (leaving and goes) and not (gone and record.hold is None):
                yield record.places[name]

    def _priority_of(self, record: Record) -> int:
        """Return the one priority of a gang: the highest of the groups of its bundle."""
        group = record.group
        if group is None:
            return record.pod.priority
        bundle = _bundle_of(group)
        groups = [self.account.groups[key] for key in bundle if key in self.account.groups]
        groups = [each for each in groups if _bundle_of(each) == bundle]
        return max(map(_priority_of_group, groups))


def _bundle_of(group: Group) -> set[GroupKey]:
    """Return the groups that it names, and itself: those that name the same are one gang."""
    return {group.key, *(() if group.spec is None else group.spec.bundle)}


def _priority_of_group(group: Group) -> int:
    """Return what the group states, else the highest priority of its members."""
    if group.spec is not None and group.spec.priority is not None:
        return group.spec.priority
    return max((member.pod.priority for member in group.members.values()), default=0)
