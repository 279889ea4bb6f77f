"""Snapshots as data: all that is remembered is in them, and what is malformed is refused."""

from __future__ import annotations

import copy
import enum
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, cast

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    Bound,
    GangschedError,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PriorityHeap,
    Profile,
    ProfileError,
    Scheduler,
    StateKey,
    Success,
    Topology,
    Unschedulable,
    presets,
)
from gangsched._core._entity import QueuedEntity
from gangsched.cycle_state import CycleState
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.snapshot.document import FORMAT, HELD
from gangsched.framework.snapshot.forms import ROWS
from gangsched.options import Preemption
from gangsched.protocols import CycleView
from gangsched.testing import make_pod
from support.busy import NOW, busy_scheduler, tell
from support.faulty_plugin import FaultyPlugin
from support.fingerprint import attributes, fingerprint, is_frozen, is_ours, reachable
from support.restored import posted, state_of
from support.snapshots import Fitting, another, nominating_scheduler, reserving_scheduler

HEAPS = ("gangsched._core._heap",)


# All of it --------------------------------------------------------------------------------------


def everything_in(scheduler: Scheduler) -> list[Any]:
    """Return each object of the library that a scheduler remembers and that may change."""
    return [each for each in reachable(scheduler._state, held) if is_remembered(each)]


def held(thing: Any) -> list[Any]:
    """Return what a thing holds that a snapshot has to have."""
    if isinstance(thing, dict):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | PriorityHeap):
        return list(thing)
    is_looked_into = is_remembered(thing) and (type(thing) in HELD or not is_frozen(thing))
    return list(attributes(thing).values()) if is_looked_into else []


def is_remembered(thing: object) -> bool:
    is_given = isinstance(thing, InMemoryCluster | Profile | enum.Enum)
    return is_ours(thing) and not is_given and not type(thing).__module__.startswith(HEAPS)


def bundled_scheduler() -> Scheduler:
    """Return a scheduler with a group that starts together with another."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    spec = PodGroup(name="g", min_available=1, bundle=["default/h"])
    scheduler.handle(cluster.apply(PodGroupAdded(spec)), now=0.0)
    return scheduler


def running_scheduler() -> Scheduler:
    """Return a scheduler with a group that runs."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    pod = evolve(make_pod("p", group="g", min_available=1), node_name="n")
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    return scheduler


