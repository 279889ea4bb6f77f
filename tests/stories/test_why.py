"""``why`` of what is pending has the reason of now, or says as of when its reason is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Coscheduling,
    Event,
    GroupKey,
    MatchPolicy,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodUID,
    Scheduler,
    Success,
    Taint,
    gang,
    presets,
)
from gangsched.drivers.host import Host, Job
from gangsched.explain import BackingOff, NoNodeFits, OnPermit, PartlyRunning, Running, in_utc
from gangsched.outcomes import SUCCESS
from gangsched.testing import make_pod
from support.story import Story, Way, each_way

MakeScheduler = Callable[..., Scheduler]

each_preset = pytest.mark.parametrize(
    "make",
    [
        presets.gang,
        presets.coscheduling,
        partial(presets.kube_default, policy=Coscheduling()),
    ],
    ids=["gang", "coscheduling", "kube_default"],
)

SECONDS = 120.0
"""Only a hang reaches it."""


def node(name: str, cpu: int = 1, **fields: Any) -> Node:
    return Node(name=NodeName(name), allocatable={"cpu": cpu, "pods": 10}, **fields)


def parked_gang(make: MakeScheduler, way: Way = Way.LIVE) -> Story:
    """A gang of three with two nodes, which has failed and is parked."""
    story = Story(make, way)
    story.tell(NodeAdded(node("n0")), NodeAdded(node("n1")))
    story.gang("g", 3)
    story.run(until=100.0)
    assert isinstance(story.scheduler.why("default/g"), NoNodeFits)
    story.interrupt()
    story.run(until=200.0)
    return story


EVENTS: dict[str, tuple[Event, str]] = {
    "a node is deleted": (NodeDeleted(NodeName("n1")), "0/1 nodes|at most 1 of 3"),
    "a node is cordoned": (
        NodeUpdated(node("n1", unschedulable=True)),
        r"1 node\(s\) were unschedulable|at most 1 of 3",
    ),
    "a node is tainted": (
        NodeUpdated(node("n1", taints=(Taint("down"),))),
        r"1 node\(s\) had untolerated taint|at most 1 of 3",
    ),
    "a node is added that is too small": (
        NodeAdded(node("n2", 0)),
        "0/3 nodes|at most 2 of 3",
    ),
    "a pod takes a node": (
        PodAdded(evolve(make_pod("other", cpu=1), node_name=NodeName("n1"))),
        "0/2 nodes|at most 1 of 3",
    ),
}


@each_way
@each_preset
@pytest.mark.parametrize("name", EVENTS)
def test_why_of_a_parked_gang_has_the_reason_of_now(
    make: MakeScheduler, way: Way, name: str
) -> None:
    story = parked_gang(make, way)
    event, expected = EVENTS[name]
    story.tell(event)
    story.decide()  # an event that may help has it queued: "last attempt" stands for "as of"
    why = story.scheduler.why("default/g")
    assert isinstance(why, NoNodeFits | BackingOff | OnPermit)
    # pod by pod, the other members wait for the one that does not fit
    assert isinstance(why, OnPermit) or why.tried_at == story.now
    assert re.search(expected, str(why)), str(why)
    assert "as of" not in str(why)


class Stateful:
    """A plugin that cannot be forked, since it keeps state."""

    name = "Stateful"

    def __init__(self) -> None:
        self.seen: list[PodUID] = []

    def pre_filter(self, _state: object, pod: Pod, *, now: float) -> Success:
        self.seen.append(pod.uid)
        return SUCCESS


def test_reason_that_cannot_be_asked_anew_says_as_of_when_it_is() -> None:
    story = Story(lambda cluster: presets.gang(cluster, plugins=(Stateful(),)), now=5.0)
    story.tell(NodeAdded(node("n0")), NodeAdded(node("n1")))
    story.gang("g", 3)
    story.decide()
    story.tell(NodeDeleted(NodeName("n1")))
    why = story.scheduler.why("default/g")
    assert str(why).startswith("as of 5: pod default/g-")
    assert in_utc(why).startswith("as of 1970-01-01T00:00:05Z: pod default/g-")


@pytest.mark.parametrize("budget", [0, 1])
def test_reason_that_is_not_asked_anew_says_as_of_when_it_is(budget: int) -> None:
    story = parked_gang(presets.gang)
    story.tell(NodeDeleted(NodeName("n1")))
    why = story.scheduler.why("default/g", budget=budget)
    assert str(why).startswith("as of 0: pod default/g-")


def test_reasons_of_a_list_say_as_of_when_they_are() -> None:
    story = parked_gang(presets.gang)
    (pending,) = story.scheduler.pending()
    (group,) = story.scheduler.groups()
    for row in (pending, group):
        assert str(row.why).startswith("as of 0: pod default/g-")


def test_plugin_that_raises_leaves_the_last_reason() -> None:
    class Raises:
        name = "Raises"
        breaks = False

        def pre_filter(self, _state: object, _pod: Pod, *, now: float) -> Success:
            if self.breaks:
                raise RuntimeError("the cable is cut")
            return SUCCESS

    plugin = Raises()
    story = Story(lambda cluster: presets.gang(cluster, plugins=(plugin,)))
    story.tell(NodeAdded(node("n0")))
    story.gang("g", 2)
    story.decide()
    Raises.breaks = True
    assert str(story.scheduler.why("default/g")).startswith("as of 0: pod default/g-")


@each_preset
def test_gang_whose_members_terminate_while_they_are_bound_waits_for_others(
    make: MakeScheduler,
) -> None:
    story = Story(make, holds_binds=True)
    story.tell(NodeAdded(node("n", cpu=2)))
    story.gang("g", 2)
    story.decide()
    for name in ("g-0", "g-1"):
        story.update(name, deleted_at=story.now)
    said = "waiting for 2 more members: 0 of 2 exist, 2 more terminating"
    assert str(story.scheduler.why("default/g")) == said


def _until(host: Host, job: Job, text: str) -> str:
    """Ask until the events that were handed in before are in the answer."""
    until = time.monotonic() + SECONDS
    while text not in (answer := str(host.why(job))):
        assert time.monotonic() < until, answer
    return answer


def test_why_of_a_host_has_the_reason_of_now() -> None:
    with Host(start=lambda _pod, _node: None) as host:
        host.tell(NodeAdded(node("n0")), NodeAdded(node("n1")))
        job = host.submit(gang("train", workers=3, cpu=1))
        assert "at most 2 of 3 members fit" in _until(host, job, "at most")
        host.tell(NodeDeleted(NodeName("n1")))
        assert str(host.why(job)).endswith("at most 1 of 3 members fit: cpu is short")


@each_way
@each_preset
@pytest.mark.parametrize("match", list(MatchPolicy))
def test_gang_that_runs_is_never_said_to_wait_for_members(
    make: MakeScheduler, match: MatchPolicy, way: Way
) -> None:
    """Below its minimum it runs in part, whether or not this scheduler saw it start."""
    if isinstance(make, partial):
        make = partial(presets.kube_default, policy=Coscheduling(match_policy=match))
    else:
        make = partial(make, match_policy=match)
    story = Story(make, way)
    story.tell(NodeAdded(node("n", cpu=4)))
    story.gang("g", 3)
    story.run(until=1)
    story.interrupt()
    assert story.scheduler.why("default/g") == Running(None, 3)
    story.delete("g-1")
    story.interrupt()
    story.run(until=2)
    assert story.scheduler.why("default/g") == PartlyRunning(GroupKey("default/g"), 2, 3, None)
