"""Every extension point runs, in the documented order, and a plugin that fails is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    CycleState,
    Effect,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodNotAdmitted,
    PodScheduled,
    PodUnschedulable,
    PodUpdated,
    Profile,
    Scheduler,
    Skip,
    StateKey,
    Success,
    Unschedulable,
    Wait,
    presets,
)
from gangsched.coscheduling import Coscheduling
from gangsched.explain import NoNodeFits
from gangsched.outcomes import SUCCESS, Outcome
from gangsched.plugins import DefaultBinder
from gangsched.profile import POINTS
from gangsched.protocols import CycleView, EntityView, GroupView, NodeView
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import problem_with
from support.shown import nothing_is_assumed

SEEN: StateKey[list[str]] = StateKey("seen")


class Recorder:
    """Has every point, gives the answers it is given, and records the calls."""

    name = "Recorder"

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str]] = []

    def _answer(self, point: str, pod: Pod, default: Any) -> Any:
        self.calls.append((point, pod.name))
        answer = self.answers.get(point, default)
        if isinstance(answer, Exception):
            raise answer
        return answer(pod) if callable(answer) else answer

    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Any:
        return self._answer("pre_enqueue", pod, Success())

    def queue_sort(self, entity: EntityView) -> tuple[int, float, int, int, int]:
        self.calls.append(("queue_sort", entity.pod.name))
        return (0, 0.0, 0, entity.seq, 0)

    def pre_filter(self, state: CycleState, pod: Pod, *, now: float) -> Any:
        state.write(SEEN, [pod.name])
        return self._answer("pre_filter", pod, Success())

    def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Any:
        assert state.read(SEEN) == [pod.name]
        return self._answer("filter", pod, Success())

    def post_filter(self, state: CycleState, pod: Pod, reason: str, *, now: float) -> Any:
        return self._answer("post_filter", pod, Skip())

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeView], *, now: float
    ) -> Any:
        return self._answer("pre_score", pod, Success())

    def score(self, state: CycleState, pod: Pod, node: NodeView) -> Any:
        return self._answer("score", pod, 1)

    def reserve(self, state: CycleState, pod: Pod, node: NodeName, *, now: float) -> Any:
        return self._answer("reserve", pod, Success())

    def unreserve(
        self, state: CycleState, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> Any:
        return self._answer("unreserve", pod, None)

    def permit(self, state: CycleState, pod: Pod, node: NodeName, *, now: float) -> Any:
        return self._answer("permit", pod, Success())

    def pre_bind(self, state: CycleState, pod: Pod, node: NodeName, *, now: float) -> Any:
        return self._answer("pre_bind", pod, Success())

    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Any:
        return self._answer("bind", pod, Bind(pod.uid, node, attempt))

    def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> Any:
        return self._answer("post_bind", pod, None)


class Host:
    """One node, one recorder, and what came out."""

    def __init__(self, *plugins: object) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = Scheduler(self.cluster, Profile(*plugins))
        self.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})))

    def tell(self, event: Any, now: float = 0.0) -> tuple[Effect, ...]:
        effects = self.scheduler.handle(self.cluster.apply(event), now=now)
        self.scheduler._check()
        return effects

    def decide(self, now: float = 0.0) -> tuple[Effect, ...] | None:
        try:
            return self.scheduler.schedule_one(now=now)
        finally:
            self.scheduler._check()


def points(recorder: Recorder) -> list[str]:
    return [point for point, _pod in recorder.calls]


def test_points_run_in_the_documented_order_for_a_placed_pod() -> None:
    recorder = Recorder()
    host = Host(recorder)
    host.tell(PodAdded(make_pod("p", cpu=1)))
    effects = host.decide()
    assert effects is not None
    (bind,) = effects
    assert isinstance(bind, Bind)
    assert "post_bind" not in points(recorder)
    told = host.tell(Bound(bind.uid, bind.node, bind.attempt))
    assert told == (PodScheduled(bind.uid, bind.node),)
    order = list(dict.fromkeys(points(recorder)))
    assert order == [p for p in POINTS if p not in ("post_filter", "unreserve")]


@pytest.mark.parametrize("point", ["pre_filter", "filter", "pre_score", "reserve", "permit"])
def test_unschedulable_at_any_point_ends_the_cycle_and_undoes_it(point: str) -> None:
    recorder = Recorder(**{point: Unschedulable("not today")})
    host = Host(recorder)
    host.tell(PodAdded(make_pod("p", cpu=1)))
    effects = host.decide()
    assert effects is not None
    (notice,) = effects
    assert isinstance(notice, PodUnschedulable)
    assert "not today" in notice.reason
    called = points(recorder)
    assert ("unreserve" in called) == (point in ("reserve", "permit"))
    assert [p for p in called if p not in ("queue_sort", "pre_enqueue")][-1] == "post_filter"
    assert nothing_is_assumed(host.scheduler)


def test_pod_that_is_not_admitted_has_no_cycle() -> None:
    recorder = Recorder(pre_enqueue=Unschedulable("not before noon"))
    host = Host(recorder)
    pod = make_pod("p", cpu=1)
    assert host.tell(PodAdded(pod)) == (PodNotAdmitted(pod.uid, "not before noon"),)
    assert host.decide() is None
    recorder.answers.clear()
    host.tell(PodUpdated(make_pod("p", cpu=2)))
    assert host.decide() is not None


def test_first_bind_plugin_that_does_not_skip_binds() -> None:
    recorder = Recorder(bind=Skip())
    host = Host(recorder, DefaultBinder())
    host.tell(PodAdded(make_pod("p", cpu=1)))
    effects = host.decide()
    assert effects is not None
    assert [type(effect) for effect in effects] == [Bind]


def test_highest_score_wins_and_ties_fall_to_the_first_node_by_name() -> None:
    class Likes:
        name = "Likes"

        def __init__(self, liked: str) -> None:
            self.liked = liked

        def pod_signature(self, pod: Pod) -> str:
            return ""

        def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
            return 100 if node.node.name == self.liked else 0

    for liked, expected in (("n", "n"), ("nobody", "m")):
        host = Host(Coscheduling(), Likes(liked), DefaultBinder())
        host.tell(NodeAdded(Node(name=NodeName("m"), allocatable={"cpu": 4})))
        host.tell(PodAdded(make_pod("p", cpu=1)))
        effects = host.decide()
        assert effects is not None
        assert isinstance(effects[0], Bind)
        assert effects[0].node == expected


@pytest.mark.parametrize(
    "point", [p for p in POINTS if p not in ("pre_enqueue", "queue_sort", "unreserve", "post_bind")]
)
@pytest.mark.parametrize("broken", [ZeroDivisionError("oops"), "nonsense"])
def test_plugin_that_breaks_its_contract_is_named_and_nothing_changes(
    point: str, broken: Any
) -> None:
    answers = {point: broken}
    if point == "post_filter":
        answers["filter"] = Unschedulable("full")
    recorder = Recorder(**answers)
    host = Host(recorder)
    host.tell(PodAdded(make_pod("p", cpu=1)))
    for _turn in range(2):
        with pytest.raises(PluginError) as raised:
            host.decide()
        error = raised.value
        assert (error.plugin, error.point, error.subject) == ("Recorder", point, "default/p")
        assert error.problem == problem_with(point, broken)
        assert (error.__cause__ is broken) == isinstance(broken, Exception)
        assert nothing_is_assumed(host.scheduler)
    recorder.answers.clear()
    effects = host.decide()
    assert effects is not None
    assert effects[-1] == Bind(make_pod("p").uid, NodeName("n"), 1)


@pytest.mark.parametrize(
    ("point", "happens"),
    [
        ("unreserve", lambda host, pod: host.tell(PodDeleted(pod.uid), now=1.0)),
        ("pre_enqueue", lambda host, _pod: host.tell(PodAdded(make_pod("q", cpu=1)), now=1.0)),
    ],
)
def test_error_in_the_middle_of_an_event_is_raised_at_its_end(
    point: str, happens: Callable[[Host, Pod], object]
) -> None:
    recorder = Recorder(permit=Wait(5.0))
    host = Host(recorder)
    pod = make_pod("p", cpu=1)
    host.tell(PodAdded(pod))
    host.decide()
    recorder.answers[point] = ZeroDivisionError("oops")
    with pytest.raises(PluginError, match=f"at {point}"):
        happens(host, pod)
    host.scheduler._check()
    recorder.answers.clear()
    told = host.scheduler.advance(now=2.0)
    assert told, "what was decided before the plugin raised is told by the next call"


def test_unhashable_signature_is_refused_and_nothing_changes() -> None:
    class Unhashable:
        name = "Unhashable"

        def pod_signature(self, pod: Pod) -> Any:
            return ([1],)

        def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Success:
            return Success()

    host = Host(Coscheduling(), Unhashable(), DefaultBinder())
    with pytest.raises(PluginError, match="expected a hashable value"):
        host.tell(PodAdded(make_pod("p", group="g", min_available=1, cpu=1)))
    assert len(host.scheduler.registry) == 0


@pytest.mark.parametrize(
    ("name", "node", "attempt"), [("other", "n", 1), ("p", "other", 1), ("p", "n", 2)]
)
def test_bind_of_another_pod_node_or_attempt_is_refused(name: str, node: str, attempt: int) -> None:
    other = Bind(make_pod(name).uid, NodeName(node), attempt)
    host = Host(Recorder(bind=other))
    host.tell(PodAdded(make_pod("p", cpu=1)))
    with pytest.raises(PluginError) as raised:
        host.decide()
    problem = problem_with("bind", other)
    assert str(raised.value) == f"plugin 'Recorder' at bind for default/p: {problem}"


def test_diagnosis_counts_each_reason_and_splits_none_at_a_comma() -> None:
    """A reason is counted once for each node that gives it, whatever it contains."""

    class Picky:
        name = "Picky"

        def filter(self, state: CycleState, pod: Pod, node: NodeView) -> Unschedulable:
            model = "needs an A100, not an H100"
            return Unschedulable([model, "no rack"] if node.node.name == "n" else model)

    host = Host(Coscheduling(), Picky(), DefaultBinder())
    host.tell(NodeAdded(Node(name=NodeName("m"), allocatable={"cpu": 4})))
    host.tell(PodAdded(make_pod("p")))
    host.decide()
    why = host.scheduler.why(make_pod("p").uid)
    assert isinstance(why, NoNodeFits)
    assert why.unschedulable_member is not None
    diagnosis = why.unschedulable_member.diagnosis
    assert diagnosis is not None
    assert diagnosis.reasons == (("needs an A100, not an H100", 2), ("no rack", 1))
    says = "0/2 nodes are available: 2 needs an A100, not an H100, 1 no rack."
    assert str(diagnosis) == says


# A plugin is not called about a pod that it skips, and is about any other


class Noting:
    """Notes at which points it is called about a pod, and skips pods named ``skipped``."""

    name = "Noting"

    def __init__(self) -> None:
        self.called: list[str] = []

    def skips(self, pod: Pod) -> bool:
        return pod.name == "skipped"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        self.called.append("pre_filter")
        return SUCCESS

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        self.called.append("filter")
        return SUCCESS

    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        self.called.append("reserve")
        return SUCCESS

    def unreserve(self, state: CycleView, pod: Pod, node: str, *, cause: str, now: float) -> None:
        self.called.append("unreserve")

    def post_bind(self, pod: Pod, node: str, *, now: float) -> None:
        self.called.append("post_bind")


@pytest.mark.parametrize("preset", [presets.gang, presets.pod_by_pod])
@pytest.mark.parametrize("is_bound", [True, False])
@pytest.mark.parametrize("name", ["skipped", "other"])
def test_plugin_is_called_unless_it_skips_the_pod(preset: Any, name: str, is_bound: bool) -> None:
    cluster, plugin = InMemoryCluster(), Noting()
    scheduler = preset(cluster, plugins=[plugin])
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    pod = make_pod(name, cpu=1)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    (bind,) = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    end = Bound(bind.uid, bind.node, bind.attempt) if is_bound else PodDeleted(pod.uid)
    scheduler.handle(cluster.apply(end), now=0.0)
    last = "post_bind" if is_bound else "unreserve"
    called = ["pre_filter", "filter", "reserve", last]
    assert plugin.called == ([] if name == "skipped" else called)
