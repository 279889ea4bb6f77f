"""Objects that constraints refer to: values, the store, the events, and what shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Event,
    InMemoryCluster,
    InvalidValueError,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectChanged,
    ObjectDeleted,
    OverlayCluster,
    Pod,
)
from gangsched.cluster_objects import (
    KINDS,
    AccessMode,
    CSINode,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
)
from gangsched.constraints import LabelSelector
from gangsched.memory import InMemoryCluster as Cluster
from gangsched.model import FrozenMap
from gangsched.values.form_table import EVENT

OBJECTS: st.SearchStrategy[Any] = st.one_of([st.from_type(kind) for kind in KINDS.values()])
CHANGES = st.lists(st.builds(ObjectChanged, OBJECTS) | st.from_type(ObjectDeleted), max_size=12)


def shown(cluster: InMemoryCluster) -> dict[str, set[Any]]:
    return {name: set(cluster.objects.all(kind)) for name, kind in KINDS.items()}


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Namespace(name="a/b"), "name"),
        (lambda: PersistentVolumeClaim(name="c", access_modes=("Often",)), "access_modes"),
        (lambda: PersistentVolume(name="v", capacity={"storage": "-1"}), "capacity.storage"),
        (lambda: CSINode(name="n", limits={"d": -1}), "limits.d"),
        (lambda: CSINode(name="n", drivers="d"), "drivers"),
        (lambda: PodDisruptionBudget(name="b", disruptions_allowed=-1), "disruptions_allowed"),
        (lambda: PodDisruptionBudget(name="b", disrupted_pods="pod"), "disrupted_pods"),
    ],
)
def test_malformed_field_is_refused_by_name(make: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert caught.value.field == field


def test_claim_is_bound_only_once_the_binding_is_complete() -> None:
    claim = PersistentVolumeClaim(name="c", volume="v")
    assert not claim.is_fully_bound
    assert evolve(claim, bound=True).is_fully_bound
    assert not evolve(claim, bound=True, volume="").is_fully_bound


def test_volume_is_for_the_claim_of_its_reference() -> None:
    claim = PersistentVolumeClaim(name="c", uid="1")
    volume = PersistentVolume(name="v", claim="default/c")
    assert volume.is_for(claim)
    assert evolve(volume, claim_uid="1").is_for(claim)
    assert not evolve(volume, claim_uid="2").is_for(claim)
    assert not PersistentVolume(name="v").is_for(claim)


def test_volume_without_node_affinity_is_reached_from_every_node() -> None:
    term = NodeSelectorTerm((NodeSelectorRequirement("zone", "In", ("a",)),))
    none: FrozenMap[str] = FrozenMap({})
    assert PersistentVolume(name="v").is_reached_from(none)
    assert not PersistentVolume(name="v", node_affinity=()).is_reached_from(none)
    volume = PersistentVolume(name="v", node_affinity=[term], access_modes=["ReadWriteOnce"])
    assert volume.access_modes == (AccessMode.READ_WRITE_ONCE,)
    assert volume.is_reached_from(FrozenMap({"zone": "a"}))
    assert not volume.is_reached_from(FrozenMap({"zone": "b"}))


def test_budget_covers_the_selected_pods_of_its_namespace() -> None:
    budget = PodDisruptionBudget(
        name="b", selector=LabelSelector({"app": "x"}), disrupted_pods=["gone"]
    )
    pod = Pod(name="p", labels={"app": "x"})
    assert budget.covers(pod)
    assert not budget.covers(evolve(pod, namespace="other"))
    assert not budget.covers(evolve(pod, name="gone"))
    assert not budget.covers(evolve(pod, labels={"app": "y"}))
    assert not evolve(budget, selector=LabelSelector()).covers(pod)
    assert not evolve(budget, selector=None).covers(pod)


@given(CHANGES)
def test_cluster_shows_the_objects_of_its_events(changes: list[Event]) -> None:
    cluster = Cluster()
    expected: dict[tuple[str, str], Any] = {}
    for event in changes:
        cluster.apply(event)
        if isinstance(event, ObjectChanged):
            expected[type(event.value).__name__, event.value.key] = event.value
        elif isinstance(event, ObjectDeleted):
            expected.pop((event.object_kind, event.key), None)
        cluster._check()
    for name, kind in KINDS.items():
        of_kind = {value for (one, _key), value in expected.items() if one == name}
        assert set(cluster.objects.all(kind)) == of_kind
        assert all(cluster.objects.get(kind, value.key) == value for value in of_kind)


@given(CHANGES, CHANGES)
def test_overlay_shows_its_objects_over_those_below(first: list[Event], then: list[Event]) -> None:
    below, plain = InMemoryCluster(), InMemoryCluster()
    for event in first:
        below.apply(event)
        plain.apply(event)
    before, overlay = shown(below), OverlayCluster(below)
    for event in then:
        overlay.apply(event)
        plain.apply(event)
    assert shown(overlay) == shown(plain)
    assert shown(below) == before
    for kind in KINDS.values():
        for one in plain.objects.all(kind):
            assert overlay.objects.get(kind, one.key) == one


@given(st.builds(ObjectChanged, OBJECTS) | st.from_type(ObjectDeleted))
def test_event_is_the_same_after_it_was_written_as_json(event: Event) -> None:
    written = json.loads(json.dumps(EVENT.write(event)))
    assert EVENT.read(written, "") == event
