"""What the strategies draw is valid, and shrinks to the plainest there is."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import assume, find, given
from hypothesis import strategies as st

import gangsched
from gangsched import (
    Event,
    GroupKey,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Resources,
    Taint,
    Toleration,
    Topology,
    membership,
    presets,
)
from gangsched._hypothesis import register_types
from gangsched.errors import ClusterStateError
from gangsched.model import FrozenMap
from gangsched.simulation import FaultPlan, Simulator, Workload, report
from gangsched.strategies import (
    clusters,
    events,
    faults,
    nodes,
    pod_groups,
    pods,
    resources,
    workloads,
)
from support.examples import least

NOUNS = (
    *(Resources, Pod, PodGroup, Node, Workload, InMemoryCluster, FaultPlan, FrozenMap),
    *(Taint, Toleration, Topology, NodeSelectorRequirement, NodeSelectorTerm),
)
register_types()  # Hypothesis does this itself where the library is installed.


@pytest.mark.parametrize("noun", [*NOUNS, *get_args(Event)], ids=lambda noun: noun.__name__)
def test_from_type_draws_each_noun_and_event(noun: type) -> None:
    @given(st.from_type(noun))
    def is_one(drawn: object) -> None:
        assert type(drawn) is noun

    is_one()


def test_entry_point_names_register_types() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    points = tomllib.loads(text)["project"]["entry-points"]["hypothesis"]
    module, _colon, name = points["_"].partition(":")
    assert getattr(importlib.import_module(module), name) is register_types


def test_importing_hypothesis_does_not_load_the_simulator_or_the_strategies() -> None:
    source = str(Path(gangsched.__file__).parents[1])
    code = f"""
