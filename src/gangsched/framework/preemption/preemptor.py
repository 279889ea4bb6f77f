"""Who is to have room, as ``victim_search`` asks about them: a gang, or a pod that goes alone.

Rules:
  R1  whether they fit is asked as in a turn: the same checks, the same placement, nothing taken;
  R2  of a gang as many as it needs have to fit; a pod that goes alone makes room for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, final

from attrs import define

from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import gang_layout
from gangsched.framework.placement import topology as group_topology
from gangsched.framework.placement.plan import Domain, Plan
from gangsched.framework.preemption.victim_search import Lack
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.runtime import extension_points, filter_and_score
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import GroupKey, NodeName
from gangsched.outcomes import Outcome, Unschedulable

__all__ = ["Alone", "Gang", "MakingRoom"]

_Ask = tuple[GroupKey | None, str, int]


class MakingRoom(Protocol):
    """Who is to have room; see ``gangsched.framework.preemption.victim_search.Task``."""

    @property
    def asks(self) -> tuple[_Ask, ...]:
        """How many have to have room: group, role (empty for any), number."""
        ...

    @property
    def groups(self) -> list[PodGroupInfo]:
        """The groups whose members they are."""
        ...

    @property
    def domains(self) -> Sequence[Domain | None]: ...

    def lacks(self, domain: Domain | None) -> list[Lack] | None: ...

    def places(self) -> list[tuple[Member, int]] | None: ...


@final
@define(eq=False)
class Alone:
    """A regular pod, or a later member of a gang that has started."""

    state: State
    member: Member
    now: float

    @property
    def asks(self) -> tuple[_Ask, ...]:
        """One."""
        info = self.member.group
        return ((None if info is None else info.key, "", 1),)

    @property
    def groups(self) -> list[PodGroupInfo]:
        """Its group, if it has one."""
        return [] if self.member.group is None else [self.member.group]

    @property
    def domains(self) -> Sequence[Domain | None]:
        """Where it has to go."""
        info = self.member.group
        return [None if info is None else group_topology.joined(self.state, info)]

    def lacks(self, domain: Domain | None) -> list[Lack] | None:
        """See ``Task``."""
        needs = [(self.member, 1)]
        return _lacks(self.state, needs, domain, now=self.now)

    def lacks_capacity(self) -> bool:
        """Say whether the checks pass and no node takes the pod as the nodes are now."""
        found = self._best()
        return found is not None and found[0] is None

    def places(self) -> list[tuple[Member, int]] | None:
        """See ``Task``."""
        found = self._best()
        if found is None or found[0] is None or isinstance(found[1], Unschedulable):
            return None
        return [(self.member, self.state.nodes.infos[found[0]].index)]

    def _best(self) -> tuple[NodeName | None, Outcome] | None:
        """Return the best node with the answer of ``pre_score``; None if ``pre_filter`` refuses."""
        state, member = self.state, self.member
        cycle = CycleState(member.group, state.nodes.infos)
        outcome = extension_points.pre_filter(state, cycle, member.pod, self.now)
        if isinstance(outcome, Unschedulable):
            return None
        pod_class, _judge, outcome = filter_and_score.judge_nodes(state, cycle, member, self.now)
        (domain,) = self.domains
        node = (
            pod_class.best(state.nodes)
            if domain is None
            else group_topology.best(state, pod_class, domain)
        )
        return node, outcome


@final
@define(eq=False)
class Gang:
    """The members of a gang that has not started, or of all gangs of a bundle."""

    state: State
    entity: QueuedEntity
    info: PodGroupInfo
    now: float
    _needs: list[tuple[Member, int]] | None = None

    @property
    def parties(self) -> list[tuple[QueuedEntity, PodGroupInfo]]:
        """The groups that start together, with what they queue in."""
        pending = bundles.pending(self.state, self.entity)
        return [(each, each.group) for each in pending if each.group is not None]

    @property
    def asks(self) -> tuple[_Ask, ...]:
        """As many as the quorum of each group lacks, in all and by role."""
        return tuple(
            (info.key, role, count)
            for each, info in self.parties
            for role, count in equivalence.quotas(self.state, each)
        )

    @property
    def groups(self) -> list[PodGroupInfo]:
        """The groups that start together."""
        return [info for _each, info in self.parties]

    @property
    def domains(self) -> Sequence[Domain | None]:
        """The values of the label that the gang has to be within; not of a bundle."""
        spec, groups = self.info.spec, self.groups
        topology = None if spec is None else spec.topology
        if topology is None or not topology.required or len(groups) > 1:
            return [None]
        here = group_topology.joined(self.state, self.info)
        if here is not None:
            return [here]
        nodes = self.state.nodes.infos.values()
        values = {info.node.labels.get(topology.key) for info in nodes} - {None}
        return [Domain(topology.key, frozenset({value})) for value in sorted(map(str, values))]

    def lacks(self, domain: Domain | None) -> list[Lack] | None:
        """See ``Task``."""
        if self._needs is None:
            self._needs = list(self._needed())
        return _lacks(self.state, self._needs, domain, now=self.now)

    def places(self) -> list[tuple[Member, int]] | None:
        """See ``Task``."""
        state = self.state
        if equivalence.missing(state, self.info):
            return None
        found, _refused, _cycles = gang_layout.lay_out(state, self.entity, now=self.now)
        return found.placed if isinstance(found, Plan) else None

    def _needed(self) -> Iterable[tuple[Member, int]]:
        """Yield one member of each class of which some are needed, with how many.

        Of each role its minimum, and of the others those that came first: who is needed may be
        said otherwise too, where members are unlike.
        """
        for each, _info in self.parties:
            members = sorted((self.state.members[p.uid] for p in each.pending), key=_arrival)
            (_all, more), *roles = equivalence.quotas(self.state, each)
            taken: list[Member] = []
            for role, count in roles:
                taken += [member for member in members if member.role == role][:count]
            chosen = {member.seq for member in taken}
            others = [member for member in members if member.seq not in chosen]
            taken += others[: max(more - len(taken), 0)]
            of_class: dict[PodClass, list[Member]] = {}
            for member in taken:
                of_class.setdefault(member.pod_class, []).append(member)
            for alike in of_class.values():
                yield alike[0], len(alike)


def _lacks(
    state: State, needs: Sequence[tuple[Member, int]], domain: Domain | None, *, now: float
) -> list[Lack] | None:
    """Return of which pods there are more than there is room for, one kind at a time."""
    if not state.profile.signed:
        return None
    found: list[Lack] = []
    for member, count in needs:
        cycle = CycleState(member.group, state.nodes.infos)
        pod_class, judge, _outcome = filter_and_score.judge_nodes(state, cycle, member, now)
        room = pod_class.headroom
        if domain is not None:
            room = sum(
                each * len(given.nodes) for given, each in pod_class.rooms() if domain.has(given)
            )
        if room < count:
            found.append(Lack(pod_class, judge, count - room))
    return found


def _arrival(member: Member) -> int:
    return member.seq
