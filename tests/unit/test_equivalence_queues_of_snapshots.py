"""An equivalence queue of a snapshot has the class and the leader that its entities have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched.errors import InvalidValueError
from support.busy import busy_scheduler
from support.fingerprint import fingerprint
from support.restored import posted
from support.snapshots import another


def asks_for_another_entity(queues: list[Any], data: dict[str, Any]) -> tuple[str, str]:
    first, other = queues[0]["entities"]
    queues[0]["asked"] = other
    return "queues[0].asked", f"what entity {first} asks for, or the number of that entity"


def gated_leader(queues: list[Any], data: dict[str, Any]) -> tuple[str, str]:
    queues[0]["leader"] = data["gated"][0]
    return "queues[0].leader", "an active entity of no other queue"


def leader_of_two_queues(queues: list[Any], data: dict[str, Any]) -> tuple[str, str]:
    for queue in queues[:2]:
        queue["leader"] = data["active"][0]
    return "queues[1].leader", "an active entity of no other queue"


@pytest.mark.parametrize("change", [asks_for_another_entity, gated_leader, leader_of_two_queues])
def test_queue_with_the_class_or_leader_of_others_is_refused(
    change: Callable[[list[Any], dict[str, Any]], tuple[str, str]],
) -> None:
    cluster, scheduler = busy_scheduler()
    data = posted(scheduler.snapshot())
    field, expected = change(data["queues"], data)
    other = another(cluster)
    before = fingerprint(other)
    with pytest.raises(InvalidValueError) as caught:
        other.restore(data)
    assert fingerprint(other) == before
    assert (caught.value.field, caught.value.expected) == (field, expected)
