"""What is said of whoever may be tried at once, and of a gang that waits with nobody missing."""

from __future__ import annotations

import pytest

from gangsched import GroupKey, PodUID, Wait, explain
from support.busy import NOW, busy_scheduler
from support.odd_gang import host

MISFIT = explain.UnschedulableMember(PodUID("default/other"), "default/other", "full", None)


def test_who_is_to_be_tried_again_says_who_did_not_fit_when_it_was_tried_last() -> None:
    _cluster, scheduler = busy_scheduler()
    scheduler._state.members[PodUID("default/active-0")].entity.unschedulable_member = MISFIT
    why = scheduler.why(PodUID("default/active-0"))
    assert isinstance(why, explain.Queued)
    assert (why.behind, why.unschedulable_member) == (None, MISFIT)


@pytest.mark.once("says itself which unit it is about")
def test_a_gang_that_waits_for_a_plugin_alone_needs_nobody_more() -> None:
    _cluster, scheduler, odd = host("permit")
    odd.answers["permit"] = Wait(9.0)
    scheduler.schedule_one(now=NOW)
    uids = tuple(PodUID(f"default/w-{number}") for number in range(3))
    expected = explain.OnPermit(uids, NOW, 0, NOW + 9.0)
    assert scheduler.why(GroupKey("default/w")) == scheduler.why(uids[0]) == expected