def labelled_scheduler() -> Scheduler:
    """Return a scheduler that has placed a group within one value of a label."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    node = Node(name=NodeName("n"), allocatable={"cpu": 2}, labels={"rack": "r"})
    spec = PodGroup(name="g", min_available=1, topology=Topology("rack"))
    for event in (NodeAdded(node), PodGroupAdded(spec), PodAdded(make_pod("p", group="g", cpu=1))):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert scheduler.schedule_one(now=0.0)
    return scheduler


def test_snapshot_knows_every_attribute_of_all_that_a_scheduler_remembers() -> None:
    """A change that adds an attribute states here what becomes of it: see ``HELD``."""
    _cluster, scheduler = busy_scheduler()
    everything = [*everything_in(scheduler), *everything_in(nominating_scheduler())]
    everything += everything_in(reserving_scheduler())
    everything += everything_in(bundled_scheduler())
    everything += everything_in(running_scheduler())
    everything += everything_in(labelled_scheduler())
    seen = {type(each): each for each in everything}
    assert HELD.keys() - {CycleState} <= seen.keys()
    for kind, each in seen.items():
        if kind in HELD:
            names = HELD[kind].names()
            assert sorted(names) == sorted(attributes(each)), kind
            assert len(set(names)) == len(names), kind
        else:
            assert is_frozen(each), f"a snapshot does not know {kind}"


def test_call_scoped_state_is_empty_between_two_calls() -> None:
    _cluster, scheduler = busy_scheduler()
    for each in chain.from_iterable(
        map(everything_in, (scheduler, nominating_scheduler(), reserving_scheduler()))
    ):
        for name in HELD[type(each)].passing.split() if type(each) in HELD else ():
            assert not getattr(each, name)


def test_every_row_has_a_form_for_every_field() -> None:
    for record in ROWS:
        assert {field.name for field in fields(record.kind)} == record.forms.keys(), record.kind


def changes(thing: Any, name: str) -> Iterator[Callable[[], object]]:
    """Change an attribute in each way that fits it; yield how to undo it."""
    before = getattr(thing, name)
    undo = partial(object.__setattr__, thing, name, before)
    others: list[Any] = []
    match before:
        case enum.Enum():
            pass
        case bool():
            others = [not before]
        case int() | float():
            others = [before + 1 if abs(before) != float("inf") else 3.5]
        case str():
            others = [f"{before}x"]
        case dict() if before:
            pairs = list(before.items())
            others = [dict(pairs[1:])] + ([dict(pairs[::-1])] if len(pairs) > 1 else [])
        case _:
            pass
    for other in others:
        object.__setattr__(thing, name, other)
        yield undo


def test_change_of_any_kept_value_changes_the_snapshot() -> None:
    _cluster, scheduler = busy_scheduler()
    assert changed_one_by_one(scheduler) > 280
    assert changed_one_by_one(reserving_scheduler()) > 50


def changed_one_by_one(scheduler: Scheduler, *but: str) -> int:
    """Change each kept value, one after the other; return the number of changes."""
    before = scheduler.snapshot()
    counted = 0
    in_no_order = {"entities", "classes", "by_signature", "_known", "_of", "_roles", *but}
    shapes = [line.equivalence_class for line in scheduler.queue._queues.values()]
    for each in everything_in(scheduler):
        if isinstance(each, EquivalenceClass) and not any(each is shape for shape in shapes):
            continue  # an entity has its own copy of that of its line
        for name in HELD[type(each)].kept.split() if type(each) in HELD else ():
            if name in in_no_order:
                continue
            for undo in changes(each, name):
                try:
                    if type(each) is QueuedEntity:
                        each._check()  # a pod that holds a node is not next
                    assert json.dumps(scheduler.snapshot()) != json.dumps(before), (each, name)
                    counted += 1
                except (GangschedError, LookupError):
                    pass  # what contradicts itself need not be written
                finally:
                    undo()
    assert scheduler.snapshot() == before
    return counted


def test_snapshot_is_the_same_however_often_it_went_through_another_scheduler() -> None:
    cluster, scheduler = busy_scheduler()
    data = scheduler.snapshot()
    assert data["format"] == FORMAT == "gangsched.snapshot/2"
    assert (data["now"], data["listed"]) == (scheduler._now, scheduler._listed)
    other = another(cluster)
    other.restore(posted(data))
    assert json.dumps(other.snapshot()) == json.dumps(data)
    assert state_of(other) == state_of(scheduler)


def test_started_gangs_and_read_labels_are_restored() -> None:
    """By its roles, and by the pods that wait to join it; labels by the number of readers."""
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    node = Node(name=NodeName("n"), labels={"zone": "z"}, allocatable={"cpu": 2})
    tell(cluster, scheduler, NodeAdded(node), now=0)
    roles = {"head": 1, "arm": 1}
    group = PodGroup(name="g", min_available=2, roles=roles)
    tell(cluster, scheduler, PodGroupAdded(group), now=0)
    for n, role in enumerate(("head", "arm", "arm")):
        pod = make_pod(f"g-{n}", group="g", role=role, cpu=1)
        tell(cluster, scheduler, PodAdded(evolve(pod, node_selector={"zone": "z"})), now=0)
    while (effects := scheduler.schedule_one(now=1)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                tell(cluster, scheduler, Bound(effect.uid, effect.node, effect.attempt), now=1)
    data = posted(scheduler.snapshot())
    other = presets.coscheduling(cluster)
    other.restore(data)
    assert posted(other.snapshot()) == data
    assert state_of(other) == state_of(scheduler)
    (info,) = other.registry
    assert info.was_scheduled
    assert [info.role(role).scheduled for role in roles] == [1, 1]
    for uid in ("default/g-2", "default/g-0", "default/g-1"):
        event = cluster.apply(PodDeleted(PodUID(uid)))
        for each in (scheduler, other):
            each.handle(event, now=2)
        assert state_of(other) == state_of(scheduler)


def test_equivalence_queue_follows_the_class_of_its_leader() -> None:
    """Of gangs that belong within a label, and may displace others."""
    cluster = InMemoryCluster()

    def make() -> Scheduler:
        return presets.gang(cluster, preemption=Preemption())

    scheduler = make()
    rack = Topology("rack")
    for name in "gh":
        group = PodGroup(name=name, min_available=1, priority=3, topology=rack)
        tell(cluster, scheduler, PodGroupAdded(group), now=0)
        pod = make_pod(f"{name}-0", group=name, cpu=1, priority=3)
        tell(cluster, scheduler, PodAdded(pod), now=0)
    while scheduler.schedule_one(now=1) is not None:
        pass
    scheduler.advance(now=30)
    for n in range(2):
        (line,) = scheduler._state.queue._queues.values()
        assert isinstance(line.equivalence_class, EquivalenceClass)
        assert (line.equivalence_class.topology, line.equivalence_class.reach) == (rack, (3, True))
        assert (line.leader is None, len(line.queued)) == ((True, 2), (False, 1))[n]
        other = make()
        other.restore(posted(scheduler.snapshot()))
        assert state_of(other) == state_of(scheduler)
        (found,) = other._state.queue._queues
        assert isinstance(found, EquivalenceClass)
        assert (found.topology, found.reach) == (rack, (3, True))
        while other.schedule_one(now=30) is not None:
            other._check()
        node = Node(name=NodeName("n"), labels={"rack": "r"}, allocatable={"cpu": 1})
        if not n:
            tell(cluster, scheduler, NodeAdded(node), now=30)


def test_group_without_members_is_restored_for_its_remaining_grace() -> None:
    cluster, scheduler = busy_scheduler()
    for uid in ("default/i-0", "default/s-0"):
        tell(cluster, scheduler, PodDeleted(PodUID(uid)), now=NOW)
    data = posted(scheduler.snapshot())
    assert [key for key, _until in data["groups_left"]] == ["default/incomplete", "default/spec"]
    other = another(cluster)
    other.restore(data)
    other._check()
    assert state_of(other) == state_of(scheduler)
    for each in (scheduler, other):
        each.advance(now=NOW + 60)
    assert state_of(other) == state_of(scheduler)
    assert "default/incomplete" not in other.registry


def test_restoring_puts_aside_what_was_remembered_before() -> None:
    _cluster, scheduler = busy_scheduler()
    empty = another(InMemoryCluster()).snapshot()
    scheduler.restore(empty)
    assert scheduler.snapshot() == empty
    assert scheduler.queue.active == ()


def test_empty_scheduler_has_a_snapshot_of_a_few_fields() -> None:
    assert another(InMemoryCluster()).snapshot().keys() == {
        "format",
        "gangsched",
        "unit",
        "plugins",
    }


# What is refused --------------------------------------------------------------------------------


def busy_data() -> tuple[InMemoryCluster, dict[str, Any]]:
    cluster, scheduler = busy_scheduler()
    return cluster, posted(scheduler.snapshot())


def change_row(data: dict[str, Any], field: str, uid: str, **changes: Any) -> dict[str, Any]:
    """Return a snapshot with another row of a pod."""
    rows = [row | changes if row["pod"]["uid"] == uid else row for row in data[field]]
    return data | {field: rows}


def nested(line: dict[str, Any], depth: int) -> dict[str, Any]:
    """Return a queue of a class that has a part, which has a part, and so on."""
    asked = line["asked"]
    for _part in range(depth):
        asked = line["asked"] | {"parts": [asked]}
    return line | {"asked": asked}


def promise_of(entity: dict[str, Any]) -> dict[str, Any]:
    """Return a reservation of a gang."""
    at = 3.0
    return {"entity": entity["seq"], "since": at, "starts_at": at, "deadline": at}


BAD: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("no-object", lambda _data: None, "snapshot must be an object, got None"),
    (
        "another-version",
        lambda data: data | {"format": "gangsched.snapshot/9"},
        "format must be gangsched.snapshot/2, got 'gangsched.snapshot/9'",
    ),
    ("no-format", lambda data: {"unit": "pod"}, "format must be gangsched.snapshot/2, got None"),
    ("no-version", lambda data: data | {"gangsched": 3}, "gangsched must be a version, got 3"),
    (
        "another-unit",
        lambda data: data | {"unit": "group"},
        "unit must be pod, the unit of this scheduler",
    ),
    (
        "other-plugins",
        lambda data: data | {"plugins": ["Coscheduling"]},
        "plugins must be ('Coscheduling', 'NodeResourcesFit', 'DefaultBinder'), the plugins of",
    ),
    (
        "a-new-field",
        lambda data: data | {"more": 1},
        "more must be absent: no field there has this name, got 1",
    ),
    (
        "not-a-number",
        lambda data: data | {"now": float("nan")},
        "now must be a finite number of seconds",
    ),
    ("a-text", lambda data: data | {"step": "1"}, "step must be an int from 0 to 2**62, got '1'"),
    (
        "an-unknown-entity",
        lambda data: data | {"active": [999]},
        "active[0] must be listed in the snapshot, got 999",
    ),
    (
        "somebody-twice",
        lambda data: data | {"members": data["members"] * 2},
        "pod.uid must be listed once in the snapshot, got 'default/bound'",
    ),
    (
        "a-state-of-no-member",
        lambda data: data | {"members": [data["members"][0] | {"state": "lost"}]},
        "members[0].state must be one of gated, unscheduled",
    ),
    (
        "somebody-in-two-places",
        lambda data: data | {"gated": [*data["gated"], *data["active"]]},
        "must be an entity that is listed once",
    ),
    (
        "nobody-waits",
        lambda data: data | {"waiting": []},
        "snapshot must be consistent: default/w-0 is WAITING",
    ),
    (
        "a-node-is-miscounted",
        lambda data: data | {"nodes": [data["nodes"][0] | {"pods": []}, *data["nodes"][1:]]},
        "must be consistent: ",
    ),
    (
        "a-node-without-a-cycle",
        lambda data: change_row(data, "members", "default/binding", cycle=None),
        "cycle must be present exactly if the member holds a node, got None",
    ),
    (
        "a-cycle-without-a-node",
        lambda data: change_row(data, "members", "default/large", cycle=[]),
        "cycle must be present exactly if the member holds a node, got ()",
    ),
    (
        "a-pod-without-an-entity",
        lambda data: (
            data
            | {"entities": [row for row in data["entities"] if row.get("pod") != "default/large"]}
        ),
        "pod.uid must be listed in the snapshot, got 'default/large'",
    ),
    (
        "a-member-that-had-its-turn-and-is-not-pending",
        lambda data: (
            data
            | {
                "entities": [
                    data["entities"][0] | {"tried": ["default/w-0"]},
                    *data["entities"][1:],
                ]
            }
        ),
        "entities[0].tried must be pending members, got ('default/w-0',)",
    ),
    (
        "a-member-of-another-group",
        lambda data: (
            data
            | {"groups": [data["groups"][0] | {"claims": ["default/w-0"]}, *data["groups"][1:]]}
        ),
        "groups[0].claims must be the members of the group that are not refused",
    ),
    (
        "a-shape-in-a-shape-without-end",
        lambda data: data | {"queues": [nested(data["queues"][0], 20_000)]},
        "snapshot must be consistent: RecursionError",
    ),
    (
        "what-a-plugin-kept-that-is-not-here",
        lambda data: data | {"plugin_states": [["Notes", {}]]},
        "plugin_states must be (), the plugins with state in this scheduler, got ('Notes',)",
    ),
    (
        "a-reservation-where-nobody-reserves",
        lambda data: data | {"backfill": {}},
        "backfill must be None, because backfill is off, got ()",
    ),
    (
        "a-reservation-of-somebody-where-nobody-reserves",
        lambda data: data | {"backfill": {"reservation": promise_of(data["entities"][0])}},
        "backfill must be None, because backfill is off, got 5",
    ),
]


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in BAD], ids=[r[0] for r in BAD])
def test_snapshot_that_cannot_be_is_refused_and_nothing_is_lost(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    cluster, data = busy_data()
    scheduler = another(cluster)
    scheduler.restore(data)
    before = fingerprint(cluster, scheduler)
    with pytest.raises(InvalidValueError) as raised:
        scheduler.restore(change(copy.deepcopy(data)))
    assert message in str(raised.value)
    assert fingerprint(cluster, scheduler) == before


_LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, 0, 7, 2.5, "x", "default/w-0", [], {}, True]
)


def spots(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in plain data: what holds it, and under which name or number."""
    names = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for name in names:
        yield data, name
        yield from spots(data[name])


