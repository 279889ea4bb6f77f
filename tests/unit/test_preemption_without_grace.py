"""A grace of 0: the victims of a simulated run leave at once, and free their nodes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from gangsched import (
    NodeAdded,
    Nominated,
    NominationLapsed,
    PodAdded,
    Preemption,
    Scheduler,
    presets,
)
from gangsched.cli import main
from gangsched.events import Effect, Event
from gangsched.model import FrozenMap
from gangsched.protocols import ClusterState
from gangsched.simulation import RUN_SECONDS, Arrival, Simulator
from gangsched.testing import make_node, make_pod

_TRACE: Final = """job,submit_s,workers,gpus_per_worker,duration_s,priority
a,0,1,1,100,0
b,90,1,1,100,10
"""
_MOST: Final = 50
"""More decisions than any run here needs."""


class _Notices:
    """The effects of a run; too many decisions fail the test instead of running without end."""

    def __init__(self) -> None:
        self.effects_seen: list[Effect] = []

    def event(self, event: Event, now: float) -> None:
        """Do nothing."""

    def effects(self, effects: Iterable[Effect], now: float) -> None:
        self.effects_seen += effects
        assert len(self.effects_seen) < 10 * _MOST, "effects without end"

    def settled(self, now: float) -> None:
        """Do nothing."""


def _pod(name: str, seconds: int, priority: int, group: str | None) -> PodAdded:
    minimum = None if group is None else 2
    pod = make_pod(name, cpu=1, priority=priority, group=group, min_available=minimum)
    noted = {**pod.annotations, RUN_SECONDS: str(seconds)}
    return PodAdded(evolve(pod, annotations=FrozenMap(noted)))


@pytest.mark.parametrize("policy", ["gang", "coscheduling", "pod_by_pod"])
@pytest.mark.parametrize("grace", [0.0, 60.0])
def test_preemptor_takes_the_nodes_of_victims_that_leave_at_once(policy: str, grace: float) -> None:
    def make(cluster: ClusterState) -> Scheduler:
        made = getattr(presets, policy)(cluster, preemption=Preemption(grace=grace))
        assert isinstance(made, Scheduler)
        return made

    notices = _Notices()
    arrivals = [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=1))) for n in range(2)]
    arrivals += [Arrival(0.0, _pod(f"low-{n}", 100, 0, None)) for n in range(2)]
    arrivals += [Arrival(90.0, _pod(f"high-{n}", 100, 10, "high")) for n in range(2)]
    run = Simulator(arrivals, make, observers=[notices])
    assert run.run() == 290.0
    assert run.decisions < _MOST
    victims = [each.victims for each in notices.effects_seen if isinstance(each, Nominated)]
    assert sorted(uid for each in victims for uid in each) == ["default/low-0", "default/low-1"]
    assert not [each for each in notices.effects_seen if isinstance(each, NominationLapsed)]


def test_trace_ends_with_a_configured_grace_of_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.csv").write_text(_TRACE)
    (tmp_path / "c.yaml").write_text(
        "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {graceSeconds: 0}}]}]\n"
    )
    arguments = ["--trace", str(tmp_path / "p.csv"), "--config", str(tmp_path / "c.yaml")]
    assert main(["simulate", *arguments, "--nodes", "1x1", "--detail", "summary"]) == 0
    assert "4m50s in 5 decisions" in capsys.readouterr().out
