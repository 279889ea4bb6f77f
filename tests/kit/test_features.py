"""Roles, topology, bundles and taints: told of only to who declares them, and held to then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched.errors import InvalidValueError
from gangsched.testing import (
    AddNode,
    Arrive,
    LawViolation,
    Leave,
    PlainPod,
    Rest,
    RunLate,
    Step,
    Tick,
    check_story,
)
from kit.test_stories import Scripted, Shown, shows
from kit.toy import Toy


def member(uid: str, group: str = "g", **fields: Any) -> PlainPod:
    """Return a member of a gang of two."""
    said: dict[str, Any] = {"min_available": 2, "requests": {"gpu": 1}, **fields}
    return PlainPod(uid=uid, group=group, **said)


def declares(*script: Shown) -> Callable[[], Any]:
    """Return schedulers that declare everything, and show this."""

    def add_node(self: Scripted, name: str, capacity: object, **_more: object) -> None:
        self.calls.append(f"add {name}")

    features = ("roles", "topology", "bundles", "taints")
    return type("Declares", (shows(*script),), {"features": features, "add_node": add_node})


A, B = AddNode("n1", {"gpu": 4}, {"zone": "a"}), AddNode("n2", {"gpu": 4}, {"zone": "b"})
BARE = AddNode("n3", {"gpu": 4})
TAINTED = AddNode("n4", {"gpu": 4}, taints=("kept",))
OF_ROLES = tuple(member(uid, role=uid[:1], roles={"p": 1}) for uid in ("p1", "w1", "w2"))
ZONED = Arrive(tuple(member(uid, within="zone") for uid in ("u1", "u2", "u3")))
BUNDLE = Arrive(
    (
        *(member(uid, "g", bundle=("h",)) for uid in ("u1", "u2")),
        *(member(uid, "h", bundle=("g",)) for uid in ("v1", "v2")),
    )
)


def on(**where: str) -> Shown:
    """Show who is placed."""
    return where, {}


BROKEN: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...], int, str]] = {
    "a quorum without a role": (
        (on(w1="n1", w2="n1"),),
        (A, Arrive(OF_ROLES), Tick()),
        1,
        "gang g starts with 2 (w1, w2), of which 0 are p, and needs 1",
    ),
    "a gang in two zones": (
        (on(u1="n1", u2="n2"),),
        (A, B, ZONED, Tick()),
        1,
        "gang g belongs within one zone, and is placed with u1 in a, u2 in b",
    ),
    "a gang in no zone": (
        (on(u1="n3", u2="n3"),),
        (BARE, ZONED, Tick()),
        1,
        "gang g belongs within one zone, and is placed with u1 in none, u2 in none",
    ),
    "one who joins elsewhere": (
        (on(u1="n1", u2="n1"), on(u1="n1", u2="n1", u3="n2")),
        (A, B, ZONED, Tick(), Tick()),
        1,
        "gang g belongs within one zone, and is placed with u1 in a, u2 in a, u3 in b",
    ),
    "a part of a bundle": (
        (on(u1="n1", u2="n1"),),
        (A, BUNDLE, Tick()),
        1,
        "gang g starts (u1, u2) without gang h, with which it belongs together",
    ),
    "who is not tolerated": (
        (on(u1="n4"),),
        (TAINTED, Arrive((PlainPod(uid="u1"),)), Tick()),
        8,
        "u1 is on n4, whose taint kept it does not tolerate",
    ),
    "who holds what it does not tolerate": (
        (({}, {"u1": ("n4", 1)}),),
        (TAINTED, Arrive((PlainPod(uid="u1"),)), Tick()),
        8,
        "u1 is on n4, whose taint kept it does not tolerate",
    ),
    "roles that fit and do not start": (
        (),
        (A, Arrive(OF_ROLES), Rest()),
        5,
        "gang g (p1, w1, w2) fits, and after 83 s nobody has started",
    ),
    "a zone that fits and is not taken": (
        (),
        (B, AddNode("n1", {"gpu": 1}, {"zone": "a"}), ZONED, Rest()),
        5,
        "gang g (u1, u2, u3) fits, and after 83 s nobody has started",
    ),
    "a bundle that fits and does not start": (
        (),
        (A, BUNDLE, Rest()),
        5,
        "gang g (u1, u2) fits, and after 123 s nobody has started",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_story_about_a_feature_that_breaks_a_law_says_which_and_why(what: str) -> None:
    script, steps, law, sentence = BROKEN[what]
    with pytest.raises(LawViolation) as found:
        check_story(declares(*script), *steps)
    assert (found.value.law, found.value.sentence) == (law, sentence)


KEPT: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...]]] = {
    "a quorum with its role": ((on(p1="n1", w1="n1"),), (A, Arrive(OF_ROLES), Tick())),
    "roles that are not there": ((), (A, Arrive(OF_ROLES[1:]), Rest())),
    "a gang in one zone": ((on(u1="n1", u2="n1", u3="n1"),), (A, B, ZONED, Rest())),
    "a zone that is too small": (
        (),
        (*(AddNode(f"n{n}", {"gpu": 1}, {"zone": f"z{n}"}) for n in range(4)), ZONED, Rest()),
    ),
    "a bundle together": (
        (on(u1="n1", u2="n1", v1="n1", v2="n1"),),
        (A, BUNDLE, Rest()),
    ),
    "a bundle that is not whole": ((), (A, Arrive(BUNDLE.pods[:3]), Rest())),
    "a bundle that does not fit together": (
        (),
        (AddNode("n1", {"gpu": 3}), BUNDLE, Rest()),
    ),
    "a member of a bundle that has gone, untold": (
        (on(u1="n1", u2="n1"),),
        (A, BUNDLE, RunLate(), Leave(("v1",)), Tick()),
    ),
    "who tolerates": (
        (on(u1="n4"),),
        (TAINTED, Arrive((PlainPod(uid="u1", tolerates=("kept",)),)), Rest()),
    ),
    "who has nowhere to go": ((), (TAINTED, Arrive((PlainPod(uid="u1"),)), Rest())),
}


@pytest.mark.parametrize("what", KEPT)
def test_a_story_about_a_feature_that_breaks_no_law_is_passed(what: str) -> None:
    script, steps = KEPT[what]
    check_story(declares(*script), *steps)


def test_who_declares_nothing_is_told_of_nothing_and_held_to_nothing() -> None:
    told: list[PlainPod] = []

    class Plain(Toy):
        def submit(self, pod: Any) -> None:
            told.append(pod)
            super().submit(pod)

    check_story(Plain, A, B, TAINTED, Arrive(OF_ROLES), Rest())
    check_story(
        Plain, BARE, Arrive((member("u1", within="zone", bundle=("h",)), member("u2"))), Rest()
    )
    assert [pod.uid for pod in told] == ["p1", "w1", "w2", "u1", "u2"]
    assert not any(pod.role or pod.roles or pod.within or pod.bundle for pod in told)


@pytest.mark.parametrize("features", ["roles", ("rolls",), ("roles", "")])
def test_a_feature_that_is_none_is_refused(features: object) -> None:
    with pytest.raises(InvalidValueError, match="some of roles, topology, bundles, taints"):
        check_story(type("Odd", (Toy,), {"features": features}))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("roles", {"group": "g", "min_available": 1, "roles": {"ps": 2}}),
        ("role", {"role": "ps"}),
        ("within", {"within": "zone"}),
        ("bundle", {"bundle": ("h",)}),
    ],
)
def test_a_plain_pod_whose_gang_means_nothing_is_refused(
    field: str, values: dict[str, Any]
) -> None:
    with pytest.raises(InvalidValueError) as refused:
        PlainPod(uid="u", **values)
    assert refused.value.field == field


def test_a_step_about_a_feature_is_the_code_that_makes_it_and_says_so_in_words() -> None:
    steps: list[Step] = [A, TAINTED, Arrive(OF_ROLES), ZONED, BUNDLE]
    assert [eval(repr(step)) for step in steps] == steps
    assert str(A) == "node n1 comes: 4 gpu, in zone a"
    assert str(TAINTED) == "node n4 comes: 4 gpu, with taint kept"
    assert str(Arrive(OF_ROLES[:1])) == (
        "p1 of gang g (needs 2, 1 of them p), a p, comes and asks for 1 gpu"
    )
    assert "(needs 2, within one zone)" in str(ZONED)
    assert "(needs 2, together with h)" in str(BUNDLE)