_BUSY = busy_data()


@given(st.data())
def test_changed_snapshot_is_restored_or_refused(data: st.DataObject) -> None:
    """Never half, and never with an error that is not ours."""
    cluster, kept = _BUSY
    given_data = copy.deepcopy(kept)
    holder, name = data.draw(st.sampled_from(list(spots(given_data))))
    if data.draw(st.booleans()):
        holder[name] = data.draw(_LEAVES)
    else:
        del holder[name]
    scheduler = another(cluster)
    refused = False
    try:
        scheduler.restore(given_data)
    except InvalidValueError:
        refused = True
    if refused:
        assert scheduler.snapshot() == another(cluster).snapshot()
        return
    scheduler._check()
    now = max(NOW, scheduler._now)
    for _turn in range(5):
        scheduler.schedule_one(now=now)
        scheduler._check()
    scheduler.advance(now=now + 100)
    scheduler._check()


# What plugins keep ------------------------------------------------------------------------------

NOTE: StateKey[object] = StateKey("Notes")


class Notes:
    """Counts the pods that it saw, and writes the count into each cycle."""

    name = "Notes"
    state_keys: tuple[StateKey[Any], ...] = (NOTE,)

    def __init__(self, note: object = None) -> None:
        self.seen = 0
        self.note = note
        self.read: list[object] = []

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        self.seen += 1
        state.write(NOTE, {"seen": self.seen} if self.note is None else self.note)
        return Success()

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        self.read.append((state.read(NOTE), node in state.nodes))

    def snapshot(self) -> object:
        return {"seen": self.seen}

    def restore(self, data: Any) -> None:
        self.seen = data["seen"]


