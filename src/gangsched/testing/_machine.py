"""The machine that tells stories to a scheduler until one breaks a law.

Rules:
  R1  whatever is drawn is a step that can be: a choice among what is there is a number, taken
      modulo how many there are;
  R2  members of one gang agree on their minimum, their priority and, but for other terms, on
      what they ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from gangsched.errors import InvalidValueError
from gangsched.testing._contract import PlainPod, SchedulerUnderTest, Terms
from gangsched.testing._shortest import shortest
from gangsched.testing._steps import (
    AddNode,
    Arrive,
    BindFails,
    BindSucceeds,
    CatchUp,
    Leave,
    RemoveNode,
    Rest,
    Restart,
    RunLate,
    Tick,
)
from gangsched.testing._story import LawViolation, Story

try:
    from hypothesis import HealthCheck, Phase, errors, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import (
        RuleBasedStateMachine,
        initialize,
        precondition,
        rule,
        run_state_machine_as_test,
    )
except ModuleNotFoundError as error:  # said in our words, for who installs by error message
    raise ModuleNotFoundError(
        "the machine needs hypothesis: pip install 'gangsched[testing]'", name="hypothesis"
    ) from error

__all__ = ["GangSchedulingMachine", "run"]

_GANGS = 3
_NODES = 4
_PODS = 12
_NAMES = 6

_WHATEVER_IT_COSTS = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
)
_index = st.integers(0, 11)
_gang_index = st.integers(0, _GANGS - 1)
_amount = st.sampled_from([1, 1, 1, 2])
_size = st.sampled_from([1, 2, 2, 3, 4, 8, 8])
_minimum = st.sampled_from([2, 2, 2, 3, 1, 4, 6, 8])
_gang = st.tuples(_minimum, _amount, st.sampled_from([0, 0, 0, 1]))


class GangSchedulingMachine(RuleBasedStateMachine):
    """Holds a scheduler to the laws of gang scheduling, over stories that hypothesis draws.

    For a test runner that knows ``unittest``::

        TestMine = GangSchedulingMachine.for_(make).TestCase

    Or derive from it, and say ``make`` and ``terms``.

    Attributes:
        terms: What the scheduler promises.
    """

    terms: Terms = Terms()

    @staticmethod
    def make() -> SchedulerUnderTest:
        """Make a fresh scheduler behind its adapter."""
        raise InvalidValueError("make", None, "said: GangSchedulingMachine.for_(make)")

    @classmethod
    def for_(
        cls, make: Callable[[], SchedulerUnderTest], *, terms: Terms | None = None
    ) -> type[GangSchedulingMachine]:
        """Return the machine of one scheduler.

        Args:
            make: Makes a fresh scheduler behind its adapter: see ``SchedulerUnderTest``.
            terms: What it promises; the terms as they are by default without them.
        """
        body = {"make": staticmethod(make), "terms": terms or Terms()}
        return type("GangSchedulingMachine", (cls,), body)

    def __init__(self) -> None:
        super().__init__()
        self.story: Story = Story(self.make, self.terms)
        self._gangs: list[tuple[int, int, int]] = []
        self._pods = self._nodes = 0

    # What may happen ------------------------------------------------------------------------

    @initialize(
        gangs=st.lists(_gang, min_size=_GANGS, max_size=_GANGS),
        sizes=st.lists(_size, min_size=1, max_size=2),
    )
    def begin(self, gangs: list[tuple[int, int, int]], sizes: list[int]) -> None:
        """Say what the gangs are like, their minimum, what they ask, priority; let nodes come."""
        self._gangs = gangs
        for size in sizes:
            self._add_node(size, size)

    @precondition(lambda self: len(self.story.ledger.nodes) < _NODES)
    @rule(first=_size, others=_size)
    def add_node(self, first: int, others: int) -> None:
        """Let a node come."""
        self._add_node(first, others)

    @precondition(lambda self: self.story.ledger.nodes)
    @rule(index=_index)
    def remove_node(self, index: int) -> None:
        """Let a node go."""
        names = list(self.story.ledger.nodes)
        self.story.do(RemoveNode(names[index % len(names)]))

    @precondition(lambda self: len(self.story.ledger.pods) < _PODS)
    @rule(gang=_gang_index, spare=st.sampled_from([0, 0, 0, 1, -1]), name=_index)
    def arrive_whole(self, gang: int, spare: int, name: int) -> None:
        """Let as many members of a gang come as it needs, one more, or one less."""
        count = max(1, self._gangs[gang][0] + spare)
        self._arrive([gang] * count, [1] * count, name)

    @precondition(lambda self: len(self.story.ledger.pods) < _PODS)
    @rule(
        gangs=st.lists(st.sampled_from([0, 1, 0, 1, 2, None]), min_size=1, max_size=4),
        amounts=st.lists(_amount, min_size=4, max_size=4),
        name=_index,
    )
    def arrive(self, gangs: list[int | None], amounts: list[int], name: int) -> None:
        """Let pods come, of any gang or none."""
        self._arrive(gangs, amounts, name)

    @precondition(lambda self: len(self.story.ledger.pods) < _PODS)
    @rule(first=_gang_index, second=_gang_index, name=_index, by_turns=st.booleans())
    def arrive_at_once(self, first: int, second: int, name: int, by_turns: bool) -> None:
        """Let two whole gangs come in one instant, one after the other or by turns."""
        whole = [[gang] * self._gangs[gang][0] for gang in dict.fromkeys((first, second))]
        gangs = [gang for each in whole for gang in each]
        if by_turns:
            gangs = [gang for each in zip_longest(*whole) for gang in each if gang is not None]
        self._arrive(gangs, [1] * len(gangs), name)

    @precondition(lambda self: self.story.ledger.pods)
    @rule(index=_index, together=st.booleans())
    def leave(self, index: int, together: bool) -> None:
        """Let a pod go, or all that are placed of its gang."""
        ledger = self.story.ledger
        uids = list(ledger.pods)
        uid = uids[index % len(uids)]
        group = ledger.pods[uid].group
        if group is not None and together:
            uids = [each for each in ledger.members(group) if each in ledger.placed]
        self.story.do(Leave(tuple(uids) if group is not None and together else (uid,)))

    @rule(of=st.sampled_from(["nothing", "nothing", "a second", "the hold", "the rest"]))
    def tick(self, of: str) -> None:
        """Let time pass."""
        terms = self.terms
        seconds = {"nothing": 0.0, "a second": 1.0, "the hold": terms.hold_timeout}
        self.story.do(Tick(seconds.get(of, terms.rest)))

    @rule()
    def rest(self) -> None:
        """Let nothing happen until whatever fits has started."""
        self.story.do(Rest())

    @precondition(lambda self: self.story.under_way and self.story.can("bind_succeeded"))
    @rule(index=_index)
    def bind_succeeds(self, index: int) -> None:
        """Let a pod be reported to run."""
        self.story.do(BindSucceeds(self._under_way(index)))

    @precondition(lambda self: self.story.under_way and self.story.can("bind_failed"))
    @rule(index=_index)
    def bind_fails(self, index: int) -> None:
        """Let a pod be reported to have failed to start."""
        self.story.do(BindFails(self._under_way(index)))

    @precondition(lambda self: self.story.can("restart"))
    @rule()
    def restart(self) -> None:
        """Let the scheduler start anew."""
        self.story.do(Restart())

    @precondition(lambda self: self.story.can("lag"))
    @rule()
    def be_late(self) -> None:
        """Let facts be told late from now on, or all that are."""
        self.story.do(CatchUp() if self.story.ledger.late else RunLate())

    def teardown(self) -> None:
        """Let all come to its end, unless a law is broken already."""
        if not self.story.broken and self.story.steps:
            self.story.finish()

    # Inside ---------------------------------------------------------------------------------

    def _add_node(self, first: int, others: int) -> None:
        self._nodes += 1
        amounts = [first] + [others] * (len(self.terms.resources) - 1)
        capacity = dict(zip(self.terms.resources, amounts, strict=True))
        self.story.do(AddNode(f"n{self._nodes}", capacity))

    def _under_way(self, index: int) -> str:
        uids = list(self.story.under_way)
        return uids[index % len(uids)]

    def _arrive(self, gangs: list[int | None] | list[int], amounts: list[int], name: int) -> None:
        pods: list[PlainPod] = []
        for n, gang in enumerate(gangs):
            self._pods += 1
            minimum, amount, priority = (1, amounts[n], 0) if gang is None else self._gangs[gang]
            if self.terms.unlike:
                amount = amounts[n]
            requests = dict.fromkeys(self.terms.resources, amount)
            pods.append(
                PlainPod(
                    uid=f"u{self._pods}",
                    name=f"w-{(name + n) % _NAMES}",
                    group=None if gang is None else f"g{gang}",
                    min_available=minimum,
                    requests=requests,
                    priority=priority,
                )
            )
        self.story.do(Arrive(tuple(pods)))


def run(make: Callable[[], SchedulerUnderTest], terms: Terms, given: Any) -> None:
    """Run the machine; raise the shortest story that breaks a law.

    Args:
        make: Makes a fresh scheduler behind its adapter.
        terms: What it promises.
        given: Settings of hypothesis; None for those of the profile that is loaded.

    Raises:
        LawViolation: The scheduler breaks a law.
        AssertionError: It does so at one time, and not at another: law 9.
    """
    base: settings = given if given is not None else settings()
    left_out = (Phase.shrink, Phase.explain)  # the story is made shorter by itself
    changed = settings(
        parent=base,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=[phase for phase in base.phases if phase not in left_out],
        suppress_health_check=_WHATEVER_IT_COSTS,
    )
    try:
        run_state_machine_as_test(GangSchedulingMachine.for_(make, terms=terms), settings=changed)
    except LawViolation as found:
        violation = shortest(make, found, terms)
        raise violation from violation.__cause__
    except errors.Flaky as flaky:
        raise AssertionError(f"law 9: one story had two outcomes: {flaky}") from flaky
