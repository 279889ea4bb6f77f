"""The clock of the drivers: seconds since 1970, as Kubernetes objects have them, held monotone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Backoff,
    NodeAdded,
    NodeUpdated,
    PodAdded,
    presets,
)
from gangsched.drivers import EpochClock, epoch_seconds
from gangsched.testing import make_node, make_pod
from support.shells import SHELLS, Shell

both = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())


@both
def test_gang_that_failed_goes_after_a_gang_that_was_created_before_the_failure(
    shell: type[Shell],
) -> None:
    """The queue compares the instant of a failure with the creation time of newer gangs."""
    now = time.time()
    run = shell(lambda cluster: presets.gang(cluster, backoff=Backoff(initial=1e-3)))
    old, new = (
        [
            PodAdded(make_pod(f"{name}-{n}", group=name, min_available=2, cpu=1, created_at=at))
            for n in range(2)
        ]
        for name, at in (("old", now - 100), ("new", now - 50))
    )
    run.run(NodeAdded(make_node("n0", cpu=1)), *old)
    time.sleep(2e-3)  # the backoff ends
    run.run(*new, NodeUpdated(make_node("n0", cpu=2)))
    assert sorted(run.placed()) == ["default/new-0", "default/new-1"]


# The clock itself -------------------------------------------------------------------------------


class Clocks:
    """A wall clock and a steady clock that are set by hand."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_800_000_000.0, 50.0
        self.clock = EpochClock(wall=lambda: self.wall, steady=lambda: self.steady)

    def pass_seconds(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_clock_reads_seconds_since_1970() -> None:
    clocks = Clocks()
    assert clocks.clock() == 1_800_000_000.0
    clocks.pass_seconds(5.0)
    assert clocks.clock() == 1_800_000_005.0
    assert epoch_seconds() == pytest.approx(time.time(), abs=60)


def test_clock_goes_on_while_the_wall_clock_is_set_back() -> None:
    clocks = Clocks()
    clocks.wall -= 3600.0
    assert clocks.clock() == 1_800_000_000.0
    clocks.pass_seconds(5.0)
    assert clocks.clock() == 1_800_000_005.0


def test_clock_follows_the_wall_clock_after_a_suspension_of_the_machine() -> None:
    clocks = Clocks()
    clocks.wall += 3600.0
    assert clocks.clock() == 1_800_003_600.0
    clocks.pass_seconds(1.0)
    assert clocks.clock() == 1_800_003_601.0


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(0, 1e3)), max_size=30))
def test_clock_never_goes_back_and_never_stalls(steps: list[tuple[float, float]]) -> None:
    clocks = Clocks()
    read = clocks.clock()
    for jump, seconds in steps:
        clocks.wall += jump
        clocks.pass_seconds(seconds)
        again = clocks.clock()
        assert again >= read
        assert again - read >= seconds - 1e-3
        assert again >= clocks.wall
        read = again
