"""A nomination in a snapshot may name a pod that is gone, by a number that no other pod has."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gangsched import InMemoryCluster, Preemption, Scheduler, presets
from gangsched.errors import InvalidValueError
from support.restored import posted
from support.snapshots import nominating_scheduler


def saved() -> tuple[InMemoryCluster, dict[str, Any]]:
    scheduler = nominating_scheduler()
    cluster = cast("InMemoryCluster", scheduler._state.settings.cluster)
    return cluster, posted(scheduler.snapshot())


def made(cluster: InMemoryCluster) -> Scheduler:
    return presets.coscheduling(cluster, preemption=Preemption())


def test_number_that_no_pod_has_is_restored_as_that_of_a_pod_that_is_gone() -> None:
    cluster, data = saved()
    data["arrivals"] += 1
    data["nominations"][0]["pods"][0]["seq"] = data["arrivals"]
    other = made(cluster)
    other.restore(data)
    (nomination,) = other._state.reservations.nominations.values()
    assert [each.seq for each in nomination.pods.values()] == [data["arrivals"]]
    assert posted(other.snapshot()) == data


@pytest.mark.parametrize("which", ["of another pod", "not given out"])
def test_other_number_is_refused(which: str) -> None:
    cluster, data = saved()
    low = next(row["seq"] for row in data["members"] if row["pod"]["name"] == "low")
    data["nominations"][0]["pods"][0]["seq"] = low if which == "of another pod" else 10**6
    with pytest.raises(InvalidValueError) as caught:
        made(cluster).restore(data)
    assert caught.value.field == "nominations[0].pods[0].seq"
    assert "or of a pod that is gone" in str(caught.value)
