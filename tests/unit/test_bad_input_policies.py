"""Bad input to what says how to schedule: policies, profiles, a scheduler, what is simulated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gangsched import (
    Backoff,
    ClusterState,
    Coscheduling,
    InMemoryCluster,
    OverlayCluster,
    Pod,
    PodAdded,
    PodGroupRegistry,
    Preemption,
    Profile,
    QueuedPod,
    Scheduler,
    WhenBlocked,
    less,
    presets,
    sort_key,
)
from gangsched.errors import GangschedError, InvalidValueError, ProfileError
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort, Strategy
from gangsched.simulation import (
    Arrival,
    Simulator,
    Workload,
    parse_nodes_shape,
)
from gangsched.simulation.workload import RUN_SECONDS, parse_seconds, run_seconds
from gangsched.testing import make_pod
from support.refusals import NO_SECONDS, check_refusal, row
from support.views import FakeGroup


def bad(name: str, call: Callable[[], object], field: str, value: object, **more: Any) -> Any:
    return row(name, call, InvalidValueError, field=field, value=value, **more)


def policy(**given: Any) -> Callable[[], Coscheduling]:
    return lambda: Coscheduling(**given)


def preset(**given: Any) -> Callable[[], Scheduler]:
    return lambda: presets.coscheduling(InMemoryCluster(), **given)


def scheduler(**given: Any) -> Callable[[], Scheduler]:
    every: dict[str, Any] = {"cluster": InMemoryCluster(), "profile": presets.default_profile()}
    return lambda: Scheduler(**{**every, **given})


def queued(group: FakeGroup | None = None) -> QueuedPod:
    return QueuedPod(pod=Pod(name="p"), seq=1, queued_at=0.0, group=group)


NO_WORDS: list[Any] = ["never", "", None, 0, []]
NO_CLUSTERS: list[Any] = [None, 5, {}, make_pod("p")]
PRESETS: list[Any] = [presets.coscheduling, presets.gang, presets.pod_by_pod]
NO_COUNTS: list[Any] = [None, "1", 1.5, True, float("nan"), float("inf")]
POLICIES = [
    *[
        bad(f"permit timeout {x!r:.8}", policy(permit_timeout=x), "permit_timeout", x)
        for x in (-1, -1e-9, *NO_SECONDS)
    ],
    *[
        bad(f"reject percentage {x!r:.8}", policy(reject_percentage=x), "reject_percentage", x)
        for x in (-1, 101, 150, 10.0, "10", True, None)
    ],
    *[
        bad(f"{field} {x!r}", policy(**{field: x}), field, x)
        for field in ("order", "when_blocked", "match_policy", "when_bind_fails")
        for x in NO_WORDS
    ],
    *[
        bad(f"sorting {of} by {x!r}", call, "order", x)
        for x in (*NO_WORDS, WhenBlocked.AT_ONCE)
        for of, call in (
            ("a pod", lambda x=x: sort_key(queued(), order=x)),
            ("a member", lambda x=x: sort_key(queued(FakeGroup()), order=x)),
            ("two", lambda x=x: less(queued(), queued(), order=x)),
        )
    ],
    bad("preset's permit timeout", preset(permit_timeout=-1), "permit_timeout", -1),
    bad("preset's order", preset(order="fifo"), "order", "fifo"),
    bad("preset's way of being blocked", preset(when_blocked="no"), "when_blocked", "no"),
    bad("no strategy", lambda: Strategy("random"), "strategy", "random"),
    *[
        bad(f"grace of {x!r:.8}", partial(PodGroupRegistry, grace=x), "grace", x)
        for x in (-1, *NO_SECONDS)
    ],
    *[
        bad(f"scheduler's grace of {x!r:.8}", scheduler(group_grace=x), "group_grace", x)
        for x in (-1, *NO_SECONDS)
    ],
    bad("preemption that is a flag", scheduler(preemption=True), "preemption", True),
    *[
        bad(f"a search of {x!r} steps", partial(Preemption, search_budget=x), "search_budget", x)
        for x in (-1, *NO_COUNTS)
    ],
    *[
        bad(f"a membership of {x!r}", scheduler(membership=x), "membership", x)
        for x in (None, 5, "group")
    ],
    *[
        bad(f"{make.__name__} over {x!r}", partial(make, x), "cluster", x)
        for make in PRESETS
        for x in NO_CLUSTERS
    ],
    *[bad(f"a cluster of {x!r}", scheduler(cluster=x), "cluster", x) for x in NO_CLUSTERS],
    bad("no profile", scheduler(profile=None), "profile", None),
    bad("a backoff in seconds", scheduler(backoff=5), "backoff", 5),
    *[
        bad(f"a rest after {x!r} failures", partial(Backoff().delay, x), "failures", x)
        for x in NO_COUNTS
    ],
]


class Nameless:
    def filter(self) -> None: ...


class Idle:
    name = "Idle"


class Halved:
    def __init__(self, half: str) -> None:
        self.name = "Halved"
        setattr(self, half, lambda: None)


def wrong(name: str, point: str, problem: str, *plugins: object) -> Any:
    """Return a row of a profile that cannot work."""
    return row(name, lambda: Profile(*plugins), ProfileError, point=point, problem=problem)


ORDER, BINDER = PrioritySort(), DefaultBinder()
PROFILES = [
    wrong("no plugin", "queue_sort", "expected exactly one plugin, got none"),
    wrong("no order", "queue_sort", "expected exactly one plugin, got none", BINDER),
    wrong(
        "two orders",
        "queue_sort",
        "expected exactly one plugin, got PrioritySort, Coscheduling",
        ORDER,
        Coscheduling(),
        BINDER,
    ),
    wrong("no binder", "bind", "expected at least one plugin, got none", ORDER),
    wrong("one plugin twice", "profile", "two plugins are named 'PrioritySort'", ORDER, ORDER),
    wrong(
        "two of one name",
        "profile",
        "two plugins are named 'NodeResourcesFit'",
        ORDER,
        NodeResources(),
        NodeResources(),
        BINDER,
    ),
    wrong("None", "profile", "None has no name", ORDER, None, BINDER),
    wrong("a number", "profile", "5 has no name", 5),
    wrong(
        "a plugin with no point", "profile", "'Idle' has no method of an extension point", Idle()
    ),
    wrong(
        "a reserve without its unreserve",
        "reserve",
        "'Halved' has no unreserve",
        ORDER,
        Halved("reserve"),
        BINDER,
    ),
    wrong(
        "an unreserve without its reserve",
        "unreserve",
        "'Halved' has no reserve",
        ORDER,
        Halved("unreserve"),
        BINDER,
    ),
]


def simulator(**given: Any) -> Callable[[], Simulator]:
    return lambda: Simulator(Workload(), presets.coscheduling, **given)


def annotated(text: str) -> Callable[[], object]:
    return lambda: run_seconds(Pod(name="p", annotations={RUN_SECONDS: text}))


NO_SEQUENCES: list[Any] = [None, 5, "ab"]
NO_ARRIVALS: list[Any] = [[]]
NO_TEXTS: list[Any] = [1]
NO_FACTS: list[Any] = [None, 5, "PodAdded", PodAdded, make_pod("p")]
SIMULATIONS = [
    *[
        bad(f"a bind of {x!r:.8}", simulator(bind_seconds=x), "bind_seconds", x)
        for x in (-1, *NO_SECONDS)
    ],
    *[
        bad(f"an arrival at {x!r:.8}", partial(Arrival, x, PodAdded(make_pod("p"))), "at", x)
        for x in NO_SECONDS
    ],
    *[bad(f"the arrival of {x!r}", partial(Arrival, 0.0, x), "event", x) for x in NO_FACTS],
    *[
        bad(f"nodes {x!r}", partial(parse_nodes_shape, x), "nodes", x)
        for x in ("", "8", "0x8", "8x0", "-1x8", "8 x 8", "8x8x8", "1.5x8", "999999999x1")
    ],
    *[
        bad(f"a run of {x!r}", annotated(x), RUN_SECONDS, x)
        for x in ("", "0", "-1", "nan", "inf", "1e3", "1h", "٣", "9" * 400)
    ],
    bad("seconds in words", lambda: parse_seconds("soon", field="after"), "after", "soon"),
    *[bad(f"arrivals {x!r}", partial(Workload, x), "arrivals", x) for x in NO_SEQUENCES],
    bad("no arrival", partial(Workload, NO_ARRIVALS), "arrivals[0]", []),
    *[bad(f"skipped {x!r}", partial(Workload, (), x), "skipped", x) for x in NO_SEQUENCES],
    bad("a sentence that is none", partial(Workload, (), NO_TEXTS), "skipped[0]", 1),
]

ROWS = [*POLICIES, *PROFILES, *SIMULATIONS]


@pytest.mark.parametrize(("call", "error", "fields"), ROWS)
def test_bad_value_is_refused_by_its_constructor(
    call: Callable[[], object], error: type[GangschedError], fields: dict[str, object]
) -> None:
    """F27, F28: nothing is cut short or rounded in silence."""
    check_refusal(call, error, fields)


def test_plugin_without_a_name_is_refused_and_shown() -> None:
    nameless = Nameless()
    with pytest.raises(ProfileError) as caught:
        Profile(ORDER, nameless, BINDER)
    assert caught.value.point == "profile"
    assert repr(nameless) in str(caught.value)


ASKED = [name for name in vars(ClusterState) if not name.startswith("_")]


class Shown:
    """A cluster state that is none by its class, with only some of the methods."""

    def __init__(self, *names: str) -> None:
        vars(self).update({name: getattr(InMemoryCluster(), name) for name in names})


def test_cluster_state_is_any_object_with_its_methods() -> None:
    shown: Any = Shown(*ASKED)
    assert Scheduler(shown, presets.default_profile()).advance(now=0.0) == ()
    overlay = OverlayCluster(shown)
    assert presets.gang(overlay).advance(now=0.0) == ()


@pytest.mark.parametrize("name", ASKED)
def test_cluster_state_that_lacks_a_method_is_refused_by_its_name(name: str) -> None:
    part: Any = Shown(*(other for other in ASKED if other != name))
    expected = f"a ClusterState with the methods {name}"
    fields = {"field": "cluster", "value": part, "expected": expected}
    check_refusal(scheduler(cluster=part), InvalidValueError, fields)
    vars(part)[name] = 5  # no method either
    check_refusal(scheduler(cluster=part), InvalidValueError, fields)


def test_scheduler_that_is_refused_has_not_touched_its_cluster() -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"{name} was asked for")

    cluster: Any = Untouchable()
    with pytest.raises(InvalidValueError):
        Scheduler(cluster, presets.default_profile(), group_grace=-1)
    state: ClusterState = cluster
    assert state is cluster
