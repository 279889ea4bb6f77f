"""Which jobs are said never to fit: those that could not start on the empty cluster either."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Event,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    Topology,
    TopologySpreadConstraint,
    presets,
)
from gangsched.simulation import Arrival, Simulator, Workload, load_manifests, report
from gangsched.testing import make_pod
from support.calls import calls_for
from support.cluster_objects import (
    claim_json,
    node_json,
    pod_json,
    storage_class_json,
    uses_claim,
    volume_json,
)

yaml = pytest.importorskip("yaml")

AB = ("default/a", "default/b")
WEB = {"app": "web"}


def simulated(*events: Event, make: Any = presets.gang) -> Simulator:
    simulator = Simulator(Workload([Arrival(0.0, event) for event in events]), make)
    simulator.run(until=100.0)
    return simulator


def never(*events: Event) -> tuple[str, ...]:
    return report(simulated(*events)).summary.never_fit


def node(name: str, gpu: int) -> NodeAdded:
    return NodeAdded(Node(name=NodeName(name), allocatable={"nvidia.com/gpu": gpu}))


def on(where: str, gpu: int) -> PodAdded:
    """Return a pod that runs for ever."""
    return PodAdded(Pod(name=f"on-{where}", requests={"nvidia.com/gpu": gpu}, node_name=where))


def bundle(each: int) -> list[Event]:
    """Return two groups that start together, each of so many pods of one GPU."""
    groups = [PodGroup(name=name, min_available=each, bundle=AB) for name in ("a", "b")]
    pods = [make_pod(f"{g.name}-{n}", group=g.name, gpu=1) for g in groups for n in range(each)]
    return [*map(PodGroupAdded, groups), *map(PodAdded, pods)]


def test_bundle_that_waits_may_fit_and_one_that_is_too_large_never_does() -> None:
    assert never(node("n", 4), on("n", 1), *bundle(2)) == ()
    assert never(node("n", 3), on("n", 1), *bundle(2)) == AB


def test_group_whose_partner_is_not_there_may_fit() -> None:
    assert never(node("n", 1), *bundle(2)[:3:2], *bundle(2)[2:4]) == ()


def test_gang_of_unlike_members_may_fit_if_any_placement_of_all_exists() -> None:
    gang = [make_pod(f"g-{gpu}-{n}", group="g", min_available=3, gpu=gpu) for n, gpu in GPUS]
    full: list[Event] = [node("a", 4), node("b", 3), on("a", 1)]
    assert never(*full, *map(PodAdded, gang)) == ()
    assert never(*full, *map(PodAdded, gang), on("b", 1)) == ()
    assert never(node("a", 3), node("b", 3), *map(PodAdded, gang)) == ("default/g",)


GPUS = tuple(enumerate((2, 2, 3)))


def test_pod_whose_volume_is_on_a_full_node_may_fit() -> None:
    local = storage_class_json("local", provisioner="kubernetes.io/no-provisioner")
    volume = volume_json("v", nodes=("n0",), storageClassName="local")
    waits = pod_json("waits", cpu=20, volumes=uses_claim("c"))
    full = pod_json("full", cpu=20, nodeName="n0")
    documents = [node_json("n0"), local, volume, claim_json("c", storageClassName="local")]
    workload = load_manifests(yaml.safe_dump_all([*documents, full, waits]), file="f.yaml")
    simulator = Simulator(workload, presets.gang)
    simulator.run(until=100.0)
    summary = report(simulator).summary
    assert (summary.singles.pending, summary.never_fit) == (1, ())


def test_pod_that_waits_for_capacity_beside_pods_of_other_jobs_may_fit() -> None:
    """Its affinity, or its spread over zones, is satisfied by pods of other jobs only."""
    of_web = LabelSelector(match_labels=WEB)
    near = PodAffinityTerm(topology_key="zone", label_selector=of_web)
    even = TopologySpreadConstraint(max_skew=1, topology_key="zone", label_selector=of_web)
    fleet = [
        NodeAdded(Node(name=name, labels={"zone": name}, allocatable={"nvidia.com/gpu": gpu}))
        for name, gpu in (("a", 1), ("b", 4))
    ]
    web = PodAdded(Pod(name="web", labels=WEB, node_name="a"))
    for gpu, expected in ((2, ()), (3, ("default/g",))):
        pods = [make_pod(f"p-{n}", group="g", min_available=2, gpu=gpu) for n in range(2)]
        for gang in (
            [evolve(pod, pod_affinity=[near]) for pod in pods],
            [
                evolve(pod, labels={**pod.labels, **WEB}, topology_spread_constraints=[even])
                for pod in pods
            ],
        ):
            assert never(*fleet, web, on("b", 1), *map(PodAdded, gang)) == expected


def in_racks(gpus: int) -> list[Event]:
    """Return two racks of a GPU each, one of them full, and a gang of two within one rack."""
    racks = [
        NodeAdded(Node(name=name, labels={"rack": name}, allocatable={"nvidia.com/gpu": 1}))
        for name in ("a", "b")
    ]
    group = PodGroup(name="g", min_available=2, topology=Topology("rack"))
    pods = [make_pod(f"g-{n}", group="g", gpu=gpus) for n in range(2)]
    return [*racks, on("a", 1), PodGroupAdded(group), *map(PodAdded, pods)]


def test_topology_of_a_group_counts_only_if_the_scheduler_has_gangs() -> None:
    assert never(*in_racks(1)) == ("default/g",)
    ungrouped = report(simulated(*in_racks(1), make=presets.pod_by_pod))
    assert ungrouped.summary.never_fit == ()
    (pending,) = ungrouped.pending
    assert "Insufficient nvidia.com/gpu" in pending.why
    too_large = report(simulated(*in_racks(2), make=presets.pod_by_pod))
    assert too_large.summary.never_fit == ("default/g",)


def test_group_of_a_bundle_may_fit_alone_without_gangs() -> None:
    full = [node("n", 3), on("n", 2), *bundle(2)]
    assert report(simulated(*full, make=presets.pod_by_pod)).summary.never_fit == ()


@pytest.mark.parametrize("group", [None, "g"])
def test_cost_of_the_report_is_linear_in_the_pods_that_wait(group: str | None) -> None:
    def calls(count: int) -> int:
        nodes = [node(f"n{n}", 8) for n in range(count // 8)]
        of: dict[str, Any] = {} if group is None else {"group": group, "min_available": count + 1}
        pods = [make_pod(f"p-{n}", gpu=1 if group else 9, **of) for n in range(count + 1)]
        simulator = simulated(*nodes, *map(PodAdded, pods))
        return calls_for(lambda: report(simulator))

    few, many = calls(64), calls(256)
    assert many <= 5 * few
