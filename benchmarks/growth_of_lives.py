"""Rows of ``growth.py``: what ends, waits, is removed, made anew, restarted, updated or evicted.

Rule: a row is a function that prepares a run of *n* items; see ``growth_runs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from gangsched import (
    Backfill,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    PodUID,
    PodUpdated,
    Preemption,
    RestartPolicy,
    SchedulingUnit,
)
from gangsched.testing import make_pod
from growth_runs import Row, Run, Shown, added, after, full, nodes, on, one_on_each, pods

__all__ = ["ROWS"]


def ends_for_groups(n: int) -> Run:
    """Pods that end on a full cluster; each makes place for one of as many groups of one."""
    waiting = [make_pod(f"g{g}", group=f"g{g}", min_available=1, cpu=1) for g in range(n)]
    return after([*full(n), *waiting], [PodDeleted(PodUID(f"default/r{k}")) for k in range(n)], n)


def groups_come_and_go(n: int) -> Run:
    """Groups of four with a specification that run and are removed."""
    events: list[Event] = []
    for g in range(n // 4):
        spec = PodGroup(name=f"g{g}", min_available=4)
        given = pods(4, f"p{g}-", group=f"g{g}")
        leave = [PodDeleted(pod.uid) for pod in given]
        events += [PodGroupAdded(spec), *map(added, given), *leave, PodGroupDeleted(spec.key)]
    return after(nodes(1), events, n // 4 * 4)


def group_made_anew(n: int) -> Run:
    """One group of four that is removed and made anew."""
    events: list[Event] = []
    spec = PodGroup(name="g", min_available=4)
    for k in range(n // 4):
        given = pods(4, f"p{k}-", group="g")
        leave = [PodDeleted(pod.uid) for pod in given]
        events += [PodGroupAdded(spec), *map(added, given), *leave, PodGroupDeleted(spec.key)]
    return after(nodes(1), events, n // 4 * 4)


def finished_pods(n: int) -> Run:
    """Pods that succeed and stay in the listing."""
    events: list[Event] = []
    for pod in pods(n):
        done = evolve(pod, phase=PodPhase.SUCCEEDED, node_name=NodeName("n0"))
        events += [PodAdded(pod), PodUpdated(done)]
    return after(nodes(1), events, n)


def finished_members(n: int) -> Run:
    """Members of one group that succeed one by one and stay in the listing."""
    given = pods(n, group="g", min_available=1)
    done = [evolve(pod, phase=PodPhase.SUCCEEDED, node_name=NodeName("n0")) for pod in given]
    return after(nodes(1, cpu=n), [*map(added, given), *map(PodUpdated, done)], n)


def members_replaced(n: int) -> Run:
    """Members of a running group that are deleted and created again one by one."""
    given = pods(n, group="g", min_available=1)
    again = pods(n, "again", group="g", min_available=1)
    events: list[Event] = [*map(added, given)]
    for old, new in zip(given, again, strict=True):
        events += [PodDeleted(old.uid), PodAdded(new)]
    return after(nodes(n // 64 + 1), events, 2 * n)


def restarts(n: int) -> Run:
    """Restarts of one group of two of which a member is lost each time."""
    policy = RestartPolicy(max_restarts=10**9, backoff=1.0, longest_backoff=1.0)
    spec = PodGroup(name="g", min_available=2, restart=policy)
    events: list[Event] = []
    for k in range(n // 2):
        given = pods(2, f"p{k}-", group="g")
        events += [*map(added, given), PodDeleted(given[0].uid)]
    return after([*nodes(1, cpu=n), spec], events[:-1], n // 2 * 2, can_evict=True)


def specification_updates(n: int) -> Run:
    """Updates of the specification of one group, one with each member that arrives."""
    events: list[Event] = []
    for k, pod in enumerate(pods(n, group="g")):
        spec = PodGroup(name="g", min_available=n, schedule_timeout=float(k + 1))
        events += [PodAdded(pod), PodGroupUpdated(spec)]
    return after([*nodes(n // 32 + 1), PodGroup(name="g", min_available=n)], events, n)


def roles(n: int) -> Run:
    """Roles of one group, with a member each that arrive one by one."""
    spec = PodGroup(name="g", roles={f"r{k}": 1 for k in range(n)})
    given = [make_pod(f"p{k}", group="g", role=f"r{k}", cpu=1) for k in range(n)]
    return after([*nodes(n // 32 + 1), spec], list(map(added, given)), n)


def permit_waits(n: int) -> Run:
    """Members of one group that wait on permit for the last, placed pod by pod."""
    given = pods(n, group="g", min_available=n)
    unit = SchedulingUnit.POD
    shown = nodes(n // 32 + 1)
    return after(shown, list(map(added, given)), n, unit=unit, permit_timeout=1e9)


def groups_on_permit(n: int) -> Run:
    """Groups of four of which three members each wait on permit, and then the fourth comes."""
    given = [
        make_pod(f"g{g}-{k}", group=f"g{g}", min_available=4, cpu=1)
        for k in range(4)
        for g in range(n // 4)
    ]
    unit, binds = SchedulingUnit.POD, n // 4 * 4
    shown = nodes(n // 32 + 1)
    return after(shown, list(map(added, given)), binds, unit=unit, permit_timeout=1e9)


def permit_timeouts(n: int) -> Run:
    """Groups of four of which three members fit, until their wait on permit ends."""
    given = [
        make_pod(f"g{g}-{k}", group=f"g{g}", min_available=4, cpu=1)
        for g in range(n // 4)
        for k in range(4)
    ]
    unit = SchedulingUnit.POD
    return after(nodes(1, cpu=3), list(map(added, given)), 0, unit=unit, permit_timeout=15)


def scheduling_gates(n: int) -> Run:
    """Pods whose scheduling gate is removed one by one."""
    given = pods(n)
    gated = [PodAdded(evolve(pod, scheduling_gates=("gate",))) for pod in given]
    return after(nodes(n // 32 + 1), [*gated, *map(PodUpdated, given)], n)


def node_updates(n: int) -> Run:
    """Updates of nodes with a pod each, beside as many pending pods."""
    before = nodes(n, cpu=1)
    events = [
        NodeUpdated(evolve(node, labels={"label": f"{k}"})) for k in range(2) for node in before
    ]
    return after([*before, *one_on_each(pods(n, "r")), *pods(n)], events, 0)


def nodes_that_leave(n: int) -> Run:
    """Nodes that leave one by one, each with its pod."""
    events: list[Event] = []
    for k in range(n):
        events += [NodeDeleted(NodeName(f"n{k}")), PodDeleted(PodUID(f"default/r{k}"))]
    return after(full(n), events, 0)


def incomplete_groups(n: int) -> Run:
    """Groups of two of which one member comes, and as many nodes."""
    given = [make_pod(f"g{g}", group=f"g{g}", min_available=2, cpu=1) for g in range(n)]
    first, *others = nodes(n)
    return after([first], [*map(added, given), *map(NodeAdded, others)], 0)


def preemptors(n: int) -> Run:
    """Pods, each of which evicts one of as many pods on full nodes."""
    given = pods(n, priority=5)
    return after(full(n), list(map(added, given)), n, preemption=Preemption())


def gangs_that_preempt(n: int) -> Run:
    """Gangs of four, each of which evicts four of as many pods as all have members."""
    given = [
        make_pod(f"g{k // 4}-{k}", group=f"g{k // 4}", min_available=4, cpu=1, priority=5)
        for k in range(n // 4 * 4)
    ]
    return after(full(n), list(map(added, given)), n // 4 * 4, preemption=Preemption())


def reserved(n: int) -> Run:
    """Gangs that do not fit, one of which has a reservation."""
    given = [
        make_pod(f"g{k // 2}-{k}", group=f"g{k // 2}", min_available=2, cpu=64)
        for k in range(n // 2 * 2)
    ]
    shown: list[Shown] = [*nodes(1), *on("n0", pods(1, "r"))]
    return after(shown, list(map(added, given)), 0, backfill=Backfill())


def beside_a_reservation(n: int) -> Run:
    """Pods that are backfilled on as many nodes, beside the reservation of a gang of four."""
    running = one_on_each(pods(n, "r", cpu=63))
    gang = pods(4, "g", cpu=64, group="g", min_available=4)
    given = list(map(added, pods(n // 2)))
    return after([*nodes(n), *running, *gang], given, n // 2, backfill=Backfill())


ROWS: Final[Mapping[str, tuple[Row, int]]] = {
    "ends that help one group each": (ends_for_groups, 1),
    "groups that come and go": (groups_come_and_go, 1),
    "pods of a group made anew": (group_made_anew, 1),
    "finished pods kept": (finished_pods, 1),
    "finished members kept": (finished_members, 1),
    "members replaced one by one": (members_replaced, 1),
    "restarts of a group": (restarts, 1),
    "updates of a specification": (specification_updates, 40),
    "roles of a group": (roles, 40),
    "members that wait on permit": (permit_waits, 1),
    "groups that wait on permit": (groups_on_permit, 1),
    "permits that time out": (permit_timeouts, 1),
    "scheduling gates": (scheduling_gates, 1),
    "updates of nodes": (node_updates, 1),
    "nodes that leave": (nodes_that_leave, 1),
    "incomplete groups": (incomplete_groups, 1),
    "pods that preempt": (preemptors, 10),
    "gangs that preempt": (gangs_that_preempt, 10),
    "gangs beside a reserved one": (reserved, 1),
    "nodes beside a reservation": (beside_a_reservation, 1),
}
"""Each row, with how many times smaller its sizes are."""
