"""What Hypothesis prints of a drawn value is Python that makes the same value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty

import gangsched
from gangsched import Pod, PodAdded, cluster_objects, simulation
from gangsched.simulation import Arrival, Workload
from gangsched.strategies import (
    events,
    faults,
    nodes,
    pod_groups,
    pods,
    resources,
    roles,
    workloads,
)

NAMES = {
    name: getattr(module, name)
    for module in (gangsched, cluster_objects, simulation)
    for name in module.__all__
}
DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "events": events(),
    "faults": faults(),
    "nodes": nodes(),
    "pods": pods(),
    "pod_groups": pod_groups(),
    "groups with copies": pod_groups(roles=roles()),
    "resources": resources(),
    "workloads": workloads(),
    "workloads with copies": workloads(roles=roles()),
}


def printed(strategy: st.SearchStrategy[Any], number: int) -> tuple[Any, str]:
    """Return the value that is drawn as the *number*-th, and what is printed if it fails."""
    drawn: list[Any] = []

    @settings(max_examples=number, print_blob=False, phases=[Phase.generate])
    @seed(number)
    @given(strategy)
    def check(value: object) -> None:
        if len(drawn) < number:
            drawn.append(value)
        if len(drawn) == number and value == drawn[-1]:
            raise LookupError

    with pytest.raises(LookupError) as error:
        check()
    return drawn[-1], "\n".join(error.value.__notes__)


@pytest.mark.parametrize("what", DRAWN)
def test_printed_counterexample_makes_the_same_value(what: str) -> None:
    for number in (4, 5, 6, 7):
        value, text = printed(DRAWN[what], number)
        call = "check(" + text.partition("check(")[2]
        assert eval(call, {**NAMES, "check": lambda value: value}) == value


def test_printed_workload_has_one_arrival_a_line() -> None:
    pod = PodAdded(Pod(name="p", requests={"cpu": 1}))
    workload = Workload([Arrival(0.0, pod), Arrival(2.5, pod)], ["one sentence"])
    assert pretty(workload) == (
        "Workload([\n"
        "    Arrival(at=0.0, event=PodAdded(pod=Pod(name='p', requests={'cpu': '1'}))),\n"
        "    Arrival(at=2.5, event=PodAdded(pod=Pod(name='p', requests={'cpu': '1'}))),\n"
        "], skipped=('one sentence',))"
    )
    assert eval(pretty(workload), NAMES) == workload
