"""A broken law, inside the kit and as the error that users see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from gangsched.testing._steps import Step

__all__ = ["LawBroken", "LawViolation"]


class LawBroken(Exception):
    """A law is broken; the runner turns it into a ``LawViolation``.

    Attributes:
        law: The number of the law.
        message: What was seen, and what was expected.
    """

    def __init__(self, law: int, message: str) -> None:
        super().__init__(law, message)
        self.law = law
        self.message = message


@final
class LawViolation(AssertionError):
    """A scheduler breaks a law of gang scheduling.

    Attributes:
        law: The number of the law; None if the scheduler raised an exception.
        message: What was seen, and what was expected.
        steps: The steps that break the law. Pass them to ``check_steps`` to reproduce it.
        state: Where each pod is after the last step, one line each.
    """

    def __init__(
        self, law: int | None, message: str, steps: Sequence[Step], state: Sequence[str]
    ) -> None:
        super().__init__(law, message, steps, state)
        self.law = law
        self.message = message
        self.steps: tuple[Step, ...] = tuple(steps)
        self.state: tuple[str, ...] = tuple(state)

    def __str__(self) -> str:
        title = self.message if self.law is None else f"law {self.law}: {self.message}"
        steps = [f"  step {n}: {step}" for n, step in enumerate(self.steps, 1)]
        steps = [line.replace("; ", "\n          ") for line in steps]
        state = [f"  {line}" for line in self.state] or ["  no pods"]
        code = [f"        {step!r}," for step in self.steps]
        return "\n".join(
            [
                title,
                "steps:",
                *steps,
                "final state:",
                *state,
                "to reproduce:",
                "    check_steps(make,",
                *code,
                "    )",
            ]
        )
