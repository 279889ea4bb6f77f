"""Snapshots: what is written, what is restored, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from attrs import evolve

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    InMemoryCluster,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Outcome,
    PluginError,
    Pod,
    PodAdded,
    Preemption,
    Resources,
    Scheduler,
    Success,
    presets,
)
from gangsched.constraints import (
    LabelSelector,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.testing import make_node, make_pod
from support.backfill_host import crowded
from support.busy import busy_scheduler
from support.fingerprint import fingerprint
from support.restored import posted
from support.snapshot_cases import CASES, copied
from support.snapshots import another, nominating_scheduler, reserving_scheduler

# What a snapshot names is in it, and what is there once it names once: else it is refused

Data: TypeAlias = dict[str, Any]


def busy() -> tuple[Data, Callable[[], Scheduler]]:
    cluster, scheduler = busy_scheduler()
    return posted(scheduler.snapshot()), lambda: another(cluster)


def nominating() -> tuple[Data, Callable[[], Scheduler]]:
    cluster = InMemoryCluster()
    scheduler = nominating_scheduler(cluster)
    data = posted(scheduler.snapshot())
    return data, lambda: presets.coscheduling(cluster, preemption=Preemption())


def reserving() -> tuple[Data, Callable[[], Scheduler]]:
    cluster = InMemoryCluster()
    scheduler = reserving_scheduler(cluster)
    policy = Backfill(AnnotatedRunTimes("seconds"))
    return posted(scheduler.snapshot()), lambda: presets.gang(cluster, backfill=policy)


Made: TypeAlias = Callable[[], tuple[Data, Callable[[], Scheduler]]]


def steps(path: str) -> list[Any]:
    found = re.findall(r"[^.\[\]]+", path)
    return [int(each) if each.isdigit() else each for each in found]


def put(data: Data, path: str, value: object) -> None:
    """Say something else at a place in plain data."""
    *way, last = steps(path)
    spot: Any = data
    for step in way:
        spot = spot[step]
    spot[last] = value


def first_with(data: Data, rows: str, field: str) -> int:
    """Return the number of the first row that says something in a field."""
    return next(n for n, row in enumerate(data[rows]) if row.get(field) is not None)


def refusal(make: Callable[[], Scheduler], data: Data) -> InvalidValueError:
    scheduler = make()
    before = fingerprint(scheduler)
    with pytest.raises(InvalidValueError) as caught:
        scheduler.restore(data)
    assert fingerprint(scheduler) == before
    return caught.value


NOWHERE: list[tuple[Made, str, object, str, object]] = [
    (busy, "groups[0].claims", ["default/x"], "groups: claims", "default/x"),
    (busy, "pods[{pod}].cycle", [["x", 1]], "pods[{pod}].cycle", "x"),
    (busy, "waiting[1].uid", "default/x", "waiting[1].uid", "default/x"),
    (busy, "charges", [{"key": "default/x", "amounts": {}}], "charges[0]", "default/x"),
    (busy, "over_quota", [["default/x", "full"]], "over_quota[0]", "default/x"),
    (busy, "restarts", [{"group": "default/x"}], "restarts[0].group", "default/x"),
    (
        nominating,
        "nominations[0].pods[0].uid",
        "default/x",
        "nominations[0].pods[0].uid",
        "default/x",
    ),
    (nominating, "nominations[0].awaited", ["default/x"], "nominations[0].awaited", "default/x"),
    (
        reserving,
        "backfill.reservation.planned",
        [["default/x", "n"]],
        "backfill.reservation.planned",
        "default/x",
    ),
    (
        reserving,
        "backfill.reservation.reserved[0].returning",
        ["default/x"],
        "backfill.reservation.reserved[0].returning",
        "default/x",
    ),
]
ROWS_OF = {"pod": "pods"}


@pytest.mark.parametrize(
    ("made", "path", "given", "field", "value"), NOWHERE, ids=[row[1] for row in NOWHERE]
)
def test_unknown_object_is_refused_by_the_field_that_names_it(
    made: Made, path: str, given: object, field: str, value: object
) -> None:
    data, make = made()
    for name in re.findall(r"{(\w+)}", path):
        number = str(first_with(data, ROWS_OF[name], name))
        path, field = (text.replace("{" + name + "}", number) for text in (path, field))
    put(data, path, given)
    error = refusal(make, data)
    assert (error.field, error.value) == (field, value)
    assert error.expected == "listed in the snapshot"


GONE: list[tuple[Made, str, object]] = [
    (busy, "held", ["default/x"]),
    (busy, "no_plans", ["default/x"]),
    (busy, "overdue", ["default/x"]),
    (nominating, "nominations[0].gang", "default/x"),
    (reserving, "backfill.reservation.gang", "default/x"),
    (reserving, "backfill.qualified", ["default/x"]),
    (reserving, "backfill.failed", [["default/x", 1]]),
]


@pytest.mark.parametrize(("made", "path", "given"), GONE, ids=[row[1] for row in GONE])
def test_gang_that_is_gone_by_the_time_of_the_restore_is_left_out(
    made: Made, path: str, given: object
) -> None:
    data, make = made()
    put(data, path, given)
    scheduler = make()
    scheduler.restore(data)
    scheduler.advance(now=data["now"])
    scheduler._check()
    assert "default/x" not in str(scheduler.snapshot())


TWICE: list[tuple[Made, str, Data, str]] = [
    (busy, "groups", {}, "groups[{number}].key"),
    (busy, "gangs", {"seq": 1000}, "gangs: key[{number}]"),
    (busy, "pods", {"seq": 1000}, "pods[{number}].uid"),
    (busy, "waiting", {}, "waiting[{number}].uid"),
    (nominating, "nominations", {}, "nominations[{number}].gang"),
]


@pytest.mark.parametrize(("made", "rows", "changes", "at"), TWICE, ids=[row[1] for row in TWICE])
def test_duplicate_is_refused_by_its_field(made: Made, rows: str, changes: Data, at: str) -> None:
    data, make = made()
    number = len(data[rows])
    data[rows].append(data[rows][0] | changes)
    error = refusal(make, data | {"arrivals": 1000})
    assert error.field == at.format(number=number)
    assert error.expected == "listed once in the snapshot"


@pytest.mark.parametrize("rows", ["pods", "gangs"])
def test_number_of_a_pod_or_gang_is_refused_twice(rows: str) -> None:
    data, make = busy()
    data[rows][1]["seq"] = data["pods"][0]["seq"]
    error = refusal(make, data)
    assert error.field.startswith("pods and gangs: seq")
    assert error.expected == "listed once in the snapshot"


@pytest.mark.parametrize(
    ("counter", "most"),
    [("arrivals", 29), ("group_arrivals", 4), ("step", 9)],
)
def test_number_that_was_given_out_is_not_given_out_again(counter: str, most: int) -> None:
    data, make = busy()
    make().restore(data | {counter: most})
    error = refusal(make, data | {counter: 1})
    assert (error.field, error.value) == (counter, 1)
    assert error.expected.endswith("the largest number in use")


# The whole of it --------------------------------------------------------------------------------


def test_inconsistent_snapshot_is_refused_as_a_whole() -> None:
    data, make = busy()
    data["waiting"] = []
    error = refusal(make, data)
    assert (error.field, error.value, error.expected) == ("waiting", "default/w-0", "a deadline")


ELSEWHERE: list[tuple[Made, Data, tuple[str, object, str]]] = [
    (busy, {"unit": "group"}, ("unit", "group", "pod, the unit of this scheduler")),
    (
        busy,
        {"format": "gangsched.snapshot/2"},
        (
            "format",
            "gangsched.snapshot/2",
            "gangsched.snapshot/4; instead of another one, list the cluster with rebuild",
        ),
    ),
    (
        busy,
        {"plugins": ["Coscheduling"]},
        (
            "plugins",
            ("Coscheduling",),
            "('Coscheduling', 'NodeResourcesFit', 'DefaultBinder'), the plugins of this scheduler",
        ),
    ),
]


@pytest.mark.parametrize(
    ("made", "changes", "told"), ELSEWHERE, ids=[row[2][0] for row in ELSEWHERE]
)
def test_state_of_a_scheduler_with_other_settings_is_refused(
    made: Made, changes: Data, told: tuple[str, object, str]
) -> None:
    data, make = made()
    error = refusal(make, data | changes)
    assert (error.field, error.value, error.expected) == told


# What follows from other parts of a snapshot is computed or compared when it is restored

Change = Callable[[dict[str, Any]], object]


def row(data: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the row of a pod."""
    found: dict[str, Any] = next(r for r in data["pods"] if r["uid"] == f"default/{name}")
    return found


