"""The kit finds bugs as they are made, with its defaults, in a scheduler without gangsched."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.testing import (
    AddNode,
    CancelPods,
    LawViolation,
    PlainPod,
    RemoveNode,
    Settle,
    Start,
    Step,
    Stop,
    SubmitPods,
    Tick,
    check_steps,
)
from kit.planted_bugs import (
    BUGS,
    CountsCancelledMembers,
    KeepsCapacityByName,
    RemembersNodesByName,
    RestoresOldNodes,
    law_found,
)
from kit.simple_scheduler import SimpleScheduler

DEFAULT = 100
"""What Hypothesis draws by default."""


def pods(*uids: str, **fields: Any) -> SubmitPods:
    return SubmitPods(tuple(PlainPod(uid=uid, requests={"gpu": 1}, **fields) for uid in uids))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_bug_is_found_with_the_defaults(bug: type[SimpleScheduler]) -> None:
    assert law_found(bug, examples=DEFAULT, seed=1) in BUGS[bug]


GANG: dict[str, Any] = {"group": "g", "min_available": 3}
KNOWN: dict[type[SimpleScheduler], tuple[int, tuple[Step, ...]]] = {
    RemembersNodesByName: (
        5,
        (
            AddNode("n1", {"gpu": 1}),
            *(pods("u1"), Tick(), RemoveNode("n1"), AddNode("n1", {"gpu": 1}), pods("u2")),
            Settle(),
        ),
    ),
    KeepsCapacityByName: (
        8,
        (
            AddNode("n1", {"gpu": 2}),
            *(RemoveNode("n1"), AddNode("n1", {"gpu": 1}), pods("u1", "u2"), Tick()),
        ),
    ),
    CountsCancelledMembers: (
        1,
        (
            AddNode("n1", {"gpu": 2}),
            *(pods("u1", "u2", "u3", **GANG), Tick(), CancelPods(("u1",)), pods("u4", **GANG)),
            Tick(),
        ),
    ),
    RestoresOldNodes: (
        5,
        (Stop(), AddNode("n1", {"gpu": 1}), Start(1.0), pods("u1"), Settle()),
    ),
}


@pytest.mark.parametrize("bug", KNOWN, ids=lambda bug: bug.__name__)
def test_bug_breaks_its_law_by_known_steps(bug: type[SimpleScheduler]) -> None:
    law, steps = KNOWN[bug]
    check_steps(SimpleScheduler, *steps)
    with pytest.raises(LawViolation) as found:
        check_steps(bug, *steps)
    assert found.value.law == law


def noting(noted: list[str]) -> type[SimpleScheduler]:
    """Return a scheduler that notes when it is asked to decide, and is stopped and started."""

    class Noting(SimpleScheduler):
        def decide(self) -> None:
            noted.append("decides")
            super().decide()

        def stop(self) -> None:
            noted.append("stops")

        def start(self, seconds: float) -> None:
            noted.append(f"starts after {seconds:g} s")
            super().start(seconds)

    return Noting


def test_stopped_scheduler_is_not_asked_until_it_starts() -> None:
    noted: list[str] = []
    steps = (AddNode("n1", {"gpu": 1}), Stop(), Tick(5.0), pods("u1"), Stop(), Start(3.0), Start())
    check_steps(noting(noted), *steps)
    assert noted == ["stops", "starts after 3 s", "decides"]


def test_settle_starts_a_stopped_scheduler() -> None:
    noted: list[str] = []
    check_steps(noting(noted), AddNode("n1", {"gpu": 1}), Stop(), pods("u1"), Settle())
    assert noted[:2] == ["stops", "starts after 0 s"]


def test_scheduler_without_stop_is_not_stopped() -> None:
    class Without(SimpleScheduler):
        stop: Any = None

    check_steps(Without, AddNode("n1", {"gpu": 1}), Stop(), pods("u1"), Tick(), Settle())
    assert str(Start(3.0)) == "start the scheduler again 3 s later"
