"""Gangs in namespaces with quotas: admission, waiting, waking, what is returned."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    Evict,
    GroupKey,
    InMemoryCluster,
    InvalidValueError,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodNotAdmitted,
    PodPhase,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    Quota,
    Resources,
    RestartPolicy,
    Scheduler,
    presets,
)
from gangsched.explain import NotAdmitted
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.testing import make_node, make_pod

T = TypeVar("T")
QUOTA = Quota(name="team", namespaces=["default"], hard={"cpu": 4})
both = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


def key(name: str) -> GroupKey:
    return GroupKey(f"default/{name}")


class Host:
    """A scheduler with a quota on a cluster that is large enough."""

    def __init__(self, make: Any = presets.gang, quotas: Any = (QUOTA,), cpus: int = 50) -> None:
        self.cluster, self.now, self.effects = InMemoryCluster(), 0.0, list[Effect]()
        self.make, self.quotas = make, quotas
        self.scheduler = self.new()
        self.tell(NodeAdded(make_node("n", cpu=cpus)))

    def new(self) -> Scheduler:
        made: Scheduler = self.make(self.cluster, quotas=self.quotas)
        made.allow_evictions()
        return made

    def gang(self, name: str, size: int = 2, *, cpu: int = 1, **spec: Any) -> None:
        given: dict[str, Any] = {"min_available": size, **spec}
        group = PodGroup(name=name, **given)
        self.tell(PodGroupAdded(group))
        for number in range(size):
            self.tell(PodAdded(make_pod(f"{name}-{number}", group=name, cpu=cpu)))

    def tell(self, event: Event) -> list[Effect]:
        return self.took(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def took(self, effects: tuple[Effect, ...]) -> list[Effect]:
        self.scheduler._check()
        self.effects += effects
        return list(effects)

    def run(self) -> set[str]:
        """Decide and bind at this instant; return the gangs that run."""
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self.took(effects)
            for bind in [each for each in effects if isinstance(each, Bind)]:
                self.tell(Bound(bind.uid, bind.node, bind.attempt))
        pods = [pod for pod in self.cluster.pods() if pod.node_name and not pod.is_finished]
        return {pod.name.partition("-")[0] for pod in pods}

    def end(self, name: str, phase: PodPhase = PodPhase.SUCCEEDED) -> None:
        pod = self.cluster.pod(PodUID(f"default/{name}"))
        assert pod is not None
        self.tell(PodUpdated(evolve(pod, phase=phase)))

    def delete(self, *names: str) -> None:
        for name in names:
            self.tell(PodDeleted(PodUID(f"default/{name}")))

    def told(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def used(self) -> Resources:
        return self.scheduler._state.pods.quotas.used("team")


@both
def test_gang_beyond_its_quota_waits_with_a_reason(make: Any) -> None:
    host = Host(make)
    host.gang("a", 3)
    host.gang("b", 2)
    assert host.run() == {"a"}
    reason = "exceeded quota team: requested cpu=2, used cpu=3, limited cpu=4"
    assert host.told(PodNotAdmitted)[-1].reason == reason
    assert host.scheduler.why(key("b")) == NotAdmitted(reason)
    told = {str(each.uid): each.reason for each in host.told(PodUnschedulable)}
    assert told["default/b-0"] == told["default/b-1"] == "pod group default/b waits for its quota"


@both
def test_waiting_gang_starts_when_another_ends(make: Any) -> None:
    host = Host(make)
    host.gang("a", 3)
    host.gang("b", 2)
    host.run()
    host.end("a-0")
    host.end("a-1")
    assert host.run() == {"a"}, "its charge is returned when it ends"
    host.end("a-2")
    assert host.run() == {"b"}
    assert host.used() == Resources({"cpu": 2})


def test_waiting_gangs_are_asked_in_order_of_priority() -> None:
    host = Host()
    host.gang("a", 4)
    host.gang("low", 3)
    host.gang("high", 3, priority=5)
    host.gang("small", 1)
    host.run()
    host.delete("a-0", "a-1", "a-2", "a-3")
    assert host.run() == {"high", "small"}


def test_min_resources_are_charged_if_they_are_given() -> None:
    host = Host()
    host.gang("a", 2, min_resources={"cpu": 4})
    host.gang("b", 1)
    assert host.run() == {"a"}
    assert host.used() == Resources({"cpu": 4})


def test_gang_that_needs_more_than_its_quota_is_held_and_blocks_no_other() -> None:
    host = Host()
    host.gang("huge", 5)
    host.gang("a", 4)
    assert host.run() == {"a"}
    assert "limited cpu=4" in str(host.scheduler.why(key("huge")))


def test_charge_of_a_pending_gang_is_returned_when_it_is_incomplete() -> None:
    host = Host(cpus=1)
    host.gang("a", 3)
    host.gang("b", 2)
    assert host.run() == set()
    assert host.used() == Resources({"cpu": 3})
    host.delete("a-0")
    assert host.used() == Resources({"cpu": 2}), "b has it now"


def test_charge_is_returned_when_the_group_is_removed() -> None:
    host = Host()
    host.gang("a", 4)
    host.gang("b", 1)
    host.run()
    host.tell(PodGroupDeleted(key("a")))
    assert host.used() == Resources({"cpu": 4}), "its pods run"
    host.delete(*(f"a-{number}" for number in range(4)))
    assert host.run() == {"b"}


def test_terminating_pods_keep_the_charge() -> None:
    host = Host()
    host.gang("a", 1, min_resources={"cpu": 4})
    host.gang("b", 1)
    host.run()
    pod = host.cluster.pod(PodUID("default/a-0"))
    assert pod is not None
    host.tell(PodUpdated(evolve(pod, deleted_at=1.0)))
    assert host.used() == Resources({"cpu": 4})
    host.delete("a-0")
    assert host.run() == {"b"}


def test_restarted_gang_keeps_its_charge_until_its_backoff_is_over() -> None:
    host = Host()
    host.gang("a", 3, restart=RestartPolicy(backoff=10.0))
    host.gang("b", 2)
    host.run()
    host.delete("a-0")
    host.now = 1.0
    host.took(host.scheduler.advance(now=1.0))
    for evict in host.told(Evict):
        host.tell(PodDeleted(evict.uid))
    assert host.used() == Resources({"cpu": 3})
    assert host.run() == set()
    host.now = 11.0
    host.took(host.scheduler.advance(now=11.0))
    assert host.run() == {"b"}, "its controller has not created it again"


def test_restarted_gang_starts_again_with_its_own_charge() -> None:
    host = Host()
    host.gang("a", 3, restart=RestartPolicy(backoff=10.0))
    host.gang("b", 2)
    host.run()
    host.end("a-0", PodPhase.FAILED)
    host.now = 1.0
    host.took(host.scheduler.advance(now=1.0))
    host.delete("a-0", "a-1", "a-2")
    for number in range(3):
        host.tell(PodAdded(make_pod(f"a-{number}x", group="a", cpu=1)))
    host.now = 11.0
    host.took(host.scheduler.advance(now=11.0))
    assert host.run() == {"a"}


def test_bundle_is_charged_as_a_whole() -> None:
    host = Host()
    bundle = ["default/x", "default/y"]
    host.gang("a", 1)
    host.gang("x", 2, bundle=bundle)
    host.gang("y", 2, bundle=bundle)
    assert host.run() == {"a"}
    assert host.used() == Resources({"cpu": 1})
    host.delete("a-0")
    assert host.run() == {"x", "y"}


def test_new_scheduler_charges_gangs_that_run_before_it_admits_others() -> None:
    host = Host()
    host.gang("a", 3)
    host.gang("b", 2, priority=9)
    host.run()
    host.scheduler, host.now = host.new(), 1.0
    host.took(host.scheduler.advance(now=1.0))
    assert host.used() == Resources({"cpu": 3})
    assert host.run() == {"a"}


def test_new_scheduler_with_a_lower_limit_evicts_nothing() -> None:
    host = Host()
    host.gang("a", 4)
    host.run()
    host.quotas = [evolve(QUOTA, hard={"cpu": 1})]
    host.scheduler, host.now = host.new(), 1.0
    host.took(host.scheduler.advance(now=1.0))
    assert host.told(Evict) == []
    host.gang("b", 1)
    assert host.run() == {"a"}


@both
def test_restored_scheduler_has_charges_and_waiting_gangs(make: Any) -> None:
    host = Host(make)
    host.gang("a", 3)
    host.gang("b", 2)
    host.run()
    data = json.loads(json.dumps(host.scheduler.snapshot()))
    host.scheduler = host.new()
    host.scheduler.restore(data)
    assert host.used() == Resources({"cpu": 3})
    host.delete("a-0", "a-1", "a-2")
    assert host.run() == {"b"}


def test_snapshot_that_contradicts_the_quotas_is_refused() -> None:
    host = Host()
    host.gang("a", 3)
    host.run()
    data = host.scheduler.snapshot()
    host.quotas = [evolve(QUOTA, namespaces=["other"])]
    with pytest.raises(InvalidValueError, match="a namespace with a quota"):
        host.new().restore(data)


def test_what_if_answers_with_the_quota() -> None:
    host = Host()
    host.gang("a", 3)
    host.gang("b", 2)
    host.run()
    gone = [PodDeleted(PodUID(f"default/a-{number}")) for number in range(3)]
    seen = host.scheduler.what_if(*gone)
    assert {each.uid for each in seen.effects if isinstance(each, Bind)} == {
        *("default/b-0", "default/b-1")
    }
    assert host.used() == Resources({"cpu": 3})


def test_gang_that_another_scheduler_has_bound_is_charged() -> None:
    host = Host()
    pod = make_pod("other-0", group="other", min_available=1, cpu=3)
    host.tell(PodAdded(evolve(pod, node_name=NodeName("n"))))
    assert host.used() == Resources({"cpu": 3})
    host.gang("a", 2)
    assert host.run() == {"other"}
    host.delete("other-0")
    assert host.run() == {"a"}


def test_regular_pods_are_not_charged() -> None:
    host = Host()
    for number in range(6):
        host.tell(PodAdded(make_pod(f"single-{number}", cpu=1)))
    assert host.run() == {"single"}
    assert host.used() == Resources()


def test_decision_log_has_the_quotas() -> None:
    lines: list[str] = []
    recipe = Recipe("gang", quotas=[QUOTA])
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe

    cluster = InMemoryCluster()
    scheduler = DecisionLog(lines.append, recipe).scheduler(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=9))), now=0.0)
    for number in range(5):
        pod = make_pod(f"a-{number}", group="a", min_available=5, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    assert scheduler.schedule_one(now=0.0) is None, "it exceeds the quota"
    assert replay(lines) is None


def test_malformed_quotas_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="quotas"):
        presets.gang(InMemoryCluster(), quotas=[QUOTA, QUOTA])
