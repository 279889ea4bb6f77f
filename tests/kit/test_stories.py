"""What a story finds fault with, and what it does not, by a scheduler that does as it is told."""

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
    Arrive,
    BindFails,
    BindSucceeds,
    CatchUp,
    GangSchedulingMachine,
    LawViolation,
    Leave,
    PlainPod,
    RemoveNode,
    Rest,
    Restart,
    RunLate,
    Step,
    Terms,
    Tick,
    check_scheduler,
    check_story,
)
from gangsched.testing._fits import surely_fit
from kit.toy import Toy
from kit.wrong import DoubleCount
from support.examples import surely

Shown = tuple[Mapping[str, str], Mapping[str, tuple[str, int]]]


class Scripted:
    """Shows with each tick what comes next in its script, and goes on showing the last of it."""

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

    def held(self) -> Mapping[str, tuple[str, int]]:
        return self.shown[1]

    def bind_succeeded(self, uid: str) -> None:
        self.calls.append(f"succeeded {uid}")

    def bind_failed(self, uid: str) -> None:
        self.calls.append(f"failed {uid}")
        self.tick(0)

    def restart(self) -> None:
        self.calls.append("restart")
        self.tick(0)

    def lag(self, late: bool) -> None:
        self.calls.append(f"lag {late}")


def shows(*script: Shown) -> type[Scripted]:
    """Return schedulers that show this."""
    return type("Shows", (Scripted,), {"script": script})


def gang(*uids: str, needs: int = 2, gpu: int = 1) -> Arrive:
    """Return the arrival of members of one gang."""
    return Arrive(
        tuple(PlainPod(uid=u, group="g", min_available=needs, requests={"gpu": gpu}) for u in uids)
    )


N1, N2 = AddNode("n1", {"gpu": 2}), AddNode("n2", {"gpu": 2})
ALONE = Arrive((PlainPod(uid="a", requests={"gpu": 1}),))
PAIR = gang("a", "b")
BOTH: Shown = ({"a": "n1", "b": "n1"}, {})
NOBODY: Shown = ({}, {})

