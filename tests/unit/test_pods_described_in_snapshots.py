"""Pods on nodes in a snapshot: each is described once, unless it changed after its placement."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodUID,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.testing import make_node, make_pod
from support.fingerprint import fingerprint
from support.restored import posted


def saved() -> tuple[InMemoryCluster, dict[str, Any]]:
    """Return the snapshot of a scheduler with a bound pod and an assumed pod."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=4)))
    pods = [make_pod(name, cpu=1) for name in ("bound", "changed")]
    cluster.apply(PodAdded(evolve(pods[0], node_name=make_node("n").name)))
    cluster.apply(PodAdded(pods[1]))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert [effect.uid for effect in effects if isinstance(effect, Bind)] == [pods[1].uid]
    return cluster, posted(scheduler.snapshot())


def refused(cluster: InMemoryCluster, data: dict[str, Any]) -> InvalidValueError:
    scheduler = presets.gang(cluster)
    before = fingerprint(scheduler)
    with pytest.raises(InvalidValueError) as caught:
        scheduler.restore(data)
    assert fingerprint(scheduler) == before
    return caught.value


def test_assumed_pod_that_has_changed_is_restored_as_it_was_assumed() -> None:
    cluster, data = saved()
    known = next(row["pod"] for row in data["members"] if row["pod"]["name"] == "changed")
    data["assumed"][0]["pod"] = known | {"labels": {"before": "x"}}
    other = presets.gang(cluster)
    other.restore(data)
    other._check()
    _node, shown = other._state.nodes.assumed[PodUID("default/changed")]
    assert dict(shown.labels) == {"before": "x"}
    assert posted(other.snapshot()) == data


def test_assumed_pod_under_another_uid_is_refused() -> None:
    cluster, data = saved()
    bound = next(row["pod"] for row in data["members"] if row["pod"]["name"] == "bound")
    data["assumed"][0]["pod"] = bound
    error = refused(cluster, data)
    assert (error.field, error.value) == ("assumed[0].pod.uid", "default/bound")
    assert error.expected == "default/changed"


def test_assumed_pod_that_has_not_changed_is_not_described_again() -> None:
    cluster, data = saved()
    row = next(row["pod"] for row in data["members"] if row["pod"]["name"] == "changed")
    data["assumed"][0]["pod"] = row
    error = refused(cluster, data)
    assert (error.field, error.expected) == ("assumed[0].pod", "other than the known pod")


def test_pod_on_a_node_that_is_known_is_not_described_again() -> None:
    cluster, data = saved()
    place = data["nodes"][0]["pods"].index("default/bound")
    bound = next(row["pod"] for row in data["members"] if row["pod"]["name"] == "bound")
    data["nodes"][0]["others"] = [*data["nodes"][0].get("others", ()), bound]
    error = refused(cluster, data)
    assert (error.field, error.expected) == (f"nodes[0].pods[{place}]", "described once")
