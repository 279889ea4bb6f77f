"""The cycle of a whole gang, at its seams."""

from __future__ import annotations

from gangsched import (
    Bind,
    Effect,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
)
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod


class Moody:
    """Refuses a pod, or accepts it."""

    name = "Moody"

    def __init__(self) -> None:
        self.refused = ""

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        return Unschedulable("not now") if pod.name == self.refused else Success()


class OneEach:
    """Lets a node take one pod; it does not say what it reads of a pod."""

    name = "OneEach"

    def filter(self, state: object, pod: Pod, node: object) -> Outcome:
        count: int = getattr(node, "pod_count", 0)
        return Unschedulable("taken") if count else Success()


class Host:
    """A scheduler that decides about gangs, and its cluster."""

    def __init__(self, *plugins: object) -> None:
        self.cluster = InMemoryCluster()
        profile = Profile(Coscheduling(), *plugins, NodeResources(), DefaultBinder())
        self.scheduler = Scheduler(self.cluster, profile, unit=SchedulingUnit.GROUP)

    def tell(self, event: NodeAdded | PodAdded | PodGroupAdded) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def node(self, name: str, **offers: int) -> None:
        self.tell(NodeAdded(Node(name=NodeName(name), allocatable=offers)))

    def member(self, name: str, minimum: int | None = None, role: str = "", **asks: int) -> None:
        made = make_pod(name, group="g", min_available=minimum, role=role or None, requests=asks)
        self.tell(PodAdded(made))

    def decide(self, now: float = 0.0) -> tuple[Effect, ...]:
        effects = self.scheduler.schedule_one(now=now)
        self.scheduler._check()
        return effects or ()


def bound(effects: tuple[Effect, ...]) -> set[str]:
    return {effect.uid for effect in effects if isinstance(effect, Bind)}


def test_elastic_member_is_placed_where_the_minimum_needed_a_search() -> None:
    host = Host()
    host.node("small", cpu=4, memory=4)
    host.node("wide", cpu=8, memory=2)
    roles = {"server": 1, "worker": 1}
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles=roles)))
    for number in range(2):
        host.member(f"w{number}", role="worker", cpu=1, memory=1)
    host.member("server", role="server", cpu=4, memory=4)
    assert bound(host.decide()) == {"default/w0", "default/w1", "default/server"}


def test_gang_with_one_refused_member_is_tried_again_as_a_whole() -> None:
    moody = Moody()
    host = Host(moody)
    host.node("n", cpu=4)
    for number in range(3):
        host.member(f"p{number}", 3, cpu=1)
    moody.refused = "p1"
    assert not bound(host.decide())
    (entity,) = host.scheduler.queue.backoff
    assert entity.ready_count == len(entity) == 3
    moody.refused = ""
    assert len(bound(host.decide(now=entity.backoff_until))) == 3


def test_members_without_signature_are_each_evaluated_alone() -> None:
    host = Host(OneEach())
    for number in range(3):
        host.node(f"n{number}", cpu=4)
        host.member(f"p{number}", 3, cpu=1)
    effects = host.decide()
    assert len({effect.node for effect in effects if isinstance(effect, Bind)}) == 3


def test_gangs_that_fail_on_a_cluster_that_never_changes_leave_nothing_behind() -> None:
    """F38: what nodes would have become is forgotten, though no node ever changes."""
    host = Host()
    for number in range(4):
        host.node(f"n{number}", cpu=10_000, memory=10_000)
    classes = host.scheduler._state.nodes.classes
    for number in range(60):
        now = 100.0 * number
        uids = []
        for k in range(6):
            asks = {"cpu": 7000 + 3 * number + k, "memory": 1000 + 7 * number + k}
            pod = make_pod(f"p{number}-{k}", group=f"g{number}", min_available=6, requests=asks)
            host.scheduler.handle(host.cluster.apply(PodAdded(pod)), now=now)
            uids.append(pod.uid)
        assert not bound(host.decide(now=now))
        for uid in uids:
            host.scheduler.handle(host.cluster.apply(PodDeleted(uid)), now=now)
        assert len(classes._known) < 400
