"""``Gang`` documents of the simulator: what they give, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from gangsched import PodGroup, Resources, RestartPolicy, Role, Topology, gang, presets
from gangsched.errors import ManifestError
from gangsched.events import Event, NodeAdded, PodAdded, PodGroupAdded
from gangsched.simulation import Arrival, OwnerDeleted, Simulator, Workload, report
from gangsched.simulation.manifests import load_manifests
from gangsched.testing import make_node, make_pod

GPU = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
REPLICA = {"count": 4, "minimum": 3, "roles": {"leader": 1, "worker": 3}, "topology": "rack"}
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-0, labels: {rack: a}}
status: {allocatable: {nvidia.com/gpu: "16"}}
"""


def load(**spec: Any) -> Workload:
    """Read a document."""
    document = {
        "apiVersion": "simulation.gangsched.io/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": "serve", "namespace": "team"},
        "spec": spec,
    }
    return load_manifests(json.dumps(document), file="f.yaml", at=7.0)


MEANT = Role(4, 3, roles={"leader": 1, "worker": 3}, topology=Topology("rack"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"router": 2}, {"router": 2}),
        ({"router": {"count": 2, "minimum": 1}}, {"router": Role(2, minimum=1)}),
        ({"decode": REPLICA, "router": 1}, {"decode": MEANT, "router": 1}),
        (
            {"decode": {"count": 2, "roles": {"leader": {"count": 1, "requests": {"cpu": 2}}}}},
            {"decode": Role(2, roles={"leader": Role(1, requests={"cpu": 2})})},
        ),
        (
            {"block": {"count": 2, "roles": {"decode": REPLICA, "router": 1}}},
            {"block": Role(2, roles={"decode": MEANT, "router": 1})},
        ),
    ],
)
def test_document_gives_what_gang_gives(
    written: dict[str, Any], meant: dict[str, int | Role]
) -> None:
    found = [each.event for each in load(roles=written, topology="block", template=GPU).arrivals]
    topology = Topology("block")
    job = gang("serve", namespace="team", roles=meant, gpu=1, topology=topology, created_at=7.0)
    limits = Resources({"nvidia.com/gpu": 1})
    expected = [PodAdded(evolve(pod, limits=limits)) for pod in job.pods]
    assert found == [PodGroupAdded(job.group), *expected]


@pytest.mark.parametrize(
    ("topology", "meant"),
    [
        (None, None),
        ("rack", Topology("rack")),
        ({"key": "rack"}, Topology("rack")),
        ({"key": "rack", "required": False}, Topology("rack", required=False)),
        ({"key": "block", "prefer": "rack"}, Topology("block", prefer="rack")),
        (
            {"key": "block", "required": False, "prefer": "rack"},
            Topology("block", required=False, prefer="rack"),
        ),
        (
            {"key": "block", "slices": {"rack": 8, "host": 4}},
            Topology("block", slices={"rack": 8, "host": 4}),
        ),
        ({"slices": {"rack": 8}}, Topology(slices={"rack": 8})),
        ({"apart": "rack"}, Topology(apart="rack")),
        (
            {"key": "block", "exclusive": "block", "balanced": True},
            Topology("block", exclusive="block", balanced=True),
        ),
    ],
)
def test_topology_is_a_label_or_says_what_is_required_and_preferred(
    topology: Any, meant: Any
) -> None:
    roles = {"decode": {"count": 4, "minimum": 3, "topology": topology}}
    event = load(roles=roles, template=GPU).arrivals[0].event
    assert isinstance(event, PodGroupAdded)
    assert event.group.roles["decode"] == (Role(4, 3, topology=meant) if meant else 3)
    # a gang has roles, so slices and what is apart are those of a role
    if meant is None or not (meant.slices or meant.apart):
        whole = load(roles={"router": 1}, topology=topology, template=GPU).arrivals[0].event
        assert isinstance(whole, PodGroupAdded)
        assert whole.group.topology == meant


def test_gang_and_its_roles_have_restart_policies() -> None:
    roles = {"decode": {**REPLICA, "restart": {}}}
    policy: dict[str, Any] = {
        "max_restarts": 2,
        "backoff": 20,
        "longest_backoff": 30,
        "repair": True,
    }
    event = load(roles=roles, restart=policy, template=GPU).arrivals[0].event
    assert isinstance(event, PodGroupAdded)
    assert event.group.restart == RestartPolicy(**policy)
    assert event.group.roles["decode"] == evolve(MEANT, restart=RestartPolicy())


def test_slices_of_a_whole_gang_are_refused_since_it_has_roles() -> None:
    with pytest.raises(ManifestError, match=r"spec.topology: expected no slices"):
        load(roles={"w": 2}, topology={"slices": {"rack": 2}}, template=GPU)


def test_gang_has_room_for_pods_that_are_lost() -> None:
    event = load(roles={"w": 2}, spares=2, template=GPU).arrivals[0].event
    assert isinstance(event, PodGroupAdded)
    assert event.group.spares == 2
    with pytest.raises(ManifestError, match=r"spec.spares: .* got -1"):
        load(roles={"w": 2}, spares=-1, template=GPU)


