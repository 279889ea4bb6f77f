"""The answer of ``Scheduler.smallest_change``: the least number of added nodes that is enough.

Rules:
  R1  each number is tried, from 0 on. Starting is not monotone in the number of nodes: with more
      nodes a gang that is ahead in the queue may start and take the capacity that the group needs;
  R2  a trial adds all nodes at once and then runs the fork; see ``Ahead``;
  R3  the search ends early only if the group lacks members before the first cycle, because nodes
      do not create members. If it has enough members and loses some while the fork runs (by an
      eviction, for example), it may keep them with more nodes, so the search goes on;
  R4  all trials share one budget. A trial that is cut short proves nothing about its number.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, InvalidValueError, UnknownPodError
from gangsched.events import GroupScheduled, NodeAdded, PodScheduled
from gangsched.explain import BackingOff, NoNodeFits, NotEnoughMembers, Queued, Why
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime import extension_points, filter_and_score
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.framework.what_if import simulate
from gangsched.framework.what_if import why as answers
from gangsched.framework.what_if.simulate import Ahead, Spending
from gangsched.model import GroupKey, Node, NodeName, PodUID
from gangsched.outcomes import Unschedulable
from gangsched.protocols import FourCalls
from gangsched.what_if import Insufficient, SmallestChange, Sufficient

__all__ = ["search"]


def search(
    calls: FourCalls,
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
    known, entity = state.pods.registry.get(key), state.pods.entities.get(key)
    if known is not None and known.was_scheduled:
        return Sufficient(key, shape, 0, now, None)
    if until is None:
        until = now if entity is None else max(now, entity.backoff_until)
    number = 0
    lacks_members = False
    before: Why | None = None
    spending = Spending(budget)
    while True:
        ahead = simulate.look(calls, state, now, spending)
        if not number:
            before = _before(ahead, key)
            lacks_members = isinstance(before, NotEnoughMembers)
        for node in _fresh(ahead, shape, number):
            ahead.tell(NodeAdded(node))
        ahead.run(until)
        info = ahead.state.pods.registry.get(key)
        if info is None:
            raise _unknown(ahead, key)
        if info.was_scheduled:
            others = _others_started(ahead, key)
            return Sufficient(key, shape, number, now, _started_at(ahead, key), others)
        if ahead.is_cut_short:
            break
        if lacks_members and isinstance(
            answers.why(ahead.state, key, now=ahead.now), NotEnoughMembers
        ):
            break
        if number == most:
            break
        number += 1
    is_cut_short = ahead.is_cut_short
    why = answers.why(ahead.state, key, now=ahead.now)
    if why == before and not is_cut_short and ahead.state.settings.profile.cluster_headrooms:
        _try_anew(ahead, key, until)
        why = answers.why(ahead.state, key, now=ahead.now)
    return Insufficient(
        key,
        shape,
        max(number - is_cut_short, 0),
        until,
        why,
        _refusal(ahead.state.settings, ahead.state.nodes, ahead.state.pods, key, shape, until),
        is_cut_short,
        _others_started(ahead, key),
        # A failed attempt is counted in the answer. An answer that is the same as before the trial
        # is therefore that of an older attempt: the group was known not to fit, and not tried.
        why == before and isinstance(why, NoNodeFits | BackingOff | Queued),
    )


def _before(ahead: Ahead, key: GroupKey) -> Why | None:
    """Return why a group does not run before the first cycle; None for an unknown group."""
    if ahead.state.pods.registry.get(key) is None:
        ahead.take_in()
    known = ahead.state.pods.registry.get(key) is not None
    return answers.why(ahead.state, key, now=ahead.now) if known else None


def _unknown(ahead: Ahead, key: GroupKey) -> GangschedError:
    member = ahead.state.pods.members.get(PodUID(key))
    if member is None:
        return UnknownPodError(str(key))
    own = "which has no group" if member.group is None else f"of pod group {member.group.key}"
    expected = f"the key of a pod group; this is a pod, {own}: ask what_if about a pod"
    return InvalidValueError("group", str(key), expected)


def _try_anew(ahead: Ahead, key: GroupKey, until: float) -> None:
    """Try a group that a plugin keeps from being tried, for its reason with the nodes added.

    The bound of a quota says that the group cannot fit, and not why; see ``ClusterHeadroom``.
    """
    entity, queue = ahead.state.pods.entities.get(key), ahead.state.queue
    if entity is None:
        return
    entity.refused_at = -1  # otherwise it is left out, since it cannot fit
    for line in queue.blocked_queues():
        if line.equivalence_class == entity.equivalence_class:
            queue.open(line, step=ahead.state.attempts.tick(), now=ahead.now, helps=True)
    ahead.run(until)


def _others_started(ahead: Ahead, key: GroupKey) -> int:
    """Return how many other groups, and pods without a group, started in a fork. O(effects)."""
    members = ahead.state.pods.members
    found = 0
    for _at, effect in ahead.timed:
        if isinstance(effect, GroupScheduled):
            found += effect.group != key
        elif isinstance(effect, PodScheduled) and effect.uid in members:
            found += members[effect.uid].group is None
    return found


def _fresh(ahead: Ahead, shape: Node, number: int) -> Iterator[Node]:
    """Yield copies of a node, with names that no node of the cluster has."""
    suffix = 0
    for _node in range(number):
        while ahead.cluster.node(NodeName(f"{shape.name}-{suffix}")) is not None:
            suffix += 1
        yield evolve(shape, name=NodeName(f"{shape.name}-{suffix}"))
        suffix += 1


def _started_at(ahead: Ahead, key: GroupKey) -> float | None:
    """Return the instant at which a group started in the fork; None if it had started before."""
    starts = (at for at, effect in reversed(ahead.timed) if _is_start(effect, key))
    return next(starts, None)


def _is_start(effect: object, key: GroupKey) -> bool:
    return isinstance(effect, GroupScheduled) and effect.group == key


def _refusal(
    settings: Settings, nodes: Nodes, pods: Pods, key: GroupKey, shape: Node, now: float
) -> str:
    """Return why an empty node of a shape takes none of a group's pending members.

    An empty string if it takes one, or if ``pre_filter`` refuses one, because that does not depend
    on the node.
    """
    entity = pods.entities.get(key)
    empty = NodeClass(None, 0, Snapshot(shape, shape.allocatable.to_milli(), 0))
    reasons: dict[str, None] = {}
    for pod in () if entity is None else entity.pending:
        member = pods.members[pod.uid]
        cycle = CycleState(member.group, nodes.infos, settings.cluster, nodes.counts)
        # pre_filter runs for each member, also where it is group-wide: filter may read what it
        # wrote into this cycle.
        if isinstance(extension_points.pre_filter(settings, cycle, pod, now), Unschedulable):
            return ""
        judge = filter_and_score.evaluate_nodes(settings, nodes, cycle, member, now)[1]
        _max_pods, refused = judge.screen(empty)
        if not refused:
            return ""
        reasons[", ".join(refused)] = None
    return "; ".join(reasons)
