"""``check_scheduler``: check the laws in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gangsched.testing._contract import SchedulerSpec, SchedulerUnderTest

if TYPE_CHECKING:
    from hypothesis import settings as Settings  # noqa: N812

__all__ = ["check_scheduler"]


def check_scheduler(
    make: Callable[[], SchedulerUnderTest],
    *,
    spec: SchedulerSpec | None = None,
    settings: Settings | None = None,
) -> None:
    """Check any scheduler against the laws that can be observed from outside.

    These are law 1 (all or nothing), 2 (a rejected attempt gives everything back at once), 5 (no
    livelock, no starvation), 6 (bounded hold) and 8 (no node oversubscribed). Hypothesis draws the
    test cases: nodes and pods that are added and removed, time that passes, and the faults for
    which the adapter has methods.

    Needs the ``testing`` extra.

    Args:
        make: Returns a fresh adapter.
        spec: What the kit may expect of the scheduler, such as its timeouts.
        settings: The settings of Hypothesis, such as the number of test cases
            (``max_examples``) and of steps (``stateful_step_count``). None for those of the
            loaded profile.

    Raises:
        LawViolation: The scheduler breaks a law. The message has the shrunk steps, and the code
            that reproduces them.
        AssertionError: The same steps had two outcomes: law 9.
        ModuleNotFoundError: Hypothesis is not installed.
    """
    from gangsched.testing._machine import run  # hypothesis is optional until this call

    run(make, spec or SchedulerSpec(), settings)
