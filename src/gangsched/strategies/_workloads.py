"""Strategies for workloads: jobs that arrive over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen
from hypothesis import strategies as st

from gangsched.events import Event, NodeAdded, PodAdded, PodGroupAdded
from gangsched.gangs import gang
from gangsched.model import Node, Pod, PodGroup, Resources, Role
from gangsched.simulation.workload import RUN_SECONDS, Arrival, Workload
from gangsched.strategies._arguments import bound, strategy
from gangsched.strategies._nouns import ROLES, resources, some_nodes
from gangsched.strategies._roles import pods_of

__all__ = ["workloads"]

_NAME_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_ROLE_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/role"

_SOME = st.integers(1, 4)
_SOME_OR_NONE = st.integers(0, 4)
"""A size of 0 means no job, so Hypothesis can leave out any job by lowering one number."""
_ALIKE = st.just(0)


def workloads(
    *,
    nodes: st.SearchStrategy[Node] | None = None,
    at: st.SearchStrategy[float] | None = None,
    sizes: st.SearchStrategy[int] | None = None,
    requests: st.SearchStrategy[Resources] | None = None,
    priorities: st.SearchStrategy[int] | None = None,
    roles: st.SearchStrategy[Mapping[str, int | Role]] | None = None,
    seconds: st.SearchStrategy[int | None] | None = None,
    labels: st.SearchStrategy[Mapping[str, str]] | None = None,
    max_nodes: int = 3,
    max_jobs: int = 4,
) -> st.SearchStrategy[Workload]:
    """Draw workloads for a ``Simulator``: nodes that exist at time 0, and jobs that arrive.

    A job of one pod is a regular pod. A job of several is a gang that needs all of them, but of a
    ``Role`` its minimum. That is a pod label or, if it has roles, in a ``PodGroup``. Many jobs
    arrive at the same time with the same priority.

    Args:
        nodes: The nodes.
        at: The time at which a job arrives.
        sizes: The number of pods of a job; 0 for no job. Given roles may raise it.
        requests: The requests of each pod of a job.
        priorities: The priority of a job.
        roles: The number of members of each role of a job, or a ``Role``; empty for none.
            ``roles()`` draws copies. The pods request what the job does.
        seconds: How many whole seconds a job runs; None if it never ends.
        labels: Further labels of all pods of a job, such as one that a plugin reads; none by
            default. Labels of its group take precedence.
        max_nodes: The maximum number of nodes, at least 1.
        max_jobs: The maximum number of jobs.
    """
    of_nodes = strategy("nodes", nodes, some_nodes())
    bound("max_nodes", max_nodes, 1)
    bound("max_jobs", max_jobs)
    job = st.builds(
        _Job,
        strategy("at", at, st.sampled_from([0.0, 0.0, 1.0, 5.0, 30.0])),
        strategy("sizes", sizes, _SOME_OR_NONE),
        strategy("roles", roles, st.sampled_from(ROLES)),
        st.just(roles is not None),
        strategy("requests", requests, resources(cpu=_SOME, gpu=st.just(0))),
        strategy("priorities", priorities, _ALIKE),
        strategy("seconds", seconds, st.sampled_from([10, 1])),
        strategy("labels", labels, st.just({})),
    )

    def make(some: Sequence[Node], jobs: Sequence[_Job]) -> Workload:
        arrivals = [Arrival(0.0, NodeAdded(node)) for node in some]
        for number, each in enumerate(job for job in jobs if job.size):
            arrivals += each.arrivals(f"job-{number}")
        return Workload(arrivals)

    some = st.lists(of_nodes, min_size=1, max_size=max_nodes, unique_by=lambda n: n.name)
    return st.builds(make, some, st.lists(job, max_size=max_jobs))


@frozen
class _Job:
    """A job. The first members have the roles of the job, and the others have none.

    Roles drawn by default are dropped if the job is smaller than their sum. So the size of a job
    does not depend on them, and a failure that needs no roles shrinks to a job without roles.
    """

    at: float
    size: int
    drawn: Mapping[str, int | Role]
    wanted: bool
    requests: Resources
    priority: int
    seconds: int | None
    labels: Mapping[str, str]

    @property
    def roles(self) -> Mapping[str, int | Role]:
        """The number of members of each role, or more about it."""
        return self.drawn if self.wanted or pods_of(self.drawn) <= self.size else {}

    def arrivals(self, name: str) -> list[Arrival]:
        """Return the events of the job: its ``PodGroup`` if it has roles, then its pods."""
        asked = self.roles
        made = gang("any", roles=asked) if asked else None
        roles = [] if made is None else [pod.role for pod in made.pods]
        others = max(self.size - len(roles), 0)
        roles += [None] * others
        events: list[Event] = []
        if made is not None:
            group = PodGroup(
                name=name,
                min_available=made.group.min_available + others,
                roles=asked,
                priority=self.priority,
                created_at=self.at,
            )
            events.append(PodGroupAdded(group))
        for number, role in enumerate(roles):
            pod = Pod(
                name=f"{name}-{number}",
                labels={**self.labels, **self._labels(name, len(roles), role)},
                requests=self.requests,
                priority=self.priority,
                annotations={} if self.seconds is None else {RUN_SECONDS: str(self.seconds)},
                created_at=self.at,
            )
            events.append(PodAdded(pod))
        return [Arrival(self.at, event) for event in events]

    def _labels(self, name: str, size: int, role: str | None) -> dict[str, str]:
        if self.roles:
            path = {} if role is None else {_ROLE_LABEL: role.replace("/", ".")}
            return {_NAME_LABEL: name, **path}
        return {} if size == 1 else {_NAME_LABEL: name, _MINIMUM_LABEL: str(size)}


# Here and not in the entry point, because that must not load the simulator.
st.register_type_strategy(Workload, workloads())