def big(data: dict[str, Any]) -> None:
    """Make an assumed pod request a number of 400 digits."""
    row(data, "binding")["pod"]["requests"] = {"cpu": 10**400}


WRONG: list[tuple[str, str, Change, str]] = [
    ("busy", "instant-too-large", lambda d: d.update(now=10**400), "finite"),
    ("busy", "endless-deadline", lambda d: d["waiting"][0].update(deadline="Infinity"), "finite"),
    ("busy", "step-too-large", lambda d: d.update(step=10**400), "2**62"),
    ("busy", "amount-too-large", big, "96 bits"),
    ("busy", "pod-of-another", lambda d: row(d, "binding")["pod"].update(uid="x"), "the pod"),
    ("busy", "assumed-nowhere", lambda d: row(d, "binding").pop("node"), "the node of an assumed"),
    ("busy", "assumed-unseen", lambda d: row(d, "binding").pop("pod"), "what a pod shows"),
    ("busy", "bound-nowhere", lambda d: row(d, "bound").pop("node"), "the node of the pod"),
    ("busy", "started-later", lambda d: row(d, "bound").update(started_at=99.0), "until now="),
    ("busy", "swapped-groups", lambda d: d["groups"].reverse(), "in ascending order"),
    ("busy", "wait-of-the-future", lambda d: d["waiting"][0].update(since=99.0), "until now"),
    ("busy", "wait-that-ended", lambda d: d["waiting"][0].update(deadline=0.0), ">= since"),
    ("busy", "wait-for-no-plugin", lambda d: d["waiting"][0].update(plugins=["x"]), "a permit"),
    (
        "reserving",
        "start-before-all",
        lambda d: d["backfill"]["reservation"].update(starts_at="-Infinity"),
        'a finite number of seconds or "Infinity"',
    ),
    ("reserving", "since", lambda d: d["backfill"]["reservation"].update(since=99.0), "until now="),
]


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [(each[0], each[2], each[3]) for each in WRONG],
    ids=[each[1] for each in WRONG],
)
def test_value_that_contradicts_others_is_refused(name: str, change: Change, expected: str) -> None:
    case = CASES[name]()
    change(case.data)
    scheduler = case.make(copied(case.cluster))
    before = scheduler.snapshot()
    with pytest.raises(InvalidValueError) as caught:
        scheduler.restore(case.data)
    assert expected in caught.value.expected
    assert scheduler.snapshot() == before


