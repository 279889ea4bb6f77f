"""What is remembered of a pod: what it asks for, said once for all that are alike."""

from __future__ import annotations

from attrs import evolve

from gangsched._core._counters import MemberState
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.pods import Member
from gangsched.model import Pod
from support.entities import a_pod

FIRST = Pod(name="first", requests={"cpu": 1})
ALIKE = PodClass("alike", FIRST)


def member(pod: Pod) -> Member:
    return Member(pod, 1, a_pod(1), None, ALIKE, MemberState.UNSCHEDULED)


def test_member_with_the_requests_of_its_class_shares_them() -> None:
    pod = Pod(name="second", requests={"cpu": 1})
    assert pod.requests is not FIRST.requests
    assert member(pod).requests is FIRST.requests


def test_member_with_requests_unlike_its_class_keeps_its_own() -> None:
    """Where no plugin reads what is asked for, pods are alike that ask for different things."""
    pod = Pod(name="second", requests={"cpu": 2})
    assert member(pod).requests is pod.requests


def test_signature_is_computed_for_the_newer_version_of_a_pod() -> None:
    known = member(FIRST)
    newer = evolve(FIRST, requests={"cpu": 3})
    known.replace(newer)
    assert (known.pod, known.requests) == (newer, newer.requests)
    known.replace(FIRST)
    assert (known.pod, known.requests) == (FIRST, FIRST.requests)
