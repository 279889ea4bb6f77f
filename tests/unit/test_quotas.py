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
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodNotAdmitted,
    PodPhase,
    PodUID,
    PodUnschedulable,
    Quota,
    ReclaimFrom,
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


@both
def test_regular_pods_are_charged_and_wait_as_gangs_do(make: Any) -> None:
    story = limited(make)
    story.add(*(make_pod(f"single-{number}", cpu=1) for number in range(6)))
    story.decide()
    assert {*story.bound} == {f"single-{number}" for number in range(4)}
    reason = "exceeded quota team: requested cpu=1, used cpu=4, limited cpu=4"
    told = {str(each.uid): each.reason for each in story.of(PodNotAdmitted)}
    assert told == {"default/single-4": reason, "default/single-5": reason}
    assert story.scheduler.why(PodUID("default/single-5")) == NotAdmitted(reason)
    gang(story, "a", 2, priority=5)
    assert running(story) == {"single"}
    story.delete("single-0")  # a gang that does not fit keeps no smaller one waiting
    assert running(story) == {"single"}
    assert {*story.bound} == {f"single-{number}" for number in range(1, 5)}
    story.delete("single-1", "single-2", "single-3", "single-4")
    assert running(story) == {"a", "single"}
    assert {*story.bound} == {"a-0", "a-1", "single-5"}


def test_what_another_scheduler_has_bound_is_charged() -> None:
    story = limited()
    pod = make_pod("other-0", group="other", min_available=1, cpu=2)
    story.add(evolve(pod, node_name=NodeName("n")))
    story.add(evolve(make_pod("single-0", cpu=1), node_name=NodeName("n")))
    gang(story, "a", 2)
    assert running(story) == {"other", "single"}
    assert story.scheduler.why("default/a") == NotAdmitted(REASON)
    story.delete("single-0")
    assert running(story) == {"a", "other"}


def test_bound_pods_may_exceed_a_quota_and_then_nothing_further_starts() -> None:
    story = limited()
    for number in range(6):
        story.add(evolve(make_pod(f"single-{number}", cpu=1), node_name=NodeName("n")))
    gang(story, "a", 1)
    assert running(story) == {"single"}
    end(story, "single", 2)
    assert running(story) == {"single"}
    story.delete("single-2")
    assert running(story) == {"a", "single"}


def test_regular_pod_that_ends_returns_its_charge() -> None:
    story = limited()
    story.add(make_pod("single-0", cpu=3))
    gang(story, "a", 2)
    assert running(story) == {"single"}
    story.update("single-0", phase=PodPhase.SUCCEEDED)
    assert running(story) == {"a"}


# Queues, which pods and groups name

LAB = Quota(name="lab", nominal={"cpu": 3})


def test_queue_without_namespaces_counts_the_pods_and_groups_that_name_it() -> None:
    story = limited(presets.gang, LAB)
    gang(story, "a", 2, queue="lab")
    gang(story, "free", 9)
    assert running(story) == {"a", "free"}
    gang(story, "b", 2, queue="lab", namespace="other")
    story.add(evolve(make_pod("single-0", cpu=1), queue="lab"))
    assert running(story) == {"a", "free", "single"}
    why = str(story.scheduler.why("other/b"))
    assert "exceeded quota lab: requested cpu=2, used cpu=3, limited cpu=3" in why
    end(story, "a", 2)
    assert running(story) == {"b", "free", "single"}


def test_group_names_its_queue_or_else_its_first_pod_does() -> None:
    other = Quota(name="desk", nominal={"cpu": 1})
    story = limited(presets.gang, LAB, other)
    story.tell(PodGroupAdded(PodGroup(name="a", min_available=1, queue="lab")))
    story.add(evolve(make_pod("a-0", group="a", cpu=2), queue="desk"))
    story.tell(PodGroupAdded(PodGroup(name="b", min_available=1)))
    story.add(evolve(make_pod("b-0", group="b", cpu=2), queue="desk"))
    assert running(story) == {"a"}
    assert "exceeded quota desk" in str(story.scheduler.why("default/b"))


@pytest.mark.parametrize("is_group", [False, True])
def test_pod_in_a_queue_that_does_not_exist_is_not_admitted(is_group: bool) -> None:
    org = Quota(name="org", nominal={"cpu": 9})
    story = limited(presets.gang, org, evolve(LAB, parent="org"))
    for queue, problem in (("typo", "does not exist"), ("org", "has queues below it")):
        group = f"g-{queue}" if is_group else None
        pod = make_pod(f"p-{queue}", group=group, min_available=1 if is_group else None, cpu=1)
        story.add(evolve(pod, queue=queue))
        assert running(story) == set()
        asked: Any = f"default/{group or pod.name}"
        assert story.scheduler.why(asked) == NotAdmitted(f"queue {queue} {problem}")


