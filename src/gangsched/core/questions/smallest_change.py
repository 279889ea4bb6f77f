"""The answer of ``Scheduler.smallest_change``: the least number of added nodes that is enough.

Rules:
  R1  each number is tried, from 0 on. Starting is not monotone in the number of nodes: with more
      nodes a gang that is ahead in the queue may start and take the capacity that the group needs;
  R2  a trial adds all nodes at once and then runs the fork; see ``Ahead``;
  R3  the search ends early only if the group lacks members before the first cycle, because nodes
      do not create members. If it has enough members and loses some while the fork runs (by an
      eviction, for example), it may keep them with more nodes, so the search goes on;
  R4  all trials share one budget. A trial that is cut short proves nothing about its number;
  R5  a group that runs below its minimum, since a node was lost for example, has not started: it
      starts once it has its minimum again. Whether its members go one by one does not matter;
  R6  a group of groups has started once as many of the groups below it as it wants have;
  R7  of a group that a quota keeps out, it is asked how large quotas have to be, and how many nodes
      it lacks then; see ``larger_quotas``. While no time passes and nothing is evicted, more nodes
      give back no quota, so none are tried before that.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count, islice

from attrs import evolve

from gangsched.core.questions.ahead import Ahead, Calls, Spending, look
from gangsched.core.questions.empty_node import refusals
from gangsched.core.questions.larger_quotas import keeps_out, search_quotas, within_nominal
from gangsched.core.reading.why import why_of
from gangsched.core.state import State
from gangsched.errors import GangschedError, InvalidValueError, UnknownPodError
from gangsched.events import GroupScheduled, NodeAdded, PodScheduled
from gangsched.explain import (
    BackingOff,
    NoNodeFits,
    NotAdmitted,
    NotEnoughMembers,
    PartlyRunning,
    Queued,
    Running,
    Why,
)
from gangsched.model import GroupKey, Node, NodeName, PodUID
from gangsched.options.quota import EXCEEDED, Quota
from gangsched.primitives import quorum
from gangsched.primitives.families import AWAITS_GROUPS
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.what_if import Insufficient, SmallestChange, Sufficient

__all__ = ["search"]


def search(
    calls: Calls,
    state: State,
    key: GroupKey,
    shape: Node,
    *,
    most: int,
    now: float,
    until: float | None,
    budget: int,
) -> SmallestChange:
    """Return the least number of added nodes with which a group would start by an instant.

    Args:
        calls: The scheduler.
        state: The state of the scheduler.
        key: The group.
        shape: The node of which copies are added. Their names begin with its name.
        most: The largest number of nodes to try.
        now: The current instant.
        until: The instant by which the group has to start. None for *now*, or for the end of its
            backoff if it is in backoff.
        budget: The number of steps that all trials may take together.

    Raises:
        UnknownPodError: The group is not known.
        InvalidValueError: The key is that of a pod.
    """
    known = state.records.registry.get(key)
    if known is not None and _runs(state, known):
        return Sufficient(key, shape, 0, now, None)
    if until is None:
        gang = state.records.gang_about(key)
        until = now if gang is None else max(now, gang.backoff_until)
    spending = Spending(budget)
    found = _search(calls, state, key, shape, most, now, until, spending)
    if not isinstance(found, Insufficient) or not _may_lack_quota(found):
        return found
    for look_for in (within_nominal, search_quotas):
        quotas = look_for(calls, state, key, now, until, spending)
        if quotas is not None:
            then = _search(calls, state, key, shape, most, now, until, spending, quotas.all)
            if isinstance(then, Sufficient):
                return evolve(found, larger=quotas.larger, nodes_besides=then.nodes)
    return found


def _search(
    calls: Calls,
    state: State,
    key: GroupKey,
    shape: Node,
    most: int,
    now: float,
    until: float,
    spending: Spending,
    quotas: Sequence[Quota] | None = None,
) -> SmallestChange:
    """Return the least number of added nodes, with the quotas that are given; see ``search``."""
    known = state.records.registry.get(key)
    lacked = 0 if known is None else quorum.missing(known)
    number = 0
    before: Why | None = None
    while True:
        ahead = look(calls, state, now, spending)
        if quotas is not None:
            ahead.set_quotas(quotas)
        if not number:
            before = _before(ahead, key)
        info = _run_with(ahead, key, _fresh(ahead, shape, number), until)
        started_at = _started_at(ahead, info, lacked)
        has_run = started_at is not None and not ahead.ended.isdisjoint(info.members)
        if has_run or _runs(ahead.state, info):
            others = _others_started(ahead, key)
            return Sufficient(key, shape, number, now, started_at, others)
        if ahead.is_cut_short or number == most:
            break
        if _lacks_members(before) and _lacks_members(why_of(ahead.state, key)):
            break  # see R3
        may_return = state.settings.preemption is not None or until > now
        if not may_return and keeps_out(ahead.state, key):
            break  # see R7
        number += 1
    is_cut_short = ahead.is_cut_short
    why = why_of(ahead.state, key)
    return Insufficient(
        key,
        shape,
        max(number - is_cut_short, 0),
        until,
        why,
        _refusal(ahead.state, key, shape),
        is_cut_short,
        _others_started(ahead, key),
        # A failed attempt is counted in the answer. An answer that is the same as before the trial
        # is therefore that of an older attempt: the group was known not to fit, and not tried.
        why == before and isinstance(_rest(why), NoNodeFits | BackingOff | Queued),
    )


def _run_with(ahead: Ahead, key: GroupKey, nodes: Iterable[Node], until: float) -> PodGroupInfo:
    """Run a fork with more nodes up to an instant; return the group there.

    Raises:
        UnknownPodError: The group is not known.
        InvalidValueError: The key is that of a pod.
    """
    for node in nodes:
        ahead.tell(NodeAdded(node))
    ahead.run(until)
    info = ahead.state.records.registry.get(key)
    if info is None:
        raise _unknown(ahead, key)
    return info


def _is_parent(info: PodGroupInfo) -> bool:
    return info.spec is not None and info.spec.min_groups is not None


def _runs(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group has started, and has its minimum; see R5 and R6."""
    if not _is_parent(info):
        return info.was_scheduled and not quorum.lacks_members(info)
    why = why_of(state, info.key)
    return isinstance(why, Running) or (isinstance(why, PartlyRunning) and not why.is_below_minimum)


