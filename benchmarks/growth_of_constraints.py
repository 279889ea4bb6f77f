"""Rows of ``growth.py``: constraints of pods on nodes and on each other.

Rule: a row is a function that prepares a run of *n* items; see ``growth_runs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import evolve

from gangsched import Event, LabelSelector, Pod, PodAdded, PodDeleted, Taint, Toleration
from gangsched.cluster_objects import Namespace
from gangsched.constraints import (
    HostPort,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
)
from gangsched.events import ObjectChanged
from gangsched.testing import make_pod
from growth_runs import HOST, RACK, Row, Run, added, after, full, nodes, on, pods

__all__ = ["ROWS"]


def with_fields(given: Iterable[Pod], fields: Callable[[int], dict[str, Any]]) -> list[Pod]:
    """Return pods with fields that depend on their number."""
    return [evolve(pod, **fields(k)) for k, pod in enumerate(given)]


def term(key: str, app: str) -> PodAffinityTerm:
    """Return a term about the pods of an application."""
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector({"app": app}))


def over_racks(app: str) -> TopologySpreadConstraint:
    """Return the constraint that an application is spread over racks."""
    return TopologySpreadConstraint(
        max_skew=1,
        topology_key=RACK,
        when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
        label_selector=LabelSelector({"app": app}),
    )


def one_on_each_host(n: int) -> Run:
    """Pods of one application that exclude each other from a node, on as many nodes."""
    apart = {"labels": {"app": "a"}, "pod_anti_affinity": (term(HOST, "a"),)}
    given = with_fields(pods(n), lambda _k: apart)
    return after(nodes(n, named=True), list(map(added, given)), n)


def gang_on_hosts_of_its_own(n: int) -> Run:
    """A gang whose members exclude each other from a node."""
    apart = (term(HOST, "a"),)
    given = [
        evolve(pod, labels={**pod.labels, "app": "a"}, pod_anti_affinity=apart)
        for pod in pods(n, group="g", min_available=n)
    ]
    return after(nodes(n, named=True), list(map(added, given)), n)


def applications_apart(n: int) -> Run:
    """Applications of one pod each, which exclude themselves from its node."""
    given = with_fields(
        pods(n),
        lambda k: {"labels": {"app": f"a{k}"}, "pod_anti_affinity": (term(HOST, f"a{k}"),)},
    )
    return after(nodes(n // 16 + 1, named=True), list(map(added, given)), n)


def applications_in_a_rack(n: int) -> Run:
    """Applications of two pods, of which the second follows the first into its rack."""
    given = with_fields(
        pods(n),
        lambda k: {
            "labels": {"app": f"a{k // 2}"},
            "pod_affinity": (term(RACK, f"a{k // 2}"),),
        },
    )
    return after(nodes(n // 16 + 10, racks=10), list(map(added, given)), n)


def spread_pods(n: int) -> Run:
    """Pods of one application that are spread over 10 racks."""
    spread = {"labels": {"app": "a"}, "topology_spread_constraints": (over_racks("a"),)}
    given = with_fields(pods(n), lambda _k: spread)
    return after(nodes(n // 16 + 10, racks=10), list(map(added, given)), n)


def spread_applications(n: int) -> Run:
    """Applications of four pods, each spread over 10 racks."""
    given = with_fields(
        pods(n),
        lambda k: {
            "labels": {"app": f"a{k // 4}"},
            "topology_spread_constraints": (over_racks(f"a{k // 4}"),),
        },
    )
    return after(nodes(n // 16 + 10, racks=10), list(map(added, given)), n)


def beside_a_selected_host(n: int) -> Run:
    """Nodes that arrive, and as many pods, beside one that runs and has a hostname selector."""
    one = evolve(make_pod("one", cpu=1), node_selector={HOST: "n0"})
    first, *others = nodes(n + 1, named=True)
    events = [*map(added, others), *map(added, pods(n))]
    return after([first, *on("n0", [one])], events, n)


def host_ports(n: int) -> Run:
    """Pods that use one host port, on as many nodes."""
    given = with_fields(pods(n), lambda _k: {"host_ports": (HostPort(80),)})
    return after(nodes(n), list(map(added, given)), n)


def distinct_tolerations(n: int) -> Run:
    """Pods with a toleration of their own that arrive on a full cluster, and leave again."""
    given = with_fields(pods(n), lambda k: {"tolerations": (Toleration("key", f"v{k}"),)})
    leave = [PodDeleted(pod.uid) for pod in given]
    return after(full(10), [*map(added, given), *leave], 0)


def ends_for_unlike_pods(n: int) -> Run:
    """Pods that end; each makes place for one of as many pods with tolerations of their own."""
    waiting = with_fields(pods(n), lambda k: {"tolerations": (Toleration("key", f"v{k}"),)})
    running = on("n0", pods(n, "r"))
    events = [PodDeleted(pod.uid) for pod in running]
    return after([*nodes(1, cpu=n), *running, *waiting], events, n)


def own_taints(n: int) -> Run:
    """Nodes with a taint of their own, and for each a pod that tolerates it."""
    tainted = [evolve(node, taints=(Taint("key", f"v{k}"),)) for k, node in enumerate(nodes(n))]
    given = with_fields(pods(n), lambda k: {"tolerations": (Toleration("key", f"v{k}"),)})
    return after(tainted, list(map(added, given)), n)


def own_hosts(n: int) -> Run:
    """Pods that select the hostname of a node of their own."""
    given = with_fields(pods(n), lambda k: {"node_selector": {HOST: f"n{k}"}})
    return after(nodes(n, named=True), list(map(added, given)), n)


def own_resources(n: int) -> Run:
    """Pods that end, beside as many that request a resource of their own, which no node has."""
    waiting = [make_pod(f"p{k}", requests={"cpu": 1, f"example.com/r{k}": 1}) for k in range(n)]
    running = on("n0", pods(n, "r", cpu="1m"))
    events = [PodDeleted(pod.uid) for pod in running]
    return after([*nodes(1), *running, *waiting], events, 0)


def selected_namespaces(n: int) -> Run:
    """Namespaces with a pod each that excludes pods of namespaces with a label."""
    apart = PodAffinityTerm(
        topology_key=HOST,
        label_selector=LabelSelector({"app": "other"}),
        namespace_selector=LabelSelector({"team": "a"}),
    )
    events: list[Event] = []
    for k, pod in enumerate(pods(n)):
        namespace = f"ns{k}"
        events += [
            ObjectChanged(Namespace(name=namespace, labels={"team": "a"})),
            PodAdded(evolve(pod, namespace=namespace, uid=f"u{k}", pod_anti_affinity=(apart,))),
        ]
    return after(nodes(n // 16 + 1, named=True), events, n)


ROWS: Final[Mapping[str, tuple[Row, int]]] = {
    "pods that exclude each other": (one_on_each_host, 1),
    "a gang on hosts of its own": (gang_on_hosts_of_its_own, 1),
    "applications kept apart": (applications_apart, 1),
    "applications kept in a rack": (applications_in_a_rack, 1),
    "pods spread over racks": (spread_pods, 1),
    "applications spread over racks": (spread_applications, 1),
    "nodes beside a selected host": (beside_a_selected_host, 1),
    "host ports": (host_ports, 1),
    "distinct tolerations": (distinct_tolerations, 1),
    "ends that help one of unlike pods": (ends_for_unlike_pods, 40),
    "taints, each tolerated by a pod": (own_taints, 40),
    "hosts, each selected by a pod": (own_hosts, 40),
    "ends beside distinct resources": (own_resources, 40),
    "namespaces that terms select": (selected_namespaces, 10),
}
"""Each row, with how many times smaller its sizes are."""