import sys
sys.path.insert(0, {source!r})
from gangsched._hypothesis import register_types
register_types()
from gangsched import Pod
from hypothesis import strategies as st
heavy = ("gangsched.simulation", "gangsched.strategies", "gangsched.framework")
print([name for name in heavy if name in sys.modules])
st.from_type(Pod).validate()
print([name for name in heavy if name in sys.modules])
"""
    environment = {**os.environ, "HYPOTHESIS_NO_PLUGINS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    loaded = ["gangsched.simulation", "gangsched.strategies", "gangsched.framework"]
    assert done.stdout == f"[]\n{loaded}\n"


def test_importing_the_library_does_not_import_hypothesis() -> None:
    source = str(Path(gangsched.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {source!r}); import gangsched, gangsched.testing; "
        "print('hypothesis' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@given(clusters())
def test_clusters_are_consistent_and_not_overcommitted(
    cluster: InMemoryCluster,
) -> None:
    cluster._check()
    for node in cluster.nodes():
        taken = Resources()
        for pod in cluster.pods_on(node.name):
            taken += pod.requests
        assert not taken.missing_from(node.allocatable)


@given(clusters(max_nodes=2, max_pods=3))
def test_scheduler_accepts_any_cluster(cluster: InMemoryCluster) -> None:
    scheduler = presets.coscheduling(cluster)
    for _ in range(50):
        if scheduler.schedule_one(now=0.0) is None:
            return
    raise AssertionError("still deciding")


@given(st.lists(events(), max_size=20))
def test_events_are_accepted_by_cluster_and_scheduler(facts: list[Event]) -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    for fact in facts:
        try:
            cluster.apply(fact)
        except ClusterStateError:
            continue
        scheduler.handle(fact, now=0.0)
        scheduler._check()


@given(workloads())
def test_workloads_run_to_the_end_without_partial_gangs(workload: Workload) -> None:
    simulator = Simulator(workload, presets.coscheduling)
    simulator.run()
    counts = report(simulator).summary.gangs
    assert counts.partial == 0


@given(workloads())
def test_pods_of_a_workload_name_their_group(workload: Workload) -> None:
    facts = [arrival.event for arrival in workload.arrivals]
    specs = {fact.group.key for fact in facts if isinstance(fact, PodGroupAdded)}
    for arrival in workload.arrivals:
        if isinstance(arrival.event, PodAdded):
            claim = membership(arrival.event.pod)
            if claim is not None:
                assert claim.min_available is not None or claim.group in specs


# What is left of an example when it has been made small ----------------------------------------


def test_resources_shrink_to_nothing() -> None:
    assert find(resources(), lambda _: True, settings=least()) == Resources()


def test_pods_shrink_to_a_pod_with_defaults() -> None:
    assert find(pods(), lambda _: True, settings=least()) == Pod(name="x-0", uid=PodUID("x-0-0"))


def test_pod_groups_shrink_to_minimum_1() -> None:
    assert find(pod_groups(), lambda _: True, settings=least()) == PodGroup(
        name="x-0", min_available=1
    )


def test_nodes_shrink_to_no_capacity() -> None:
    assert find(nodes(), lambda _: True, settings=least()) == Node(name=NodeName("x-0"))


def test_clusters_shrink_to_empty() -> None:
    cluster = find(clusters(), lambda _: True, settings=least())
    assert (list(cluster.nodes()), list(cluster.pods()), list(cluster.pod_groups())) == ([], [], [])


def test_workloads_shrink_to_one_node() -> None:
    (arrival,) = find(workloads(), lambda _: True, settings=least()).arrivals
    assert arrival.event == NodeAdded(Node(name=NodeName("x-0"), allocatable={"cpu": 1}))


def _partial(workload: Workload) -> bool:
    simulator = Simulator(workload, presets.pod_by_pod)
    simulator.run(until=100.0)
    return report(simulator).summary.gangs.partial > 0


def _tied(workload: Workload) -> bool:
    pods = [(a.at, a.event.pod) for a in workload.arrivals if isinstance(a.event, PodAdded)]
    names = {(at, pod.name.rpartition("-")[0]) for at, pod in pods}
    return len(names) > 1 and len({at for at, _name in names}) == 1


@pytest.mark.parametrize(
    ("shows", "pods"), [(_partial, 2), (_tied, 2)], ids=["a-gang-in-part", "a-tie-in-time"]
)
def test_workloads_with_a_property_shrink_to_the_smallest(
    shows: Callable[[Workload], bool], pods: int
) -> None:
    smallest = find(workloads(), shows, settings=least())
    added = [a for a in smallest.arrivals if isinstance(a.event, PodAdded)]
    assert (len(added), len(smallest.arrivals) - len(added)) == (pods, 1)
    assert {arrival.at for arrival in smallest.arrivals} == {0.0}


@given(st.data())
def test_arguments_are_strategies(data: st.DataObject) -> None:
    two = resources(cpu=st.just(2), gpu=st.just(1))
    pod = data.draw(pods(names=st.just("w"), groups=st.just("g"), requests=two, roles=st.just("r")))
    assert (pod.name, pod.pod_group, pod.requests) == ("w", "g", two_of())
    claim = membership(pod)
    assert claim is not None
    assert claim.role == "r"
    node = data.draw(nodes(allocatable=two, labels=st.just({"zone": "a"})))
    assert (node.allocatable, node.labels["zone"]) == (two_of(), "a")
    workload = data.draw(workloads(sizes=st.just(3), at=st.just(7.0), roles=st.just({"ps": 1})))
    assume(len(workload.arrivals) > 3)
    assert {a.at for a in workload.arrivals if isinstance(a.event, PodAdded)} == {7.0}


@given(st.data())
def test_optional_fields_are_arguments(data: st.DataObject) -> None:
    asked = data.draw(resources(cpu=st.just(1), gpu=st.just(0), more={"memory": st.just(3)}))
    assert asked == Resources({"cpu": 1, "memory": 3})
    taint = Taint("kept")
    assert data.draw(nodes(taints=st.just([taint]))).taints == (taint,)
    rack, other = Topology("rack"), GroupKey("default/other")
    group = data.draw(pod_groups(topologies=st.just(rack), bundles=st.just([other])))
    assert (group.topology, group.bundle) == (rack, (other,))
    fact = data.draw(events(attempts=st.just(7), pods=pods(names=st.just("w"))))
    assert getattr(fact, "attempt", 7) == 7
    assert getattr(fact, "uid", "w-0").startswith("w-")
    plan = data.draw(faults(places=st.just(3), counts=st.just(2), ahead=st.just(True)))
    assert (len(plan.faults), plan.ahead) == (2, True)


STRATEGIES = (resources, nodes, pods, pod_groups, events, clusters, workloads, faults)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (make, name)
        for make in STRATEGIES
        for name in inspect.signature(make).parameters
        if not name.startswith("max_") and name != "more"
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_value_instead_of_a_strategy_is_refused(make: Callable[..., object], name: str) -> None:
    with pytest.raises(InvalidValueError, match=r"st\.just\(5\)") as refused:
        make(**{name: 5})
    assert (refused.value.field, refused.value.value) == (name, 5)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (clusters, {"max_nodes": -1}),
        (clusters, {"max_pods": True}),
        (workloads, {"max_nodes": 0}),
        (workloads, {"max_jobs": st.just(1)}),
    ],
)
def test_invalid_bound_is_refused(make: Callable[..., object], values: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError) as refused:
        make(**values)
    assert refused.value.field in values


def test_all_arguments_are_keyword_only_with_defaults() -> None:
    for make in STRATEGIES:
        for parameter in inspect.signature(make).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY
            assert parameter.default is not parameter.empty


def two_of() -> Resources:
    return Resources({"cpu": 2, "nvidia.com/gpu": 1})


@given(workloads(labels=st.fixed_dictionaries({"tenant": st.sampled_from("ab")})))
def test_labels_of_a_workload_are_on_all_pods_of_a_job(workload: Workload) -> None:
    of_job: dict[str, set[str]] = {}
    for each in workload.arrivals:
        if isinstance(each.event, PodAdded):
            pod = each.event.pod
            of_job.setdefault(pod.name.rpartition("-")[0], set()).add(pod.labels["tenant"])
    assert all(len(tenants) == 1 for tenants in of_job.values())
