"""The machine that tells stories to a scheduler until one breaks a law.

Rules:
  R1  whatever is drawn is a step that can be: a choice among what is there is a number, taken
      modulo how many there are;
  R2  members of one gang agree on all that is said of the gang and, but for other terms, on
      what they ask for;
  R3  a story is about few features, most often: what else is drawn is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from gangsched.errors import InvalidValueError
from gangsched.testing._contract import PlainPod, SchedulerUnderTest, Terms
from gangsched.testing._plain import plain
from gangsched.testing._shortest import shortest
from gangsched.testing._steps import (
    AddNode,
    Arrive,
    BindFails,
    BindSucceeds,
    CatchUp,
    DecideOnce,
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

from gangsched.testing._draws import (  # needs hypothesis, too
    ABOUT,
    AMOUNTS,
    SIZES,
    SPOTS,
    Kind,
    Spot,
    alone,
    bundles,
    by_turns,
    kinds,
)

__all__ = ["GangSchedulingMachine", "run"]

_Members = list[tuple[int, str | None]]

_GANGS = 3
_NODES = 4
_PODS = 12

_WHATEVER_IT_COSTS = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
)
_index = st.integers(0, 11)
_gang_index = st.integers(0, _GANGS - 1)


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
        raise InvalidValueError("make", None, "set: use GangSchedulingMachine.for_(make)")

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
        self._features = frozenset[str]()
        self._kinds: list[Kind] = []
        self._bundles: list[tuple[int, ...]] = []
        self._pods = self._nodes = 0

    # What may happen ------------------------------------------------------------------------

    @initialize(
        gangs=kinds(_GANGS),
        nodes=st.lists(st.tuples(SIZES, SPOTS), min_size=1, max_size=2),
        about=ABOUT,
    )
    def begin(
        self, gangs: list[Kind], nodes: list[tuple[int, Spot]], about: Collection[str]
    ) -> None:
        """Say what the story is about and what the gangs are like; let nodes come."""
        self._features = self.story.features.intersection(about)
        self._kinds, self._bundles = gangs, bundles(gangs, self._features)
        for size, spot in nodes:
            self._add_node(size, size, spot)

    @precondition(lambda self: len(self.story.ledger.nodes) < _NODES)
    @rule(first=SIZES, others=SIZES, spot=SPOTS)
    def add_node(self, first: int, others: int, spot: Spot) -> None:
        """Let a node come."""
        self._add_node(first, others, spot)

    @precondition(lambda self: self.story.ledger.nodes)
    @rule(index=_index)
    def remove_node(self, index: int) -> None:
        """Let a node go."""
        names = list(self.story.ledger.nodes)
        self.story.do(RemoveNode(names[index % len(names)]))

    @precondition(lambda self: len(self.story.ledger.pods) < _PODS)
    @rule(gang=_gang_index, spare=st.sampled_from([0, 0, 0, 1, -1]), name=_index)
    def arrive_whole(self, gang: int, spare: int, name: int) -> None:
        """Let as many members of a gang come as it needs, one more or less; and its bundle."""
        whole = self._whole(gang, name, spare)
        for other in self._bundles[gang]:
            whole += self._whole(other, name) if other != gang else []
        self._arrive(whole, name)

    @precondition(lambda self: len(self.story.ledger.pods) < _PODS)
    @rule(
        gangs=st.lists(st.sampled_from([0, 1, 0, 1, 2, None]), min_size=1, max_size=4),
        amounts=st.lists(AMOUNTS, min_size=4, max_size=4),
        name=_index,
    )
    def arrive(self, gangs: list[int | None], amounts: list[int], name: int) -> None:
        """Let pods come, of any gang or none."""
        members = [
            (gang, None if gang is None else self._kinds[gang].role(name + n))
            for n, gang in enumerate(gangs)
        ]
        self._arrive(members, name, amounts)

    @precondition(lambda self: len(self.story.ledger.pods) < _PODS)
    @rule(first=_gang_index, second=_gang_index, name=_index, in_turn=st.booleans())
    def arrive_at_once(self, first: int, second: int, name: int, in_turn: bool) -> None:
        """Let two whole gangs come in one instant, one after the other or by turns."""
        whole = [self._whole(gang, name) for gang in dict.fromkeys((first, second))]
        self._arrive(by_turns(whole) if in_turn else [m for each in whole for m in each], name)

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

    @precondition(lambda self: self.story.can("decide_once"))
    @rule()
    def decide_once(self) -> None:
        """Let one decision be made."""
        self.story.do(DecideOnce())

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

    def _add_node(self, first: int, others: int, spot: Spot) -> None:
        self._nodes += 1
        amounts = [first] + [others] * (len(self.terms.resources) - 1)
        capacity = dict(zip(self.terms.resources, amounts, strict=True))
        features = self._features
        labels = spot.labels if "topology" in features else dict[str, str]()
        taints = spot.taints if "taints" in features else ()
        self.story.do(AddNode(f"n{self._nodes}", capacity, labels, taints))

    def _under_way(self, index: int) -> str:
        uids = list(self.story.under_way)
        return uids[index % len(uids)]

    def _whole(self, gang: int, first: int, spare: int = 0) -> _Members:
        """Return as many members of a gang as it needs, and some to spare, with their roles."""
        kind = self._kinds[gang]
        count = max(1, kind.least(self._features) + spare)
        return [(gang, role) for role in kind.whole(count, first)]

    def _arrive(
        self,
        members: Sequence[tuple[int | None, str | None]],
        name: int,
        amounts: Sequence[int] | None = None,
    ) -> None:
        pods = list[PlainPod]()
        for n, (gang, role) in enumerate(members):
            self._pods += 1
            amount = 1 if amounts is None else amounts[n]
            if gang is not None and (not self.terms.unlike or (role and amounts is None)):
                amount = self._kinds[gang].amount
            asked = dict.fromkeys(self.terms.resources, amount)
            if gang is None:
                pod = alone(self._pods, name + n, asked)
            else:
                pod = self._kinds[gang].pod(
                    self._pods,
                    gang,
                    name=name + n,
                    amounts=asked,
                    role=role,
                    bundle=self._bundles[gang],
                    features=self._features,
                )
            pods.append(plain(pod, self._features))
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
