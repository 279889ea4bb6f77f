"""What follows from other parts of a snapshot is computed or compared when it is restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import InvalidValueError
from support.snapshot_cases import CASES, copied

Change = Callable[[dict[str, Any]], object]


def asked(data: dict[str, Any]) -> dict[str, Any]:
    """Return what the parked entities of the first queue with a class asked for."""
    found: dict[str, Any] = next(
        row["asked"] for row in data["queues"] if row.get("entities") and type(row["asked"]) is dict
    )
    return found


WRONG: list[tuple[str, str, Change, str]] = [
    ("busy", "class-of-another-pod", lambda d: asked(d).update(runs=[["default/bound", 1]]), "ask"),
    ("busy", "needs-more", lambda d: asked(d).update(needed=7), "what entity"),
    ("busy", "instant-too-large", lambda d: d.update(now=10**400), "finite"),
    ("busy", "endless-deadline", lambda d: d["waiting"][0].update(deadline="Infinity"), "finite"),
    ("busy", "step-too-large", lambda d: d.update(step=10**400), "2**62"),
    ("busy", "amount-too-large", lambda d: big(d), "96 bits"),
    ("busy", "state-of-another-pod", lambda d: d["members"][0].update(state="gated"), "assigned"),
    ("busy", "swapped-pods", lambda d: d["members"].reverse(), "in ascending order"),
    ("busy", "swapped-nodes", lambda d: d["nodes"].reverse(), "in ascending order"),
    ("busy", "wait-of-the-future", lambda d: d["waiting"][0].update(since=99.0), "until now="),
    (
        "nominating",
        "nomination-of-another-entity",
        lambda d: d["nominations"][0].update(entity=d["entities"][0]["seq"]),
        "the pod of the entity",
    ),
    (
        "nominating",
        "nominated-pod-of-another-number",
        lambda d: d["nominations"][0]["pods"][0].update(seq=d["members"][0]["seq"]),
        "a pod that is gone",
    ),
    ("gangs", "roles-of-another", lambda d: role(d).update(role="leg"), "as the pod has it"),
]


def big(data: dict[str, Any]) -> None:
    """Make a pod request a number of 400 digits."""
    data["members"][0]["pod"]["requests"] = {"cpu": 10**400}


def role(data: dict[str, Any]) -> dict[str, Any]:
    """Return a nominated pod of a group with roles."""
    found: dict[str, Any] = data["nominations"][0]["pods"][0]
    return found


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [(row[0], row[2], row[3]) for row in WRONG],
    ids=[row[1] for row in WRONG],
)
def test_value_that_contradicts_others_is_refused(name: str, change: Change, expected: str) -> None:
    case = CASES[name]()
    change(case.data)
    scheduler = case.make(copied(case.cluster))
    before = scheduler.snapshot()
    with pytest.raises(InvalidValueError) as caught:
        scheduler.restore(case.data)
    assert expected in caught.value.expected
    assert scheduler.snapshot() == before
