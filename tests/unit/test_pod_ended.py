"""A plugin that counts is notified when a bound pod ends, and wakes what it refused."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Effect,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodPhase,
    PodUpdated,
    Scheduler,
    Success,
    Unschedulable,
    presets,
)
from gangsched.events import Event
from gangsched.model import PodUID


class Quota:
    """Lets a namespace run so many pods at once, wherever they run."""

    name = "Quota"

    def __init__(self, most: int, point: str) -> None:
        self.most = most
        self.held: dict[PodUID, str] = {}
        self.ended: list[tuple[str, str]] = []
        setattr(self, point, self._refuse_above)

    def pod_signature(self, pod: Pod) -> str:
        return pod.namespace

    def node_signature(self, node: object) -> None:
        return None

    def _refuse_above(self, *args: Any, **kwargs: Any) -> Success | Unschedulable:
        pod = next(arg for arg in args if isinstance(arg, Pod))
        used = sum(namespace == pod.namespace for namespace in self.held.values())
        mine = pod.uid in self.held
        return Success() if mine or used < self.most else Unschedulable("the quota is used up")

    def reserve(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Success:
        self.held[pod.uid] = pod.namespace
        return Success()

    def unreserve(self, state: object, pod: Pod, node: NodeName, *, now: float) -> None:
        self.held.pop(pod.uid, None)

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        self.ended.append((pod.name, node))
        return self.held.pop(pod.uid, None) is not None


class Silent(Quota):
    """A quota that wakes nothing."""

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        super().pod_ended(pod, node, now=now)
        return False


class Run:
    """A scheduler whose binds succeed at once."""

    def __init__(self, *plugins: object) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.gang(self.cluster, plugins=plugins)
        self.now = 0.0
        # the pods that wait do not fit on the node that is freed, so that the node wakes none
        self.tell(NodeAdded(Node(name="small", labels={"size": "small"}, allocatable={"cpu": 1})))
        self.tell(NodeAdded(Node(name="large", allocatable={"cpu": 8})))

    def tell(self, event: Event) -> list[str]:
        self._perform(self.scheduler.handle(self.cluster.apply(event), now=self.now))
        return self.decide()

    def decide(self) -> list[str]:
        """Decide until there is nothing to decide; return the pods that were bound."""
        found: list[str] = []
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            found += self._perform(effects)
        self.scheduler._check()
        return found

    def _perform(self, effects: tuple[Effect, ...]) -> list[str]:
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        for bind in binds:
            done = self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
            self._perform(self.scheduler.handle(done, now=self.now))
        return [bind.uid for bind in binds]


def pod(name: str, cpu: int) -> Pod:
    """Return a pod; one of a CPU goes to the small node."""
    selector = {"size": "small"} if cpu == 1 else {}
    return Pod(name=name, requests={"cpu": cpu}, node_selector=selector)


def ended(run: Run, name: str, phase: PodPhase) -> Event:
    shown = run.cluster.pod(f"default/{name}")
    assert shown is not None
    return PodUpdated(evolve(shown, phase=phase))


POINTS = ("pre_enqueue", "filter")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("how", ["succeeds", "fails", "deleted"])
def test_end_of_a_bound_pod_wakes_what_the_plugin_refused(point: str, how: str) -> None:
    quota = Quota(1, point)
    run = Run(quota)
    assert run.tell(PodAdded(pod("first", 1))) == ["default/first"]
    assert run.tell(PodAdded(pod("second", 4))) == []
    run.now = 0.5  # before the backoff of the second pod ends
    phases = {"succeeds": PodPhase.SUCCEEDED, "fails": PodPhase.FAILED}
    event: Event = PodDeleted(PodUID("default/first"))
    if how in phases:
        event = ended(run, "first", phases[how])
    assert run.tell(event) == ["default/second"]
    assert quota.ended == [("first", "small")]


@pytest.mark.parametrize("point", POINTS)
def test_plugin_that_returns_false_wakes_nothing(point: str) -> None:
    run = Run(Silent(1, point))
    run.tell(PodAdded(pod("first", 1)))
    run.tell(PodAdded(pod("second", 4)))
    run.now = 0.5  # before the backoff of the second pod ends
    assert run.tell(PodDeleted(PodUID("default/first"))) == []


def test_pod_that_finished_is_not_reported_again_when_it_is_deleted() -> None:
    quota = Quota(9, "pre_filter")
    run = Run(quota)
    run.tell(PodAdded(pod("p", 1)))
    run.tell(ended(run, "p", PodPhase.SUCCEEDED))
    run.tell(ended(run, "p", PodPhase.SUCCEEDED))
    run.tell(PodDeleted(PodUID("default/p")))
    assert quota.ended == [("p", "small")]


def test_pod_that_was_never_bound_is_not_reported() -> None:
    quota = Quota(0, "pre_filter")
    run = Run(quota)
    run.tell(PodAdded(pod("p", 1)))
    run.tell(PodDeleted(PodUID("default/p")))
    assert quota.ended == []


def test_terminating_pod_ends_when_it_is_gone() -> None:
    quota = Quota(9, "pre_filter")
    run = Run(quota)
    run.tell(PodAdded(pod("p", 1)))
    shown = run.cluster.pod("default/p")
    assert shown is not None
    run.tell(PodUpdated(evolve(shown, deleted_at=1.0)))
    assert quota.ended == []
    run.tell(PodDeleted(PodUID("default/p")))
    assert quota.ended == [("p", "small")]


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_answer_of_a_wrong_type_is_named_and_the_event_is_taken_in(answer: Any) -> None:
    class Wrong:
        name = "Wrong"

        def pod_signature(self, pod: Pod) -> None:
            return None

        def node_signature(self, node: object) -> None:
            return None

        def filter(self, state: object, pod: Pod, node: object) -> Success:
            return Success()

        def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> Any:
            return answer

    quota = Quota(1, "pre_enqueue")
    run = Run(Wrong(), quota)
    run.tell(PodAdded(pod("first", 1)))
    run.tell(PodAdded(pod("second", 4)))
    run.now = 0.5  # before the backoff of the second pod ends
    with pytest.raises(PluginError, match=r"Wrong.*pod_ended.*expected True or False"):
        run.tell(PodDeleted(PodUID("default/first")))
    assert quota.ended == [("first", "small")]
    assert run.decide() == ["default/second"]
