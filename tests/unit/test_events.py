"""Events, effects and notices: closed sets of frozen classes."""

from __future__ import annotations

import inspect
import pickle
import typing
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError

from gangsched import events
from gangsched.cluster_objects import Namespace
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    Notice,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    PriorityOverruled,
    Release,
    RestartLimitReached,
    VictimSearchExhausted,
)
from gangsched.model import Node, NodeName, Pod, PodGroup

POD, NODE, GROUP = Pod(name="p"), Node(name=NodeName("n")), PodGroup(name="g", min_available=2)
UID, NAME, KEY = POD.uid, NODE.name, GROUP.key
VALUES: list[Any] = [
    PodAdded(POD),
    PodUpdated(POD),
    PodDeleted(UID),
    NodeAdded(NODE),
    NodeUpdated(NODE),
    NodeDeleted(NAME),
    PodGroupAdded(GROUP),
    PodGroupUpdated(GROUP),
    PodGroupDeleted(KEY),
    ObjectChanged(Namespace(name="ns")),
    ObjectDeleted("Namespace", "ns"),
    Bound(UID, NAME, 1),
    BindFailed(UID, 1, "why"),
    PermitAllowed(UID, "Licence", 1),
    PermitRejected(UID, "Licence", 1, "why"),
    Release(KEY, (UID,)),
    Bind(UID, NAME, 1),
    Evict(UID, NAME, "why"),
    PodRefused(UID, "why"),
    PriorityOverruled(UID, KEY, 1, 0),
    PodNotAdmitted(UID, "why"),
    GroupIncomplete(KEY, 1, 2),
    PodUnschedulable(UID, "why"),
    PodWaiting(UID, NAME, 10.0, 1),
    PodRejected(UID, NAME, "why"),
    GroupRejected(KEY, 1, "why", 11.0),
    GroupScheduled(KEY, 1, 2, 0.5),
    GroupBound(KEY, 1, 2),
    GroupPartlyBound(KEY, 1, 2, UID, "no"),
    GroupBelowMinimum(KEY, 1, 2),
    GroupRestarted(KEY, 1, 6, 10.0),
    RestartLimitReached(KEY, 6),
    VictimSearchExhausted(KEY, UID, 2_500, True),
    GroupRemoved(KEY),
    PodScheduled(UID, NAME),
    Nominated(KEY, 1, ((UID, NAME),), (UID,), 60.0),
    NominationLapsed(KEY, (UID,), "why"),
]
FACTS, EFFECTS = set(typing.get_args(Event)), set(typing.get_args(Effect))
NOTICES = set(typing.get_args(Notice))


def test_every_class_is_either_event_or_effect() -> None:
    defined = {
        cls
        for _name, cls in inspect.getmembers(events, inspect.isclass)
        if cls.__module__.startswith(events.__name__)
    }
    parts = {events.VolumeChoice}  # of Bind
    assert defined == FACTS | EFFECTS | parts
    assert not FACTS & EFFECTS


def test_every_effect_is_either_notice_or_action() -> None:
    assert NOTICES < EFFECTS
    assert {Bind, Evict, Release} == EFFECTS - NOTICES


def test_every_class_has_a_case() -> None:
    assert {type(value) for value in VALUES} == FACTS | EFFECTS
    assert len(VALUES) == len(FACTS | EFFECTS)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_class_is_a_frozen_final_picklable_value(value: Any) -> None:
    names = type(value).__match_args__
    with pytest.raises(FrozenInstanceError):
        setattr(value, names[0], "other")
    assert getattr(type(value), "__final__", False)
    again = type(value)(*(getattr(value, name) for name in names))
    assert value == again == pickle.loads(pickle.dumps(value))
    assert hash(value) == hash(again)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_of_different_classes_are_unequal(value: Any) -> None:
    """``PodAdded`` differs from ``PodUpdated``, though both have the same field."""
    assert [value] == [other for other in VALUES if other == value]
