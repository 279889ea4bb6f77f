"""Gangs in namespaces with quotas: admission, waiting, waking, what is returned."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupRejected,
    InMemoryCluster,
    InvalidValueError,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodNotAdmitted,
    PodPhase,
    PodUnschedulable,
    Quota,
    RejectGroup,
    RestartPolicy,
    Scheduler,
    group_key,
    presets,
)
from gangsched.configuration import make_scheduler, read_settings
from gangsched.explain import NoNodeFits, NotAdmitted
from gangsched.outcomes import SKIP, Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, GroupView, NodeView
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.testing import make_node, make_pod
from support.story import Story, Way

GPU = "nvidia.com/gpu"
QUOTA = Quota(name="team", namespaces=["default"], hard={"cpu": 4})
both = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
REASON = "exceeded quota team: requested cpu=2, used cpu=3, limited cpu=4"


def limited(make: Any = presets.gang, *quotas: Quota, cpus: int = 50, **how: Any) -> Story:
    """Return a story of a scheduler with a quota on a cluster that is large enough."""
    given = quotas or (QUOTA,)
    story = Story(lambda cluster: make(cluster, quotas=given, can_evict=True), **how)
    story.tell(NodeAdded(make_node("n", cpu=cpus, gpu=9)))
    return story


def gang(story: Story, name: str, size: int, *, requests: Any = None, **spec: Any) -> None:
    namespace = spec.pop("namespace", "default")
    group = PodGroup(name=name, namespace=namespace, **{"min_available": size, **spec})
    story.tell(PodGroupAdded(group))
    for number in range(size):
        pod = make_pod(f"{name}-{number}", group=name, requests=requests or {"cpu": 1})
        story.add(evolve(pod, namespace=namespace))


def running(story: Story) -> set[str]:
    """Decide, and return the gangs of which a pod runs."""
    story.decide()
    pods = [pod for pod in story.cluster.pods() if pod.node_name and not pod.is_finished]
    return {pod.name.partition("-")[0] for pod in pods}


def end(story: Story, name: str, size: int) -> None:
    story.delete(*(f"{name}-{number}" for number in range(size)))


@both
def test_gang_beyond_its_quota_waits_with_a_reason_until_another_ends(make: Any) -> None:
    story = limited(make)
    gang(story, "a", 3)
    gang(story, "b", 2)
    assert running(story) == {"a"}
    assert story.of(PodNotAdmitted)[-1].reason == REASON
    assert story.scheduler.why("default/b") == NotAdmitted(REASON)
    told = {str(each.uid): each.reason for each in story.of(PodUnschedulable)}
    assert told["default/b-0"] == told["default/b-1"] == "pod group default/b waits for its quota"
    story.update("a-0", phase=PodPhase.SUCCEEDED)
    story.update("a-1", phase=PodPhase.SUCCEEDED)
    assert running(story) == {"a"}, "its charge is returned when it ends"
    story.update("a-2", phase=PodPhase.SUCCEEDED)
    assert running(story) == {"b"}


def test_waiting_gangs_are_asked_in_order_of_priority() -> None:
    story = limited()
    gang(story, "a", 4)
    gang(story, "low", 3)
    gang(story, "high", 3, priority=5)
    gang(story, "small", 1)
    running(story)
    end(story, "a", 4)
    assert running(story) == {"high", "small"}


@both
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("was_admitted", [False, True])
def test_gang_that_lost_a_member_takes_no_quota_from_the_next_gang(
    make: Any, size: int, was_admitted: bool
) -> None:
    story = limited(make)
    gang(story, "a", 4)
    running(story)
    gang(story, "high", size, priority=5, min_resources={"cpu": 3})
    gang(story, "low", 3)
    if was_admitted:
        end(story, "a", 4)
    story.update("high-0", scheduling_gates=("held",))
    if not was_admitted:
        end(story, "a", 4)
    assert running(story) == {"low"}


@both
def test_gang_that_finds_no_node_takes_no_quota_from_the_next_gang(make: Any) -> None:
    story = limited(make)
    gang(story, "a", 4)
    running(story)
    gang(story, "high", 3, priority=5, requests={"cpu": 1, GPU: 10})
    gang(story, "low", 3)
    end(story, "a", 4)
    assert running(story) == {"low"}


class RejectsHigh:
    """Rejects a gang that is next because of a pod that finds no node."""

    name = "RejectsHigh"

    def post_filter(self, state: CycleView, pod: Pod, reason: str, *, now: float) -> Any:
        return RejectGroup(group_key("default", "high"), "later") if pod.name == "x" else SKIP


def test_gang_that_is_known_to_find_no_node_takes_no_quota_from_the_next_gang() -> None:
    """``high`` is parked without a try: ``like``, which asks for the same, has just failed."""
    story = limited(partial(presets.gang, plugins=[RejectsHigh()]))
    gang(story, "a", 4)
    running(story)
    unfit = {"cpu": 1, GPU: 10}
    gang(story, "high", 3, priority=5, requests=unfit)
    gang(story, "low", 3)
    end(story, "a", 4)
    story.add(make_pod("x", cpu=99, priority=9))
    gang(story, "like", 3, priority=7, requests=unfit, namespace="other")
    assert running(story) == {"low"}


def test_min_resources_are_charged_if_they_are_given() -> None:
    story = limited()
    gang(story, "a", 2, min_resources={"cpu": 4})
    gang(story, "b", 1)
    assert running(story) == {"a"}
    assert "used cpu=4" in str(story.scheduler.why("default/b"))


def test_min_resources_below_what_members_request_do_not_reduce_the_charge() -> None:
    story = limited()
    gang(story, "a", 3, min_resources={"cpu": 1}, requests={"cpu": 2})
    gang(story, "b", 1)
    assert running(story) == {"b"}


def test_admitted_gang_that_asks_for_too_much_by_now_is_not_charged() -> None:
    story = limited()
    gang(story, "a", 3)
    story.add(make_pod("a-3", group="a", cpu=1), make_pod("a-4", group="a", cpu=1))
    story.tell(PodGroupUpdated(PodGroup(name="a", min_available=5)))
    gang(story, "b", 4)
    assert running(story) == {"b"}


@both
def test_replaced_members_count_until_they_have_left_their_nodes(make: Any) -> None:
    story = limited(make)
    gang(story, "a", 3)
    running(story)
    for number in range(3):
        story.update(f"a-{number}", deleted_at=story.now)
        story.add(make_pod(f"a-{number}x", group="a", cpu=1))
    story.decide()
    assert len(story.bound) == 3
    end(story, "a", 3)
    story.run(until=60.0)
    assert {*story.bound} == {"a-0x", "a-1x", "a-2x"}


@pytest.mark.parametrize("used", [0, 3])
def test_gang_of_more_than_the_whole_quota_is_told_so_and_blocks_no_other(used: int) -> None:
    story = limited()
    if used:
        gang(story, "a", used)
        running(story)
    gang(story, "huge", 5)
    gang(story, "b", 1)
    assert running(story) == ({"a", "b"} if used else {"b"})
    why = str(story.scheduler.why("default/huge"))
    assert why.endswith("limited cpu=4; it is more than the whole quota")


def test_gang_that_finds_no_node_is_not_charged() -> None:
    story = limited(cpus=2)
    gang(story, "a", 3)
    gang(story, "b", 2)
    assert running(story) == {"b"}


def test_every_quota_of_a_namespace_counts_and_the_first_that_is_exceeded_is_named() -> None:
    wide = Quota(name="both", namespaces=["default", "other"], hard={"cpu": 6})
    story = limited(presets.gang, wide, QUOTA)
    gang(story, "there", 4, namespace="other")
    gang(story, "free", 9, namespace="third")
    gang(story, "a", 3)
    gang(story, "memory", 1, requests={"memory": "9Gi"})
    assert running(story) == {"there", "free"}
    assert "exceeded quota both: requested cpu=3, used cpu=4" in str(
        story.scheduler.why("default/a")
    )
    gang(story, "huge", 5)
    assert "exceeded quota both" in str(story.scheduler.why("default/huge"))


@pytest.mark.parametrize("failed", [False, True])
def test_restarted_gang_keeps_its_charge_until_its_backoff_is_over(failed: bool) -> None:
    story = limited()
    gang(story, "a", 3, restart=RestartPolicy(backoff=10.0))
    gang(story, "b", 2)
    running(story)
    if failed:
        story.update("a-0", phase=PodPhase.FAILED)
    else:
        story.delete("a-0")
    story.run(until=1.0)
    assert {each.uid for each in story.of(Evict)} >= {"default/a-1", "default/a-2"}
    assert running(story) == set()
    if failed:  # its controller creates it again
        story.delete("a-0")
        story.add(*(make_pod(f"a-{number}x", group="a", cpu=1) for number in range(3)))
    story.run(until=11.0)
    assert running(story) == ({"a"} if failed else {"b"})


def test_bundle_is_charged_as_a_whole() -> None:
    story = limited()
    bundle = ["default/x", "default/y"]
    gang(story, "a", 1)
    gang(story, "x", 2, bundle=bundle)
    gang(story, "y", 2, bundle=bundle)
    assert running(story) == {"a"}
    story.delete("a-0")
    assert running(story) == {"x", "y"}


@both
@pytest.mark.parametrize("way", list(Way))
def test_charges_and_waiting_gangs_outlive_a_restart(make: Any, way: Way) -> None:
    story = limited(make, way=way)
    gang(story, "a", 3)
    running(story)
    gang(story, "b", 2, priority=9)
    running(story)
    story.interrupt()
    assert running(story) == {"a"}
    end(story, "a", 3)
    assert running(story) == {"b"}


@pytest.mark.parametrize("left", [[], [evolve(QUOTA, namespaces=["other"])]], ids=["gone", "other"])
def test_snapshot_is_read_after_its_quota_was_taken_away(left: list[Quota]) -> None:
    """One gang is charged, and one waits for the quota."""
    story = limited()
    gang(story, "a", 3)
    gang(story, "b", 2)
    assert running(story) == {"a"}
    data = story.scheduler.snapshot()
    assert {"charges", "over_quota"} <= set(data)
    story.scheduler = presets.gang(story.cluster, quotas=left)
    story.scheduler.restore(data)
    story.scheduler.rebuild(now=story.now)
    assert running(story) == {"a", "b"}
    again = presets.gang(story.cluster, quotas=[QUOTA])
    again.restore(story.scheduler.snapshot())  # and the quota comes back
    again.rebuild(now=story.now)
    assert "charges" in again.snapshot()


def test_gang_that_another_scheduler_has_bound_is_charged_and_regular_pods_are_not() -> None:
    story = limited()
    story.add(*(make_pod(f"single-{number}", cpu=1) for number in range(6)))
    pod = make_pod("other-0", group="other", min_available=1, cpu=3)
    story.add(evolve(pod, node_name=NodeName("n")))
    gang(story, "a", 2)
    assert running(story) == {"other", "single"}
    story.delete("other-0")
    assert running(story) == {"a", "single"}


def test_gang_with_one_member_on_a_node_is_charged_what_its_minimum_needs() -> None:
    story = limited()
    story.tell(PodGroupAdded(PodGroup(name="a", min_available=3, min_resources={"cpu": 3})))
    story.add(evolve(make_pod("a-0", group="a", cpu=1), node_name=NodeName("n")))
    gang(story, "b", 2)
    assert running(story) == {"a"}
    assert story.scheduler.why("default/b") == NotAdmitted(REASON)


def test_gang_is_charged_until_its_last_old_member_has_left_its_node() -> None:
    story = limited()
    gang(story, "a", 3)
    running(story)
    story.delete("a-0", "a-1")
    story.update("a-2", deleted_at=story.now)
    gang(story, "b", 2)
    assert running(story) == {"a"}
    story.delete("a-2")
    assert running(story) == {"b"}


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_gang_that_is_partly_bound_is_charged_for_its_members_without_gates(bound: int) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=9)))
    for name, size in (("first", 3), ("second", 2)):
        cluster.apply(PodGroupAdded(PodGroup(name=name, min_available=size)))
        for n in range(5):
            pod = make_pod(f"{name}-{n}", group=name, cpu=1, created_at=float(name == "second"))
            on = "n" if name == "first" and n < bound else None
            gates = ("wait",) if n >= size else ()
            cluster.apply(PodAdded(evolve(pod, node_name=on, scheduling_gates=gates)))
    scheduler = presets.gang(cluster, quotas=[QUOTA])
    scheduler.advance(now=2.0)
    while scheduler.schedule_one(now=2.0) is not None:
        pass
    scheduler._check()
    assert str(scheduler.why("default/second")) == f"not admitted: {REASON}"


# A quota may limit a resource to zero, as a ResourceQuota of Kubernetes

NO_GPU = Quota(name="q", namespaces=["default"], hard={GPU: 0, "cpu": 8})


@pytest.mark.parametrize("hard", [{GPU: 0, "cpu": 8}, {GPU: "0"}])
def test_gang_that_requests_what_is_limited_to_zero_is_not_admitted(hard: dict[str, Any]) -> None:
    story = limited(presets.gang, evolve(NO_GPU, hard=hard))
    gang(story, "g", 2, requests={"cpu": 1, GPU: 1})
    gang(story, "without", 2)
    assert running(story) == {"without"}
    why = str(story.scheduler.why("default/g"))
    assert f"requested {GPU}=2, used {GPU}=0, limited {GPU}=0" in why


def test_limit_of_zero_is_kept_by_copies_and_text() -> None:
    others = (copy.deepcopy(NO_GPU), pickle.loads(pickle.dumps(NO_GPU)), eval(repr(NO_GPU)))
    for other in (evolve(NO_GPU, name="q"), *others):
        assert other == NO_GPU
        assert dict(other.hard) == {GPU: 0, "cpu": 8000}


# A restored scheduler tries again what its quotas refused, and what its plugins did if told to.
#
# The cluster has not changed, so no event says that anything may fit now.


class Limited:
    """Lets at most so many pods hold a node, and refuses the others at the point of its name."""

    name = "Limited"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def answer(self, used: int) -> Outcome:
        is_free = used < self.limit
        return Success() if is_free else Unschedulable(f"{self.limit} pods", resolvable=False)


class AtFilter(Limited):
    def reads_pods(self, pod: Pod) -> bool:
        return True

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return self.answer(sum(len(each.pods) for each in state.nodes.values()))


class Signed(AtFilter):
    def pod_signature(self, pod: Pod) -> None:
        return None

    def node_signature(self, node: NodeView) -> None:
        return None


class AtPreEnqueue(Limited):
    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Outcome:
        return self.answer(2)


class AtReserve(Limited):
    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        return self.answer(2)

    def unreserve(self, state: CycleView, pod: Pod, node: str, *, cause: str, now: float) -> None:
        pass


Maker: TypeAlias = Callable[[Any, int], Scheduler]


def with_quota(cluster: Any, limit: int) -> Scheduler:
    return presets.gang(cluster, quotas=[evolve(QUOTA, hard={"cpu": limit})])


def with_plugin(kind: Callable[[int], object]) -> Maker:
    return lambda cluster, limit: presets.gang(cluster, plugins=[kind(limit)])


MAKERS = [with_quota, *map(with_plugin, (AtFilter, AtPreEnqueue, AtReserve))]


def refused(make: Maker, limit: int = 2, cpu: int = 4) -> Story:
    """Return a story with a gang of 3 that a limit of 2 refuses."""
    story = Story(lambda cluster: make(cluster, limit))
    story.tell(NodeAdded(make_node("n", allocatable={"cpu": cpu, "pods": 9})))
    story.gang("g", 3)
    assert running(story) == set()
    story.effects.clear()
    return story


@pytest.mark.parametrize("limit", [2, 3])
@pytest.mark.parametrize("make", MAKERS, ids=["quota", "filter", "pre_enqueue", "reserve"])
def test_refused_gang_starts_if_the_limit_was_raised_at_a_restart(make: Maker, limit: int) -> None:
    story = refused(make)
    data = json.loads(json.dumps(story.scheduler.snapshot()))
    story.scheduler = make(story.cluster, limit)
    story.scheduler.restore(data, retry_refused=make is not with_quota or limit == 2)
    assert story.scheduler.snapshot() == data
    story.scheduler.rebuild(now=50.0)
    story.now = 50.0
    assert running(story) == ({"g"} if limit == 3 else set())
    # once, and not again with the next listing
    is_tried = limit == 2 and make not in (with_quota, MAKERS[2])
    assert len(story.of(GroupRejected)) == is_tried
    story.scheduler.rebuild(now=51.0)
    assert story.scheduler.schedule_one(now=51.0) is None


@pytest.mark.parametrize(("make", "cpu"), [(with_plugin(Signed), 2), (MAKERS[1], 4)])
def test_refused_gang_is_not_tried_at_a_restart_if_it_lacks_capacity_or_none_asks_for_it(
    make: Maker, cpu: int
) -> None:
    story = refused(make, 9 if cpu == 2 else 2, cpu)
    again = make(story.cluster, 9 if cpu == 2 else 2)
    again.restore(story.scheduler.snapshot(), retry_refused=cpu == 2)
    again.rebuild(now=0.5)
    assert again.schedule_one(now=0.5) is None
    assert isinstance(again.why("default/g", budget=0), NoNodeFits)


# Quotas as values, in the configuration file, and in a decision log

TEAM = {"name": "team", "namespaces": ["a", "b"], "hard": {"cpu": 4, "memory": "1Gi"}}


def test_quotas_are_read_and_given_to_the_scheduler() -> None:
    row = {**TEAM, "namespaces": ["default"]}
    settings = read_settings({"quotas": [row]})
    assert settings.quotas == (evolve(QUOTA, hard={"cpu": 4, "memory": "1Gi"}),)
    story = Story(lambda cluster: make_scheduler(settings, cluster))
    story.gang("g", 5)
    assert "exceeded quota team" in str(story.scheduler.why("default/g"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": 1}, "name"),
        ({"namespaces": []}, "namespaces"),
        ({"namespaces": "a"}, "namespaces"),
        ({"namespaces": [""]}, "namespaces"),
        ({"hard": {}}, "hard"),
        ({"hard": 3}, "hard"),
        ({"hard": {"cpu": "many"}}, r"hard\.cpu"),
        ({"hard": {"cpu": -1}}, r"hard\.cpu"),
        ({"soft": {"cpu": 1}}, "soft"),
    ],
    ids=repr,
)
def test_malformed_quota_is_refused_with_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError, match=rf"quotas\[0\]\.{field}"):
        read_settings({"quotas": [{**TEAM, **change}]})
    if "soft" not in change:
        given: Any = {**TEAM, **change}
        with pytest.raises(InvalidValueError, match=field.rpartition(r"\.")[2]):
            Quota(**given)


def test_quotas_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"quotas\[1\]\.name"):
        read_settings({"quotas": [TEAM, TEAM]})
    wrong: Any
    for wrong in ([QUOTA, QUOTA], [3], 3):
        with pytest.raises(InvalidValueError, match="quotas"):
            presets.gang(InMemoryCluster(), quotas=wrong)


def test_decision_log_has_the_quotas() -> None:
    lines: list[str] = []
    recipe = Recipe("gang", quotas=[QUOTA, NO_GPU])
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    cluster = InMemoryCluster()
    scheduler = DecisionLog(lines.append, recipe).scheduler(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=9))), now=0.0)
    for number in range(5):
        pod = make_pod(f"a-{number}", group="a", min_available=5, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    assert scheduler.schedule_one(now=0.0) is None, "it exceeds the quota"
    assert replay(lines) is None
