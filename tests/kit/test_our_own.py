"""Our own scheduler passes its own kit, in both units, with every fault that the kit knows."""

from __future__ import annotations

from functools import partial

import pytest

from gangsched import Layout, Unit, WhenBindFails, WhenBlocked, presets
from gangsched.testing import Terms, adapt, check_scheduler


@pytest.mark.parametrize("twice", [False, True], ids=["told-once", "told-twice"])
@pytest.mark.parametrize("unit", Unit, ids=lambda unit: unit.value)
def test_our_scheduler_keeps_the_laws_with_faults(unit: Unit, twice: bool) -> None:
    check_scheduler(adapt(partial(presets.coscheduling, unit=unit), twice=twice))


@pytest.mark.parametrize("when", WhenBlocked, ids=lambda when: when.value)
def test_it_does_whatever_it_does_when_it_is_blocked(when: WhenBlocked) -> None:
    check_scheduler(adapt(partial(presets.coscheduling, when_blocked=when)))


@pytest.mark.parametrize("unit", Unit, ids=lambda unit: unit.value)
def test_it_does_with_members_that_are_unlike_and_two_resources(unit: Unit) -> None:
    terms = Terms(unlike=True, resources=("cpu", "gpu"))
    check_scheduler(adapt(partial(presets.coscheduling, unit=unit)), terms=terms)


@pytest.mark.parametrize("layout", Layout, ids=lambda layout: layout.value)
def test_it_does_in_every_layout(layout: Layout) -> None:
    check_scheduler(adapt(partial(presets.gang, layout=layout)))


@pytest.mark.parametrize("unit", Unit, ids=lambda unit: unit.value)
def test_it_does_where_a_failed_bind_evicts_the_gang(unit: Unit) -> None:
    make = partial(presets.coscheduling, unit=unit, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    check_scheduler(adapt(make), terms=Terms(evicts=True))


def test_a_scheduler_without_gangs_does_not() -> None:
    with pytest.raises(AssertionError, match="law 1: gang g1 starts with 1"):
        check_scheduler(adapt(presets.pod_by_pod))
