"""Expected ends of pods: which run times are asked for, and the effect of a bad answer."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import define, field

from gangsched import Backfill, Pod, PodGroup, PodGroupAdded, Wait, group_key
from gangsched.errors import PluginError
from gangsched.framework.backfill import run_times as group_run_times
from gangsched.testing import make_pod
from support.backfill_host import EXACT, FaultyHost, Host, crowded
from support.faulty_plugin import OOPS, FaultyPlugin

POD = make_pod("p")


@define
class Asked:
    """Run times that remember what they were asked.

    Attributes:
        asked: The pod, when it started, and the instant.
    """

    asked: list[tuple[str, float | None, float]] = field(factory=list)

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        self.asked.append((pod.name, started_at, now))
        return None


@define
class Says:
    """Run times that return one value for all pods, or raise it."""

    answer: Any

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_expected_end_is_asked_of_started_pods_on_the_node() -> None:
    """A pod that only waits on permit is assumed to start now."""
    host = FaultyHost(FaultyPlugin("permit"), a=4)
    run_times = Asked()
    host.policy = Backfill(run_times)
    host.scheduler = host.make()
    host.now = 3.0
    host.pod("runs")
    host.decide()
    host.faulty.answers["permit"] = Wait(30.0)
    host.pod("waits")
    host.decide()
    assert group_run_times.ends(host.scheduler._state, 7.0) == {}
    assert run_times.asked == [("runs", 3.0, 7.0), ("waits", 7.0, 7.0)]


def test_expected_end_is_known_only_of_pods_with_a_run_time() -> None:
    host = Host(Backfill(EXACT, overdue_after=5.0), a=4)
    host.pod("known", 100)
    host.pod("unknown")
    host.decide()
    state = host.scheduler._state
    for now, is_known in ((0.0, True), (104.5, True), (105.0, False)):
        assert group_run_times.ends(state, now) == ({"default/known": 100.0} if is_known else {})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("soon", "returned 'soon'"), (math.inf, "returned inf"), (OOPS, f"raised {OOPS!r}")],
)
def test_bad_run_times_are_reported_with_the_pod_and_the_cause(
    answer: object, problem: str
) -> None:
    state = Host(Backfill(Says(answer)), a=2).scheduler._state
    assert group_run_times.end_of(state.reservations, state.call, POD, None, 0.0) == math.inf
    (error,) = state.call.deferred
    assert isinstance(error, PluginError)
    assert str(error) == f"plugin 'run_times' at expected_end for default/p: {problem}"
    assert error.__cause__ is (answer if isinstance(answer, Exception) else None)


@pytest.mark.parametrize(("seconds", "starts"), [(100, ["one-0", "two-0"]), (101, [])])
def test_all_members_of_a_bundle_must_end_in_time(seconds: int, starts: list[str]) -> None:
    host = crowded()
    bundle = (group_key("default", "one"), group_key("default", "two"))
    for name, runs in (("one", 50), ("two", seconds)):
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=1, bundle=bundle)))
        host.pod(f"{name}-0", runs, group=name)
    assert host.decide() == starts
