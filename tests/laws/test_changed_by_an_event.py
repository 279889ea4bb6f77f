"""Law 10: a change by an event equals the same from the start.

Each field of Pod, PodGroup and Node is changed by an event, for every preset; the tables of
``support.changed_fields`` have the values. Nothing can start before the change, since pods that
nobody can preempt hold all nodes. Then nodes become free, and as much must run, at the same place,
as where the object had its last value from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import pytest
from attrs import define, evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Event,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    ObjectChanged,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUpdated,
    Preemption,
)
from gangsched.testing import make_node, make_pod
from support.changed_fields import GROUP, NODE, OBJECTS, POD, check_complete, missing_fields
from support.examples import one_in
from support.story import Story, Way
from support.story_presets import PRESETS

pytestmark = pytest.mark.once("draws the preset")

Thing: TypeAlias = Pod | PodGroup | Node

_UNTOUCHABLE: Final = 1_000
"""A priority that no preemptor has."""

_RACKS: Final[Mapping[str, Mapping[str, str]]] = {
    "n0": {"rack": "a", "zone": "z"},
    "n1": {"rack": "b"},
    "n2": {"rack": "b", "zone": "z"},
    "n3": {},
}


@define(kw_only=True)
class Scene:
    """What is there besides the object that changes.

    Attributes:
        preset: The name of the preset.
        preempts: Whether pods may preempt.
        in_group: Whether the pods that are pending at first are members of the group ``g``.
        opening: The nodes that become free, in this order.
        beside: On these, a pod of low priority takes the place of the one that goes.
        fresh: These nodes are added only then.
        way: What becomes of the scheduler after the change.
    """

    preset: str
    preempts: bool
    in_group: bool
    opening: list[str]
    beside: frozenset[str]
    fresh: frozenset[str]
    way: Way

    def begin(self, changed: Thing, way: Way) -> Story:
        """Return a story in which all is there, with one object in the given version."""
        make: Any = PRESETS[self.preset]
        story = Story(partial(make, preemption=Preemption()) if self.preempts else make, way)
        story.tell(*map(ObjectChanged, OBJECTS))
        for thing in self._all():
            story.tell(_added(changed if _is_same(thing, changed) else thing))
        story.decide()
        return story

    def things(self) -> list[Thing]:
        """Return the objects of which one changes."""
        named = {"s", "running", "g", *_RACKS}
        return [thing for thing in self._all() if thing.name in named]

    def go_on(self, story: Story) -> None:
        """Let time pass, and nodes become free."""
        story.run(until=200)
        story.interrupt()
        for number, name in enumerate(self.opening):
            story.run(until=300 + 100 * number)
            if name in self.fresh:
                story.tell(*(NodeAdded(node) for node in self._nodes() if node.name == name))
            else:
                story.tell(PodDeleted(story.uid(f"on-{name}")))
            if name in self.beside:
                low = make_pod(f"low-{name}", cpu=3, created_at=-1)
                story.add(evolve(low, node_name=name))
            story.decide()
        story.run(until=20_000)

    def _all(self) -> list[Thing]:
        there = [node for node in self._nodes() if node.name not in self.fresh]
        return [*there, *self._groups(), *self._pods()]

    def _nodes(self) -> list[Node]:
        return [
            make_node(name, cpu=3, allocatable={"pods": 9}, labels=labels)
            for name, labels in _RACKS.items()
        ]

    def _groups(self) -> list[PodGroup]:
        return [PodGroup(name="g", min_available=2), PodGroup(name="h", min_available=1)]

    def _pods(self) -> list[Pod]:
        group = "g" if self.in_group else None
        on = [
            evolve(make_pod(f"on-{name}", cpu=9, priority=_UNTOUCHABLE), node_name=NodeName(name))
            for name in _RACKS
            if name not in self.fresh
        ]
        running = evolve(make_pod("running"), node_name=NodeName("n0"), labels={"app": "web"})
        # s is last in both stories: a pod that changed has arrived anew, behind its equals
        rank = 0 if self.in_group else 1
        sibling = evolve(make_pod("sibling", cpu=1, priority=rank), pod_group=group)
        return [*on, running, sibling, evolve(make_pod("s", cpu=1), pod_group=group)]


def _is_same(one: Thing, other: Thing) -> bool:
    return type(one) is type(other) and one.name == other.name


def _added(thing: Thing) -> Event:
    match thing:
        case Pod():
            return PodAdded(thing)
        case PodGroup():
            return PodGroupAdded(thing)
        case Node():
            return NodeAdded(thing)


def _updated(thing: Thing) -> Event:
    match thing:
        case Pod():
            return PodUpdated(thing)
        case PodGroup():
            return PodGroupUpdated(thing)
        case Node():
            return NodeUpdated(thing)


def outcome(story: Story) -> tuple[Mapping[str, str], list[str]]:
    """Return what runs where, and what was evicted."""
    return story.bound, sorted(story.evicted)


scenes = st.builds(
    Scene,
    preset=st.sampled_from(list(PRESETS)),
    preempts=st.booleans(),
    in_group=st.booleans(),
    opening=st.permutations(list(_RACKS)),
    beside=st.frozensets(st.sampled_from(list(_RACKS)), max_size=2),
    fresh=st.frozensets(st.sampled_from([name for name in _RACKS if name != "n0"])),
    way=st.sampled_from(Way),
)


def _changes() -> list[tuple[type[Any], str]]:
    tables = ((Pod, POD), (PodGroup, GROUP), (Node, NODE))
    return [(model, name) for model, table in tables for name in table]


def test_every_field_has_a_drawn_change() -> None:
    check_complete()


def test_field_that_is_in_no_table_is_found() -> None:
    @define
    class Newer:
        labels: object = None
        forgotten: object = None

    assert missing_fields(Newer, {"labels": ({}, {"rack": "a"})}) == {"forgotten"}
    assert missing_fields(Newer, {"labels": ({},), "forgotten": (0, 1)}) == {"labels"}


@pytest.mark.parametrize(
    ("model", "name"), _changes(), ids=[f"{model.__name__}.{name}" for model, name in _changes()]
)
@one_in(10, at_least=8)
@given(scenes, st.data())
def test_change_by_an_event_equals_the_same_from_the_start(
    model: type[Any], name: str, scene: Scene, data: st.DataObject
) -> None:
    thing = data.draw(st.sampled_from([one for one in scene.things() if type(one) is model]))
    table = {Pod: POD, PodGroup: GROUP, Node: NODE}[model]
    before, after = data.draw(st.permutations(table[name]))[:2]
    changed, from_start = evolve(thing, **{name: before}), evolve(thing, **{name: after})
    told, known = scene.begin(changed, scene.way), scene.begin(from_start, Way.LIVE)
    for story in (told, known):
        story.run(until=100)
        story.tell(_updated(from_start))
        scene.go_on(story)
    assert outcome(told) == outcome(known)