class Counts:
    """A plugin whose state has amounts, which would be read back as a thousand times as much."""

    name = "Counts"

    def filter(self, state: object, pod: Pod, node: object) -> Outcome:
        return Success()

    def snapshot(self) -> dict[str, Resources]:
        return {"used": Resources({"cpu": 1})}

    def restore(self, state: object) -> None:
        raise AssertionError(state)


def test_amounts_in_the_state_of_a_plugin_are_refused() -> None:
    scheduler = presets.gang(InMemoryCluster(), plugins=[Counts()])
    with pytest.raises(InvalidValueError, match=r"value\.used must be plain JSON"):
        scheduler.snapshot()


class Keeps:
    """A plugin whose state is a number; it takes no negative one."""

    def __init__(self, name: str, kept: int) -> None:
        self.name = name
        self.kept = kept

    def filter(self, state: object, pod: Pod, node: object) -> Outcome:
        return Success()

    def snapshot(self) -> int:
        return self.kept

    def restore(self, state: int) -> None:
        if state < 0:
            raise ValueError(state)
        self.kept = state


def test_state_of_all_plugins_is_restored_or_of_none() -> None:
    ours = [Keeps("First", 1), Keeps("Second", 2)]
    scheduler = presets.gang(InMemoryCluster(), plugins=ours)
    for second, kept in ((-4, [1, 2]), (4, [3, 4])):
        others = [Keeps("First", 3), Keeps("Second", second)]
        data = presets.gang(InMemoryCluster(), plugins=others).snapshot()
        if second < 0:
            with pytest.raises(PluginError, match="Second"):
                scheduler.restore(data)
        else:
            scheduler.restore(data)
        assert [plugin.kept for plugin in ours] == kept


# Snapshots leave out what the plugins of kube-scheduler's profile compute anew

APP = LabelSelector(match_labels={"app": "x"})
TERM = PodAffinityTerm(topology_key="zone", label_selector=APP)


def pod(name: str) -> Pod:
    spread = [
        TopologySpreadConstraint(
            max_skew=1, topology_key="zone", when_unsatisfiable=when, label_selector=APP
        )
        for when in WhenUnsatisfiable
    ]
    made = make_pod(name, cpu=1, group="g", min_available=2)
    preferred = WeightedPodAffinityTerm(weight=3, pod_affinity_term=TERM)
    return evolve(
        made,
        labels={**made.labels, "app": "x"},
        images=["i"],
        topology_spread_constraints=spread,
        pod_affinity=[TERM],
        preferred_pod_affinity=[preferred],
    )


# Pods on nodes in a snapshot: each is described once, unless it changed after its placement


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


def test_assumed_pod_that_has_changed_is_restored_as_it_was_assumed() -> None:
    cluster, data = saved()
    row(data, "changed")["pod"]["labels"] = {"before": "x"}
    other = presets.gang(cluster)
    other.restore(data)
    other._check()
    assert posted(other.snapshot()) == data


# Snapshots of entities without an equivalence class, and of a reservation without its node


def test_reservation_on_a_node_that_is_gone_is_restored_and_then_moved() -> None:
    host = crowded()
    (name, *_others) = host.reservation.nodes
    host.scheduler.handle(host.cluster.apply(NodeDeleted(NodeName(name))), now=host.now)
    twin = host.make()
    twin.restore(json.loads(json.dumps(host.scheduler.snapshot())))
    twin._check()
    assert twin.snapshot() == host.scheduler.snapshot()
    assert twin.schedule_one(now=host.now) == host.scheduler.schedule_one(now=host.now)
