"""The grace of a victim begins with its ``Evict``, which is put off while its bind is under way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeVar

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Evict,
    InMemoryCluster,
    NodeAdded,
    Nominated,
    NominationLapsed,
    PodAdded,
    PodDeleted,
    PodUID,
    Preemption,
    presets,
)
from gangsched.cli import main
from gangsched.events import Effect, Event
from gangsched.testing import make_node, make_pod

T = TypeVar("T")

LOW: Final = PodUID("default/low")
HIGH: Final = PodUID("default/high")

_TRACE: Final = """job,submit_s,workers,gpus_per_worker,duration_s,priority
a,0,2,1,100,0
b,1,1,1,100,10
c,2,2,1,100,20
"""


class _Story:
    """A scheduler whose binds are reported by hand, on one node for one pod."""

    def __init__(self, grace: float) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster, preemption=Preemption(grace=grace))
        self.scheduler.allow_evictions()
        self.seen: list[Effect] = []
        self.tell(NodeAdded(make_node("n", cpu=1)), now=0.0)
        self.tell(PodAdded(make_pod("low", cpu=1)), now=0.0)
        (self.bind,) = (each for each in self.seen if isinstance(each, Bind))
        self.tell(PodAdded(make_pod("high", cpu=1, priority=5)), now=1.0)
        (self.nominated,) = self.told(Nominated)
        assert self.nominated.victims == (LOW,)
        assert not self.told(Evict)

    def told(self, kind: type[T]) -> list[T]:
        return [each for each in self.seen if isinstance(each, kind)]

    def tell(self, event: Event, *, now: float) -> None:
        self.cluster.apply(event)
        self.take(self.scheduler.handle(event, now=now))
        self.decide(now=now)

    def pass_time(self, *, now: float) -> None:
        self.take(self.scheduler.advance(now=now))
        self.decide(now=now)

    def decide(self, *, now: float) -> None:
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            self.take(effects)
        self.scheduler._check()

    def take(self, effects: Iterable[Effect]) -> None:
        self.seen += effects

    def ends_bind(self, *, now: float) -> None:
        self.tell(Bound(LOW, self.bind.node, self.bind.attempt), now=now)


@pytest.mark.parametrize("grace", [0.0, 10.0])
def test_nomination_outlasts_a_bind_that_is_longer_than_the_grace(grace: float) -> None:
    story = _Story(grace)
    assert story.scheduler.next_deadline() is None
    story.pass_time(now=100.0)
    assert not story.told(NominationLapsed)
    story.ends_bind(now=101.0)
    assert len(story.told(Evict)) == 1
    assert story.scheduler.next_deadline() == 101.0 + grace
    story.tell(PodDeleted(LOW), now=101.0 + grace)
    assert [each.uid for each in story.seen if isinstance(each, Bind)] == [LOW, HIGH]
    assert not story.told(NominationLapsed)


def test_victim_has_the_whole_grace_after_its_bind() -> None:
    story = _Story(10.0)
    story.ends_bind(now=8.0)
    story.pass_time(now=17.0)
    assert not story.told(NominationLapsed)
    story.pass_time(now=18.0)
    assert len(story.told(NominationLapsed)) == 1


def test_nomination_is_used_at_once_when_the_bind_of_its_victim_fails() -> None:
    story = _Story(10.0)
    story.pass_time(now=50.0)
    story.tell(BindFailed(LOW, story.bind.attempt, "refused"), now=51.0)
    assert not story.told(Evict)
    assert not story.told(NominationLapsed)
    assert story.told(Bind)[-1] == Bind(HIGH, story.bind.node, 1)


def test_awaited_bind_survives_a_restart_from_a_snapshot() -> None:
    story = _Story(10.0)
    snapshot = story.scheduler.snapshot()
    story.scheduler = presets.gang(story.cluster, preemption=Preemption(grace=10.0))
    story.scheduler.allow_evictions()
    story.scheduler.restore(snapshot)
    story.pass_time(now=100.0)
    assert not story.told(NominationLapsed)


@pytest.mark.parametrize("grace", [0, 60])
def test_grace_does_not_count_for_victims_that_leave_at_once(
    grace: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text(_TRACE)
    Path("c.yaml").write_text(
        "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {graceSeconds: "
        f"{grace}"
        "}}]}]\n"
    )
    words = ["--trace", "p.csv", "--config", "c.yaml", "--nodes", "1x2", "--bind-seconds", "5"]
    # a run without end would be cut off here, with thousands of decisions
    assert main(["simulate", *words, "--detail", "summary", "--until", "1h"]) == 0
    out = capsys.readouterr().out
    assert "preempted             2 pods" in out
    assert "in 10 decisions" in out
