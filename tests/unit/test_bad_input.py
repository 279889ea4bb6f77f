"""Bad input to settings, machines, readers, simulations and drivers: refused by field and value.

Each refused call leaves the machine unchanged. Values of the model are in ``test_model.py``,
calls of a scheduler in ``test_bad_input_scheduler.py``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, get_args

import pytest

from gangsched import (
    Backoff,
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    Coscheduling,
    Event,
    GangMember,
    GroupKey,
    InMemoryCluster,
    MemberState,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    OverlayCluster,
    PermitAllowed,
    PermitRejected,
    PlacementStrategy,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupCounters,
    PodGroupDeleted,
    PodGroupRegistry,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Preemption,
    PriorityHeap,
    QueuedPod,
    Scheduler,
    SchedulingUnit,
    Topology,
    WaitingMap,
    WaitingPod,
    WhenBlocked,
    less,
    membership,
    pod_group_status,
    presets,
    resource_gap,
    sort_key,
)
from gangsched.drivers import aio, blocking
from gangsched.errors import (
    ClusterStateError,
    InvalidPodGroupError,
    InvalidValueError,
    ManifestError,
    TraceError,
    UnknownPodError,
)
from gangsched.kubernetes import read_event
from gangsched.manifests import (
    PriorityClasses,
    read_core_group,
    read_group,
    read_manifest,
    read_node,
    read_pod,
)
from gangsched.plugins import Strategy
from gangsched.replay import DecisionLog, Recipe, Replay, read_log, replay
from gangsched.simulation import (
    Arrival,
    Simulator,
    Workload,
    load_manifests,
    load_trace,
    parse_nodes_shape,
    report,
)
from gangsched.simulation.workload import RUN_SECONDS, parse_seconds, run_seconds
from gangsched.testing import make_pod
from support.fingerprint import fingerprint
from support.gangs import specify
from support.groups import claim_of, grouped, key
from support.refusals import INF, NAN, NO_SECONDS, check_refusal, check_rows, each, keywords, row
from support.views import FakeGroup

IN_WORDS: Any = "rack"

P, NODE, G = PodUID("default/p"), NodeName("n"), GroupKey("ns/g")
NO_WORDS: list[Any] = ["never", "", "GROUP", None, 0, []]
NO_COUNTS: list[Any] = [-1, None, "1", 1.5, True, NAN, INF]
NO_OBJECTS: list[Any] = [None, "x", 1, NAN, [], {}]
UNSCHEDULED = MemberState.UNSCHEDULED
NO_EVENTS: list[Any] = [None, 5, "PodAdded", PodAdded, Pod(name="p")]


def scheduler(**given: Any) -> Scheduler:
    every: dict[str, Any] = {"cluster": InMemoryCluster(), "profile": presets.default_profile()}
    return Scheduler(**{**every, **given})


def queued(**given: Any) -> QueuedPod:
    return QueuedPod(**{"pod": Pod(name="p"), "seq": 1, "queued_at": 0.0, **given})


def preset(**given: Any) -> Scheduler:
    return presets.coscheduling(InMemoryCluster(), **given)


SETTINGS = [
    *keywords(
        Coscheduling,
        reject_percentage=[-1, 101, 10.0, "10", True, None],
        **dict.fromkeys(("order", "when_blocked", "match_policy", "when_bind_fails"), NO_WORDS),
    ),
    *keywords(
        scheduler,
        group_grace=[-1, *NO_SECONDS],
        preemption=[True],
        membership=[None, 5, "group"],
        cluster=[None, 5, {}, Pod(name="p")],
        profile=[None],
        backoff=[5],
        unit=NO_WORDS,
        placement=NO_WORDS,
        search_budget=NO_COUNTS,
    ),
    *keywords(preset, permit_timeout=[-1], order=["fifo"], when_blocked=["no"], unit=["all"]),
    *[
        case
        for make in (presets.coscheduling, presets.gang, presets.pod_by_pod)
        for case in each(make, "cluster", None, 5, {}, Pod(name="p"))
    ],
    *each(lambda x: sort_key(queued(), order=x), "order", *NO_WORDS, WhenBlocked.AT_ONCE),
    *each(lambda x: sort_key(queued(group=FakeGroup()), order=x), "order", *NO_WORDS),
    *each(lambda x: less(queued(), queued(), order=x), "order", *NO_WORDS),
    *each(PodGroupRegistry, "grace", -1, *NO_SECONDS),
    *keywords(Preemption, search_budget=NO_COUNTS),
    *each(Backoff().delay, "failures", *NO_COUNTS[1:]),
    *each(Strategy, "strategy", "random"),
    *each(SchedulingUnit, "unit", "gang"),
    *each(PlacementStrategy, "placement", "packed"),
    *each(Topology, "key", ""),
    *each(lambda x: Topology("rack", required=x), "required", "no"),
    row("a topology in words", lambda: specify("g", 1, IN_WORDS), InvalidPodGroupError),
]

GROUP, POD = PodGroup(name="g", min_available=2), grouped("p", "g")
FUNCTIONS = [
    *each(membership, "pod", *NO_OBJECTS),
    *each(lambda x: pod_group_status(x, [POD]), "group", *NO_OBJECTS),
    *each(lambda x: pod_group_status(GROUP, x), "pods", None, 1, NAN),
    *each(lambda x: pod_group_status(GROUP, [POD, x]), "pods[1]", *NO_OBJECTS),
    *each(lambda x: pod_group_status(GROUP, [POD], before=x), "before", *NO_OBJECTS[1:]),
    *each(lambda x: pod_group_status(GROUP, [POD], membership=x), "membership", *NO_OBJECTS),
    *each(lambda x: resource_gap(x, [{}]), "wanted", *NO_OBJECTS[:-1]),
    *each(lambda x: resource_gap({"cpu": x}, [{}]), "wanted.cpu", None, "1", 0.5, True),
    *each(lambda x: resource_gap({"cpu": 1}, x), "free", None, 1, NAN),
    *each(lambda x: resource_gap({"cpu": 1}, [{}, x]), "free[1]", *NO_OBJECTS[:-1]),
    *each(lambda x: resource_gap({}, [{"cpu": x}]), "free[0].cpu", "1"),
    *keywords(queued, pod=NO_OBJECTS, seq=[None, "1", 1.0, True], queued_at=[None, "1", NAN]),
    *each(lambda x: GangMember(uid="u", group="g", place=x), "place", None, 1, []),
]

HEADER = "job,submit_s,workers,gpus_per_worker,duration_s"


def simulator(**given: Any) -> Simulator:
    return Simulator(Workload(), presets.coscheduling, **given)


SIMULATIONS = [
    *keywords(
        simulator,
        bind_seconds=[-1, *NO_SECONDS],
        seed=[None, [], 1.5, "1", True],
        log=[3],
        observers=[None],
    ),
    *each(lambda x: Arrival(x, PodAdded(make_pod("p"))), "at", *NO_SECONDS),
    *each(lambda x: Arrival(0.0, x), "event", *NO_EVENTS),
    *each(
        parse_nodes_shape,
        "nodes",
        *("", "8", "0x8", "8x0", "-1x8", "8 x 8", "8x8x8", "1.5x8", "999999999x1", None, 40),
    ),
    *each(
        lambda x: run_seconds(Pod(name="p", annotations={RUN_SECONDS: x})),
        RUN_SECONDS,
        *("", "0", "-1", "nan", "inf", "1e3", "1h", "٣", "9" * 400),
    ),
    *each(lambda x: parse_seconds(x, field="after"), "after", "soon"),
    *each(Workload, "arrivals", None, 5, "ab"),
    *each(lambda x: Workload([x]), "arrivals[0]", []),
    *each(lambda x: Workload((), x), "skipped", None, 5, "ab"),
    *each(lambda x: Workload((), [x]), "skipped[0]", 1),
    *each(Workload().merge, "others[0]", None),
    *each(lambda x: Simulator(x, presets.gang), "workload", None),
    *each(lambda x: Simulator(Workload(), x), "make", None),
    *each(Simulator.from_log, "lines", None),
    *each(report, "simulator", None),
    *each(lambda x: load_trace(x, file="f"), "lines", None, HEADER),
    *each(lambda x: load_trace([x], file="f"), "lines", None, b"job"),
    *each(lambda x: load_trace([HEADER], file=x), "file", None),
    *each(lambda x: load_manifests(x, file="f"), "text", None, b"{}"),
    *each(lambda x: load_manifests("", file=x), "file", None),
    *each(lambda x: load_manifests("", file="f", at=x), "at", None, NAN),
    *each(lambda x: load_manifests("", file="f", classes=x), "classes", {}),
    *each(read_log, "lines", None),
    *each(lambda x: read_log([], file=x), "file", None),
    *each(replay, "lines", None),
    *each(Replay, "log", None),
    *each(lambda x: DecisionLog(x, presets.gang), "write", None),
    *each(lambda x: DecisionLog(print, x), "make", None),
    *each(Recipe, "preset", []),
    *each(lambda x: read_manifest(x, at=0.0, classes=PriorityClasses()), "document", None),
    *each(lambda x: read_pod(x, x), "manifest", None),
    *each(read_node, "manifest", None),
    *each(read_group, "manifest", None),
    *each(read_core_group, "manifest", None),
]


# Traces, manifests and watches --------------------------------------------------------------------


def trace(line: int, column: str, *lines: str) -> Any:
    call: Callable[[], object] = lambda: load_trace(lines, file="t.csv")  # noqa: E731
    name = f"line {line} {column} {lines[-1:]!r:.30}"
    return row(name, call, TraceError, file="t.csv", line=line, column=column)


TRACES = [
    trace(1, ""),
    trace(1, "workers", "job,submit_s"),
    trace(1, "job", f"job,{HEADER}"),
    trace(2, "", HEADER, "a,0,1,1"),
    trace(2, "", HEADER, "a,0,1,1,1,1"),
    trace(2, "job", HEADER, ",0,1,1,1"),
    trace(4, "job", HEADER, "a,0,1,1,1", "b,0,1,1,1", "a,1,1,1,1"),
    trace(3, "", HEADER, "a,0,1,1,1", '"b,0,1,1,1'),
    *[trace(2, "submit_s", HEADER, f"a,{x},1,1,1") for x in ("", "-1", "nan", "inf", "1e3", "٣")],
    *[trace(2, "workers", HEADER, f"a,0,{x},1,1") for x in ("", "0", "-1", "1.5", "9999999", "٣")],
    *[
        trace(2, "gpus_per_worker", HEADER, f"a,0,1,{x},1")
        for x in ("-1", "1e3", "1000000000", "all", "٣")
    ],
    *[
        trace(2, "duration_s", HEADER, f"a,0,1,1,{x}")
        for x in ("", "0", "-1", "nan", "inf", "1e3", "9" * 400)
    ],
]
POD_TEXT = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c"
GROUP_TEXT = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: "
WHOLE = f"{POD_TEXT}}}]}}\n"


def manifest(field: str, text: str, *, document: int = 1) -> Any:
    call: Callable[[], object] = lambda: load_manifests(text, file="m.yaml")  # noqa: E731
    name = f"{field} {text[-30:]!r}"
    return row(name, call, ManifestError, file="m.yaml", document=document, field=field)


MANIFESTS = [
    manifest("", "a: ["),
    manifest("", "- a"),
    manifest("", "\ud800"),
    manifest("", "a: \x00"),
    manifest("a", "a: 1\na: 2"),
    manifest("a", "a: *b"),
    manifest("a", "a: !!python/object:os.system x"),
    manifest("apiVersion", "kind: Pod"),
    manifest("kind", "apiVersion: v1\nkind: 5"),
    manifest("metadata.name", "apiVersion: v1\nkind: Pod"),
    manifest("spec.containers", POD_TEXT.partition(" [")[0] + " []}"),
    manifest("spec.containers[0]", POD_TEXT.partition(" [")[0] + " [5]}"),
    manifest("metadata.name", f"{WHOLE}---\n{WHOLE}", document=2),
    *[
        manifest(
            "spec.containers[0].resources.requests.cpu",
            f"{POD_TEXT}, resources: {{requests: {{cpu: {x}}}}}}}]}}",
        )
        for x in ("-1", "many", "[]", "true")
    ],
    *[
        manifest("spec.minMember", f"{GROUP_TEXT}{{minMember: {x}}}")
        for x in ("0", "-1", "1.5", "two", "'2'", "true", "[]", "99999999999")
    ],
    *[
        manifest(
            "spec.scheduleTimeoutSeconds",
            f"{GROUP_TEXT}{{minMember: 2, scheduleTimeoutSeconds: {x}}}",
        )
        for x in ("-1", "0.5", "soon", ".nan", ".inf")
    ],
]


def watched(**given: Any) -> dict[str, Any]:
    created = "2026-01-31T12:00:00Z"
    metadata = {"name": "p", "namespace": "team", "creationTimestamp": created, **given}
    spec = {"containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": metadata}


def change(field: str, given: Any) -> Any:
    call = lambda: read_event(given)  # noqa: E731
    return row(f"{given!r:.50}", call, ManifestError, file="watch", document=1, field=field)


NO_PODS: dict[str, list[Any]] = {
    "name": [None, "", 5, 1.5, "a/b", NAN],
    "namespace": ["a/b", 5, []],
    "uid": [5, {}],
    "labels": [5, "ab", ["a"]],
    "creationTimestamp": [5, 1.5, "soon", "2026-01-31", "2026-01-31T12:00:00"],
    "deletionTimestamp": [5, NAN, "soon"],
}
NO_TYPES: list[Any] = [None, 5, "ADDED", [], True]
CHANGES = [
    *[change("", x) for x in NO_TYPES],
    change("type", {}),
    *[change("type", {"type": x, "object": watched()}) for x in (*NO_TYPES[:2], "added", [])],
    *[change("", {"type": "ADDED", "object": x}) for x in NO_TYPES[1:4]],
    change("apiVersion", {"type": "ADDED"}),
    change("", {"type": "ERROR", "object": None}),
    *[
        change(f"metadata.{field}", {"type": "MODIFIED", "object": watched(**{field: x})})
        for field, values in NO_PODS.items()
        for x in values
    ],
    change("metadata.labels.a", {"type": "ADDED", "object": watched(labels={"a": 1})}),
]


@pytest.mark.parametrize(
    "cases",
    [SETTINGS, FUNCTIONS, SIMULATIONS, TRACES, MANIFESTS, CHANGES],
    ids=["settings", "functions", "simulations", "traces", "manifests", "watch"],
)
def test_bad_argument_is_refused_by_field_and_value(cases: list[Any]) -> None:
    """F27, F28, F51: nothing is cut short or rounded in silence."""
    check_rows(cases)


@pytest.mark.parametrize("x", [None, "1", True, NAN, -INF, []], ids=repr)
@pytest.mark.parametrize("name", ["run", "step"])
def test_run_until_no_instant_is_refused_and_nothing_has_happened(name: str, x: Any) -> None:
    arrivals = (Arrival(0.0, PodAdded(make_pod("p"))), Arrival(5.0, PodAdded(make_pod("q"))))
    made = Simulator(Workload(arrivals), presets.coscheduling)
    before = fingerprint(made)
    fields = {"field": "until", "value": x}
    check_refusal(lambda: getattr(made, name)(until=x), InvalidValueError, fields)
    assert fingerprint(made) == before


# Cluster states -----------------------------------------------------------------------------------

ASKED = [name for name in vars(ClusterState) if not name.startswith("_")]


class Shown:
    """A cluster state that is none by its class, with only some of the methods."""

    def __init__(self, *names: str) -> None:
        vars(self).update({name: getattr(InMemoryCluster(), name) for name in names})


def test_cluster_state_is_any_object_with_its_methods() -> None:
    shown: Any = Shown(*ASKED)
    assert Scheduler(shown, presets.default_profile()).advance(now=0.0) == ()
    assert presets.gang(OverlayCluster(shown)).advance(now=0.0) == ()


@pytest.mark.parametrize("name", ASKED)
def test_cluster_state_that_lacks_a_method_is_refused_by_its_name(name: str) -> None:
    part: Any = Shown(*(other for other in ASKED if other != name))
    expected = f"a ClusterState with the methods {name}"
    fields = {"field": "cluster", "value": part, "expected": expected}
    for _no_method in range(2):
        check_refusal(lambda: scheduler(cluster=part), InvalidValueError, fields)
        vars(part)[name] = 5


# Machines: a refused call leaves everything unchanged ---------------------------------------------


def waiting_map() -> WaitingMap:
    made = WaitingMap()
    for number in range(3):
        group = None if number == 2 else G
        made.wait(PodUID(f"u{number}"), node=NODE, timeout=5 - number, now=10.0, group=group)
    return made


def waits(field: str, *values: Any, **other: Any) -> list[Any]:
    every: dict[str, Any] = {"uid": PodUID("new"), "node": NODE, "timeout": 1, "now": 10.0}
    every |= {"group": G, **other}
    return each(lambda x, waiting: waiting.wait(**{**every, field: x}), field, *values)


def puts(field: str, *values: Any) -> list[Any]:
    every: dict[str, Any] = {"uid": "new", "group": G, "node": NODE, "attempt": 1}
    every |= {"since": 10.0, "deadline": 11.0}
    return each(lambda x, waiting: waiting.put(WaitingPod(**{**every, field: x})), field, *values)


def registry() -> PodGroupRegistry:
    """Return a registry with a group ``s`` with specification, and a group ``g`` without."""
    made = PodGroupRegistry(grace=10.0)
    made.set_spec(PodGroup(name="s", namespace="ns", min_available=2, priority=5))
    for pod in (grouped("first", minimum=3, priority=1), grouped("left", group="left")):
        made.join(pod, claim_of(pod))
    made.leave(key("left"), PodUID("ns/left"), now=1.0)
    return made


def contradicts(field: str, value: object, state: Any = UNSCHEDULED, **given: Any) -> Any:
    pod = grouped("p", **given)
    fields: dict[str, object] = {"subject": "pod ns/p", "field": field, "value": value}
    return row(
        f"{field} {value}",
        lambda groups: groups.join(pod, claim_of(pod), state),
        InvalidPodGroupError,
        **fields,
    )


def restated(uid: str, group: str) -> Any:
    pod = grouped(uid, group)
    call: Callable[..., object] = lambda r: r.update_claim(pod, claim_of(pod), UNSCHEDULED)  # noqa: E731
    return row(f"{uid} in {group}", call, UnknownPodError, subject=f"ns/{uid}")


def counters() -> PodGroupCounters:
    made = PodGroupCounters()
    for number, state in enumerate(MemberState):
        made.set(PodUID(f"u{number}"), state)
    return made


class Heaps:
    """A heap with two items, and handles that are good for nothing."""

    def __init__(self) -> None:
        self.heap: PriorityHeap[str] = PriorityHeap()
        self.other: PriorityHeap[str] = PriorityHeap()
        self.first = self.heap.push((1, 0.0), "first")
        self.second = self.heap.push((2, 0.0), "second")

    def _check(self) -> None:
        self.heap._check()


def cluster() -> InMemoryCluster:
    made = InMemoryCluster()
    for event in (NodeAdded(Node(name=NODE)), PodAdded(make_pod("p")), Bound(P, NODE, 1)):
        made.apply(event)
    return made


def impossible(event: Any, subject: str, problem: str) -> Any:
    call: Callable[[InMemoryCluster], Event] = lambda c: c.apply(event)  # noqa: E731
    return row(problem, call, ClusterStateError, subject=subject, problem=problem)


CARRIED: list[tuple[type[Event], dict[str, Any]]] = [
    *((kind, {"pod": None}) for kind in (PodAdded, PodUpdated)),
    *((kind, {"node": None}) for kind in (NodeAdded, NodeUpdated)),
    *((kind, {"group": None}) for kind in (PodGroupAdded, PodGroupUpdated)),
    (PodDeleted, {"uid": P}),
    (NodeDeleted, {"name": NODE}),
    (PodGroupDeleted, {"key": "default/g"}),
    (ObjectChanged, {"value": None}),
    (ObjectDeleted, {"object_kind": "Namespace", "key": "n"}),
    (Bound, {"uid": P, "node": NODE, "attempt": 1}),
    (BindFailed, {"uid": P, "attempt": 1, "reason": "why"}),
    (PermitAllowed, {"uid": P, "plugin": "quota", "attempt": 1}),
    (PermitRejected, {"uid": P, "plugin": "quota", "attempt": 1, "reason": "why"}),
]
NO_ATTEMPTS: list[Any] = [-1, None, "x", 1.0, True, NAN]
NO_HANDLES: list[Any] = [None, "first", [], 1, {}, (0, 1, 2, 3)]
NO_KEYS: list[Any] = ["soon", None, NAN, (NAN, 0.0), (0, NAN), (0.5, None, NAN)]
MACHINES: dict[Callable[[], Any], list[Any]] = {
    waiting_map: [
        *waits("timeout", -1, -1e-300, *NO_SECONDS),
        *waits("timeout", 1.7e308, now=1.7e308),
        *waits("timeout", 17 * 10**307, now=17 * 10**307),
        *waits("uid", "u0", "u2", ["g"], 5),
        *waits("now", *NO_SECONDS),
        *waits("node", ["g"], 5),
        *waits("group", ["g"], 5),
        *waits("attempt", *NO_ATTEMPTS),
        *each(lambda x, waiting: waiting.put(x), "pod", None, "new", Pod(name="new")),
        *puts("uid", None, 5),
        *puts("group", 5, ["g"]),
        *puts("node", None, 5),
        *puts("attempt", *NO_ATTEMPTS),
        *puts("since", *NO_SECONDS),
        *puts("deadline", *NO_SECONDS),
        *each(lambda x, waiting: waiting.expire(now=x), "now", *NO_SECONDS),
    ],
    registry: [
        contradicts("min_available", 4, minimum=4, priority=1),
        contradicts("min_available", 1, minimum=1, priority=1),
        contradicts("priority", 2, minimum=3, priority=2),
        contradicts("priority", 4, group="s", priority=4),
        contradicts("min_available", 9, MemberState.GATED, minimum=9),
        *each(lambda x, r: r.leave(G, PodUID("ns/first"), now=x), "now", None, "1", NAN),
        *each(lambda x, r: r.delete_spec(key("s"), now=x), "now", *NO_SECONDS),
        *each(lambda x, r: r.delete_spec(key("nobody"), now=x), "now", *NO_SECONDS),
        *each(lambda x, r: r.expire(now=x), "now", *NO_SECONDS),
        *each(lambda x, r: r.set_spec(x), "group", None, "ns/s", Pod(name="s")),
        *each(lambda x, r: r.join(x, claim_of(POD)), "pod", *NO_OBJECTS),
        *each(lambda x, r: r.join(POD, x), "claim", *NO_OBJECTS),
        *each(lambda x, r: r.conflict(x, claim_of(POD)), "pod", *NO_OBJECTS),
        *each(lambda x, r: r.conflict(POD, x), "claim", *NO_OBJECTS),
        *each(lambda x, r: r.update_claim(x, claim_of(POD), UNSCHEDULED), "pod", *NO_OBJECTS),
        *each(lambda x, r: r.update_claim(POD, x, UNSCHEDULED), "claim", *NO_OBJECTS),
        *each(lambda x, r: r.update_claim(POD, claim_of(POD), x), "state", *NO_OBJECTS),
        restated("p", "other"),
        restated("q", "g"),
    ],
    counters: [
        *each(lambda x, c: c.set(PodUID("u1"), x), "state", "waiting", 99, -1, None, 1.5, True),
        *each(lambda x, c: c.set(PodUID("new"), x), "state", "waiting", 99, None),
        *each(lambda x, c: c.count(x), "state", "waiting", 99, -1, None, []),
    ],
    Heaps: [
        *each(lambda x, h: h.heap.remove(x), "handle", *NO_HANDLES),
        *each(lambda x, h: h.heap.rekey(x, (0, 0.0)), "handle", *NO_HANDLES),
        *each(lambda x, h: h.heap.push(x, "new"), "key", *NO_KEYS),
        *each(lambda x, h: h.heap.rekey(h.first, x), "key", *NO_KEYS),
    ],
    cluster: [
        impossible(
            Bound(PodUID("nobody"), NODE, 1), "nobody", "is not there and cannot be bound to n"
        ),
        impossible(
            Bound(P, NodeName("m"), 2), "default/p", "is bound to n and cannot be bound to m"
        ),
        impossible(Bound(P, NodeName(""), 2), "default/p", "is bound to n and cannot be bound to "),
        *each(lambda x, c: c.apply(x), "event", *NO_EVENTS),
        *each(lambda x, c: c.apply(ObjectDeleted(x, "default/p")), "object_kind", "Pod"),
        *[
            case
            for kind, given in CARRIED
            for field in given
            for case in each(
                lambda x, c, kind=kind, given=given, field=field: c.apply(
                    kind(**{**given, field: x})
                ),
                field,
                *(None, 1.5, [P]),
            )
        ],
    ],
}


@pytest.mark.parametrize("make", MACHINES, ids=lambda make: make.__name__)
def test_refused_call_leaves_a_machine_unchanged(make: Callable[[], Any]) -> None:
    """F23, F28."""
    machine = make()
    before = fingerprint(machine)
    check_rows(MACHINES[make], machine)
    assert fingerprint(machine) == before
    machine._check()


def test_pod_that_is_not_bound_is_not_bound_to_an_empty_name() -> None:
    made = InMemoryCluster()
    made.apply(PodAdded(make_pod("p")))
    check_rows(each(lambda x: made.apply(Bound(P, x, 1)), "node_name", ""))
    assert list(made.pods()) == [make_pod("p")]


def test_contents_of_each_event_are_in_the_list() -> None:
    assert {kind for kind, _given in CARRIED} == set(get_args(Event))


# Drivers ------------------------------------------------------------------------------------------

Told = tuple[Callable[[Any], None], Callable[[], None], InMemoryCluster]


def blocked() -> Told:
    shown = InMemoryCluster()
    driver = blocking.Driver(
        presets.coscheduling(shown), apply=shown.apply, bind=lambda _bind: None
    )

    def finish() -> None:
        driver.stop()
        driver.run()

    return driver.tell, finish, shown


async def no_bind(_bind: Bind) -> None:
    return


def awaited() -> Told:
    shown = InMemoryCluster()
    driver = aio.Driver(presets.coscheduling(shown), apply=shown.apply, bind=no_bind)

    def finish() -> None:
        driver.stop()
        asyncio.run(driver.run())

    return driver.tell, finish, shown


@pytest.mark.parametrize("made", [blocked, awaited])
def test_tell_refuses_a_value_that_is_no_event_and_the_loop_goes_on(
    made: Callable[[], Told],
) -> None:
    """None is not an event either: it does not stop the loop."""
    tell, finish, shown = made()
    before = fingerprint(shown)
    check_rows(each(tell, "event", *NO_EVENTS))
    check_rows(each(lambda x: tell(PodAdded(x)), "pod", None))
    check_rows(each(lambda x: tell(PodDeleted(x)), "uid", None))
    check_rows(each(lambda x: tell(PodGroupDeleted(x)), "key", None))
    check_rows(each(lambda x: tell(BindFailed(P, x, "why")), "attempt", None))
    assert fingerprint(shown) == before
    tell(NodeAdded(Node(name=NODE)))
    tell(PodAdded(make_pod("p")))
    finish()
    assert [pod.uid for pod in shown.pods_on(NODE)] == ["default/p"]


class Far:
    """A scheduler with nothing to do until an instant beyond what a lock can wait for."""

    def next_deadline(self) -> float:
        return 1e300

    def schedule_one(self, *, now: float) -> None:
        return


def test_drivers_sleep_towards_a_deadline_beyond_the_limit_of_clocks() -> None:
    far: Any = Far()
    driver = blocking.Driver(far, apply=lambda _event: None, bind=lambda _bind: None)
    stop = threading.Timer(0.05, driver.stop)
    stop.start()
    driver.run()
    stop.join()

    async def run() -> None:
        driver = aio.Driver(far, apply=lambda _event: None, bind=no_bind)
        asyncio.get_running_loop().call_later(0.05, driver.stop)
        await driver.run()

    asyncio.run(run())
