"""``PodUnschedulable`` for every pending member of a gang, and only when its reason changes."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Backoff,
    Effect,
    Event,
    GroupIncomplete,
    GroupKey,
    GroupRejected,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUnschedulable,
    Resources,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod

LARGE = make_node("n", cpu=7)
MAKERS = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


class Host:
    def __init__(self, make: Any = presets.gang, **how: Any) -> None:
        self.cluster, self.now = InMemoryCluster(), 0.0
        self.scheduler: Scheduler = make(self.cluster, **how)

    def tell(self, *events: Event) -> list[Effect]:
        """Apply events and decide until nothing is left; return all effects."""
        found: list[Effect] = []
        for event in events:
            found += self.scheduler.handle(self.cluster.apply(event), now=self.now)
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            found += effects
        self.scheduler._check()
        return found

    def wait(self) -> list[Effect]:
        due = self.scheduler.next_deadline()
        assert due is not None
        self.now = due
        return [*self.scheduler.advance(now=due), *self.tell()]


def told(effects: list[Effect]) -> dict[str, list[str]]:
    """Return the reasons that pods were told, by name."""
    found: dict[str, list[str]] = {}
    for effect in effects:
        if isinstance(effect, PodUnschedulable):
            found.setdefault(effect.uid.partition("/")[2], []).append(effect.reason)
    return found


def gang(count: int) -> list[Event]:
    names = (f"g{number}" for number in range(count))
    return [PodAdded(make_pod(name, group="g", min_available=count, cpu=1)) for name in names]


def in_pieces(make: Any) -> Host:
    """Return a host where a gang of three fails: its CPUs are free in pieces too small."""
    host = Host(make, backoff=Backoff(1.0, 1.0))
    sizes = {"g0": 6, "g1": 2, "g2": 2}
    pods = [make_pod(name, group="g", min_available=3, cpu=cpu) for name, cpu in sizes.items()]
    host.tell(*[NodeAdded(make_node(f"m{number}", cpu=1)) for number in range(3)])
    host.tell(NodeAdded(LARGE), *map(PodAdded, pods))
    return host


def anew(host: Host, node: Node) -> list[Effect]:
    """Let a node be replaced, after the backoff of the gang and its waits on permit."""
    host.now += 60.0
    effects = list(host.scheduler.advance(now=host.now))
    host.tell(NodeDeleted(node.name))
    effects += host.tell(NodeAdded(node))
    host.now += 60.0
    return [*effects, *host.scheduler.advance(now=host.now)]


@MAKERS
def test_every_pending_member_of_a_gang_that_fails_is_told(make: Any) -> None:
    host = in_pieces(make)
    effects = anew(host, LARGE)
    (rejected, *_more) = (effect for effect in effects if isinstance(effect, GroupRejected))
    members = host.scheduler._state.pods.members
    told_last = {member.pod.name: member.told for member in members.values()}
    assert told_last.keys() == {"g0", "g1", "g2"}
    assert not any("incomplete" in reason for reason in told_last.values())
    assert rejected.reason in told_last.values(), "and the group has a notice of its own"


@MAKERS
def test_gang_that_keeps_failing_for_one_reason_is_told_once(make: Any) -> None:
    host = in_pieces(make)
    anew(host, LARGE)
    again = anew(host, LARGE) + anew(host, LARGE)
    assert sum(isinstance(effect, GroupRejected) for effect in again) == 2
    assert [len(reasons) for reasons in told(again).values()] == [2], "the member that was tried"


def test_gang_that_fails_for_another_reason_is_told_so() -> None:
    host = in_pieces(presets.gang)
    assert len(told(anew(host, LARGE))) == 1, "the member that was tried"
    spec = PodGroup(name="g", min_available=3, min_resources=Resources({"cpu": 99}))
    effects = host.tell(PodGroupAdded(spec)) + anew(host, LARGE)
    assert {*map(str, told(effects))} == {"g0", "g1", "g2"}
    assert {reason for said in told(effects).values() for reason in said} == {
        "resource gap: cpu=89"
    }


def test_waiting_siblings_of_a_member_that_found_no_node_are_told_when_they_lose_theirs() -> None:
    host = Host(presets.coscheduling)
    effects = host.tell(NodeAdded(make_node("n", cpu=2)), *gang(4))
    reasons = {name: said[-1] for name, said in told(effects).items()}
    assert reasons["g3"] == "pod default/g2 does not fit: " + reasons["g2"], "it was not tried"
    effects = host.wait()
    assert told(effects).keys() >= {"g0", "g1"}


def test_members_of_an_incomplete_gang_are_told_as_they_arrive() -> None:
    host = Host()
    one, two, three = gang(3)
    incomplete = "pod group default/g is incomplete"
    effects = host.tell(one)
    assert effects == [
        GroupIncomplete(GroupKey("default/g"), 1, 3),
        PodUnschedulable(PodUID("default/g0"), incomplete),
    ]
    assert told(host.tell(two)) == {"g1": [incomplete]}
    assert told(host.tell(two)) == {}, "a repeated event tells nothing"
    assert "incomplete" not in str(told(host.tell(three)))


def test_member_of_an_incomplete_gang_is_told_again_after_the_gang_failed() -> None:
    host = Host()
    host.tell(NodeAdded(make_node("n", cpu=1)), *gang(3))
    effects = host.tell(PodDeleted(PodUID("default/g2")))
    assert {name: said[-1] for name, said in told(effects).items()} == dict.fromkeys(
        ("g0", "g1"), "pod group default/g is incomplete"
    )


def test_every_member_is_told_when_a_group_comes_to_need_more() -> None:
    host = Host()
    pods = [make_pod(f"g{n}", group="g", cpu=1) for n in range(3)]
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    effects = host.tell(*[PodAdded(pod) for pod in pods])
    assert told(effects).keys() == {"g0", "g1", "g2"}


def test_member_that_arrives_costs_a_bounded_number_of_notices() -> None:
    host = Host()
    *most, _last = gang(200)
    counts = [sum(len(said) for said in told(host.tell(event)).values()) for event in most]
    assert counts == [1] * 199


def test_members_of_all_groups_of_a_bundle_are_told() -> None:
    host = Host()
    names = ("a", "b")
    bundle = tuple(GroupKey(f"default/{name}") for name in names)
    specs = [PodGroup(name=name, min_available=2, bundle=bundle) for name in names]
    pods = [PodAdded(make_pod(f"{name}{n}", group=name, cpu=1)) for name in names for n in range(2)]
    host.tell(NodeAdded(make_node("n", cpu=3)), *map(PodGroupAdded, specs))
    effects = host.tell(*pods)
    assert {name: said[-1] for name, said in told(effects).items()}.keys() == {
        *("a0", "a1", "b0", "b1")
    }
    assert all("waits for another" not in said[-1] for said in told(effects).values())


def test_snapshot_has_what_members_were_told() -> None:
    host = Host()
    host.tell(NodeAdded(make_node("n", cpu=2)), *gang(4))
    fresh = presets.gang(host.cluster)
    fresh.restore(host.scheduler.snapshot())
    due = fresh.next_deadline()
    event = NodeUpdated(make_node("n", cpu=3))
    host.cluster.apply(event)
    found: list[list[Effect]] = []
    for scheduler in (host.scheduler, fresh):
        host.scheduler, host.now = scheduler, 0.0
        effects = host.tell(event)
        host.now = due or 9.0
        found.append(effects + host.tell())
    assert found[0] == found[1]


def test_members_that_came_while_their_group_was_complete_are_told_once_it_is_not() -> None:
    host = Host()
    pods = [make_pod(f"g{n}", group="g", min_available=2, cpu=1) for n in range(4)]
    said: dict[str, list[str]] = {}
    for pod in pods:
        said |= told(list(host.scheduler.handle(host.cluster.apply(PodAdded(pod)), now=0.0)))
    assert said.keys() == {"g0"}
    spec = PodGroupAdded(PodGroup(name="g", min_available=9))
    effects = host.scheduler.handle(host.cluster.apply(spec), now=0.0)
    assert told(list(effects)).keys() == {"g1", "g2", "g3"}