def test_malformed_restart_policy_of_a_gang_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"spec.restart.repair: expected a bool"):
        load(roles={"w": 2}, restart={"repair": "yes"}, template=GPU)
    with pytest.raises(ManifestError, match=r"spec.restart.longest_backoff: .* >= 20, got 9"):
        load(roles={"w": 2}, restart={"backoff": 20, "longest_backoff": 9}, template=GPU)


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        (None, "spec.roles: expected a value, got nothing"),
        ({}, "spec.roles: expected at least one role, got a mapping"),
        ({"w": 0}, "spec.roles.w: expected an int from 1 to 150000, got 0"),
        ({"w": {}}, "spec.roles.w.count: expected an int from 1 to 150000, got nothing"),
        ({"w": {"count": "4"}}, "spec.roles.w.count: expected an int from 1 to 150000, got '4'"),
        (
            {"decode": {**REPLICA, "minimum": 5}},
            "spec.roles.decode.minimum: expected an int from 1 to 4, got 5",
        ),
        (
            {"decode": {**REPLICA, "roles": {"leader": -1}}},
            "spec.roles.decode.roles.leader: expected an int from 1 to 150000, got -1",
        ),
        (
            {"decode": {**REPLICA, "minimun": 2}},
            "spec.roles.decode: expected the fields count, minimum, requests, roles, topology, "
            "restart, got 'minimun'",
        ),
        (
            {"de/code": 1},
            "spec.roles: expected names of lower-case letters, digits and hyphens, got 'de/code'",
        ),
        (
            {"w": {"count": 1000, "roles": {"w": 1000}}},
            "spec.roles: expected at most 150000 pods in all, got 1000000",
        ),
        (
            {"a": {"count": 1, "roles": {"b": 1}}, "a-0-b": 1},
            "spec.roles: expected roles whose pods have different names, got 'serve-a-0-b-0'",
        ),
        (
            {"decode": {**REPLICA, "topology": {"required": False}}},
            "spec.roles.decode.topology.key: expected a non-empty string, got nothing",
        ),
        (
            {"decode": {**REPLICA, "topology": {"key": "rack", "prefer": "rack"}}},
            "spec.roles.decode.topology: expected a finer level than rack, or None, got 'rack'",
        ),
        (
            {"decode": {**REPLICA, "topology": {"key": "block", "slices": {"rack": 0}}}},
            "spec.roles.decode.topology.slices.rack: expected an int from 1 to 150000, got 0",
        ),
        (
            {"decode": {**REPLICA, "topology": {"slices": {"rack": 2}}}},
            "spec.roles.decode: expected no slices: they are of the pods of one role, and not of "
            "copies, got Topology(slices=(('rack', 2),))",
        ),
        (
            {"decode": {**REPLICA, "topology": {"key": "rack", "prefer": ""}}},
            "spec.roles.decode.topology.prefer: expected a non-empty string, got ''",
        ),
        (
            {"decode": {**REPLICA, "topology": {"key": "rack", "prefers": "host"}}},
            "spec.roles.decode.topology: expected the fields key, required, prefer, slices, "
            "apart, exclusive, balanced, got 'prefers'",
        ),
    ],
)
def test_error_names_the_field_and_the_value(roles: Any, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(roles=roles, template=GPU)
    assert str(caught.value).removeprefix("f.yaml: document 1: ") == problem


def test_deleting_a_member_takes_that_pod_only() -> None:
    work = load(roles={"decode": REPLICA}, template=GPU)
    lost = "team/serve-decode-0-worker-1"
    late = Workload([Arrival(9.0, OwnerDeleted(lost))])
    simulator = Simulator(load_manifests(NODE, file="n").merge(work, late), presets.gang)
    simulator.run()
    there = {pod.key for pod in simulator.cluster.pods()}
    assert len(there) == 15
    assert lost not in there


def test_group_of_groups_is_no_job_and_the_groups_below_name_it() -> None:
    parent = PodGroup(name="serve", min_groups=1)
    middle = PodGroup(name="decode", min_groups=1, parent=parent.key)
    child = PodGroup(name="a", min_available=1, parent=middle.key)
    events: list[Event] = [NodeAdded(make_node("n", cpu=1))]
    events += [PodGroupAdded(each) for each in (child, middle, parent)]
    events.append(PodAdded(make_pod("a-0", group="a", cpu=1)))
    simulator = Simulator(Workload([Arrival(0.0, event) for event in events]), presets.gang)
    simulator.run()
    found = report(simulator)
    assert [(job.key, job.above) for job in found.jobs] == [
        ("default/a", ("default/serve", "default/decode"))
    ]
    assert (found.summary.gangs.submitted, found.summary.gangs.pending) == (1, 0)
    assert found.trees == ()


def test_report_has_one_tree_for_all_groups_below_one() -> None:
    parent = PodGroup(name="serve", min_groups=1)
    middle = PodGroup(name="decode", min_groups=1, parent=parent.key)
    child = PodGroup(name="a", min_available=1, parent=middle.key)
    events = [PodGroupAdded(each) for each in (child, middle, parent)]
    simulator = Simulator(Workload([Arrival(0.0, event) for event in events]), presets.gang)
    simulator.run()
    assert [tree[0].group for tree in report(simulator).trees] == [parent.key]
