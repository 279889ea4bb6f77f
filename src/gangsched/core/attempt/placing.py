"""Where the pending members of a gang would go, within a trial: as in its cycle.

The cycle of a gang, the search for victims and the look ahead for a reservation all ask here, so
none of them can promise a placement that another refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gangsched.core.admission import accounts
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.placement.pinned import holding_by_leaf
from gangsched.core.placement.search import search
from gangsched.core.placement.shortage import shortage
from gangsched.core.placement.task import Task
from gangsched.core.placement.tree_walk import place_elastic, place_minimum
from gangsched.core.queue.demand import Demand
from gangsched.core.records.gang import GangRecord, PodRecord, by_group
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.explain import Diagnosis
from gangsched.model import Pod
from gangsched.primitives.capacity import gap
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING
from gangsched.primitives.standing import least_needed, of_leaves, standing
from gangsched.profile import calls
from gangsched.resources import NOTHING, Resources

__all__ = [
    "Places",
    "enough",
    "is_within_bounds",
    "missing",
    "place_alone",
    "place_gang",
    "places",
    "pre_filter",
    "wanted_in_all",
]

Places: TypeAlias = list[tuple[PodRecord, int]]
"""Pods, each with its node."""


def pre_filter(
    state: State, pods: Sequence[PodRecord], cycle_of: Callable[[PodRecord], CycleState]
) -> tuple[list[PodRecord], dict[PodRecord, Diagnosis | str]]:
    """Return the members that pass PreFilter, and why others do not; see ``Points.pre_filter``."""
    profile, points, now = state.settings.profile, state.points, state.records.now
    if not profile.pre_filter:
        return list(pods), {}
    refused: dict[PodRecord, Diagnosis | str] = {}
    wide, each = profile.group_wide["pre_filter"]
    for members in by_group(pods):
        for first, asked in points.each_concerned("pre_filter wide", wide, members[:1]):
            denied = points.pre_filter(cycle_of(first), first.pod, now, asked)
            if denied is not None:
                refused |= dict.fromkeys(members, denied)
        if members[0] in refused:
            continue
        for record, asked in points.each_concerned("pre_filter each", each, members):
            denied = points.pre_filter(cycle_of(record), record.pod, now, asked)
            if denied is not None:
                refused[record] = denied
    return [record for record in pods if record not in refused], refused


def place_gang(state: State, gang: GangRecord, task: Task) -> bool:
    """Place the minima, then what else fits; return whether the minima are placed."""
    were_nominated = bool(task.nodes)

    def search_first(tree: SubGroup, domain: Domain) -> bool:
        """Search in a preferred level, with half of what is left of the budget."""
        said = task.is_most_exact, task.most_domains, task.gave_up
        left = budget - task.steps
        is_found = not task.is_denied and search(task, left // 2, tree, domain)
        if not is_found:  # what is said of the gang is about the last level
            task.is_most_exact, task.most_domains, task.gave_up = said
        return is_found

    budget = state.settings.search_budget
    is_placed = were_nominated or place_minimum(task, gang.tree, EVERYWHERE, search=search_first)
    if not is_placed and (task.is_denied or not _search(state, gang, task)):
        return False
    task.failed = task.diagnosis = None
    placed = len(task.nodes)
    # of a tree of several leaves no more than the minima are placed yet
    needed = placed if gang.tree.children else min(placed, task.needed(gang.tree))
    _place_more(state, gang, task, needed, elastic=not state.settings.profile.minima_first)
    return True


def _search(state: State, gang: GangRecord, task: Task) -> bool:
    demand: Demand | None = gang.demand
    if demand is not None and not is_within_bounds(state, demand):
        return False
    # a count that is too small is a proof, and a search would take long to find it
    return shortage(task) is None and search(task, state.settings.search_budget)


def is_within_bounds(state: State, demand: Demand) -> bool:
    """Return whether plugins may accept enough pods of a demand on all nodes together.

    See ``PodExtensions.cluster_headroom``. O(classes) without such a plugin. If one raises, the
    attempt is not avoided.
    """
    bounds: dict[PodClass, int] = {}
    try:
        for pod_class in demand.classes:
            found = [_headroom(state, late.plugin, pod_class.sample) for late in pod_class.late]
            known = [number for number in found if number is not None]
            if known:
                bounds[pod_class] = min(known)
    except GangschedError as error:
        state.call.errors.append(error)
        return True
    return not bounds or demand.could_fit(bounds)


def _headroom(state: State, plugin: Any, pod: Pod) -> int | None:
    """Return how many more pods like one a plugin accepts; None if it does not say."""
    if not callable(getattr(plugin, "cluster_headroom", None)):
        return None
    cycle = CycleState(None, state.views, state.settings.cluster, state.records.counts)
    if callable(getattr(plugin, "pre_filter", None)):
        denied = state.points.pre_filter(cycle, pod, state.records.now, (plugin,))
        if denied is not None:
            return None  # the attempt is told why
    answer: int | None = calls.call(plugin, "cluster_headroom", pod, (int, type(None)), cycle, pod)
    if answer is not None and (type(answer) is bool or answer < 0):
        raise calls.returned(plugin, "cluster_headroom", pod, answer)
    return answer


def place_alone(state: State, gang: GangRecord, task: Task) -> bool:
    """Place each member that fits by itself; return whether one was placed."""
    _place_more(state, gang, task, 0)
    return bool(task.nodes)


def _place_more(
    state: State, gang: GangRecord, task: Task, needed: int, *, elastic: bool = True
) -> None:
    """Place what fits beyond the first *needed* members, on nodes and in quotas.

    A member that exceeds a quota gives its node back, and others are placed in its stead.
    """

    def search_more(tree: SubGroup, domain: Domain) -> bool:
        return search(task, state.settings.search_budget - task.steps, tree, domain)

    if not state.records.quotas.is_used:
        if elastic:
            place_elastic(task, gang.tree, search=search_more)
        return
    allowance = accounts.Allowance(state, gang, starts=needed > 0)
    task.leave_out(_over(task, 0, needed, allowance))
    point, placed = task.save(), len(task.nodes)
    while elastic:
        rest = allowance.copy()
        task.leave_out([record for record in task.unplaced() if not rest.allows(record)])
        place_elastic(task, gang.tree, search=search_more)
        over = _over(task, placed, placed, rest)
        if not over:
            return
        # nor is tried in vain what exceeds a quota beside the members that stay
        over += [record for record in task.unplaced() if not rest.allows(record)]
        task.restore(point)
        task.leave_out(over)


def _over(task: Task, first: int, needed: int, allowance: accounts.Allowance) -> list[PodRecord]:
    """Count members from *first* on; return those after *needed* that exceed a quota.

    Of a copy that starts, all members exceed it if its minimum does.
    """
    over: list[PodRecord] = []
    for record, _slot in task.nodes[first:needed]:
        allowance.take(record)
    for least, members in _units(task, max(first, needed)):
        starts = allowance.copy()
        if least and not all(starts.takes(record) for record in members[:least]):
            over += members
            continue
        for number, record in enumerate(members):
            if number < least:
                allowance.take(record)
            elif not allowance.takes(record):
                over.append(record)
    return over


def _units(task: Task, first: int) -> Iterator[tuple[int, list[PodRecord]]]:
    """Yield what starts from *first* on: each copy, with the size of its minimum, or a member."""
    starting = {
        leaf.key: copy
        for copy in reversed([*task.gang.tree.copies()])  # the outer ones overwrite
        if not copy.is_in(task.holding)
        for leaf in copy.leaves
    }
    parts: dict[str, list[PodRecord]] = {}
    for record, _slot in task.nodes[first:]:
        copy = starting.get(record.leaf)
        if copy is None:
            yield 0, [record]
        else:
            parts.setdefault(copy.key, []).append(record)
    for members in parts.values():
        least = least_needed(starting[members[0].leaf], lambda sub: task.minima.get(sub.key, 0))
        yield min(least, len(members)), members


def enough(gang: GangRecord, ready: Sequence[PodRecord]) -> bool:
    """Return whether the members that passed PreFilter could meet all minima."""
    counts = of_leaves(holding_by_leaf(gang), Counter([record.leaf for record in ready]))
    return standing(gang.tree, counts).is_complete


def missing(state: State, gang: GangRecord) -> Resources:
    """Return what the nodes lack in total for a gang that states its total request."""
    wanted = wanted_in_all(state, gang)
    return gap(wanted, state.table.total_free()) if wanted else NOTHING


def wanted_in_all(state: State, gang: GangRecord) -> Resources:
    """Return what a gang that states its total request needs beside what its members hold."""
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
    return wanted_in_all


def places(
    state: State,
    gang: GangRecord,
    members: Sequence[PodRecord],
    needed: Mapping[str, int] | None,
    trial: Trial,
    *,
    budget: int,
    barred: Collection[int] = (),
    count: Callable[[int], None] = lambda _steps: None,
    is_surplus: bool = False,
    tree: SubGroup | None = None,
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
        is_surplus: Whether they are of a copy that their gang does not need, and start with it.
        tree: What of the gang is placed; None for all of it.
    """
    alone = needed is None or is_surplus
    if not alone and missing(state, gang):
        return None
    cycles: dict[int, CycleState] = {}

    def cycle_of(record: PodRecord) -> CycleState:
        return cycles.setdefault(record.seq, state.cycle(record))

    ready, _refused = pre_filter(state, members, cycle_of)
    if not ready:
        return None
    task = Task(gang, ready, state.records, cycle_of, needed or {}, barred)
    with trial.placing():
        if alone:
            is_placed = place_alone(state, gang, task)
            count(task.steps)
            return list(task.nodes) if is_placed else None
        is_placed = place_minimum(task, tree or gang.tree, EVERYWHERE) or (
            not task.is_denied and shortage(task) is None and search(task, budget, tree)
        )
        count(task.steps)
        return list(task.nodes) if is_placed else None