def test_scratch_of_a_plugin_is_kept_in_its_cycle() -> None:
    cluster, scheduler = busy_scheduler(Notes())
    data = posted(scheduler.snapshot())
    assert data["plugin_states"] == [["Notes", {"seen": 4}]]
    notes = Notes()
    other = another(cluster, notes)
    other.restore(data)
    assert notes.seen == 4
    other.advance(now=NOW + 100)
    assert notes.read == [({"seen": 3}, True), ({"seen": 4}, True)]


@pytest.mark.parametrize(
    "note",
    [(1, 2), {1: 2}, float("inf"), object(), [[{3}]]],
    ids=["tuple", "number-as-name", "endless", "object", "set"],
)
def test_snapshot_refuses_scratch_that_json_cannot_hold(note: object) -> None:
    _cluster, scheduler = busy_scheduler(Notes(note))
    with pytest.raises(InvalidValueError, match="value"):
        scheduler.snapshot()


def test_scratch_under_an_undeclared_key_is_refused() -> None:
    class Silent(Notes):
        state_keys = ()

    _cluster, scheduler = busy_scheduler(Silent())
    with pytest.raises(InvalidValueError) as caught:
        scheduler.snapshot()
    assert caught.value.field.endswith(": scratch")
    assert caught.value.value == "Notes"
    assert caught.value.expected == "a key that a plugin names in its state_keys"


