"""The plan of a whole gang: ``pre_filter`` for its members, then nodes for those that passed.

Rules:
  R1  the members are planned on one view of the nodes, and no node is assumed;
  R2  plugins that answer for a whole group are called before those that answer for a member;
  R3  the nodes that are reserved by a nomination are used if they still fit, otherwise any nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TypeAlias

from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched._packing.budget import Work
from gangsched.cycle_state import CycleState
from gangsched.explain import Diagnosis, UnschedulableMember
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement import choose_node, gang_placement, nominator
from gangsched.framework.placement.plan import Plan
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.role_count import RoleCount
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings

__all__ = ["asks", "plan_gang", "unschedulable"]

_Cycles: TypeAlias = Mapping[int, CycleState]

_arrival = attrgetter("seq")


def plan_gang(
    state: State,
    entity: QueuedEntity,
    *,
    now: float,
    budget: int,
    work: Work | None = None,
    explains: bool = True,
) -> tuple[Plan | UnschedulableMember | None, UnschedulableMember | None, _Cycles]:
    """Look for nodes for a gang, and assume none.

    Args:
        state: The scheduler's state.
        entity: The gang.
        now: The current instant.
        budget: The number of steps that greedy plans and searches may take together; see
            ``budget_shares``.
        work: What the decision has taken before; None for nothing. The steps are added to it.
        explains: Whether the reasons of a failure are wanted, or only that there is no plan.

    Returns:
        The plan, or a member that does not fit; a member that ``pre_filter`` refused, or None; and
        the cycle of each member, by its number. At least one of the first two is not None.
    """
    parties = bundles.pending(state.pods, entity)
    groups: list[PodGroupInfo] = []
    nodes, cluster, known = state.nodes, state.settings.cluster, state.pods.members
    cycles: dict[int, CycleState] = {}
    ready_members: list[Member] = []
    refused: UnschedulableMember | None = None
    for each in parties:
        group = each.group
        assert group is not None  # a gang is tried with the groups of its bundle only
        groups.append(group)
        members = sorted(map(known.__getitem__, each.pending_uids), key=_arrival)
        for member in members:
            cycles[member.seq] = CycleState(group, nodes.infos, cluster, nodes.counts)
        ready, problem = _pre_filter(state.settings, nodes, members, cycles, now=now)
        ready_members += ready
        refused = refused or problem
    found: Plan | UnschedulableMember | None = None
    if ready_members:
        asked = _asks(state.settings, state.call, parties)
        kept = nominator.plan(state, entity, ready_members, cycles, now=now)
        if (
            kept is not None
            and kept.meets(asked)
            and choose_node.accepts_all(state.settings, state.nodes, kept.placed, cycles)
        ):
            return kept, refused, cycles
        found = gang_placement.place(
            state,
            groups,
            ready_members,
            cycles,
            asked,
            now=now,
            budget=budget,
            work=work,
            explains=explains,
        )
    return found, refused, cycles


def asks(
    settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity
) -> list[RoleCount]:
    """Return how many members of each group must be placed for an attempt to succeed. O(roles)."""
    return _asks(settings, call, bundles.pending(pods, entity))


def _asks(
    settings: Settings, call: CurrentCall, parties: Iterable[QueuedEntity]
) -> list[RoleCount]:
    asked: list[RoleCount] = []
    for each in parties:
        asked += equivalence.role_counts(settings, call, each)
    return asked


def _pre_filter(
    settings: Settings, nodes: Nodes, members: list[Member], cycles: _Cycles, *, now: float
) -> tuple[list[Member], UnschedulableMember | None]:
    """Return the members that pass ``pre_filter``, and the first member that does not."""
    for_all = settings.profile.group_wide["pre_filter"]
    for_each = settings.profile.per_member["pre_filter"]
    first = members[0]
    why = extension_points.pre_filter_refusal(
        settings, nodes, cycles[first.seq], first.pod, now, for_all
    )
    if why is not None:
        return [], unschedulable(first, why)
    point = "pre_filter of each"
    refused: dict[int, UnschedulableMember] = {}
    for member, asked in extension_points.concerned_among(settings, members, point, for_each):
        cycle = cycles[member.seq]
        why = extension_points.pre_filter_refusal(settings, nodes, cycle, member.pod, now, asked)
        if why is not None:
            refused[member.seq] = unschedulable(member, why)
    if not refused:
        return members, None
    ready = [member for member in members if member.seq not in refused]
    return ready, next(iter(refused.values()))


def unschedulable(member: Member, why: Diagnosis | str) -> UnschedulableMember:
    """Return that a member is unschedulable for a reason that does not depend on nodes."""
    diagnosis = why if isinstance(why, Diagnosis) else None
    return UnschedulableMember(member.pod.uid, member.pod.key, str(why), diagnosis)
