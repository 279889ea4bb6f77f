"""Law 9, from outside: whatever happened, its log makes it happen again, and notices a change."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from gangsched import Scheduler
from gangsched.replay import DecisionLog, replay
from gangsched.simulation import FaultPlan, Simulator, Workload, report
from gangsched.strategies import faults
from support.checked_scheduler import workloads
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import HistoryStep
from support.units import coscheduling
from support.world import World


def logged(workload: Workload, plan: FaultPlan) -> tuple[Simulator, list[str]]:
    lines: list[str] = []
    simulator = Simulator(workload, coscheduling, bind_seconds=1.0, faults=plan, log=lines.append)
    simulator.run()
    return simulator, lines


def _alter(effects: list[Any], index: int) -> list[Any]:
    """Return effects of which one is another, or is not there."""
    index %= len(effects)
    other = dict(effects[index])
    name = next((name for name in ("uid", "group") if name in other), None)
    if name is None or index % 2:
        return effects[:index] + effects[index + 1 :]
    return [*effects[:index], {**other, name: other[name] + "x"}, *effects[index + 1 :]]


@one_in(2)
@given(workloads(), faults(), st.integers(0, 200), st.integers(0, 5))
def test_log_of_a_run_makes_it_happen_again_and_diverges_where_it_was_altered(
    workload: Workload, plan: FaultPlan, place: int, index: int
) -> None:
    simulator, lines = logged(workload, plan)
    assert logged(workload, plan)[1] == lines, "byte for byte"
    assert replay(lines, coscheduling) is None
    again = Simulator.from_log(lines, coscheduling)
    again.run()
    again.jobs._check()
    assert again.divergence is None
    assert again.decisions == simulator.decisions
    pods, others = again.cluster.pods(), simulator.cluster.pods()
    assert {pod.uid: pod for pod in pods} == {pod.uid: pod for pod in others}

    told = [number for number, line in enumerate(lines) if json.loads(line).get("effects")]
    if told:
        number = told[place % len(told)]
        line = json.loads(lines[number])
        lines[number] = json.dumps({**line, "effects": _alter(line["effects"], index)}) + "\n"
        found = replay(lines, coscheduling)
        assert found is not None
        assert found.call.line == number + 1
        assert f"line {number + 1}: " in str(found)


@one_in(4)
@given(workloads())
def test_report_of_the_log_equals_the_report_of_the_run(workload: Workload) -> None:
    simulator, lines = logged(workload, FaultPlan())
    again = Simulator.from_log(lines, coscheduling)
    until = simulator.now + 10.0
    simulator.run(until=until)
    again.run(until=until)
    assert report(again, settings={}).to_dict() == report(simulator, settings={}).to_dict()


def _recorded(policy: Policy) -> tuple[World, list[str]]:
    lines: list[str] = []
    log = DecisionLog(lines.append, policy.make)
    driver = Driver(
        lambda cluster: cast("Scheduler", log.scheduler(cluster)),
        grouped=policy.gangs,
        match=policy.match_policy,
        together=policy.together,
        checked=False,
    )
    return World(driver), lines


@one_in(4)
@given(histories(), policies)
def test_any_history_under_any_policy_can_be_made_again(
    steps: list[HistoryStep], policy: Policy
) -> None:
    """Facts late, twice, out of order and never; binds that fail; restarts and listings."""
    recorded, lines = _recorded(policy)
    recorded.live(*steps).finish()
    found = replay(lines, policy.make)
    assert found is None, str(found)
    plain = policy.world()
    plain.driver.checked = False
    plain.live(*steps).finish()
    assert recorded.driver.log == plain.driver.log, "a log changes nothing"