def test_plugin_that_refuses_its_restored_state_changes_no_other_part() -> None:
    class Choosy(Notes):
        name = "Choosy"

        def restore(self, data: Any) -> None:
            raise ValueError("not mine")

    cluster, scheduler = busy_scheduler(Notes(), Choosy())
    data = posted(scheduler.snapshot())
    notes = Notes()
    other = another(cluster, notes, Choosy())
    before = other.snapshot()
    with pytest.raises(PluginError, match="plugin 'Choosy' at restore for its state: raised Value"):
        other.restore(data)
    assert notes.seen == 0
    assert other.snapshot() == before


def test_plugin_that_cannot_be_put_back_is_named_and_the_others_are_put_back() -> None:
    class Choosy(Notes):
        """It takes one state, and no other after it."""

        def __init__(self, name: str, times: int) -> None:
            super().__init__()
            self.name = name
            self.state_keys = ()
            self.times = times

        def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
            return Success()

        def unreserve(
            self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
        ) -> None:
            return

        def restore(self, data: Any) -> None:
            if not self.times:
                raise ValueError(f"not {data['seen']}")
            self.times -= 1
            super().restore(data)

    def choosy() -> list[Choosy]:
        return [Choosy("Once", 1), Choosy("Often", 9), Choosy("Never", 0)]

    plugins = choosy()
    for plugin in plugins:
        plugin.seen = 7
    cluster, scheduler = busy_scheduler(*plugins)
    mine = choosy()
    other = another(cluster, *mine)
    with pytest.raises(PluginError) as caught:
        other.restore(posted(scheduler.snapshot()))
    assert caught.value.args == (
        "Never",
        "restore",
        "its state",
        "raised ValueError('not 7'); 'Once' raised ValueError('not 0') as its own was put back",
    )
    assert [plugin.seen for plugin in mine] == [7, 0, 0]


