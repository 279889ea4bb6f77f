"""Topology spread constraints as the API server sends them: defaults and stated values."""

from __future__ import annotations

from typing import Any

from gangsched import NodeInclusionPolicy, PodAdded, TopologySpreadConstraint, WhenUnsatisfiable
from gangsched.kubernetes import read_event


def read(**stated: Any) -> TopologySpreadConstraint:
    """Return the constraint of a pod that states it."""
    constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [{"name": "c"}],
            "topologySpreadConstraints": [{**constraint, **stated}],
        },
    }
    event = read_event({"type": "ADDED", "object": pod})
    assert isinstance(event, PodAdded)
    (found,) = event.pod.topology_spread_constraints
    return found


def test_absent_fields_of_a_spread_constraint_have_the_defaults_of_the_api() -> None:
    found = read()
    assert (found.max_skew, found.topology_key, found.min_domains) == (2, "zone", None)
    assert found.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    assert found.node_affinity_policy is NodeInclusionPolicy.HONOR
    assert found.node_taints_policy is NodeInclusionPolicy.IGNORE
    assert found.match_label_keys == ()


def test_stated_fields_of_a_spread_constraint_are_read() -> None:
    found = read(
        minDomains=3,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        labelSelector={"matchLabels": {"app": "x"}},
        matchLabelKeys=["job"],
    )
    assert found.min_domains == 3
    assert found.node_affinity_policy is NodeInclusionPolicy.IGNORE
    assert found.node_taints_policy is NodeInclusionPolicy.HONOR
    assert found.match_label_keys == ("job",)


def test_spread_constraint_that_only_prefers_is_read() -> None:
    found = read(whenUnsatisfiable="ScheduleAnyway")
    assert found.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY
