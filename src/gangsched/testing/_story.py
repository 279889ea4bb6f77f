"""A story: steps that are done to a scheduler, which is held to the laws after each.

Rules:
  R1  what is told and what is seen go to the ledger, which finds fault with laws 1, 2, 6 and 8;
  R2  law 5 is asked when a step says that nothing more happens: whatever surely fits must start
      within the patience of the terms, and no call may take more decisions than they allow;
  R3  what the scheduler raises breaks a story as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, assert_never, final

from gangsched.errors import InvalidValueError
from gangsched.testing._contract import SchedulerUnderTest, Terms
from gangsched.testing._fitting import fitting
from gangsched.testing._ledger import Broken, Ledger
from gangsched.testing._plain import declared, plain
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
    Step,
    Tick,
)

__all__ = ["LawViolation", "Story", "check_story"]

_NEEDED = ("add_node", "remove_node", "submit", "cancel", "tick", "placements")
_AT_LEAST = 8


@final
class LawViolation(AssertionError):
    """A scheduler breaks a law of gang scheduling.

    Attributes:
        law: The number of the law; None where the scheduler raised.
        sentence: What was seen, and what was expected.
        steps: The story, as values: hand them to ``check_story`` to see it again.
        state: Who is where at its end, a line each.
    """

    def __init__(
        self, law: int | None, sentence: str, steps: Sequence[Step], state: Sequence[str]
    ) -> None:
        super().__init__(law, sentence, steps, state)
        self.law = law
        self.sentence = sentence
        self.steps: tuple[Step, ...] = tuple(steps)
        self.state: tuple[str, ...] = tuple(state)

    def __str__(self) -> str:
        title = self.sentence if self.law is None else f"law {self.law}: {self.sentence}"
        told = [f"  step {n}: {step}" for n, step in enumerate(self.steps, 1)]
        told = [line.replace("; ", "\n          ") for line in told]
        where = [f"  {line}" for line in self.state] or ["  nobody is there"]
        code = [f"        {step!r}," for step in self.steps]
        return "\n".join(
            [
                title,
                "the story:",
                *told,
                "at its end:",
                *where,
                "to see it again:",
                "    check_story(make,",
                *code,
                "    )",
            ]
        )


@final
class Story:
    """A scheduler, its ledger, and the steps that were done.

    Args:
        make: Makes a fresh scheduler behind its adapter.
        terms: What it promises.

    Raises:
        InvalidValueError: What was made lacks a method of the contract, or declares a feature
            that is none; names it.
    """

    def __init__(self, make: Callable[[], SchedulerUnderTest], terms: Terms | None = None) -> None:
        self.terms: Terms = Terms() if terms is None else terms
        self.ledger: Ledger = Ledger(self.terms)
        self.steps: list[Step] = []
        self.under_way: dict[str, None] = {}
        self.broken: bool = False
        self._used: set[str] = set()
        self._scheduler: Any = make()
        for name in _NEEDED:
            if not callable(getattr(self._scheduler, name, None)):
                raise InvalidValueError(name, self._scheduler, "a method of the adapter")
        self.features: frozenset[str] = declared(self._scheduler)

    def can(self, *methods: str) -> bool:
        """Say whether the scheduler has these methods."""
        return all(callable(getattr(self._scheduler, name, None)) for name in methods)

    def do(self, step: Step) -> None:
        """Do one step; one that is about nothing that is there does nothing.

        Raises:
            LawViolation: The scheduler breaks a law, or raised.
        """
        self.steps.append(step)
        try:
            self._do(step)
        except Broken as broken:
            self._fail(broken.law, broken.sentence)
        except Exception as error:
            name = type(error).__name__
            self._fail(None, f"the scheduler raised {name}: {error}", cause=error)

    def finish(self) -> None:
        """Let whatever is under way and whatever runs come to its end, one after the other."""
        self.do(Rest())
        for uid in list(self.under_way):
            self.do(BindSucceeds(uid))
        while self.ledger.placed:
            self.do(Rest())
            first = next(iter(self.ledger.placed))
            group = self.ledger.pods[first].group
            members = [first] if group is None else self.ledger.members(group)
            self.do(Leave(tuple(uid for uid in members if uid in self.ledger.placed)))
            self.do(Rest())
        if self.ledger.pods:
            self.do(Leave(tuple(self.ledger.pods)))
            self.do(Tick())

    # Inside ---------------------------------------------------------------------------------

    def _do(self, step: Step) -> None:
        scheduler, ledger = self._scheduler, self.ledger
        failed: tuple[str, ...] = ()
        match step:
            case AddNode():
                if step.name in ledger.nodes:
                    return
                self._add_node(step)
            case RemoveNode(name):
                if name not in ledger.nodes:
                    return
                ledger.remove_node(name)
                scheduler.remove_node(name)
                self._leave([uid for uid, node in ledger.placed.items() if node == name])
            case Arrive(pods):
                for pod in pods:
                    if pod.uid not in self._used:
                        self._used.add(pod.uid)
                        told = ledger.pods[pod.uid] = plain(pod, self.features)
                        scheduler.submit(told)
            case Leave(uids):
                self._leave(uids)
            case Tick(seconds):
                self._pass(seconds)
                return
            case DecideOnce():
                if self.can("decide_once"):
                    scheduler.decide_once()
            case BindSucceeds(uid):
                if uid in self.under_way and self.can("bind_succeeded"):
                    del self.under_way[uid]
                    scheduler.bind_succeeded(uid)
            case BindFails(uid):
                if uid in self.under_way and self.can("bind_failed"):
                    del self.under_way[uid]
                    failed = (uid,)
                    scheduler.bind_failed(uid)
            case RunLate():
                self._be_late(True)
            case CatchUp():
                self._be_late(False)
            case Restart():
                if self.can("restart"):
                    self.under_way.clear()
                    scheduler.restart()
            case Rest():
                self._rest()
                return
            case _:
                assert_never(step)
        self._see(failed, restarted=isinstance(step, Restart))

    def _add_node(self, step: AddNode) -> None:
        labels = step.labels if "topology" in self.features else dict[str, str]()
        taints = step.taints if "taints" in self.features else ()
        self.ledger.add_node(step.name, step.capacity, labels, taints)
        told: dict[str, Any] = {}
        if "topology" in self.features:
            told["labels"] = dict(labels)
        if "taints" in self.features:
            told["taints"] = taints
        self._scheduler.add_node(step.name, dict(step.capacity), **told)

    def _leave(self, uids: Sequence[str]) -> None:
        for uid in uids:
            if uid in self.ledger.pods:
                self.ledger.leave(uid)
                self._scheduler.cancel(uid)

    def _be_late(self, late: bool) -> None:
        if late == self.ledger.late or not self.can("lag"):
            return
        self._scheduler.lag(late)
        self._see()
        self.ledger.be_told(late=late)

    def _pass(self, seconds: float) -> None:
        """Let time pass, in calls that are short beside what the terms promise."""
        left = seconds
        while True:
            piece = min(left, self.ledger.pace())
            left -= piece
            self._tick(piece)
            if left <= 0:
                return

    def _tick(self, seconds: float) -> None:
        pods = len(self.ledger.pods)
        before = self._scheduler.work() if self.can("work") else 0
        self.ledger.now += seconds
        self._scheduler.tick(seconds)
        self._see()
        if self.can("work"):
            done, allowed = self._scheduler.work() - before, self._allowed(pods)
            if done > allowed:
                sentence = f"{done} decisions were made at once about {pods} pods, not {allowed}"
                raise Broken(5, f"{sentence} at most")

    def _allowed(self, pods: int) -> int:
        return _AT_LEAST + self.terms.work_per_pod * pods

    def _rest(self) -> None:
        self._be_late(False)
        self._see()
        self._tick(0.0)
        while names := fitting(self.ledger):
            self._wait_for(names)

    def _wait_for(self, names: Sequence[str]) -> None:
        before, since = set(self.ledger.placed), self.ledger.now
        patience = self.terms.patience(len(self.ledger.pending()))
        while not set(self.ledger.placed) - before:
            if self.ledger.now - since > patience:
                waited = self.ledger.now - since
                raise Broken(5, f"{names[0]} fits, and after {waited:g} s nobody has started")
            self._tick(self.ledger.pace())

    def _see(self, failed: Sequence[str] = (), *, restarted: bool = False) -> None:
        before = self.ledger.placed
        placed = dict(self._scheduler.placements())
        if self.ledger.late:
            placed = self._without_ghosts(placed)
        held = dict(self._scheduler.held()) if self.can("held") else {}
        self.ledger.see(placed, held, failed=failed, restarted=restarted)
        for uid in list(self.under_way):
            if uid not in placed:
                del self.under_way[uid]
        if not restarted:
            self.under_way |= {u: None for u in placed if u not in before or u in failed}
        if restarted:
            self.ledger.be_told(late=False)

    def _without_ghosts(self, placed: dict[str, str]) -> dict[str, str]:
        """Let those go that were placed on a node of which nobody has told yet that it is gone."""
        gone = [uid for uid, name in placed.items() if name not in self.ledger.nodes]
        self._leave(gone)
        return {uid: name for uid, name in placed.items() if uid not in gone}

    def _fail(self, law: int | None, sentence: str, *, cause: Exception | None = None) -> NoReturn:
        self.broken = True
        raise LawViolation(law, sentence, self.steps, list(self.ledger.lines())) from cause


def check_story(
    make: Callable[[], SchedulerUnderTest], *steps: Step, terms: Terms | None = None
) -> None:
    """Hold a scheduler to the laws over one story, such as one that once broke a law.

    Args:
        make: Makes a fresh scheduler behind its adapter.
        steps: What happens, in order.
        terms: What the scheduler promises.

    Raises:
        LawViolation: It breaks a law.
    """
    story = Story(make, terms)
    for step in steps:
        story.do(step)