def test_plugin_that_cannot_read_nodes_is_named_and_nothing_is_restored() -> None:
    cluster, scheduler = busy_scheduler(Fitting(signs=True))
    data = posted(scheduler.snapshot())
    fitting = Fitting(signs=True)
    other = another(cluster, fitting)
    before = fingerprint(
        cluster, other._state.pods.members, other._state.nodes, other._state.call.deferred
    )
    fitting.is_broken = True
    with pytest.raises(PluginError, match="'Fitting' at node_signature for n1: raised OSError"):
        other.restore(data)
    after = fingerprint(
        cluster, other._state.pods.members, other._state.nodes, other._state.call.deferred
    )
    assert after == before
    fitting.is_broken = False
    other.restore(data)
    other._check()


def test_plugin_that_raises_when_it_is_asked_what_it_keeps_is_named() -> None:
    class Broken(Notes):
        def snapshot(self) -> object:
            raise OSError("gone")

    with pytest.raises(PluginError) as caught:
        another(InMemoryCluster(), Broken()).snapshot()
    assert caught.value.args == ("Notes", "snapshot", "its state", "raised OSError('gone')")


@pytest.mark.parametrize(("half", "other"), [("snapshot", "restore"), ("restore", "snapshot")])
def test_profile_refuses_plugin_with_half_of_a_pair_of_methods(half: str, other: str) -> None:
    with pytest.raises(ProfileError) as caught:
        another(InMemoryCluster(), FaultyPlugin("pre_enqueue", half))
    assert str(caught.value) == f"{half}: 'FaultyPlugin' has no {other}"


def test_profile_refuses_two_keys_of_one_name() -> None:
    class Other(Notes):
        name = "Other"
        state_keys = (StateKey("Notes"),)

    with pytest.raises(ProfileError) as caught:
        another(InMemoryCluster(), Notes(), Other())
    assert str(caught.value) == "state_keys: two keys are named 'Notes'"


# Pending effects --------------------------------------------------------------------------------


def test_pending_effects_and_errors_are_kept() -> None:
    class Broken:
        name = "Broken"

        def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> None:
            raise OSError("no route")

        def filter(self, state: CycleView, pod: Pod, node: object) -> Outcome:
            return Unschedulable("never")

    cluster = InMemoryCluster()
    scheduler = another(cluster, Broken())
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})), now=0)
    tell(cluster, scheduler, PodAdded(make_pod("p")), now=0)
    error = PluginError("Broken", "post_bind", "default/p", "raised OSError('no route')")
    scheduler._state.call.deferred.append(error)
    scheduler._state.call.out.extend(another_effect())
    other = another(cluster, Broken())
    other.restore(posted(scheduler.snapshot()))
    with pytest.raises(PluginError) as caught:
        other.advance(now=1)
    assert caught.value.args == error.args
    assert other.advance(now=1) == another_effect()


def another_effect() -> tuple[Any, ...]:
    from gangsched import PodNotAdmitted, PodUID

    return (PodNotAdmitted(PodUID("default/p"), "why"),)


def test_nominations_are_restored_only_with_preemption() -> None:
    scheduler = nominating_scheduler()
    data = posted(scheduler.snapshot())
    cluster = cast("InMemoryCluster", scheduler._state.settings.cluster)
    other = presets.coscheduling(cluster, preemption=Preemption())
    other.restore(data)
    assert state_of(other) == state_of(scheduler)
    with pytest.raises(InvalidValueError, match="nominations must be 0, because pre"):
        presets.coscheduling(cluster).restore(data)


