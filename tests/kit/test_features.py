"""Each feature is passed and checked only if it is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from gangsched import presets
from gangsched.errors import InvalidValueError
from gangsched.testing import (
    AddNode,
    BindFails,
    CancelPods,
    DelayEvents,
    DeliverEvents,
    LawViolation,
    PlainParent,
    PlainPod,
    PutParent,
    RemoveParent,
    SchedulerSpec,
    Settle,
    Start,
    Step,
    Stop,
    SubmitPods,
    Tick,
    adapt,
    check_steps,
)
from gangsched.testing._plain_pod import FEATURES
from kit.simple_scheduler import SimpleScheduler
from kit.test_check_steps import Scripted, Shown, shows


def member(uid: str, group: str = "g", **fields: Any) -> PlainPod:
    """Return a member of a gang with minimum 2."""
    said: dict[str, Any] = {"min_available": 2, "requests": {"gpu": 1}, **fields}
    return PlainPod(uid=uid, group=group, **said)


def declares(*script: Shown) -> Callable[[], Any]:
    """Return a factory of schedulers that declare all features and show a script."""

    def add_node(self: Scripted, name: str, capacity: object, **_more: object) -> None:
        self.calls.append(f"add {name}")

    def put_parent(self: Scripted, parent: PlainParent) -> None:
        self.calls.append(f"put {parent.name}")

    def remove_parent(self: Scripted, name: str) -> None:
        self.calls.append(f"remove {name}")

    methods = {"add_node": add_node, "put_parent": put_parent, "remove_parent": remove_parent}
    return type("Declares", (shows(*script),), {"features": FEATURES, **methods})


A, B = AddNode("n1", {"gpu": 4}, {"zone": "a"}), AddNode("n2", {"gpu": 4}, {"zone": "b"})
BARE = AddNode("n3", {"gpu": 4})
TAINTED = AddNode("n4", {"gpu": 4}, taints=("dedicated",))
OF_ROLES = tuple(member(uid, role=uid[:1], roles={"p": 1}) for uid in ("p1", "w1", "w2"))
ZONED = SubmitPods(tuple(member(uid, topology_key="zone") for uid in ("u1", "u2", "u3")))
COPIES = SubmitPods(
    tuple(
        member(f"c{copy}{part}", copy=copy, copies=3, copy_size=2)
        for copy in range(3)
        for part in "ab"
    )
)
BUNDLE = SubmitPods(
    (
        *(member(uid, "g", bundle=("h",)) for uid in ("u1", "u2")),
        *(member(uid, "h", bundle=("g",)) for uid in ("v1", "v2")),
    )
)


def parent(name: str, least: int, below: str | None = None) -> PutParent:
    """Return a step that puts a parent."""
    return PutParent(PlainParent(name=name, min_groups=least, parent=below))


def child(group: str, above: str = "p", more: int = 0) -> SubmitPods:
    """Return a step that submits a gang below a parent: two members, and more."""
    return SubmitPods(tuple(member(f"{group}{n}", group, parent=above) for n in range(2 + more)))


def whole(*groups: str) -> Shown:
    """Return what an adapter shows that has placed the first two members of some gangs."""
    return on(**dict.fromkeys((f"{group}{n}" for group in groups for n in range(2)), "n1"))


def on(**where: str) -> Shown:
    """Return what an adapter with these placements shows."""
    return where, {}


BROKEN: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...], int, str]] = {
    "a quorum without a role": (
        (on(w1="n1", w2="n1"),),
        (A, SubmitPods(OF_ROLES), Tick()),
        1,
        "gang g starts with 2 (w1, w2), of which 0 have role p, and needs 1",
    ),
    "a gang in two zones": (
        (on(u1="n1", u2="n2"),),
        (A, B, ZONED, Tick()),
        1,
        "gang g must be within one zone, and is placed with u1 in a, u2 in b",
    ),
    "a gang in no zone": (
        (on(u1="n3", u2="n3"),),
        (BARE, ZONED, Tick()),
        1,
        "gang g must be within one zone, and is placed with u1 in none, u2 in none",
    ),
    "a late member in another zone": (
        (on(u1="n1", u2="n1"), on(u1="n1", u2="n1", u3="n2")),
        (A, B, ZONED, Tick(), Tick()),
        1,
        "gang g must be within one zone, and is placed with u1 in a, u2 in a, u3 in b",
    ),
    "a bundle in part": (
        (on(u1="n1", u2="n1"),),
        (A, BUNDLE, Tick()),
        1,
        "gang g starts (u1, u2) without gang h of its bundle",
    ),
    "a quorum of two halves": (
        (on(c0a="n1", c1a="n1"),),
        (A, COPIES, Tick()),
        1,
        "gang g starts with 2 (c0a, c1a), which are 0 whole copies, and needs 1",
    ),
    "a copy by half at the start": (
        (on(c0a="n1", c0b="n1", c1a="n1"),),
        (A, COPIES, Tick()),
        1,
        "copy 1 of gang g starts with 1 (c1a), and needs 2 together",
    ),
    "a copy by half later": (
        (on(c0a="n1", c0b="n1"), on(c0a="n1", c0b="n1", c2b="n1")),
        (A, COPIES, Tick(), Tick()),
        1,
        "copy 2 of gang g starts with 1 (c2b), and needs 2 together",
    ),
    "a copy that fits and does not start": (
        (),
        (A, SubmitPods(COPIES.pods[:3]), Settle()),
        5,
        "gang g (c0a, c0b, c1a) fits, and no pod has started for 83 s",
    ),
    "one more copy that fits and does not start": (
        (on(c0a="n1", c0b="n1"),) * 9,
        (A, COPIES, Tick(), Settle()),
        5,
        "gang g (c1a, c1b, c2a, c2b) fits, and no pod has started for 83 s",
    ),
    "a family with one of two children": (
        (whole("g"),),
        (A, parent("p", 2), child("g"), child("h"), Tick()),
        1,
        "gang g starts, and of p only g: it needs 2 whole children together",
    ),
    "a child by half": (
        (on(g0="n1", g1="n1", h0="n1"),),
        (A, parent("p", 2), child("g"), child("h"), Tick()),
        1,
        "gang h starts with 1 (h0), and needs 2 together",
    ),
    "a child by half later": (
        (whole("g"), on(g0="n1", g1="n1", h1="n1")),
        (A, parent("p", 1), child("g"), child("h"), Tick(), Tick()),
        1,
        "gang h starts with 1 (h1), and needs 2 together",
    ),
    "an inner parent by half": (
        (whole("g"), whole("g", "h")),
        (A, parent("p", 1), parent("q", 2, "p"), child("g"), child("h", "q"), Tick(), Tick()),
        1,
        "gang h starts, and of q only h: it needs 2 whole children together",
    ),
    "a family of one gang and half an inner parent": (
        (whole("g", "h"),),
        (A, parent("q", 2, "p"), parent("p", 2), child("g"), child("h", "q"), Tick()),
        1,
        "gang g starts, and of p only g, q: it needs 2 whole children together",
    ),
    "a child without its parent": (
        (whole("g"),),
        (A, child("g"), Tick()),
        1,
        "gang g starts, and p, the parent of gang g, does not exist",
    ),
    "a child whose parent is gone": (
        (whole("g"), whole("g", "h")),
        (A, parent("p", 1), child("g"), child("h"), Tick(), RemoveParent("p"), Tick()),
        1,
        "gang h starts, and p, the parent of gang h, does not exist",
    ),
    "a child without the parent of its parent": (
        (whole("g"),),
        (A, parent("q", 1, "p"), child("g", "q"), Tick()),
        1,
        "gang g starts, and p, the parent of q, does not exist",
    ),
    "one child though two are needed by now": (
        (whole("g"),),
        (A, parent("p", 1), parent("p", 2), child("g"), child("h"), Tick()),
        1,
        "gang g starts, and of p only g: it needs 2 whole children together",
    ),
    "a family that fits and does not start": (
        (),
        (AddNode("n1", {"gpu": 4}), parent("p", 2), child("g", more=1), child("h"), Settle()),
        5,
        "gang g (g0, g1, g2) fits, and no pod has started for 123 s",
    ),
    "one more child that fits and does not start": (
        (whole("g"),) * 9,
        (A, parent("p", 1), child("g"), child("h"), Tick(), Settle()),
        5,
        "gang h (h0, h1) fits, and no pod has started for 83 s",
    ),
    "an inner parent that fits and does not start": (
        (whole("g"),) * 9,
        (A, parent("p", 1), parent("q", 1, "p"), child("g"), child("h", "q"), Tick(), Settle()),
        5,
        "gang h (h0, h1) fits, and no pod has started for 83 s",
    ),
    "a pod on a tainted node": (
        (on(u1="n4"),),
        (TAINTED, SubmitPods((PlainPod(uid="u1"),)), Tick()),
        8,
        "u1 is on n4, and does not tolerate its taint dedicated",
    ),
    "a waiting pod on a tainted node": (
        (({}, {"u1": ("n4", 1)}),),
        (TAINTED, SubmitPods((PlainPod(uid="u1"),)), Tick()),
        8,
        "u1 is on n4, and does not tolerate its taint dedicated",
    ),
    "roles that fit and do not start": (
        (),
        (A, SubmitPods(OF_ROLES), Settle()),
        5,
        "gang g (p1, w1, w2) fits, and no pod has started for 83 s",
    ),
    "a zone that fits and is not taken": (
        (),
        (B, AddNode("n1", {"gpu": 1}, {"zone": "a"}), ZONED, Settle()),
        5,
        "gang g (u1, u2, u3) fits, and no pod has started for 83 s",
    ),
    "a bundle that fits and does not start": (
        (),
        (A, BUNDLE, Settle()),
        5,
        "gang g (u1, u2) fits, and no pod has started for 123 s",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_check_steps_reports_violations_of_features(what: str) -> None:
    script, steps, law, sentence = BROKEN[what]
    with pytest.raises(LawViolation) as found:
        check_steps(declares(*script), *steps)
    assert (found.value.law, found.value.message) == (law, sentence)


LEGAL: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...]]] = {
    "a quorum with its role": ((on(p1="n1", w1="n1"),), (A, SubmitPods(OF_ROLES), Tick())),
    "a missing role": ((), (A, SubmitPods(OF_ROLES[1:]), Settle())),
    "a gang in one zone": ((on(u1="n1", u2="n1", u3="n1"),), (A, B, ZONED, Settle())),
    "a zone that is too small": (
        (),
        (*(AddNode(f"n{n}", {"gpu": 1}, {"zone": f"z{n}"}) for n in range(4)), ZONED, Settle()),
    ),
    "a bundle together": (
        (on(u1="n1", u2="n1", v1="n1", v2="n1"),),
        (A, BUNDLE, Settle()),
    ),
    "whole copies, one later than the other": (
        (on(c1a="n1", c1b="n1"), on(**dict.fromkeys(("c1a", "c1b", "c2a", "c2b"), "n1"))),
        (A, COPIES, Tick(), Settle()),
    ),
    "a member that joins the rest of its copy": (
        (on(c0a="n1", c0b="n1"), on(c0a="n1"), on(c0a="n1", c0b="n1")),
        (A, SubmitPods(COPIES.pods[:2]), Tick(), BindFails("c0b"), Settle()),
    ),
    "copies of which members are missing": (
        (),
        (A, SubmitPods(COPIES.pods[1:3]), Settle()),
    ),
    "a family with enough children, and one more later": (
        (whole("g", "h"), whole("g", "h", "i")),
        (
            AddNode("n1", {"gpu": 6}),
            *(parent("p", 2), child("g"), child("h"), child("i"), Tick(), Settle()),
        ),
    ),
    "a family of three levels": (
        (whole("g", "h"),),
        (A, parent("q", 1, "p"), parent("p", 2), child("g"), child("h", "q"), Settle()),
    ),
    "a parent that comes last": ((whole("g"),), (A, child("g"), parent("p", 1), Settle())),
    "a missing parent": ((), (A, child("g"), Settle())),
    "a missing parent of a parent": ((), (A, parent("q", 1, "p"), child("g", "q"), Settle())),
    "too few complete children": (
        (),
        (A, parent("p", 2), child("g"), SubmitPods(child("h").pods[:1]), Settle()),
    ),
    "children that fit only alone": (
        (),
        (AddNode("n1", {"gpu": 3}), parent("p", 2), child("g"), child("h"), Settle()),
    ),
    "members beyond a minimum wait for another child": (
        (whole("g", "h"),),
        (
            *(AddNode("n1", {"gpu": 6}), parent("p", 2), child("g", more=1), child("h"), Tick()),
            *(parent("p", 3), Settle()),
        ),
    ),
    "one more child of a family that has started, and needs more by now": (
        (whole("g", "h"), whole("g", "h", "i")),
        (
            *(AddNode("n1", {"gpu": 6}), parent("p", 2), child("g"), child("h"), child("i")),
            *(Tick(), parent("p", 4), Tick()),
        ),
    ),
    "a running child without its parent": (
        (whole("g"), on(g0="n1"), whole("g")),
        (A, parent("p", 1), child("g"), Tick(), BindFails("g1"), RemoveParent("p"), Settle()),
    ),
    "a parent that needs more by now, not delivered yet": (
        (whole("g"),),
        (A, parent("p", 1), child("g"), DelayEvents(), parent("p", 2), Tick(), DeliverEvents()),
    ),
    "a parent that is gone, not delivered yet": (
        (whole("g"),),
        (A, parent("p", 1), child("g"), DelayEvents(), RemoveParent("p"), Tick()),
    ),
    "a deleted sibling, not delivered yet": (
        (whole("g"),),
        (
            *(A, parent("p", 2), child("g"), child("h")),
            *(DelayEvents(), CancelPods(("h0", "h1")), Tick()),
        ),
    ),
    "an incomplete bundle": ((), (A, SubmitPods(BUNDLE.pods[:3]), Settle())),
    "a bundle that does not fit together": (
        (),
        (AddNode("n1", {"gpu": 3}), BUNDLE, Settle()),
    ),
    "a deleted member of a bundle, not delivered yet": (
        (on(u1="n1", u2="n1"),),
        (A, BUNDLE, DelayEvents(), CancelPods(("v1",)), Tick()),
    ),
    "a tolerated taint": (
        (on(u1="n4"),),
        (TAINTED, SubmitPods((PlainPod(uid="u1", tolerates=("dedicated",)),)), Settle()),
    ),
    "a taint on all nodes": ((), (TAINTED, SubmitPods((PlainPod(uid="u1"),)), Settle())),
}


@pytest.mark.parametrize("what", LEGAL)
def test_check_steps_accepts_legal_use_of_features(what: str) -> None:
    script, steps = LEGAL[what]
    check_steps(declares(*script), *steps)


def test_member_of_a_family_may_start_before_its_own_backoff_is_over() -> None:
    spec = SchedulerSpec(min_backoff=5.0)
    script = (whole("g"), on(g0="n1"), whole("g"))
    steps: list[Step] = [A, child("g"), Tick(), BindFails("g1"), Tick()]
    check_steps(declares(*script), parent("p", 1), *steps, spec=spec)
    steps[1] = SubmitPods(tuple(evolve(pod, parent=None) for pod in child("g").pods))
    with pytest.raises(LawViolation, match="before its backoff of 5 s is over"):
        check_steps(declares(*script), *steps, spec=spec)


def test_parents_change_while_the_scheduler_is_stopped() -> None:
    adapter = adapt(presets.gang)()
    steps = (A, parent("q", 1), child("g"), child("h", "q"))
    check_steps(lambda: adapter, *steps, Stop(), parent("p", 1), RemoveParent("q"), Start(), Tick())
    assert set(adapter.placements()) == {"g0", "g1"}


def test_undeclared_features_are_neither_passed_nor_checked() -> None:
    told: list[PlainPod] = []

    class Plain(SimpleScheduler):
        def submit(self, pod: Any) -> None:
            told.append(pod)
            super().submit(pod)

    check_steps(Plain, A, B, TAINTED, SubmitPods(OF_ROLES), Settle())
    check_steps(
        Plain,
        BARE,
        SubmitPods((member("u1", topology_key="zone", bundle=("h",)), member("u2"))),
        Settle(),
    )
    assert [pod.uid for pod in told] == ["p1", "w1", "w2", "u1", "u2"]
    assert not any(pod.role or pod.roles or pod.topology_key or pod.bundle for pod in told)
    check_steps(Plain, A, parent("p", 2), child("g"), RemoveParent("p"), Settle())
    assert not any(pod.parent for pod in told)
    check_steps(Plain, A, COPIES, Settle())
    assert not any(pod.copies or pod.copy_size or pod.copy is not None for pod in told)


@pytest.mark.parametrize("features", ["roles", ("rolls",), ("roles", "")])
def test_unknown_feature_is_refused(features: object) -> None:
    with pytest.raises(
        InvalidValueError, match="a subset of roles, topology, bundles, taints, copies, families"
    ):
        check_steps(type("FaultyPlugin", (SimpleScheduler,), {"features": features}))


def test_adapter_with_families_needs_the_methods_for_parents() -> None:
    with pytest.raises(InvalidValueError, match="a method of an adapter with families"):
        check_steps(type("Lacking", (SimpleScheduler,), {"features": ("families",)}))


def test_parents_in_a_circle_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="another parent, or None"):
        parent("p", 1, "p")
    with pytest.raises(LawViolation, match="parent must be one that is not below q"):
        check_steps(declares(), parent("p", 1, "q"), parent("q", 1, "p"))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("roles", {"group": "g", "min_available": 1, "roles": {"ps": 2}}),
        ("role", {"role": "ps"}),
        ("topology_key", {"topology_key": "zone"}),
        ("bundle", {"bundle": ("h",)}),
        ("bundle", {"group": "g", "bundle": ("h",), "parent": "p"}),
        ("parent", {"parent": "p"}),
        ("copies", {"copies": 2}),
        ("copies", {"group": "g", "copy_size": 1}),
        ("copy_size", {"group": "g", "min_available": 3, "copies": 2, "copy_size": 2, "copy": 0}),
        ("min_available", {"group": "g", "min_available": 3, "copies": 2, "copy_size": 1}),
        ("copy", {"group": "g", "copies": 2, "copy_size": 1, "copy": 2}),
        ("roles", {"group": "g", "copies": 2, "copy_size": 1, "copy": 0, "role": "ps"}),
    ],
)
def test_plain_pod_refuses_gang_fields_without_a_gang(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as refused:
        PlainPod(uid="u", **values)
    assert refused.value.field == field


def test_steps_show_features_in_repr_and_str() -> None:
    steps: list[Step] = [A, TAINTED, SubmitPods(OF_ROLES), ZONED, BUNDLE]
    steps += [parent("p", 1), parent("q", 2, "p"), child("g"), RemoveParent("p")]
    assert [eval(repr(step)) for step in steps] == steps
    assert str(A) == "add node n1: 4 gpu, label zone=a"
    assert str(TAINTED) == "add node n4: 4 gpu, taint dedicated"
    assert str(SubmitPods(OF_ROLES[:1])) == (
        "submit p1 of gang g (needs 2, 1 of role p), role p: 1 gpu"
    )
    assert str(SubmitPods(COPIES.pods[:2])) == (
        "submit c0a, c0b of gang g (needs 2, in whole copies of 2), copy 0 of 3: 1 gpu each"
    )
    assert "(needs 2, within one zone)" in str(ZONED)
    assert "(needs 2, in a bundle with h)" in str(BUNDLE)
    assert "(needs 2, a child of p)" in str(child("g"))
    assert str(parent("p", 1)) == "put parent p: needs 1 child"
    assert str(parent("q", 2, "p")) == "put parent q: needs 2 children, a child of p"
    assert str(RemoveParent("p")) == "remove parent p"