def _rest(why: Why) -> Why | None:
    """Return why pending members do not run, of a group that runs in part too."""
    return why.rest if isinstance(why, PartlyRunning) else why


def _may_lack_quota(found: Insufficient) -> bool:
    """Return whether a quota keeps a group out with the nodes that were tried."""
    rest = _rest(found.why)
    is_out = isinstance(rest, NotAdmitted) and rest.reason.startswith(EXCEEDED)
    return is_out and not found.exhausted


def _lacks_members(why: Why | None) -> bool:
    """Return whether a group does not run because too few members exist."""
    if isinstance(why, PartlyRunning):
        return why.is_below_minimum and why.members + why.pending < why.min_available
    if isinstance(why, NotAdmitted):
        return why.reason.startswith(AWAITS_GROUPS)
    return isinstance(why, NotEnoughMembers)


def _before(ahead: Ahead, key: GroupKey) -> Why | None:
    """Return why a group does not run before the first cycle; None for an unknown group."""
    if ahead.state.records.registry.get(key) is None:
        ahead.take_in()
    known = ahead.state.records.registry.get(key) is not None
    return why_of(ahead.state, key) if known else None


def _unknown(ahead: Ahead, key: GroupKey) -> GangschedError:
    member = ahead.state.records.pods.get(PodUID(key))
    if member is None:
        return UnknownPodError(str(key))
    own = "which has no group" if member.info is None else f"of pod group {member.info.key}"
    expected = f"the key of a pod group; this is a pod, {own}: ask what_if about a pod"
    return InvalidValueError("group", str(key), expected)


def _others_started(ahead: Ahead, key: GroupKey) -> int:
    """Return how many other groups, and pods without a group, started in a fork. O(effects)."""
    members = ahead.state.records.pods
    found = 0
    for _at, effect in ahead.timed:
        if isinstance(effect, GroupScheduled):
            found += effect.group != key
        elif isinstance(effect, PodScheduled) and effect.uid in members:
            found += members[effect.uid].info is None
    return found


def _fresh(ahead: Ahead, shape: Node, number: int) -> Iterator[Node]:
    """Yield copies of a node, with names that no node of the cluster has."""
    names = (NodeName(f"{shape.name}-{suffix}") for suffix in count())
    unused = (name for name in names if ahead.cluster.node(name) is None)
    for name in islice(unused, number):
        yield evolve(shape, name=name)


def _started_at(ahead: Ahead, info: PodGroupInfo, lacked: int) -> float | None:
    """Return the instant at which a group started in the fork, or had its minimum again.

    None if it had started before.
    """
    keys = {info.key}
    if _is_parent(info):
        registry = ahead.state.records.registry
        keys |= {key for key in registry.family(info.key) if _is_above(registry, info.key, key)}
    starts = [at for at, effect in ahead.timed if _is_start(effect, keys)]
    comes = [at for at, effect in ahead.timed if _is_member(effect, info)]
    return max(starts or comes[:lacked], default=None)


def _is_above(registry: PodGroupRegistry, parent: GroupKey, key: GroupKey) -> bool:
    return any(spec.key == parent for spec in registry.above(key))


def _is_start(effect: object, keys: Container[GroupKey]) -> bool:
    return isinstance(effect, GroupScheduled) and effect.group in keys


def _is_member(effect: object, info: PodGroupInfo) -> bool:
    return isinstance(effect, PodScheduled) and effect.uid in info.members


def _refusal(state: State, key: GroupKey, shape: Node) -> str:
    """Return why an empty node of a shape takes none of a group's pending members.

    An empty string if it takes one, or if ``pre_filter`` refuses one, because that does not depend
    on the node.
    """
    gang, reasons = state.records.gang_of.get(key), dict[str, None]()
    for record in () if gang is None else gang.in_order():
        cycle = state.cycle(record)
        # pre_filter runs for each member, also where it is group-wide: filter may read what it
        # wrote into this cycle
        if state.points.pre_filter(cycle, record.pod, state.records.now) is not None:
            return ""
        refused = refusals(state.evaluator, record.pod, cycle, shape)
        if not refused:
            return ""
        reasons[", ".join(refused)] = None
    return "; ".join(reasons)