def test_reservation_is_kept_with_the_class_of_a_failed_pod_that_left() -> None:
    """What a shape asks for is known by a pod of each class, though no pod is of it any more."""
    scheduler = reserving_scheduler()
    cluster = cast("InMemoryCluster", scheduler._state.settings.cluster)
    huge = evolve(make_pod("huge", cpu=9), annotations={"seconds": "1"})
    tell(cluster, scheduler, PodAdded(huge), now=1)
    while scheduler.schedule_one(now=1) is not None:
        pass
    tell(cluster, scheduler, PodDeleted(huge.uid), now=1)
    (shape,) = scheduler._state.reservations.backfill.failed
    assert isinstance(shape, EquivalenceClass)
    assert shape.runs[0][0].sample == huge
    assert shape.runs[0][0] not in scheduler._state.pod_classes.by_signature.values()
    data = posted(scheduler.snapshot())
    other = presets.gang(cluster, backfill=Backfill(AnnotatedRunTimes("seconds")))
    other.restore(data)
    assert state_of(other) == state_of(scheduler)
    assert posted(other.snapshot()) == data
    (found,) = other._state.reservations.backfill.failed
    assert isinstance(found, EquivalenceClass)
    assert found.runs[0][0].sample == huge
    assert found.runs[0][0] not in other._state.pod_classes.by_signature.values()
    assert other.reservation == scheduler.reservation


ODD_PROMISES: list[tuple[str, Callable[[dict[str, Any]], object], tuple[str, object, str]]] = [
    (
        "of-a-pod",
        lambda data: data["backfill"]["reservation"].update(entity=lone(data)),
        ("backfill.reservation.entity", 1, "an entity of a group"),
    ),
    (
        "twice-on-one-node",
        lambda data: data["backfill"]["reservation"].update(
            nodes=data["backfill"]["reservation"]["nodes"] * 2
        ),
        ("backfill.reservation.nodes[1].node", "n", "listed once in the snapshot"),
    ),
]


def lone(data: dict[str, Any]) -> int:
    """Return the number of the only entity that has no group."""
    (seq,) = (row["seq"] for row in data["entities"] if "group" not in row)
    return int(seq)


@pytest.mark.parametrize(
    ("change", "told"), [row[1:] for row in ODD_PROMISES], ids=[r[0] for r in ODD_PROMISES]
)
def test_reserved_capacity_without_a_known_owner_is_refused(
    change: Callable[[dict[str, Any]], object], told: tuple[str, object, str]
) -> None:
    scheduler = reserving_scheduler()
    cluster = cast("InMemoryCluster", scheduler._state.settings.cluster)
    data = posted(scheduler.snapshot())
    change(data)
    other = presets.gang(cluster, backfill=Backfill(AnnotatedRunTimes("seconds")))
    before = fingerprint(cluster, other)
    with pytest.raises(InvalidValueError) as caught:
        other.restore(data)
    assert (caught.value.field, caught.value.value, caught.value.expected) == told
    assert fingerprint(cluster, other) == before


def test_pending_error_that_is_no_plugin_error_gives_no_snapshot() -> None:
    _cluster, scheduler = busy_scheduler()
    error = InvalidValueError("now", None, "seconds")
    scheduler._state.call.deferred.append(error)
    with pytest.raises(InvalidValueError) as caught:
        scheduler.snapshot()
    assert (caught.value.field, caught.value.value) == ("deferred", error)
    assert caught.value.expected == "an error of a plugin"


@pytest.mark.parametrize("make", [presets.coscheduling, presets.gang, presets.pod_by_pod])
def test_every_preset_has_snapshots(make: Callable[..., Scheduler]) -> None:
    cluster = InMemoryCluster()
    scheduler = make(cluster)
    pod = evolve(make_pod("p", cpu=1), node_name=NodeName("n"))
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 1})), now=0)
    tell(cluster, scheduler, PodAdded(pod), now=0)
    other = make(cluster)
    other.restore(posted(scheduler.snapshot()))
    assert state_of(other) == state_of(scheduler)
