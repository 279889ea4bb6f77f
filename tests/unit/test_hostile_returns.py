"""Whatever a plugin returns, from whatever point: a ``PluginError`` names it, and nothing breaks.

The values are hostile: their ``repr``, ``==``, ``hash`` or iteration raises, or their ``__class__``
lies. In a scheduling cycle, and where a pod arrives, nothing has changed after the error. Where the
scheduler cannot stop, it goes on with the safe answer, which is compared with a twin scheduler
whose plugin gives that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    EvictGroup,
    GroupKey,
    HoldGroup,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Profile,
    RejectGroup,
    Resources,
    Scheduler,
    Skip,
    Success,
    Unschedulable,
    VolumeClaim,
    Wait,
    presets,
)
from gangsched.errors import PluginError
from gangsched.outcomes import SKIP, SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.profile import POINTS, calls
from gangsched.protocols import NodeView
from gangsched.testing import make_node, make_pod
from support.busy import NOW, busy_scheduler, tell
from support.faulty_plugin import FaultyPlugin
from support.shown import known

GROUP = GroupKey("default/w")


class Mute:
    """Has no ``repr``."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Liar:
    """Passes for ``Success`` in ``isinstance``."""

    __class__: Any = Success


class Incomparable:
    """Cannot be compared or hashed."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class Unreadable(Mapping[str, int]):
    """A mapping, and so an iterable, that raises when it is read."""

    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no iteration")

    def __len__(self) -> int:
        return 1


def failing() -> Iterator[str]:
    """Yield one name, then raise."""
    yield "cpu"
    raise RuntimeError("no more names")


PLAIN: list[Any] = [
    *(None, True, False, 0, -1, 101, 10**400, 1.5, float("nan"), "", "cpu", b"cpu", object()),
    *((), ("a", 1), (None,), (float("nan"),), [], ["x", 1], [[]]),
    *({}, {"": "1"}, {1: 1}, {"ps": True}, {"cpu"}),
    *(Success, Unschedulable, print, Exception("no")),
    *(SUCCESS, SKIP, Unschedulable("no"), Wait(1.0), Resources({"cpu": 1})),
    *(RejectGroup(GROUP, "why"), HoldGroup(GROUP, "why"), EvictGroup(GROUP, "why")),
    Bind(PodUID("default/other"), NodeName("n1"), 1),
]
MADE: list[Callable[[], Any]] = [Mute, Liar, Incomparable, Unreadable, failing]
VALUES = st.sampled_from(PLAIN) | st.sampled_from(MADE).map(lambda make: make())

DECISIONS = (Success, Skip, Unschedulable)
VERDICTS = (RejectGroup, HoldGroup, EvictGroup)


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except Exception:
        return False
    return True


def are_names(value: Any) -> bool:
    kind = type(value)
    return kind in (tuple, list, dict, set, Resources) and all(type(one) is str for one in value)


ALLOWED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("pre_enqueue", "pre_filter", "filter", "pre_score", "reserve", "pre_bind"),
        lambda value: type(value) in DECISIONS,
    ),
    **dict.fromkeys(
        ("objects_read", "volume_choices", "pods_affected", "pods_selected"),
        lambda value: type(value) in (tuple, list, dict, set) and not value,
    ),
    **dict.fromkeys(
        ("reads_pods", "scores_in_cycle", "skips", "pod_ended"), lambda value: type(value) is bool
    ),
    **dict.fromkeys(("post_bind", "add_pod", "remove_pod"), lambda value: value is None),
    **dict.fromkeys(("pod_signature", "node_signature", "node_group"), is_hashable),
    **dict.fromkeys(("labels_read", "fitted"), are_names),
    **dict.fromkeys(
        ("topology_keys", "hindered_within", "nodes_named"),
        lambda value: value is None or are_names(value),
    ),
    "post_filter": lambda value: type(value) in (*DECISIONS, *VERDICTS),
    "permit": lambda value: type(value) in (*DECISIONS, Wait),
    "score": lambda value: is_count(value) and value <= 100,
    "normalize_score": lambda _value: False,
    "cluster_headroom": lambda value: value is None or is_count(value),
    "bind": lambda value: type(value) is Skip,
    "unreserve": lambda value: value is None or type(value) in (RejectGroup, EvictGroup),
    "queue_sort": lambda value: type(value) is tuple and value == ("a", 1),
    "members_needed": lambda value: value is None or type(value) is int,
    "roles_needed": lambda value: type(value) is Resources or (type(value) is dict and not value),
    "group_requests": lambda value: type(value) is Resources,
}
"""The hostile values that are legal answers at a point after all."""


def test_every_point_is_covered() -> None:
    of_accounts = {"account", "share"}  # which only the core asks: see tests/core/test_shares.py
    assert ALLOWED.keys() == calls.EXPECTED.keys() - of_accounts >= set(POINTS)


NEEDED = {
    "post_filter": ("filter",),
    "labels_read": ("filter", "pod_signature", "node_signature"),
    "pod_signature": ("filter",),
    "reads_pods": ("filter", "pod_signature"),
    "normalize_score": ("score",),
    "reserve": ("unreserve",),
    "unreserve": ("reserve", "permit"),
}


def a_host(point: str) -> tuple[InMemoryCluster, Scheduler, FaultyPlugin]:
    """Return a busy scheduler with one active pod, and a plugin with the point."""
    faulty = FaultyPlugin(*sorted({point, *NEEDED.get(point, ())}))
    if point != "node_signature":
        faulty.answers["node_signature"] = lambda _view: None
    faulty.signs_node_alone = point == "labels_read"
    cluster, scheduler = busy_scheduler(faulty)
    while (head := scheduler.queue.head()) is None or head.pod.name != "active-1":
        assert scheduler.schedule_one(now=NOW) is not None
    return cluster, scheduler, faulty


def check_error(error: PluginError, point: str, subject: str) -> None:
    assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, subject)
    assert error.problem.startswith(("returned ", "raised "))
    assert len(error.problem) < 500


class Host(NamedTuple):
    """A scheduler on a cluster, with a plugin that may give bad answers."""

    cluster: InMemoryCluster
    scheduler: Scheduler
    faulty: FaultyPlugin

    def assert_harmless(
        self, point: str, value: Any, call: Callable[[], object], subject: str = ""
    ) -> None:
        """Give an answer at a point: the call raises, and leaves everything as before."""
        before = known(self.cluster, self.scheduler)
        self.faulty.answers[point] = lambda *_args, **_kwargs: value
        with pytest.raises(PluginError) as caught:
            call()
        check_error(caught.value, point, subject or caught.value.subject)
        del self.faulty.answers[point]
        assert known(self.cluster, self.scheduler) == before
        self.scheduler._check()

    def schedule_one(self) -> object:
        return self.scheduler.schedule_one(now=NOW)


IN_A_CYCLE = (
    *("pre_filter", "filter", "post_filter", "pre_score", "score", "normalize_score"),
    *("reserve", "permit", "pre_bind", "bind"),
)


@given(st.sampled_from(IN_A_CYCLE), VALUES)
def test_bad_return_in_a_cycle_leaves_everything_as_before(point: str, value: Any) -> None:
    if ALLOWED[point](value):
        return
    host = Host(*a_host(point))
    if point == "post_filter":
        host.faulty.answers["filter"] = Unschedulable("full")
    host.assert_harmless(point, value, host.schedule_one, "default/active-1")


@given(st.sampled_from(["pod_signature", "labels_read", "reads_pods"]), VALUES)
def test_bad_signature_of_a_pod_leaves_everything_as_before(point: str, value: Any) -> None:
    if ALLOWED[point](value):
        return
    host = Host(*a_host(point))
    # of no known class, since plugins are asked once for a class
    arrival = host.cluster.apply(PodAdded(make_pod("q", cpu="123m")))
    handle = partial(host.scheduler.handle, arrival, now=NOW)
    host.assert_harmless(point, value, handle, "default/q")


# Where the scheduler goes on --------------------------------------------------------------------


def a_pod_arrives(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    tell(cluster, scheduler, PodAdded(make_pod("q", priority=3)), now=NOW)


def a_waiting_pod_is_deleted(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    tell(cluster, scheduler, PodDeleted(PodUID("default/held")), now=NOW)


def a_bind_is_reported(cluster: InMemoryCluster, scheduler: Scheduler) -> None:
    tell(cluster, scheduler, Bound(PodUID("default/binding"), NodeName("n2"), 1), now=NOW)


GOES_ON: dict[str, tuple[str, Callable[..., None], Callable[[PluginError], Any]]] = {
    "pre_enqueue": ("q", a_pod_arrives, lambda error: Unschedulable(str(error))),
    "unreserve": ("held", a_waiting_pod_is_deleted, lambda _error: None),
    "post_bind": ("binding", a_bind_is_reported, lambda _error: None),
}


@given(st.sampled_from(sorted(GOES_ON)), VALUES)
def test_bad_return_counts_as_the_safe_answer_where_the_cycle_continues(
    point: str, value: Any
) -> None:
    if ALLOWED[point](value):
        return
    subject, happens, safe = GOES_ON[point]
    twins = [a_host(point), a_host(point)]
    for cluster, scheduler, faulty in twins if point == "unreserve" else ():
        faulty.answers["permit"] = Wait(9.0)
        tell(cluster, scheduler, PodAdded(make_pod("held", priority=9)), now=NOW)
        assert scheduler.schedule_one(now=NOW)
        del faulty.answers["permit"]
    (cluster, scheduler, faulty), (twin_cluster, twin, sound) = twins
    faulty.answers[point] = lambda *_args, **_kwargs: value
    with pytest.raises(PluginError) as caught:
        happens(cluster, scheduler)
    check_error(caught.value, point, f"default/{subject}")
    scheduler._check()
    answer = safe(caught.value)
    sound.answers[point] = lambda *_args, **_kwargs: answer
    happens(twin_cluster, twin)
    scheduler.advance(now=NOW)
    assert known(cluster, scheduler) == known(twin_cluster, twin)


@given(VALUES)
def test_entity_with_a_bad_sort_key_is_last(value: Any) -> None:
    if ALLOWED["queue_sort"](value):
        return
    faulty, cluster = FaultyPlugin("queue_sort"), InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(faulty, DefaultBinder()))
    tell(cluster, scheduler, PodAdded(make_pod("early")), now=NOW)
    faulty.answers["queue_sort"] = lambda _entity: value
    with pytest.raises(PluginError) as caught:
        tell(cluster, scheduler, PodAdded(make_pod("odd", priority=9)), now=NOW)
    check_error(caught.value, "queue_sort", "default/odd")
    faulty.answers.clear()
    tell(cluster, scheduler, PodAdded(make_pod("late", priority=-9)), now=NOW)
    scheduler._check()
    assert [entity.pod.name for entity in scheduler.queue.active] == ["early", "late", "odd"]


# Rules about groups -----------------------------------------------------------------------------


@given(st.sampled_from(["members_needed", "roles_needed", "group_requests"]), VALUES)
def test_bad_rule_about_a_group_is_replaced_by_the_default_rule(point: str, value: Any) -> None:
    if ALLOWED[point](value):
        return
    needs = {"roles_needed": ("members_needed",)}.get(point, ())
    faulty, cluster = FaultyPlugin("permit", point, *needs), InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(*presets.default_profile().plugins, faulty))
    tell(cluster, scheduler, NodeAdded(make_node("n", cpu=4)), now=NOW)
    faulty.answers["roles_needed"] = lambda _group: {"ps": 1}
    faulty.answers["group_requests"] = lambda _group: Resources({})
    errors: list[PluginError] = []

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except PluginError as error:
            errors.append(error)
        scheduler._check()

    faulty.answers[point] = lambda _group: value
    spec = PodGroup(name="g", min_available=1, roles={"ps": 1})
    attempt(lambda: scheduler.handle(cluster.apply(PodGroupAdded(spec)), now=NOW))
    arrival = cluster.apply(PodAdded(make_pod("g-0", group="g", cpu=1, role="ps")))
    attempt(lambda: scheduler.handle(arrival, now=NOW))
    for _cycle in range(3):
        attempt(lambda: scheduler.schedule_one(now=NOW))
    assert errors
    for error in errors:
        check_error(error, point, "default/g")


@given(st.sampled_from(["add_pod", "remove_pod"]), VALUES)
def test_bad_account_of_planned_siblings_leaves_everything_as_before(
    point: str, value: Any
) -> None:
    """The first plan puts ``g-0`` where only ``g-1`` can go, so it is undone once."""
    if ALLOWED[point](value):
        return

    def only_one_on_a(_state: object, pod: Pod, view: NodeView) -> Outcome:
        fits = view.node.name == "a" or pod.name == "g-0"
        return SUCCESS if fits and not view.pods else Unschedulable("another node")

    cluster = InMemoryCluster()
    faulty = FaultyPlugin(
        *("pre_filter", "filter", "pod_signature", "node_signature"),
        *("reads_pods", "add_pod", "remove_pod"),
    )
    faulty.answers = {
        "reads_pods": lambda _pod: True,
        "filter": only_one_on_a,
        "node_signature": lambda _view: None,
        "pod_signature": lambda pod: pod.name,
    }
    scheduler = presets.gang(cluster, plugins=[faulty])
    for name in ("a", "b"):
        tell(cluster, scheduler, NodeAdded(make_node(name, cpu=1)), now=NOW)
    for name in ("g-0", "g-1"):
        pod = make_pod(name, group="g", min_available=2, cpu=1)
        tell(cluster, scheduler, PodAdded(pod), now=NOW)
    host = Host(cluster, scheduler, faulty)
    host.assert_harmless(point, value, host.schedule_one)


@given(st.sampled_from(["skips", "volume_choices"]), VALUES)
@example("volume_choices", "")
@example("volume_choices", b"")
def test_bad_answer_about_the_volumes_of_a_pod_leaves_everything_as_before(
    point: str, value: Any
) -> None:
    if ALLOWED[point](value):
        return
    cluster = InMemoryCluster()
    faulty = FaultyPlugin(
        *("pre_filter", "filter", "reserve", "unreserve", "pod_signature", "node_signature", point)
    )
    faulty.answers["node_signature"] = lambda _view: None
    checks_claims = FaultyPlugin("post_bind")
    checks_claims.name = "VolumeBinding"
    profile = Profile(faulty, checks_claims, Coscheduling(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    tell(cluster, scheduler, NodeAdded(make_node("n", cpu=1)), now=NOW)
    pod = evolve(make_pod("p", cpu=1), volume_claims=[VolumeClaim("data")])
    tell(cluster, scheduler, PodAdded(pod), now=NOW)
    host = Host(cluster, scheduler, faulty)
    host.assert_harmless(point, value, host.schedule_one, "default/p")