def test_queues_of_pods_mean_nothing_without_a_queue_among_the_quotas() -> None:
    story = limited()
    story.add(evolve(make_pod("single-0", cpu=1), queue="of another scheduler"))
    assert running(story) == {"single"}


def test_queue_borrows_what_its_sibling_does_not_use() -> None:
    org, desk = Quota(name="org"), Quota(name="desk", parent="org", nominal={"cpu": 3})
    story = limited(presets.gang, org, evolve(LAB, parent="org", borrow={"cpu": 2}), desk)
    gang(story, "a", 5, queue="lab")
    assert running(story) == {"a"}
    gang(story, "b", 2, queue="desk")
    gang(story, "c", 1, queue="lab")
    assert running(story) == {"a"}
    for name, limits in (("b", "cpu=2, used cpu=0, limited cpu=1"), ("c", "cpu=1, used cpu=5,")):
        queue = "desk" if name == "b" else "lab"
        why = str(story.scheduler.why(f"default/{name}"))
        assert f"exceeded quota {queue}: requested {limits}" in why
    end(story, "a", 5)
    assert running(story) == {"b", "c"}


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
QUEUE: dict[str, Any] = {
    "name": "lab",
    "parent": "org",
    "namespaces": ["c"],
    "nominal": {"cpu": 0, GPU: 4},
    "borrow": {GPU: "2"},
    "lend": {GPU: 0},
    "weight": 2.5,
    "reclaimFrom": "LowerPriority",
}
ORG = {"name": "org"}


def test_quotas_are_read_and_given_to_the_scheduler() -> None:
    row = {**TEAM, "namespaces": ["default"]}
    settings = read_settings({"quotas": [row]})
    assert settings.quotas == (evolve(QUOTA, hard={"cpu": 4, "memory": "1Gi"}),)
    story = Story(lambda cluster: make_scheduler(settings, cluster))
    story.gang("g", 5)
    assert "exceeded quota team" in str(story.scheduler.why("default/g"))


def test_queues_are_read_with_all_of_their_fields() -> None:
    """A child may stand before its parent."""
    assert read_settings({"quotas": [QUEUE, ORG]}).quotas == (
        Quota(
            name="lab",
            parent="org",
            namespaces=["c"],
            nominal={"cpu": 0, GPU: 4},
            borrow={GPU: 2},
            lend={GPU: 0},
            weight=2.5,
            reclaim_from=ReclaimFrom.LOWER,
        ),
        Quota(name="org"),
    )
    plain: Any = {"name": "q", "namespaces": [], "hard": {}, "nominal": None, "weight": 1}
    assert read_settings({"quotas": [plain]}).quotas == (Quota(name="q"),)


def test_history_is_read_and_given_to_the_scheduler() -> None:
    lab = {"name": "lab", "parent": "org", "namespaces": ["default"], "nominal": {}}
    desk = {"name": "desk", "parent": "org", "nominal": {"cpu": 4}}
    settings = read_settings({"quotas": [ORG, lab, desk], "history": "1m"})
    assert (settings.history, read_settings({}).history) == (60.0, None)
    cluster = InMemoryCluster()
    scheduler, pod = make_scheduler(settings, cluster), make_pod("p", cpu=2)
    for event in (NodeAdded(make_node("n", cpu=4)), PodAdded(pod)):
        scheduler.handle(cluster.apply(event), now=0.0)
    scheduler.schedule_one(now=0.0)
    scheduler.handle(cluster.apply(PodDeleted(pod.uid)), now=60.0)
    (row,) = (each for each in scheduler.quotas() if each.name == "lab")
    assert (row.share, row.past) == (0.0, 0.25), "it used half of the cluster, one half-life ago"


