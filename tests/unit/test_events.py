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
from gangsched.model import Node, NodeName, Pod, PodGroup

POD, NODE, GROUP = Pod(name="p"), Node(name=NodeName("n")), PodGroup(name="g", min_available=2)
UID, NAME, KEY = POD.uid, NODE.name, GROUP.key
VALUES: list[Any] = [
    events.PodAdded(POD),
    events.PodUpdated(POD),
    events.PodDeleted(UID),
    events.NodeAdded(NODE),
    events.NodeUpdated(NODE),
    events.NodeDeleted(NAME),
    events.PodGroupAdded(GROUP),
    events.PodGroupUpdated(GROUP),
    events.PodGroupDeleted(KEY),
    events.ObjectChanged(Namespace(name="ns")),
    events.ObjectDeleted("Namespace", "ns"),
    events.Bound(UID, NAME, 1),
    events.BindFailed(UID, 1, "why"),
    events.PermitAllowed(UID, "Licence", 1),
    events.PermitRejected(UID, "Licence", 1, "why"),
    events.Release(KEY, (UID,)),
    events.Bind(UID, NAME, 1),
    events.Evict(UID, NAME, "why"),
    events.PodRefused(UID, "why"),
    events.PriorityOverruled(UID, KEY, 1, 0),
    events.PodNotAdmitted(UID, "why"),
    events.GroupIncomplete(KEY, 1, 2),
    events.PodUnschedulable(UID, "why"),
    events.PodWaiting(UID, NAME, 10.0, 1),
    events.PodRejected(UID, NAME, "why"),
    events.GroupRejected(KEY, 1, "why", 11.0),
    events.GroupScheduled(KEY, 1, 2, 0.5),
    events.GroupBound(KEY, 1, 2),
    events.CopyBound(KEY, "decode/1", 2),
    events.GroupPartlyBound(KEY, 1, 2, UID, "no"),
    events.GroupBelowMinimum(KEY, 1, 2),
    events.GroupRestarted(KEY, 1, 6, 10.0),
    events.RestartLimitReached(KEY, 6),
    events.VictimSearchExhausted(KEY, UID, 2_500, True),
    events.GroupRemoved(KEY),
    events.PodScheduled(UID, NAME),
    events.Nominated(KEY, 1, ((UID, NAME),), (UID,), 60.0),
    events.NominationLapsed(KEY, (UID,), "why"),
]
FACTS, EFFECTS = set(typing.get_args(events.Event)), set(typing.get_args(events.Effect))
NOTICES = set(typing.get_args(events.Notice))


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
    assert {events.Bind, events.Evict, events.Release} == EFFECTS - NOTICES


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


def test_values_of_different_classes_are_unequal() -> None:
    """``PodAdded`` differs from ``PodUpdated``, though both have the same field."""
    assert len(set(VALUES)) == len(VALUES)
