"""Where the pending members of a gang would go, within a trial: as in its cycle.

The cycle of a gang, the search for victims and the look ahead for a reservation all ask here, so
none of them can promise a placement that another refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from gangsched._core._capacity import gap
from gangsched._core._counters import MemberState
from gangsched.core import accounts
from gangsched.core.domains import EVERYWHERE
from gangsched.core.gang_tree import SubGroup, present
from gangsched.core.placement.search import search
from gangsched.core.placement.task import HOLDING, Task, holding_by_leaf
from gangsched.core.records import Gang, PodRecord
from gangsched.core.state import State
from gangsched.core.trial import Trial
from gangsched.cycle_state import CycleState
from gangsched.resources import NOTHING, Resources

__all__ = [
    "Places",
    "by_group",
    "enough",
    "missing",
    "place_alone",
    "place_gang",
    "places",
    "pre_filter",
]

Places: TypeAlias = list[tuple[PodRecord, int]]
"""Pods, each with its node."""


def pre_filter(
    state: State, pods: Sequence[PodRecord], cycle_of: Callable[[PodRecord], CycleState]
) -> tuple[list[PodRecord], dict[PodRecord, str]]:
    """Return the members that pass PreFilter, and why others do not."""
    profile, points, now = state.settings.profile, state.points, state.now
    if not profile.pre_filter:
        return list(pods), {}
    refused: dict[PodRecord, str] = {}
    wide, each = profile.group_wide["pre_filter"], profile.per_member["pre_filter"]
    for members in by_group(pods):
        first = members[0]
        denied = points.pre_filter(cycle_of(first), first.pod, now, wide) if wide else None
        if denied is not None:
            refused |= dict.fromkeys(members, denied.reason)
            continue
        for record in members if each else ():
            denied = points.pre_filter(cycle_of(record), record.pod, now, each)
            if denied is not None:
                refused[record] = denied.reason
    return [record for record in pods if record not in refused], refused


def by_group(records: Sequence[PodRecord]) -> list[list[PodRecord]]:
    """Return pods by their group, in the order of the first of each."""
    groups: dict[Any, list[PodRecord]] = {}
    for record in records:
        groups.setdefault(None if record.info is None else record.info.key, []).append(record)
    return list(groups.values())


def place_gang(state: State, gang: Gang, task: Task) -> bool:
    """Place the minima, then what else fits; return whether the minima are placed."""
    assert gang.tree is not None
    is_placed = bool(task.nodes) or task.minimum(gang.tree, EVERYWHERE)  # some were nominated
    if not is_placed and not search(task, state.settings.search_budget):
        return False
    task.failed = task.diagnosis = None
    needed = len(task.nodes)
    if not state.settings.profile.minima_first:
        task.elastic(gang.tree)
        _keep_within_quotas(state, task, needed)
    return True


def place_alone(state: State, gang: Gang, task: Task) -> bool:
    """Place each member that fits by itself; return whether one was placed."""
    task.elastic(gang.tree or SubGroup(gang.key))
    _keep_within_quotas(state, task, 0)
    return bool(task.nodes)


def _keep_within_quotas(state: State, task: Task, needed: int) -> None:
    """Leave out members that are placed beyond the first *needed*, and exceed a quota."""
    kept = accounts.within(state, task.nodes, needed)
    if len(kept) < len(task.nodes):
        for record, slot in [each for each in task.nodes if each not in kept]:
            state.table.take(slot, record.needs, -1)
        task.nodes = kept


def enough(gang: Gang, ready: Sequence[PodRecord]) -> bool:
    """Return whether the members that passed PreFilter could meet all minima."""
    counts = dict(holding_by_leaf(gang))
    for record in ready:
        counts[record.leaf] = counts.get(record.leaf, 0) + 1
    assert gang.tree is not None
    return present(gang.tree, lambda leaf: counts.get(leaf.key, 0)) is not None


def missing(state: State, gang: Gang) -> Resources:
    """Return what the nodes lack in total for a gang that states its total request."""
    wanted_in_all = NOTHING
    for info in gang.infos.values():
        if info.was_scheduled:
            continue
        wanted = state.points.group_requests(info)
        if wanted:
            done = info.succeeded > 0 and info.all < (info.min_available or 0)
            for record in gang.members.values():
                if record.info is info and (
                    record.state in HOLDING or (done and record.state is MemberState.SUCCEEDED)
                ):
                    wanted = wanted - record.pod.requests
            wanted_in_all = wanted_in_all + wanted if wanted_in_all else wanted
    return gap(wanted_in_all, state.table.total_free()) if wanted_in_all else NOTHING


def places(
    state: State,
    gang: Gang,
    members: Sequence[PodRecord],
    needed: Mapping[str, int] | None,
    trial: Trial,
    *,
    budget: int,
    barred: Collection[int] = (),
    count: Callable[[int], None] = lambda _steps: None,
) -> Places | None:
    """Return a node for each member that is needed, in a trial; None if too few fit.

    Args:
        state: The state.
        gang: The gang.
        members: The members that may be placed.
        needed: How many members each sub group lacks; None for members that go alone.
        trial: The trial; what is placed is taken back.
        budget: The steps of the search.
        barred: Nodes that members with late plugins do not go to.
        count: Is told the steps that the search took.
    """
    if needed is not None and missing(state, gang):
        return None
    cycles: dict[int, CycleState] = {}

    def cycle_of(record: PodRecord) -> CycleState:
        return cycles.setdefault(record.seq, state.cycle(record))

    ready, _refused = pre_filter(state, members, cycle_of)
    if not ready:
        return None
    task = Task(gang, ready, state.records, cycle_of, needed or {}, barred)
    with trial.placing():
        if needed is None:
            return list(task.nodes) if place_alone(state, gang, task) else None
        tree = gang.tree or SubGroup(gang.key)
        is_placed = task.minimum(tree, EVERYWHERE) or search(task, budget)
        count(task.steps)
        return list(task.nodes) if is_placed else None