@pytest.mark.parametrize("history", [0, -1, "0s", "a day", True, []], ids=repr)
def test_history_that_is_no_positive_duration_is_refused(history: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^history must be a number of seconds >= 0.001"):
        read_settings({"history": history})


FIELDS = {"reclaimFrom": "reclaim_from"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": 1}, "name"),
        ({"namespaces": "a"}, "namespaces"),
        ({"namespaces": [""]}, "namespaces"),
        ({"hard": {}}, "hard"),
        ({"hard": 3}, "hard"),
        ({"hard": {"cpu": "many"}}, r"hard\.cpu"),
        ({"hard": {"cpu": -1}}, r"hard\.cpu"),
        ({"hard": {}, "weight": 1, "borrow": {"cpu": 1}}, "hard"),
        ({"parent": ""}, "parent"),
        ({"parent": 3}, "parent"),
        ({"nominal": 4}, "nominal"),
        ({"nominal": {"cpu": "many"}}, r"nominal\.cpu"),
        ({"nominal": {"cpu": -1}}, r"nominal\.cpu"),
        ({"borrow": {GPU: -1}}, r"borrow\.nvidia"),
        ({"borrow": [GPU]}, "borrow"),
        ({"lend": {"cpu": None}}, r"lend\.cpu"),
        ({"lend": "all"}, "lend"),
        ({"weight": -1}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": "2"}, "weight"),
        ({"weight": True}, "weight"),
        ({"reclaimFrom": "Lower"}, "reclaimFrom"),
        ({"soft": {"cpu": 1}}, "soft"),
        ({"reclaim_from": "Any"}, "reclaim_from"),
    ],
    ids=repr,
)
def test_malformed_quota_is_refused_with_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError, match=rf"^quotas\[0\]\.{field}"):
        read_settings({"quotas": [{**TEAM, **change}]})
    if change.keys() & {"soft", "reclaim_from"}:
        return
    given: Any = {FIELDS.get(name, name): value for name, value in {**TEAM, **change}.items()}
    with pytest.raises(InvalidValueError, match=FIELDS.get(field, field.rpartition(r"\.")[2])):
        Quota(**given)


def test_quota_needs_namespaces_or_limits_only_if_it_has_the_other() -> None:
    assert Quota(name="q").namespaces == ()
    assert Quota(name="q", hard={"cpu": 1}).hard
    more: Any
    for more in ({"nominal": {}}, {"parent": "org"}, {"weight": 0}):
        assert Quota(name="q", namespaces=["a"], **more).is_queue
    with pytest.raises(InvalidValueError, match=r"^hard must be at least one resource"):
        Quota(name="q", namespaces=["a"])


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("rows", "path", "said"),
    [
        ([named("lab", parent="orgs"), ORG], r"\[0\]\.parent", r"did you mean org\?\), got 'orgs'"),
        ([ORG, named("lab", parent="lab")], r"\[1\]\.parent", "below it: lab < lab, got 'lab'"),
        (
            [named("c", parent="a"), named("a", parent="b"), named("b", parent="a")],
            r"\[1\]\.parent",
            "no quota below it: a < b < a, got 'b'",
        ),
        (
            [named("lab", parent="org"), named("org", namespaces=["x"], hard={"cpu": 1})],
            r"\[1\]\.namespaces",
            r"as it is the parent of lab: pods are in queues below it, got \['x'\]",
        ),
        (
            [QUEUE, ORG, named("desk", namespaces=["d", "c"], weight=2)],
            r"\[2\]\.namespaces\[1\]",
            "that no other queue has: lab has it, got 'c'",
        ),
    ],
)
def test_quotas_that_make_up_no_tree_are_refused_with_a_path(
    rows: list[dict[str, Any]], path: str, said: str
) -> None:
    sentence = rf"^quotas{path} must be .*{said}"
    with pytest.raises(InvalidValueError, match=sentence):
        read_settings({"quotas": rows})
    quotas = [Quota(**{FIELDS.get(name, name): of for name, of in row.items()}) for row in rows]
    with pytest.raises(InvalidValueError, match=sentence):
        presets.gang(InMemoryCluster(), quotas=quotas)
    scheduler = presets.gang(InMemoryCluster())
    with pytest.raises(InvalidValueError, match=sentence):
        scheduler.set_quotas(quotas, now=0.0)


def test_namespace_may_have_several_caps_beside_its_queue() -> None:
    caps = [{**TEAM, "namespaces": ["c"]}, {**TEAM, "name": "more", "namespaces": ["c", "c"]}]
    assert len(read_settings({"quotas": [*caps, QUEUE, ORG]}).quotas) == 4


def test_quotas_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"quotas\[1\]\.name"):
        read_settings({"quotas": [TEAM, TEAM]})
    wrong: Any
    for wrong in ([QUOTA, QUOTA], [3], 3):
        with pytest.raises(InvalidValueError, match="quotas"):
            presets.gang(InMemoryCluster(), quotas=wrong)


def test_decision_log_has_the_quotas() -> None:
    lines: list[str] = []
    queues = read_settings({"quotas": [QUEUE, ORG]}).quotas
    recipe = Recipe("gang", quotas=[QUOTA, NO_GPU, *queues])
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    cluster = InMemoryCluster()
    scheduler = DecisionLog(lines.append, recipe).scheduler(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=9))), now=0.0)
    for number in range(5):
        pod = make_pod(f"a-{number}", group="a", min_available=5, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    assert scheduler.schedule_one(now=0.0) is None, "it exceeds the quota"
    assert replay(lines) is None
