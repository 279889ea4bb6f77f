"""``check_steps`` on schedulers that follow a script: violations, and legal behaviour."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

import gangsched
from gangsched.errors import InvalidValueError
from gangsched.testing import (
    AddNode,
    BindFails,
    BindSucceeds,
    CancelPods,
    DelayEvents,
    DeliverEvents,
    GangSchedulingMachine,
    LawViolation,
    PlainPod,
    RemoveNode,
    Restart,
    SchedulerSpec,
    Settle,
    Step,
    SubmitPods,
    Tick,
    check_scheduler,
    check_steps,
)
from kit.simple_scheduler import SimpleScheduler
from kit.wrong_schedulers import DoubleCount
from support.examples import surely

Shown = tuple[Mapping[str, str], Mapping[str, tuple[str, int]]]


class Scripted:
    """A scheduler that shows the next entry of its script at each tick, and then the last."""

    script: tuple[Shown, ...] = ()

    def __init__(self) -> None:
        self.shown: Shown = ({}, {})
        self.left = list(self.script)
        self.calls: list[str] = []

    def add_node(self, name: str, capacity: Mapping[str, int]) -> None:
        self.calls.append(f"add {name}")

    def remove_node(self, name: str) -> None:
        self.calls.append(f"remove {name}")

    def submit(self, pod: Any) -> None:
        self.calls.append(f"submit {pod.uid}")

    def cancel(self, uid: str) -> None:
        self.calls.append(f"cancel {uid}")

    def tick(self, seconds: float) -> None:
        if self.left:
            self.shown = self.left.pop(0)

    def placements(self) -> Mapping[str, str]:
        return self.shown[0]

    def waiting_pods(self) -> Mapping[str, tuple[str, int]]:
        return self.shown[1]

    def bind_succeeded(self, uid: str) -> None:
        self.calls.append(f"succeeded {uid}")

    def bind_failed(self, uid: str) -> None:
        self.calls.append(f"failed {uid}")
        self.tick(0)

    def restart(self) -> None:
        self.calls.append("restart")
        self.tick(0)

    def delay_events(self, late: bool) -> None:
        self.calls.append(f"delay_events {late}")


def shows(*script: Shown) -> type[Scripted]:
    """Return a class of schedulers that follow a script."""
    return type("Shows", (Scripted,), {"script": script})


def gang(*uids: str, needs: int = 2, gpu: int = 1) -> SubmitPods:
    """Return a step that submits members of gang ``g``."""
    return SubmitPods(
        tuple(PlainPod(uid=u, group="g", min_available=needs, requests={"gpu": gpu}) for u in uids)
    )


N1, N2 = AddNode("n1", {"gpu": 2}), AddNode("n2", {"gpu": 2})
ALONE = SubmitPods((PlainPod(uid="a", requests={"gpu": 1}),))
PAIR = gang("a", "b")
BOTH: Shown = ({"a": "n1", "b": "n1"}, {})
NOTHING: Shown = ({}, {})

BROKEN: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...], int, str]] = {
    "a gang in part": (
        (({"a": "n1"}, {}),),
        (N1, PAIR, Tick()),
        1,
        "gang g starts with 1 (a), and needs 2 together",
    ),
    "a deleted pod that stays placed": (
        (BOTH, ({"c": "n1"}, {})),
        (N1, PAIR, gang("c"), Tick(), CancelPods(("a", "b")), Tick()),
        8,
        "a is placed on n1, and does not exist (any more)",
    ),
    "one member gives its node back": (
        (({}, {"a": ("n1", 1), "b": ("n1", 1)}), ({}, {"b": ("n1", 1)})),
        (N1, gang("a", "b", "c", needs=3), Tick(), Tick()),
        2,
        "gang g: a has given n1 back, and b still waits on n1",
    ),
    "a wait without end": (
        (({}, {"a": ("n1", 1)}),),
        (N1, PAIR, Tick(), Tick(10.0), Tick(1.0)),
        6,
        "gang g has held nodes for 11 s (a on n1), longer than its permit timeout of 10 s",
    ),
    "a placed pod that does not exist": (
        (({"x": "n1"}, {}),),
        (N1, Tick()),
        8,
        "x is placed on n1, and does not exist (any more)",
    ),
    "a placement on a missing node": (
        (({"a": "n3"}, {}),),
        (ALONE, Tick()),
        8,
        "a is placed on n3, which does not exist",
    ),
    "a pod that moves": (
        (({"a": "n1"}, {}), ({"a": "n2"}, {})),
        (N1, N2, ALONE, Tick(), Tick()),
        8,
        "a was placed on n1, and is now placed on n2",
    ),
    "a placed pod that disappears": (
        (({"a": "n1"}, {}), NOTHING),
        (N1, ALONE, Tick(), Tick()),
        8,
        "a was placed on n1, and is on no node; it was not cancelled",
    ),
    "a pod in two places": (
        (({"a": "n1"}, {"a": ("n2", 0)}),),
        (N1, N2, ALONE, Tick()),
        8,
        "a is placed on n1, and also waits on n2",
    ),
    "a waiting pod that does not exist": (
        (({}, {"x": ("n1", 0)}),),
        (N1, Tick()),
        8,
        "x waits on n1, and does not exist (any more)",
    ),
    "a wait on a missing node": (
        (({}, {"a": ("n3", 0)}),),
        (ALONE, Tick()),
        8,
        "a waits on n3, which does not exist",
    ),
    "an overcommitted node": (
        (BOTH,),
        (N1, gang("a", "b", gpu=2), Tick()),
        8,
        "n1 has 2 gpu, and a, b take 4",
    ),
    "a node overcommitted by a waiting pod": (
        (({"a": "n1"}, {"b": ("n1", 0)}),),
        (
            AddNode("n1", {"gpu": 1}),
            SubmitPods((*ALONE.pods, PlainPod(uid="b", requests={"gpu": 1}))),
            Tick(),
        ),
        8,
        "n1 has 1 gpu, and a, b take 2",
    ),
    "a gang that does not start": (
        (),
        (N1, PAIR, Settle()),
        5,
        "gang g (a, b) fits, and no pod has started for 83 s",
    ),
    "a late member that does not start": (
        (BOTH,),
        (AddNode("n1", {"gpu": 3}), gang("a", "b", "c"), Tick(), Settle()),
        5,
        "gang g (c) fits, and no pod has started for 83 s",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_check_steps_reports_the_law_and_the_message(what: str) -> None:
    script, steps, law, sentence = BROKEN[what]
    with pytest.raises(LawViolation) as found:
        check_steps(shows(*script), *steps)
    assert (found.value.law, found.value.message) == (law, sentence)


LEGAL: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...], SchedulerSpec]] = {
    "a gang together": ((BOTH,), (N1, PAIR, Settle()), SchedulerSpec()),
    "a late member": (
        (BOTH, ({"a": "n1", "b": "n1", "c": "n2"}, {})),
        (N1, N2, gang("a", "b", "c"), Tick(), Tick()),
        SchedulerSpec(),
    ),
    "a rejected gang that is tried again at once": (
        (({}, {"a": ("n1", 1), "b": ("n1", 1)}), ({}, {"b": ("n1", 2)})),
        (N1, gang("a", "b", "c", needs=3), Tick(), Tick()),
        SchedulerSpec(),
    ),
    "a wait of one timeout": (
        (*[({}, {"a": ("n1", 1)})] * 11, NOTHING),
        (N1, gang("a", "b", gpu=2), Tick(), Tick(11.0)),
        SchedulerSpec(),
    ),
    "a failed bind": (
        (({"a": "n1"}, {}), NOTHING, ({"a": "n2"}, {})),
        (N1, N2, ALONE, Tick(), BindFails("a"), Tick()),
        SchedulerSpec(),
    ),
    "an allowed eviction": (
        (({"a": "n1"}, {}), NOTHING),
        (N1, ALONE, Tick(), Tick()),
        SchedulerSpec(may_evict=True),
    ),
    "no late members": (
        (BOTH,),
        (AddNode("n1", {"gpu": 3}), gang("a", "b", "c"), Tick(), Settle()),
        SchedulerSpec(late_members_join=False),
    ),
    "once satisfied": (
        (BOTH, ({"b": "n1"}, {}), NOTHING, ({"c": "n1"}, {})),
        (N1, gang("a", "b", "c"), Tick(), BindFails("a"), BindFails("b"), Tick()),
        SchedulerSpec(once_satisfied=True),
    ),
    "a deletion that is not delivered yet": (
        (({"a": "n1"}, {}),),
        (N1, PAIR, DelayEvents(), CancelPods(("b",)), Tick()),
        SchedulerSpec(),
    ),
    "a node that comes back before its removal is delivered": (
        (({"a": "n1"}, {}), NOTHING),
        (N1, ALONE, DelayEvents(), RemoveNode("n1"), AddNode("n1", {"gpu": 0}), Tick(), Tick()),
        SchedulerSpec(),
    ),
    "a deleted waiting pod, not delivered yet": (
        (({}, {"a": ("n1", 1)}), ({}, {"a": ("n1", 1)})),
        (N1, PAIR, Tick(), DelayEvents(), CancelPods(("a",)), Tick()),
        SchedulerSpec(),
    ),
    "a gang that does not fit": ((), (N1, gang("a", "b", gpu=2), Settle()), SchedulerSpec()),
    "an incomplete gang": ((), (N1, gang("a"), Settle()), SchedulerSpec()),
    "waiting pods lost by a restart": (
        (({}, {"a": ("n1", 1), "b": ("n1", 1)}), ({}, {"b": ("n1", 1)})),
        (N1, gang("a", "b", "c", needs=3), Tick(), Restart()),
        SchedulerSpec(),
    ),
}


@pytest.mark.parametrize("what", LEGAL)
def test_check_steps_accepts_legal_behaviour(what: str) -> None:
    script, steps, spec = LEGAL[what]
    check_steps(shows(*script), *steps, spec=spec)


def test_member_placed_alone_is_found_without_once_satisfied() -> None:
    script, steps, _terms = LEGAL["once satisfied"]
    with pytest.raises(LawViolation, match="law 1: gang g starts with 1"):
        check_steps(shows(*script), *steps)


def test_deleted_waiting_pod_is_found_after_delivery() -> None:
    script, steps, _terms = LEGAL["a deleted waiting pod, not delivered yet"]
    with pytest.raises(LawViolation, match="law 8: a waits on n1, and does not exist"):
        check_steps(shows(*script), *steps, DeliverEvents())


# The adapter ----------------------------------------------------------------------------------


def test_steps_about_missing_pods_and_nodes_are_not_passed_on() -> None:
    made: list[Scripted] = []

    def make() -> Scripted:
        made.append(shows(({"a": "n1"}, {}))())
        return made[-1]

    check_steps(
        make,
        *(RemoveNode("n1"), CancelPods(("a",)), BindFails("a"), N1, N1, ALONE, ALONE, Tick()),
        *(BindSucceeds("a"), BindSucceeds("a"), BindFails("a"), DeliverEvents()),
    )
    assert made[0].calls == ["add n1", "submit a", "succeeded a"]


def test_pods_of_a_removed_node_are_cancelled_after_it() -> None:
    made: list[SimpleScheduler] = []

    class Told(SimpleScheduler):
        def cancel(self, uid: str) -> None:
            assert "n1" not in self.nodes
            super().cancel(uid)
            made.append(self)

    check_steps(Told, N1, PAIR, Settle(), RemoveNode("n1"))
    assert len(made) == 2


def test_adapter_without_a_required_method_is_refused() -> None:
    class Lacks(Scripted):
        cancel: Any = None

    with pytest.raises(InvalidValueError) as refused:
        check_steps(Lacks)
    assert refused.value.field == "cancel"


def test_exception_of_the_scheduler_is_reported_with_its_steps() -> None:
    class Raises(SimpleScheduler):
        def cancel(self, uid: str) -> None:
            raise KeyError(uid)

    with pytest.raises(LawViolation) as found:
        check_scheduler(Raises, settings=surely())
    assert found.value.law is None
    assert str(found.value).startswith("the scheduler raised KeyError: 'u1'\nsteps:\n")
    assert isinstance(found.value.__cause__, KeyError)
    assert len(found.value.steps) == 2


def test_nondeterministic_scheduler_breaks_law_9() -> None:
    made = [0]

    def make() -> SimpleScheduler:
        made[0] += 1
        return DoubleCount() if made[0] % 2 else SimpleScheduler()

    with pytest.raises(AssertionError, match=r"law 9"):
        check_scheduler(make, settings=surely())


def test_too_many_decisions_are_found_with_decision_count() -> None:
    class Busy(SimpleScheduler):
        def decision_count(self) -> int:
            self.done += 30
            return self.done

    with pytest.raises(
        LawViolation, match=r"law 5: one call of tick made \d+ decisions about 0 pods"
    ):
        check_steps(Busy, Tick())
    check_steps(Busy, ALONE, Tick(), spec=SchedulerSpec(decisions_per_pod=100))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("permit_timeout", -1.0),
        ("max_backoff", float("nan")),
        ("resources", ()),
        ("decisions_per_pod", 0),
        ("late_members_join", 1),
    ],
)
def test_scheduler_spec_refuses_invalid_values(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        SchedulerSpec(**{field: value})
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("uid", {"uid": ""}),
        ("min_available", {"uid": "a", "min_available": 2}),
        ("min_available", {"uid": "a", "group": "g", "min_available": 0}),
        ("group", {"uid": "a", "group": ""}),
    ],
)
def test_plain_pod_refuses_invalid_values(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as refused:
        PlainPod(**values)
    assert refused.value.field == field


def test_repr_of_each_step_evaluates_to_the_step() -> None:
    steps: list[Step] = [N1, RemoveNode("n1"), PAIR, ALONE, CancelPods(("a",)), Tick(2.0), Settle()]
    steps += [BindSucceeds("a"), BindFails("a"), DelayEvents(), DeliverEvents(), Restart()]
    assert [eval(repr(step)) for step in steps] == steps
    assert all(str(step) != repr(step) for step in steps)


# The machine ----------------------------------------------------------------------------------


def test_state_machine_provides_a_test_case() -> None:
    right = GangSchedulingMachine.for_(SimpleScheduler).TestCase
    wrong = GangSchedulingMachine.for_(DoubleCount).TestCase
    right.settings = wrong.settings = settings(
        settings.get_profile("ci"), max_examples=50, phases=[Phase.generate]
    )

    passed, failed = (_run(case) for case in (right, wrong))

    assert passed == ""
    assert re.search(r"law 1: gang g\d starts with", failed)
    assert "steps:" in failed


def _run(case: type[unittest.TestCase]) -> str:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert result.testsRun == 1
    return "".join(text for _test, text in [*result.failures, *result.errors])


def test_state_machine_can_be_subclassed() -> None:
    class Mine(GangSchedulingMachine):
        spec = SchedulerSpec(max_backoff=1.0)

        @staticmethod
        def make() -> Any:
            return SimpleScheduler()

    machine = Mine()
    assert machine.runner.spec.max_backoff == 1.0
    with pytest.raises(InvalidValueError, match="for_"):
        GangSchedulingMachine()


_WITHOUT = """
import sys
sys.modules["hypothesis"] = None
sys.path.insert(0, {source!r})
from gangsched import testing
testing.make_pod("p"), testing.check_cluster_state, testing.check_steps
for ask in (lambda: testing.check_scheduler(object), lambda: testing.GangSchedulingMachine,
            lambda: __import__("gangsched.strategies")):
    try:
        ask()
    except ModuleNotFoundError as error:
        print(error)
"""


def test_missing_hypothesis_is_reported_only_by_what_needs_it() -> None:
    source = str(Path(gangsched.__file__).parents[1])
    code = _WITHOUT.format(source=source)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.endswith("pip install 'gangsched[testing]'") for line in lines)


def test_testing_has_no_unknown_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gangsched.testing.nothing  # noqa: B018
