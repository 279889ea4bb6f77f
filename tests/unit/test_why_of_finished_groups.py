"""``why`` and ``groups`` tell a group that has finished from one that runs."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import (
    NodeAdded,
    PodAdded,
    PodPhase,
    PodUID,
    PodUpdated,
    presets,
)
from gangsched.explain import Finished, NotEnoughMembers, Running
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost


def started(least: int) -> ImmediateHost:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster)
    host.tell(NodeAdded(make_node("n", cpu=4)))
    for name in ("a", "b"):
        host.tell(PodAdded(make_pod(name, cpu=1, group="g", min_available=least)))
    host.decide()
    return host


def end(host: ImmediateHost, name: str, phase: PodPhase) -> None:
    pod = host.cluster.pod(PodUID(f"default/{name}"))
    assert pod is not None
    host.tell(PodUpdated(evolve(pod, phase=phase)))


@pytest.mark.parametrize("least", [1, 2])
def test_group_of_which_every_member_has_succeeded_is_finished(least: int) -> None:
    host = started(least)
    end(host, "a", PodPhase.SUCCEEDED)
    assert not isinstance(host.scheduler.why("default/g"), Finished)
    end(host, "b", PodPhase.SUCCEEDED)
    assert host.scheduler.why("default/g") == Finished(PodPhase.SUCCEEDED, 2)
    assert str(host.scheduler.groups()[0].why) == "finished: Succeeded"


@pytest.mark.parametrize("first", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_group_with_a_failed_member_and_too_few_others_waits_for_members(first: PodPhase) -> None:
    host = started(2)
    end(host, "a", first)
    end(host, "b", PodPhase.FAILED)
    assert isinstance(host.scheduler.why("default/g"), NotEnoughMembers)


def test_group_of_which_enough_members_have_succeeded_has_failed_if_another_failed() -> None:
    host = started(1)
    end(host, "a", PodPhase.SUCCEEDED)
    end(host, "b", PodPhase.FAILED)
    assert host.scheduler.why("default/g") == Finished(PodPhase.FAILED, 2)


def test_finished_group_with_a_new_member_is_pending_again() -> None:
    host = started(2)
    for name in ("a", "b"):
        end(host, name, PodPhase.FAILED)
    host.tell(PodAdded(make_pod("c", cpu=1, group="g", min_available=2)))
    assert not isinstance(host.scheduler.why("default/g"), Finished | Running)