BROKEN: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...], int, str]] = {
    "a gang in part": (
        (({"a": "n1"}, {}),),
        (N1, PAIR, Tick()),
        1,
        "gang g starts with 1 (a), and needs 2 together",
    ),
    "a gang in part when nobody of it is left": (
        (BOTH, ({"c": "n1"}, {})),
        (N1, PAIR, gang("c"), Tick(), Leave(("a", "b")), Tick()),
        8,
        "a is placed on n1, and does not exist (any more)",
    ),
    "one of an attempt lets go": (
        (({}, {"a": ("n1", 1), "b": ("n1", 1)}), ({}, {"b": ("n1", 1)})),
        (N1, gang("a", "b", "c", needs=3), Tick(), Tick()),
        2,
        "gang g: a has let go of n1, and b still holds n1",
    ),
    "a hold without end": (
        (({}, {"a": ("n1", 1)}),),
        (N1, PAIR, Tick(), Tick(10.0), Tick(1.0)),
        6,
        "gang g holds nodes for 11 s and more (a n1), not for 10 s at most",
    ),
    "a pod of nobody": (
        (({"x": "n1"}, {}),),
        (N1, Tick()),
        8,
        "x is placed on n1, and does not exist (any more)",
    ),
    "a node of nobody": (
        (({"a": "n3"}, {}),),
        (ALONE, Tick()),
        8,
        "a is placed on n3, and there is no such node",
    ),
    "a pod that moves": (
        (({"a": "n1"}, {}), ({"a": "n2"}, {})),
        (N1, N2, ALONE, Tick(), Tick()),
        8,
        "a was placed on n1, and is now placed on n2",
    ),
    "a pod that is lost": (
        (({"a": "n1"}, {}), NOBODY),
        (N1, ALONE, Tick(), Tick()),
        8,
        "a was placed on n1, and is on no node; nobody cancelled it",
    ),
    "a pod in two places": (
        (({"a": "n1"}, {"a": ("n2", 0)}),),
        (N1, N2, ALONE, Tick()),
        8,
        "a is placed on n1, and also holds n2",
    ),
    "a hold of nobody": (
        (({}, {"x": ("n1", 0)}),),
        (N1, Tick()),
        8,
        "x holds n1, and does not exist (any more)",
    ),
    "a hold of no node": (
        (({}, {"a": ("n3", 0)}),),
        (ALONE, Tick()),
        8,
        "a holds n3, and there is no such node",
    ),
    "a node taken twice": (
        (BOTH,),
        (N1, gang("a", "b", gpu=2), Tick()),
        8,
        "n1 offers 2 gpu, and a, b take 4 of it",
    ),
    "a node taken by who holds it": (
        (({"a": "n1"}, {"b": ("n1", 0)}),),
        (
            AddNode("n1", {"gpu": 1}),
            Arrive((*ALONE.pods, PlainPod(uid="b", requests={"gpu": 1}))),
            Tick(),
        ),
        8,
        "n1 offers 1 gpu, and a, b take 2 of it",
    ),
    "nobody starts": (
        (),
        (N1, PAIR, Rest()),
        5,
        "gang g (a, b) fits, and after 83 s nobody has started",
    ),
    "nobody joins": (
        (BOTH,),
        (AddNode("n1", {"gpu": 3}), gang("a", "b", "c"), Tick(), Rest()),
        5,
        "gang g (c) fits, and after 83 s nobody has started",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_story_that_breaks_a_law_says_which_and_why(what: str) -> None:
    script, steps, law, sentence = BROKEN[what]
    with pytest.raises(LawViolation) as found:
        check_story(shows(*script), *steps)
    assert (found.value.law, found.value.sentence) == (law, sentence)


KEPT: dict[str, tuple[tuple[Shown, ...], tuple[Step, ...], Terms]] = {
    "a gang together": ((BOTH,), (N1, PAIR, Rest()), Terms()),
    "one who joins": (
        (BOTH, ({"a": "n1", "b": "n1", "c": "n2"}, {})),
        (N1, N2, gang("a", "b", "c"), Tick(), Tick()),
        Terms(),
    ),
    "a gang that falls and tries again at once": (
        (({}, {"a": ("n1", 1), "b": ("n1", 1)}), ({}, {"b": ("n1", 2)})),
        (N1, gang("a", "b", "c", needs=3), Tick(), Tick()),
        Terms(),
    ),
    "a hold of one timeout": (
        (*[({}, {"a": ("n1", 1)})] * 11, NOBODY),
        (N1, gang("a", "b", gpu=2), Tick(), Tick(11.0)),
        Terms(),
    ),
    "a start that failed": (
        (({"a": "n1"}, {}), NOBODY, ({"a": "n2"}, {})),
        (N1, N2, ALONE, Tick(), BindFails("a"), Tick()),
        Terms(),
    ),
    "an eviction by who evicts": (
        (({"a": "n1"}, {}), NOBODY),
        (N1, ALONE, Tick(), Tick()),
        Terms(evicts=True),
    ),
    "who joins nobody": (
        (BOTH,),
        (AddNode("n1", {"gpu": 3}), gang("a", "b", "c"), Tick(), Rest()),
        Terms(joins=False),
    ),
    "who may go on alone": (
        (BOTH, ({"b": "n1"}, {}), NOBODY, ({"c": "n1"}, {})),
        (N1, gang("a", "b", "c"), Tick(), BindFails("a"), BindFails("b"), Tick()),
        Terms(once=True),
    ),
    "what was not told of yet": (
        (({"a": "n1"}, {}),),
        (N1, PAIR, RunLate(), Leave(("b",)), Tick()),
        Terms(),
    ),
    "who is told of late to be gone, and still holds": (
        (({}, {"a": ("n1", 1)}), ({}, {"a": ("n1", 1)})),
        (N1, PAIR, Tick(), RunLate(), Leave(("a",)), Tick()),
        Terms(),
    ),
    "what does not fit": ((), (N1, gang("a", "b", gpu=2), Rest()), Terms()),
    "what is too few": ((), (N1, gang("a"), Rest()), Terms()),
    "what is lost by a restart": (
        (({}, {"a": ("n1", 1), "b": ("n1", 1)}), ({}, {"b": ("n1", 1)})),
        (N1, gang("a", "b", "c", needs=3), Tick(), Restart()),
        Terms(),
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_a_story_that_breaks_no_law_is_passed(what: str) -> None:
    script, steps, terms = KEPT[what]
    check_story(shows(*script), *steps, terms=terms)


def test_who_goes_on_alone_without_leave_is_found() -> None:
    script, steps, _terms = KEPT["who may go on alone"]
    with pytest.raises(LawViolation, match="law 1: gang g starts with 1"):
        check_story(shows(*script), *steps)


def test_what_is_late_is_held_against_a_scheduler_when_it_has_been_told() -> None:
    script, steps, _terms = KEPT["who is told of late to be gone, and still holds"]
    with pytest.raises(LawViolation, match="law 8: a holds n1, and does not exist"):
        check_story(shows(*script), *steps, CatchUp())


# The adapter ----------------------------------------------------------------------------------


def test_an_adapter_is_told_of_what_there_is_and_of_nothing_else() -> None:
    made: list[Scripted] = []

    def make() -> Scripted:
        made.append(shows(({"a": "n1"}, {}))())
        return made[-1]

    check_story(
        make,
        *(RemoveNode("n1"), Leave(("a",)), BindFails("a"), N1, N1, ALONE, ALONE, Tick()),
        *(BindSucceeds("a"), BindSucceeds("a"), BindFails("a"), CatchUp()),
    )
    assert made[0].calls == ["add n1", "submit a", "succeeded a"]


def test_when_a_node_goes_those_who_are_placed_there_are_cancelled_after_it() -> None:
    made: list[Toy] = []

    class Told(Toy):
        def cancel(self, uid: str) -> None:
            assert "n1" not in self.nodes
            super().cancel(uid)
            made.append(self)

    check_story(Told, N1, PAIR, Rest(), RemoveNode("n1"))
    assert len(made) == 2


def test_an_adapter_that_lacks_a_method_is_refused_by_name() -> None:
    class Lacks(Scripted):
        cancel: Any = None

    with pytest.raises(InvalidValueError) as refused:
        check_story(Lacks)
    assert refused.value.field == "cancel"


def test_what_a_scheduler_raises_is_told_with_its_story() -> None:
    class Raises(Toy):
        def cancel(self, uid: str) -> None:
            raise KeyError(uid)

    with pytest.raises(LawViolation) as found:
        check_scheduler(Raises, settings=surely())
    assert found.value.law is None
    assert str(found.value).startswith("the scheduler raised KeyError: 'u1'\nthe story:\n")
    assert isinstance(found.value.__cause__, KeyError)
    assert len(found.value.steps) == 2


def test_a_scheduler_with_two_outcomes_is_told_apart_from_one_that_breaks_a_law() -> None:
    made = [0]

    def make() -> Toy:
        made[0] += 1
        return DoubleCount() if made[0] % 2 else Toy()

    with pytest.raises(AssertionError, match=r"law 9"):
        check_scheduler(make, settings=surely())


def test_a_storm_is_found_only_where_work_is_counted() -> None:
    class Busy(Toy):
        def work(self) -> int:
            self.done += 30
            return self.done

    with pytest.raises(LawViolation, match=r"law 5: \d+ decisions were made at once about 0 pods"):
        check_story(Busy, Tick())
    check_story(Busy, ALONE, Tick(), terms=Terms(work_per_pod=100))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hold_timeout", -1.0),
        ("rest", float("nan")),
        ("resources", ()),
        ("work_per_pod", 0),
        ("joins", 1),
    ],
)
def test_terms_that_mean_nothing_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Terms(**{field: value})
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
def test_a_plain_pod_that_means_nothing_is_refused(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as refused:
        PlainPod(**values)
    assert refused.value.field == field


def test_every_step_is_the_code_that_makes_it() -> None:
    steps: list[Step] = [N1, RemoveNode("n1"), PAIR, ALONE, Leave(("a",)), Tick(2.0), Rest()]
    steps += [BindSucceeds("a"), BindFails("a"), RunLate(), CatchUp(), Restart()]
    assert [eval(repr(step)) for step in steps] == steps
    assert all(str(step) != repr(step) for step in steps)


# The machine ----------------------------------------------------------------------------------


def test_the_machine_is_a_test_case() -> None:
    right = GangSchedulingMachine.for_(Toy).TestCase
    wrong = GangSchedulingMachine.for_(DoubleCount).TestCase
    right.settings = wrong.settings = settings(
        settings.get_profile("ci"), max_examples=50, phases=[Phase.generate]
    )

    passed, failed = (_run(case) for case in (right, wrong))

    assert passed == ""
    assert re.search(r"law 1: gang g\d starts with", failed)
    assert "the story:" in failed


def _run(case: type[unittest.TestCase]) -> str:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert result.testsRun == 1
    return "".join(text for _test, text in [*result.failures, *result.errors])


def test_the_machine_can_be_derived_from() -> None:
    class Mine(GangSchedulingMachine):
        terms = Terms(rest=1.0)

        @staticmethod
        def make() -> Any:
            return Toy()

    machine = Mine()
    assert machine.story.terms.rest == 1.0
    with pytest.raises(InvalidValueError, match="for_"):
        GangSchedulingMachine()


_WITHOUT = """
import sys
sys.modules["hypothesis"] = None
sys.path.insert(0, {source!r})
from gangsched import testing
testing.make_pod("p"), testing.check_cluster_state, testing.check_story
for ask in (lambda: testing.check_scheduler(object), lambda: testing.GangSchedulingMachine,
            lambda: __import__("gangsched.strategies")):
    try:
        ask()
    except ModuleNotFoundError as error:
        print(error)
"""


def test_without_hypothesis_all_else_works_and_what_needs_it_says_how_to_get_it() -> None:
    source = str(Path(gangsched.__file__).parents[1])
    code = _WITHOUT.format(source=source)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.endswith("pip install 'gangsched[testing]'") for line in lines)


def test_testing_has_no_name_that_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gangsched.testing.nothing  # noqa: B018


# What surely fits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "free", "needed", "fits"),
    [
        ([1, 1], [2], 2, True),
        ([1, 1], [1], 2, False),
        ([1, 1], [1], 1, True),
        ([2, 2], [3, 3], 2, True),
        ([2, 2], [3, 1], 2, False),
        ([1, 2], [1, 2], 2, False),  # the small one may take the large node
        ([1, 2], [2, 2], 2, True),
        ([1, 2], [1, 2], 1, True),
        ([3, 1, 1], [2], 2, True),
        ([], [5], 1, False),
        ([0], [], 1, False),
    ],
)
def test_what_surely_fits_fits_in_every_order(
    requests: list[int], free: list[int], needed: int, fits: bool
) -> None:
    asks = [{"gpu": n} for n in requests]
    rooms = {f"n{k}": {"gpu": n} for k, n in enumerate(free)}
    assert surely_fit(asks, rooms, needed) is fits
