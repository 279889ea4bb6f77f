"""``Scheduler.why`` for active entities, and for a gang that waits with a full quorum."""

from __future__ import annotations

import pytest

from gangsched import GroupKey, PodUID, Wait, explain
from support.busy import NOW, busy_scheduler
from support.faulty_gang import host

MISFIT = explain.UnschedulableMember(PodUID("default/other"), "default/other", "full", None)


def test_why_of_an_active_group_names_the_last_unschedulable_member() -> None:
    _cluster, scheduler = busy_scheduler()
    scheduler._state.pods.members[PodUID("default/active-0")].entity.unschedulable_member = MISFIT
    why = scheduler.why(PodUID("default/active-0"))
    assert isinstance(why, explain.Queued)
    assert (why.behind, why.unschedulable_member) == (None, MISFIT)


@pytest.mark.once("says itself which unit it is about")
def test_why_of_a_gang_held_by_another_plugin_has_no_missing_member() -> None:
    _cluster, scheduler, faulty = host("permit")
    faulty.answers["permit"] = Wait(9.0)
    scheduler.schedule_one(now=NOW)
    uids = tuple(PodUID(f"default/w-{number}") for number in range(3))
    expected = explain.OnPermit(uids, NOW, 0, NOW + 9.0, plugins=("FaultyPlugin",))
    assert scheduler.why(GroupKey("default/w")) == scheduler.why(uids[0]) == expected
