"""The shortest story that breaks a law, from a longer one.

Rules:
  R1  a shorter story counts when it breaks the same law;
  R2  in the end no step and no pod can be left out, and no number made smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from gangsched.testing._contract import SchedulerUnderTest, Terms
from gangsched.testing._steps import AddNode, Arrive, Leave, Step, Tick
from gangsched.testing._story import LawViolation, check_story

__all__ = ["shortest"]


def shortest(
    make: Callable[[], SchedulerUnderTest], found: LawViolation, terms: Terms | None = None
) -> LawViolation:
    """Return how the law is broken with as little as can be.

    Runtime complexity: O(steps ** 2) stories, in practice a few hundred.

    Args:
        make: Makes a fresh scheduler behind its adapter.
        found: How it was found to break the law.
        terms: What the scheduler promises.
    """
    best, smaller = found, True
    while smaller:
        smaller = False
        for steps in _simpler(best.steps):
            violation = _broken_by(make, steps, terms)
            if violation is not None and violation.law == found.law:
                best, smaller = violation, True
                break
    return best


def _broken_by(
    make: Callable[[], SchedulerUnderTest], steps: Sequence[Step], terms: Terms | None
) -> LawViolation | None:
    try:
        check_story(make, *steps, terms=terms)
    except LawViolation as violation:
        return violation
    return None


def _simpler(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Yield stories that are a little simpler, those that are much simpler first."""
    length = len(steps)
    size = length // 2
    while size >= 1:
        for at in range(length - size, -1, -size):
            yield steps[:at] + steps[at + size :]
        size //= 2
    for at, step in enumerate(steps):
        for simpler in _simpler_steps(step):
            yield (*steps[:at], simpler, *steps[at + 1 :])


def _simpler_steps(step: Step) -> Iterator[Step]:
    match step:
        case Arrive(pods):
            for n in range(len(pods)) if len(pods) > 1 else ():
                yield Arrive(pods[:n] + pods[n + 1 :])
            for n, pod in enumerate(pods):
                for simpler in (evolve(pod, priority=0), evolve(pod, name=pod.uid)):
                    if simpler != pod:
                        yield Arrive((*pods[:n], simpler, *pods[n + 1 :]))
        case Leave(uids):
            for n in range(len(uids)) if len(uids) > 1 else ():
                yield Leave(uids[:n] + uids[n + 1 :])
        case Tick(seconds):
            yield from (Tick(less) for less in (0.0, 1.0) if less < seconds)
        case AddNode(name, capacity):
            for resource, amount in capacity.items():
                if amount > 0:
                    yield AddNode(name, {**capacity, resource: amount - 1})
        case _:
            pass
