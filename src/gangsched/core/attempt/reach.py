"""Whom a gang may preempt: pods and nominations of a lower priority (``GangRecord.priority``).

Whether it may at all is said by the groups that start, else by their members; and by ``Takers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gangsched.core.admission.reclaim import may_give_way, may_reclaim, may_yield, queue_of
from gangsched.core.placement.pinned import holding_by_leaf
from gangsched.core.queue.demand import Demand, Reach
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.records.trial import Lifted, Trial
from gangsched.core.state import State
from gangsched.model import PreemptionPolicy
from gangsched.primitives import quorum
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import of_leaves, standing
from gangsched.resources import NOTHING, Resources

__all__ = ["helps", "may_evict", "may_preempt", "reach_of"]


def reach_of(state: State, gang: GangRecord, tried: Sequence[PodRecord]) -> Reach | None:
    """Return the reach of a gang; None if nothing is ever preempted. O(members).

    Args:
        state: The state.
        gang: The gang.
        tried: The pending members that start together; without any, those that go alone.
    """
    if state.settings.preemption is None:
        return None
    unbound = [*tried, *gang.waiting.values()]
    starting = {r.info.key: r.info for r in unbound if r.info is not None}
    by_group = {key: [r for r in unbound if r.info is info] for key, info in starting.items()}
    evicts = all(_may_displace(info, by_group[key]) for key, info in starting.items())
    if not starting:
        evicts = all(r.pod.preemption_policy is not PreemptionPolicy.NEVER for r in unbound)
    evicts = evicts and any(may_evict(state, record) for record in tried)
    if state.takers.is_barred(gang):
        return Reach(gang.priority, False)
    return Reach(gang.priority, evicts, queue_of(state, gang))


def _may_displace(info: PodGroupInfo, unbound: Iterable[PodRecord]) -> bool:
    for spec in (info.root, info.spec):
        if spec is not None and spec.preemption_policy is not None:
            return spec.preemption_policy is not PreemptionPolicy.NEVER
    return all(r.pod.preemption_policy is not PreemptionPolicy.NEVER for r in unbound)


def may_evict(state: State, record: PodRecord) -> bool:
    """Return whether a pending member may evict: an elastic one only if that is allowed."""
    policy, info = state.settings.preemption, record.info
    if policy is not None and record.gang.is_tree and _is_met(record.gang):
        return policy.elastic_members  # a child beyond those that are wanted
    if policy is None or info is None or not info.was_scheduled:
        return policy is not None
    return policy.elastic_members or quorum.brings_nearer(info, record.role)


def _is_met(gang: GangRecord) -> bool:
    """Return whether the members of a tree that hold nodes meet its minima. O(members)."""
    return standing(gang.tree, of_leaves(holding_by_leaf(gang))).is_met


def may_preempt(state: State, reach: Reach | None, asked: Resources = NOTHING) -> bool:
    """Return whether a gang of a reach may find victims, or a nomination to take.

    Runtime complexity: O(priorities), and O(queues around) with reclaim.

    Args:
        state: The state.
        reach: The reach; None if nothing is ever preempted.
        asked: What its accounts are charged besides once it starts; nothing if that is not known.
    """
    if reach is None:
        return False
    records, queue = state.records, reach.queue
    if reach.evicts:
        lower = records.priorities if queue is None else records.priorities_in.get(queue, {})
        if any(priority < reach.below for priority in lower):
            return True
        if queue is not None and may_reclaim(state, queue, asked):
            return True
    return any(may_give_way(state, reach, n.gang, n.priority) for n in state.nominations)


def helps(state: State, demand: Demand, slots: Sequence[int]) -> bool:
    """Return whether nodes that may take more may make preemption possible for a demand.

    It has failed with all pods of lower priorities counted out. So one of its pods has to fit on
    one of these nodes, if such pods are counted out there. O(pods on the nodes).
    """
    reach = demand.reach
    if not slots or reach is None or not may_preempt(state, reach):
        return False
    # who has a domain for itself, or is in one that is wanted, may be on another node of it
    if demand.reads_pods or demand.reads_terms or state.records.tenancy.is_wanted:
        return True
    records, yields = state.records, may_yield(state, reach)
    with Trial(records) as trial:
        for slot in slots:
            lifted: list[Lifted] = [
                record
                for record in records.holders(slot)
                if yields(record.gang) or record.uid in records.terminating
            ]
            lifted += [
                hold
                for each in state.nominations
                if may_give_way(state, reach, each.gang, each.priority)
                for hold in each.holds
                if hold.slot == slot
            ]
            trial.lift(lifted)
        return demand.is_helped_by(slots)
