"""Bad input to the cluster in memory and to the readers of traces and manifests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from gangsched import (
    BindFailed,
    Bound,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    presets,
)
from gangsched.errors import (
    ClusterStateError,
    GangschedError,
    InvalidValueError,
    ManifestError,
    TraceError,
)
from gangsched.simulation import Arrival, Simulator, Workload, load_manifests, load_trace
from gangsched.testing import make_pod
from support.busy import busy_scheduler
from support.fingerprint import fingerprint
from support.refusals import check_refusal, row

P, NODE = PodUID("default/p"), NodeName("n")

# The cluster in memory ------------------------------------------------------------------------


def cluster() -> InMemoryCluster:
    made = InMemoryCluster()
    for event in (NodeAdded(Node(name=NODE)), PodAdded(make_pod("p")), Bound(P, NODE, 1)):
        made.apply(event)
    return made


def impossible(name: str, event: Any, subject: str, problem: str) -> Any:
    call: Callable[[InMemoryCluster], Event] = lambda c: c.apply(event)  # noqa: E731
    return row(name, call, ClusterStateError, subject=subject, problem=problem)


CARRIED: list[tuple[type[Event], dict[str, Any]]] = [
    (PodAdded, {"pod": None}),
    (PodUpdated, {"pod": None}),
    (PodDeleted, {"uid": P}),
    (NodeAdded, {"node": None}),
    (NodeUpdated, {"node": None}),
    (NodeDeleted, {"name": NODE}),
    (PodGroupAdded, {"group": None}),
    (PodGroupUpdated, {"group": None}),
    (PodGroupDeleted, {"key": "default/g"}),
    (ObjectChanged, {"value": None}),
    (ObjectDeleted, {"object_kind": "Namespace", "key": "n"}),
    (Bound, {"uid": P, "node": NODE, "attempt": 1}),
    (BindFailed, {"uid": P, "attempt": 1, "reason": "why"}),
    (PermitAllowed, {"uid": P, "plugin": "quota", "attempt": 1}),
    (PermitRejected, {"uid": P, "plugin": "quota", "attempt": 1, "reason": "why"}),
]
CLUSTER = [
    impossible(
        "a bind of nobody",
        Bound(PodUID("nobody"), NODE, 1),
        "nobody",
        "is not there and cannot be bound to n",
    ),
    impossible(
        "a second bind",
        Bound(P, NodeName("m"), 2),
        "default/p",
        "is bound to n and cannot be bound to m",
    ),
    impossible(
        "a bind to nowhere",
        Bound(P, NodeName(""), 2),
        "default/p",
        "is bound to n and cannot be bound to ",
    ),
    *[
        row(
            f"the fact {x!r:.30}",
            lambda c, x=x: c.apply(x),
            InvalidValueError,
            field="event",
            value=x,
        )
        for x in (None, 5, "PodAdded", Pod(name="p"))
    ],
    *[
        row(
            f"a {kind.__name__} with {field} {x!r}",
            lambda c, kind=kind, given=given, field=field, x=x: c.apply(
                kind(**{**given, field: x})
            ),
            InvalidValueError,
            field=field,
            value=x,
        )
        for kind, given in CARRIED
        for field in given
        for x in (None, 1.5, [P])
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), CLUSTER)
def test_impossible_change_is_refused_and_the_cluster_is_unchanged(
    call: Callable[[InMemoryCluster], object],
    error: type[GangschedError],
    fields: dict[str, object],
) -> None:
    made = cluster()
    before = fingerprint(made)
    check_refusal(lambda: call(made), error, fields)
    assert fingerprint(made) == before
    made._check()
    made.apply(PodAdded(make_pod("q")))
    assert len(list(made.pods())) == 2


def test_pod_that_is_not_bound_is_not_bound_to_a_name_that_is_none() -> None:
    made = InMemoryCluster()
    made.apply(PodAdded(make_pod("p")))
    before = fingerprint(made)
    expected: dict[str, object] = {"field": "node_name", "value": ""}
    check_refusal(lambda: made.apply(Bound(P, NodeName(""), 1)), InvalidValueError, expected)
    assert fingerprint(made) == before


def test_contents_of_each_event_are_in_the_list() -> None:
    assert {kind for kind, _given in CARRIED} == set(get_args(Event))


# The simulator --------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [None, "1", True, float("nan"), -float("inf"), []], ids=repr)
@pytest.mark.parametrize("name", ["run", "step"])
def test_run_until_no_instant_is_refused_and_nothing_has_happened(name: str, x: Any) -> None:
    arrivals = (Arrival(0.0, PodAdded(make_pod("p"))), Arrival(5.0, PodAdded(make_pod("q"))))
    simulator = Simulator(Workload(arrivals), presets.coscheduling)
    before = fingerprint(simulator)
    check_refusal(
        lambda: getattr(simulator, name)(until=x), InvalidValueError, {"field": "until", "value": x}
    )
    assert fingerprint(simulator) == before


@pytest.mark.parametrize("seed", [None, [], 1.5, "1", True], ids=repr)
def test_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    check_refusal(
        lambda: Simulator(Workload(), presets.coscheduling, seed=seed),
        InvalidValueError,
        {"field": "seed", "value": seed},
    )


# Traces ---------------------------------------------------------------------------------------

HEADER = "job,submit_s,workers,gpus_per_worker,duration_s"


def trace(name: str, line: int, column: str, *lines: str) -> Any:
    call: Callable[[], Workload] = lambda: load_trace(lines, file="t.csv")  # noqa: E731
    return row(name, call, TraceError, file="t.csv", line=line, column=column)


TRACES = [
    trace("a trace of nothing", 1, ""),
    trace("a trace without a column", 1, "workers", "job,submit_s"),
    trace("a trace with a column twice", 1, "job", f"job,{HEADER}"),
    trace("a job with too little", 2, "", HEADER, "a,0,1,1"),
    trace("a job with too much", 2, "", HEADER, "a,0,1,1,1,1"),
    trace("a job without an id", 2, "job", HEADER, ",0,1,1,1"),
    trace("a job twice", 4, "job", HEADER, "a,0,1,1,1", "b,0,1,1,1", "a,1,1,1,1"),
    trace("a quote without an end", 3, "", HEADER, "a,0,1,1,1", '"b,0,1,1,1'),
    *[
        trace(f"submitted at {x!r}", 2, "submit_s", HEADER, f"a,{x},1,1,1")
        for x in ("", "-1", "nan", "inf", "1e3", "soon", "٣")
    ],
    *[
        trace(f"{x!r} workers", 2, "workers", HEADER, f"a,0,{x},1,1")
        for x in ("", "0", "-1", "1.5", "two", "9999999", "٣")
    ],
    *[
        trace(f"{x!r} GPUs", 2, "gpus_per_worker", HEADER, f"a,0,1,{x},1")
        for x in ("-1", "1e3", "1000000000", "all", "٣")
    ],
    *[
        trace(f"a duration of {x!r}", 2, "duration_s", HEADER, f"a,0,1,1,{x}")
        for x in ("", "0", "-1", "nan", "inf", "1e3", "9" * 400)
    ],
]

# Manifests ------------------------------------------------------------------------------------

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c"
GROUP = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: "
WHOLE = f"{POD}}}]}}\n"


def manifest(name: str, field: str, text: str, *, document: int = 1) -> Any:
    call: Callable[[], Workload] = lambda: load_manifests(text, file="m.yaml")  # noqa: E731
    return row(name, call, ManifestError, file="m.yaml", document=document, field=field)


MANIFESTS = [
    manifest("no YAML", "", "a: ["),
    manifest("a list", "", "- a"),
    manifest("half of a pair", "", "\ud800"),
    manifest("a control character", "", "a: \x00"),
    manifest("a key twice", "a", "a: 1\na: 2"),
    manifest("an alias of nothing", "a", "a: *b"),
    manifest("a tag that would run a program", "a", "a: !!python/object:os.system x"),
    manifest("no version", "apiVersion", "kind: Pod"),
    manifest("a kind that is a number", "kind", "apiVersion: v1\nkind: 5"),
    manifest("no name", "metadata.name", "apiVersion: v1\nkind: Pod"),
    manifest("no containers", "spec.containers", POD.partition(" [")[0] + " []}"),
    manifest(
        "a container that is a number", "spec.containers[0]", POD.partition(" [")[0] + " [5]}"
    ),
    manifest("a pod twice", "metadata.name", f"{WHOLE}---\n{WHOLE}", document=2),
    *[
        manifest(
            f"a pod that asks for {x}",
            "spec.containers[0].resources.requests.cpu",
            f"{POD}, resources: {{requests: {{cpu: {x}}}}}}}]}}",
        )
        for x in ("-1", "many", "[]", "true")
    ],
    *[
        manifest(f"a minimum of {x}", "spec.minMember", f"{GROUP}{{minMember: {x}}}")
        for x in ("0", "-1", "1.5", "two", "'2'", "true", "[]", "99999999999")
    ],
    *[
        manifest(
            f"a timeout of {x}",
            "spec.scheduleTimeoutSeconds",
            f"{GROUP}{{minMember: 2, scheduleTimeoutSeconds: {x}}}",
        )
        for x in ("-1", "0.5", "soon", ".nan", ".inf")
    ],
]


@pytest.mark.parametrize(("call", "error", "fields"), [*TRACES, *MANIFESTS])
def test_malformed_value_is_refused_by_its_place(
    call: Callable[[], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    """F51."""
    check_refusal(call, error, fields)


def test_instant_of_an_arrival_is_checked_by_the_reader_of_manifests() -> None:
    expected: dict[str, object] = {"field": "at", "value": float("nan")}
    check_refusal(
        lambda: load_manifests(WHOLE, file="m", at=float("nan")), InvalidValueError, expected
    )


def test_refused_input_of_a_reader_changes_no_memory() -> None:
    """Readers only read: a busy scheduler beside them is as it was."""
    host = busy_scheduler()
    before = fingerprint(*host)
    with pytest.raises(TraceError):
        load_trace([HEADER, "a,0,0,1,1"], file="t")
    with pytest.raises(ManifestError):
        load_manifests("kind: Pod", file="m")
    assert fingerprint(*host) == before
