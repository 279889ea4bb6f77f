"""``check_scheduler``: the laws in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gangsched.testing._contract import SchedulerUnderTest, Terms

if TYPE_CHECKING:
    from hypothesis import settings as Settings  # noqa: N812

__all__ = ["check_scheduler"]


def check_scheduler(
    make: Callable[[], SchedulerUnderTest],
    *,
    terms: Terms | None = None,
    settings: Settings | None = None,
) -> None:
    """Hold a scheduler, any scheduler, to the laws that can be seen from outside.

    Law 1 (all or nothing), 2 (who falls lets go at once), 5 (no livelock, no starvation), 6
    (bounded hold) and 8 (one account, no node oversubscribed), over stories that are drawn: nodes
    and pods that come and go, time that passes, and the faults for which the adapter has methods.

    Needs the ``testing`` extra.

    Args:
        make: Makes a fresh scheduler behind its adapter.
        terms: What it promises: how long it holds and rests, and more.
        settings: Of hypothesis: how many stories (``max_examples``), and of how many steps
            (``stateful_step_count``). None for those of the profile that is loaded.

    Raises:
        LawViolation: It breaks a law. The message tells the shortest story, and how to see it
            again.
        AssertionError: One story had two outcomes: law 9.
        ModuleNotFoundError: hypothesis is not installed.
    """
    from gangsched.testing._machine import run  # only here is hypothesis needed

    run(make, terms or Terms(), settings)
