"""The numbers of pods and entities are given out once: a snapshot that repeats one is refused."""

from __future__ import annotations

import pytest

from gangsched.errors import InvalidValueError
from support.busy import busy_scheduler
from support.fingerprint import fingerprint
from support.restored import posted
from support.snapshots import another


def test_member_with_the_number_of_an_entity_is_refused() -> None:
    cluster, scheduler = busy_scheduler()
    data = posted(scheduler.snapshot())
    of_group = {row["seq"] for row in data["entities"] if row.get("group") is not None}
    numbers = [row["seq"] for row in data["members"]]
    # in the gap that the entity of a group leaves between two members
    place = next(n for n, seq in enumerate(numbers) if seq - 1 in of_group)
    data["members"][place]["seq"] -= 1
    other = another(cluster)
    before = fingerprint(other)
    with pytest.raises(InvalidValueError) as caught:
        other.restore(data)
    assert fingerprint(other) == before
    assert caught.value.field == f"members[{place}].seq"
    assert caught.value.expected == "listed once in the snapshot"
