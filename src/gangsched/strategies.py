"""Hypothesis strategies for the nouns, the facts, and what is made of them.

Rules:
  R1  every argument is a strategy, or a bound on how many, and keyword-only;
  R2  what is drawn is valid, and shrinks to the plainest there is: few, small, alike, at once;
  R3  with the library installed, ``st.from_type`` knows its nouns and facts: hypothesis finds
      ``_hypothesis_setup_hook`` by its entry point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from gangsched.events import (
    BindFailed,
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.memory import InMemoryCluster
from gangsched.model import (
    GroupKey,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodUID,
    Resources,
)
from gangsched.simulation.workload import RUN_SECONDS, Arrival, Workload

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:  # said in our words, for who installs by error message
    raise ModuleNotFoundError(
        "gangsched.strategies needs: pip install 'gangsched[testing]'", name="hypothesis"
    ) from error

__all__ = ["clusters", "events", "nodes", "pod_groups", "pods", "resources", "workloads"]

_NAME_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_ROLE_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/role"

_NAMES = st.integers(0, 9).map(lambda n: f"x-{n}")
_AMOUNTS = st.integers(0, 8)
_SOME = st.integers(1, 4)
_ALIKE = st.just(0)
_ROLES: Final[tuple[Mapping[str, int], ...]] = ({}, {}, {"ps": 1, "worker": 1}, {"worker": 2})


def resources(
    *,
    cpu: st.SearchStrategy[int] = _AMOUNTS,
    gpu: st.SearchStrategy[int] = _AMOUNTS,
) -> st.SearchStrategy[Resources]:
    """Draw amounts of cpu and ``nvidia.com/gpu``, in whole units."""

    def make(cpus: int, gpus: int) -> Resources:
        return Resources({"cpu": cpus, "nvidia.com/gpu": gpus})

    return st.builds(make, cpu, gpu)


def nodes(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    allocatable: st.SearchStrategy[Resources] | None = None,
    labels: st.SearchStrategy[Mapping[str, str]] | None = None,
) -> st.SearchStrategy[Node]:
    """Draw nodes."""

    def make(name: str, offered: Resources, labelled: Mapping[str, str]) -> Node:
        return Node(name=NodeName(name), allocatable=offered, labels=dict(labelled))

    return st.builds(
        make,
        names,
        resources() if allocatable is None else allocatable,
        st.just({}) if labels is None else labels,
    )


def pods(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    groups: st.SearchStrategy[str | None] | None = None,
    requests: st.SearchStrategy[Resources] | None = None,
    priorities: st.SearchStrategy[int] | None = None,
    roles: st.SearchStrategy[str | None] | None = None,
) -> st.SearchStrategy[Pod]:
    """Draw pods that are pending; of a group where *groups* gives a name, of a role likewise.

    Two pods of one name have different UIDs.
    """

    def make(
        name: str, group: str | None, asked: Resources, priority: int, role: str | None, uid: int
    ) -> Pod:
        return Pod(
            name=name,
            uid=PodUID(f"{name}-{uid}"),
            pod_group=group,
            labels={} if role is None else {_ROLE_LABEL: role},
            requests=asked,
            priority=priority,
        )

    return st.builds(
        make,
        names,
        st.none() if groups is None else groups,
        resources() if requests is None else requests,
        _ALIKE if priorities is None else priorities,
        st.none() if roles is None else roles,
        st.integers(0, 2**32),
    )


def pod_groups(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    min_available: st.SearchStrategy[int] | None = None,
    schedule_timeout: st.SearchStrategy[float | None] | None = None,
    roles: st.SearchStrategy[Mapping[str, int]] | None = None,
    priorities: st.SearchStrategy[int | None] | None = None,
) -> st.SearchStrategy[PodGroup]:
    """Draw specifications of groups; the minimum is at least what their roles add up to."""

    def make(
        name: str,
        minimum: int,
        timeout: float | None,
        minima: Mapping[str, int],
        priority: int | None,
    ) -> PodGroup:
        least = max(minimum, sum(minima.values()))
        return PodGroup(
            name=name,
            roles=dict(minima),
            min_available=least,
            schedule_timeout=timeout,
            priority=priority,
        )

    return st.builds(
        make,
        names,
        st.integers(1, 5) if min_available is None else min_available,
        st.none() if schedule_timeout is None else schedule_timeout,
        st.just({}) if roles is None else roles,
        st.none() if priorities is None else priorities,
    )


def events(
    *,
    pods: st.SearchStrategy[Pod] | None = None,
    nodes: st.SearchStrategy[Node] | None = None,
    pod_groups: st.SearchStrategy[PodGroup] | None = None,
) -> st.SearchStrategy[Event]:
    """Draw facts, each of them valid by itself; those that are about the same are likely.

    Which of them can follow each other is for ``InMemoryCluster.apply`` to say.
    """
    of_pods = _pods_of_any_kind() if pods is None else pods
    of_nodes = _nodes() if nodes is None else nodes
    of_groups = _pod_groups() if pod_groups is None else pod_groups
    uids, attempts = of_pods.map(lambda pod: pod.uid), st.integers(1, 3)
    return st.one_of(
        st.builds(PodAdded, of_pods),
        st.builds(PodUpdated, of_pods),
        st.builds(PodDeleted, uids),
        st.builds(NodeAdded, of_nodes),
        st.builds(NodeUpdated, of_nodes),
        st.builds(NodeDeleted, of_nodes.map(lambda node: node.name)),
        st.builds(PodGroupAdded, of_groups),
        st.builds(PodGroupUpdated, of_groups),
        st.builds(PodGroupDeleted, of_groups.map(lambda group: group.key)),
        st.builds(Bound, uids, of_nodes.map(lambda node: node.name), attempts),
        st.builds(BindFailed, uids, attempts, st.just("no answer")),
    )


def clusters(
    *,
    nodes: st.SearchStrategy[Node] | None = None,
    pods: st.SearchStrategy[Pod] | None = None,
    pod_groups: st.SearchStrategy[PodGroup] | None = None,
    max_nodes: int = 4,
    max_pods: int = 8,
) -> st.SearchStrategy[InMemoryCluster]:
    """Draw cluster states: nodes, groups, and pods that are pending, or bound where they fit."""
    of_nodes = _nodes() if nodes is None else nodes
    of_pods = _pods_of_any_kind() if pods is None else pods
    of_groups = _pod_groups() if pod_groups is None else pod_groups

    @st.composite
    def made(draw: st.DrawFn) -> InMemoryCluster:
        cluster = InMemoryCluster()
        free: dict[NodeName, Resources] = {}
        for node in draw(st.lists(of_nodes, max_size=max_nodes, unique_by=lambda n: n.name)):
            cluster.apply(NodeAdded(node))
            free[node.name] = node.allocatable
        for group in draw(st.lists(of_groups, max_size=3, unique_by=lambda g: g.key)):
            cluster.apply(PodGroupAdded(group))
        for pod in draw(st.lists(of_pods, max_size=max_pods, unique_by=lambda p: p.uid)):
            cluster.apply(PodAdded(pod))
            fitting = [name for name, left in free.items() if not pod.requests.missing_from(left)]
            name = draw(st.sampled_from([None, *fitting])) if pod.node_name is None else None
            if name is not None:
                cluster.apply(Bound(pod.uid, name, 1))
                free[name] -= pod.requests
        return cluster

    return made()


def workloads(
    *,
    nodes: st.SearchStrategy[Node] | None = None,
    at: st.SearchStrategy[float] | None = None,
    sizes: st.SearchStrategy[int] | None = None,
    requests: st.SearchStrategy[Resources] | None = None,
    priorities: st.SearchStrategy[int] | None = None,
    roles: st.SearchStrategy[Mapping[str, int]] | None = None,
    seconds: st.SearchStrategy[int | None] | None = None,
    max_nodes: int = 3,
    max_jobs: int = 4,
) -> st.SearchStrategy[Workload]:
    """Draw what a ``Simulator`` is fed: nodes that are there at first, and jobs that arrive.

    A job of one pod is a regular pod; one of several is a gang of all of them, whose minimum is
    on its pods or, where it has roles, in a specification. Ties in time, and equal priorities,
    are the rule.

    Args:
        nodes: The nodes.
        at: When a job arrives.
        sizes: How many pods it has. Its roles may make it more.
        requests: What each of its pods asks for.
        priorities: Its priority.
        roles: How many of its members have which role; empty for none.
        seconds: For how long it runs, in whole seconds; None for to the end.
        max_nodes: How many nodes there are at most; one at least.
        max_jobs: How many jobs there are at most.
    """
    of_nodes = _nodes() if nodes is None else nodes
    job = st.builds(
        _Job,
        st.sampled_from([0.0, 0.0, 1.0, 5.0, 30.0]) if at is None else at,
        _SOME if sizes is None else sizes,
        st.sampled_from(_ROLES) if roles is None else roles,
        resources(cpu=_SOME, gpu=st.just(0)) if requests is None else requests,
        _ALIKE if priorities is None else priorities,
        st.sampled_from([10, 1]) if seconds is None else seconds,
    )

    def make(some: Sequence[Node], jobs: Sequence[_Job]) -> Workload:
        arrivals = [Arrival(0.0, NodeAdded(node)) for node in some]
        for number, each in enumerate(jobs):
            arrivals += each.arrivals(f"job-{number}")
        return Workload(arrivals)

    some = st.lists(of_nodes, min_size=1, max_size=max_nodes, unique_by=lambda n: n.name)
    return st.builds(make, some, st.lists(job, max_size=max_jobs))


@frozen
class _Job:
    """A job of some pods; with roles, as many members as these ask for, and the others without."""

    at: float
    size: int
    roles: Mapping[str, int]
    requests: Resources
    priority: int
    seconds: int | None

    def arrivals(self, name: str) -> list[Arrival]:
        """Return its pods, after the specification of its group where it has roles."""
        roles: list[str | None] = [role for role, n in self.roles.items() for _ in range(n)]
        roles += [None] * (self.size - len(roles))
        facts: list[Event] = []
        if self.roles:
            group = PodGroup(
                name=name,
                min_available=len(roles),
                roles=dict(self.roles),
                priority=self.priority,
                created_at=self.at,
            )
            facts.append(PodGroupAdded(group))
        for number, role in enumerate(roles):
            pod = Pod(
                name=f"{name}-{number}",
                labels=self._labels(name, len(roles), role),
                requests=self.requests,
                priority=self.priority,
                annotations={} if self.seconds is None else {RUN_SECONDS: str(self.seconds)},
                created_at=self.at,
            )
            facts.append(PodAdded(pod))
        return [Arrival(self.at, fact) for fact in facts]

    def _labels(self, name: str, size: int, role: str | None) -> dict[str, str]:
        if self.roles:
            return {_NAME_LABEL: name, **({} if role is None else {_ROLE_LABEL: role})}
        return {} if size == 1 else {_NAME_LABEL: name, _MINIMUM_LABEL: str(size)}


def _nodes() -> st.SearchStrategy[Node]:
    return nodes(allocatable=resources(cpu=_SOME, gpu=st.just(0)))


def _pods_of_any_kind() -> st.SearchStrategy[Pod]:
    return pods(
        groups=st.sampled_from([None, "x-0", "x-1"]),
        requests=resources(cpu=st.integers(0, 2), gpu=st.just(0)),
        priorities=st.sampled_from([0, 0, 1]),
    )


def _pod_groups() -> st.SearchStrategy[PodGroup]:
    return pod_groups(roles=st.sampled_from(_ROLES))


def _hypothesis_setup_hook() -> None:
    """Let ``st.from_type`` know what is valid; called by hypothesis when it is imported."""
    st.register_type_strategy(Resources, resources())
    st.register_type_strategy(Pod, _pods_of_any_kind())
    st.register_type_strategy(PodGroup, _pod_groups())
    st.register_type_strategy(Node, _nodes())
    st.register_type_strategy(Workload, workloads())
    st.register_type_strategy(InMemoryCluster, clusters())
    st.register_type_strategy(PodUID, _NAMES.map(PodUID))
    st.register_type_strategy(NodeName, _NAMES.map(NodeName))
    st.register_type_strategy(GroupKey, _NAMES.map(lambda name: GroupKey(f"default/{name}")))
    st.register_type_strategy(Bound, st.builds(Bound, _NAMES, _NAMES, st.integers(1, 3)))
    st.register_type_strategy(
        BindFailed, st.builds(BindFailed, _NAMES, st.integers(1, 3), st.just("no answer"))
    )
