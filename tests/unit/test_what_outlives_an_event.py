"""What groups, attempts, nodes and bundles keep when members, nodes or groups change.

Each of these four facts was once left out without a test near the code noticing it.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    Event,
    Evict,
    GroupKey,
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
    PodUpdated,
    PodWaiting,
    Preemption,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    WhenBlocked,
    presets,
)
from gangsched.explain import BackingOff
from gangsched.testing import make_node, make_pod
from support.story import Story

G = GroupKey("default/g")


def tell(scheduler: Scheduler, cluster: InMemoryCluster, *events: Event, now: float) -> None:
    for event in events:
        scheduler.handle(cluster.apply(event), now=now)


class _Refuses:
    """Refuses every pod on permit, unless told otherwise."""

    name = "Refuses"
    refuses = True

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Unschedulable("not today") if self.refuses else Success()


def test_group_whose_members_are_recreated_within_its_grace_keeps_its_failures() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster, plugins=[_Refuses()])
    pods = [make_pod(f"g{n}", group="g", min_available=2, cpu=1) for n in range(2)]
    tell(scheduler, cluster, NodeAdded(make_node("n", cpu=2)), *map(PodAdded, pods), now=5.0)
    while scheduler.schedule_one(now=5.0) is not None:
        pass
    info = scheduler.registry.get(G)
    assert info is not None
    assert (info.failures, info.backoff_until) == (1, 6.0)
    tell(scheduler, cluster, *[PodDeleted(pod.uid) for pod in pods], now=5.0)
    fresh = [evolve(pod, uid=PodUID(f"{pod.uid}~2"), created_at=5.0) for pod in pods]
    tell(scheduler, cluster, *map(PodAdded, fresh), now=5.5)
    why = scheduler.why(G)
    assert isinstance(why, BackingOff), "it has its backoff"
    assert (why.until, why.attempts) == (6.0, 1)
    scheduler.advance(now=6.0)
    while scheduler.schedule_one(now=6.0) is not None:
        pass
    assert (info.failures, info.backoff_until) == (2, 8.0), "and the next is twice as long"


@pytest.mark.parametrize("late_fails", [False, True])
def test_group_that_has_started_begins_its_next_backoff_anew(late_fails: bool) -> None:
    plugin = _Refuses()
    story = Story(lambda cluster: presets.coscheduling(cluster, plugins=[plugin]))
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.gang("g", 2)
    story.run(until=1.0)
    assert story.scheduler.next_deadline() == 3.0, "it has failed twice"
    plugin.refuses, story.holds_binds = False, late_fails
    story.run(until=3.0)
    if late_fails:
        for name in ("g-0", "g-1"):
            story.finish_bind(next(bind for bind in story.binds if bind.uid == story.uid(name)))
        story.add(make_pod("g-2", group="g", min_available=2, cpu=1))
        story.decide()
        story.fail_bind("g-2")
        story.run(until=4.0)
        story.finish_binds()
    assert len(story.bound) == 2 + late_fails
    plugin.refuses = True
    story.delete(*story.bound)
    story.gang("g", 2)
    story.decide()
    assert story.scheduler.next_deadline() == story.now + 1.0


def test_group_whose_only_member_states_no_minimum_any_more_is_restored_the_same() -> None:
    def make() -> Scheduler:
        return Scheduler(cluster, presets.default_profile(), unit=SchedulingUnit.GROUP)

    cluster = InMemoryCluster()
    scheduler, again = make(), make()
    pod = make_pod("w", group="g", min_available=2, cpu=8)
    tell(scheduler, cluster, NodeAdded(make_node("a", cpu=4)), PodAdded(pod), now=0.0)
    scheduler.schedule_one(now=0.0)
    labels = {name: value for name, value in pod.labels.items() if value != "2"}
    tell(scheduler, cluster, PodUpdated(evolve(pod, priority=5, labels=labels)), now=1.0)
    scheduler.schedule_one(now=9.0)
    again.restore(scheduler.snapshot())
    assert again.snapshot() == scheduler.snapshot()


def test_time_of_an_attempt_begins_when_its_first_member_holds_a_node() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(
        cluster, permit_timeout=10.0, when_blocked=WhenBlocked.UNTIL_TIMEOUT
    )
    pods = [make_pod(name, group="g", min_available=2, cpu=c) for name, c in (("a", 9), ("b", 1))]
    pods.append(make_pod("c", group="g", min_available=2, cpu=9))
    tell(scheduler, cluster, NodeAdded(make_node("n", cpu=2)), *map(PodAdded, pods), now=0.0)
    scheduler.schedule_one(now=0.0)  # a finds no node
    effects = scheduler.schedule_one(now=4.0) or ()
    (waiting,) = (effect for effect in effects if isinstance(effect, PodWaiting))
    assert (waiting.uid, waiting.deadline) == ("default/b", 14.0)


def test_bundle_as_victim_has_the_highest_priority_of_its_groups() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    names = {"low": 1, "high": 5}
    bundle = tuple(GroupKey(f"default/{name}") for name in names)
    tell(scheduler, cluster, NodeAdded(make_node("n", cpu=2)), now=0.0)
    for name, priority in names.items():
        spec = PodGroup(name=name, min_available=1, bundle=bundle, priority=priority)
        pod = make_pod(f"{name}-0", group=name, cpu=1)  # the priority of the group decides
        bound = evolve(pod, node_name=NodeName("n"))
        tell(scheduler, cluster, PodGroupAdded(spec), PodAdded(bound), now=0.0)

    def evicted_for(priority: int) -> set[str]:
        pod = make_pod(f"p{priority}", cpu=1, priority=priority)
        tell(scheduler, cluster, PodAdded(pod), now=0.0)
        found: set[str] = set()
        while (effects := scheduler.schedule_one(now=0.0)) is not None:
            found |= {effect.uid for effect in effects if isinstance(effect, Evict)}
        return found

    assert evicted_for(3) == set(), "higher than one of its groups, lower than the other"
    assert evicted_for(6) == {"default/low-0", "default/high-0"}
