"""Proofs: the step at which each of many equivalence classes was last known to fail.

Theory of operation. Most events help no blocked class, and each such event is a proof that all of
them still fail. To note that for each class would cost as much as to look at each of them. So
classes with one step share a *proof*. An event merges the proofs that it renews into one: each is
told which proof it became part of, as in a union-find structure.

Invariants (checked by ``_check``):
  I1  there is one current proof for each step, and a class belongs to it;
  I2  a proof without a class is dropped.
"""

from __future__ import annotations

from typing import Any, final

from sortedcontainers import SortedDict

from gangsched.errors import InternalError

__all__ = ["Proof", "Proofs"]


@final
class Proof:
    """A step at which classes are known to fail.

    Attributes:
        step: The step, while the proof is current.
        classes: The number of classes that belong to it, while it is current.
        later: The proof that it became part of; None while it is current.
    """

    __slots__ = ("classes", "later", "step")

    def __init__(self, step: int) -> None:
        self.step: int = step
        self.classes: int = 0
        self.later: Proof | None = None

    def current(self) -> Proof:
        """Return the proof that this one became part of. Amortised O(log classes)."""
        found = self
        while found.later is not None:
            found = found.later
        path: Proof = self
        while path.later is not None:
            path.later, path = found, path.later
        return found


@final
class Proofs:
    """The current proofs, by step. Each call is amortised O(log classes)."""

    __slots__ = ("_by_step",)

    def __init__(self) -> None:
        self._by_step: Any = SortedDict()

    def join(self, step: int) -> Proof:
        """Return the proof of a step for one more class."""
        found: Proof | None = self._by_step.get(step)
        if found is None:
            found = self._by_step[step] = Proof(step)
        found.classes += 1
        return found

    def leave(self, proof: Proof) -> None:
        """Let a class leave its proof."""
        found = proof.current()
        found.classes -= 1
        if not found.classes:
            del self._by_step[found.step]

    def renew(self, step: int, *, since: int | None = None) -> None:
        """Note that all classes still fail at *step*, the latest of all steps.

        Args:
            step: The step.
            since: Only classes that are known to fail since then, or later; None for all.
        """
        first = 0 if since is None else self._by_step.bisect_left(since)
        renewed: list[Proof] = [
            self._by_step.popitem()[1] for _number in range(len(self._by_step) - first)
        ]
        if not renewed:
            return
        # the largest absorbs the others, so that a proof is told O(log classes) times
        latest = max(renewed, key=_classes)
        for proof in renewed:
            if proof is not latest:
                proof.later = latest
                latest.classes += proof.classes
        latest.step = step
        self._by_step[step] = latest

    def _check(self, proofs: list[Proof]) -> None:
        counts: dict[int, int] = {}
        for proof in proofs:
            current = proof.current()
            if self._by_step.get(current.step) is not current:
                raise InternalError(f"a class belongs to a proof of step {current.step}, unknown")
            counts[current.step] = counts.get(current.step, 0) + 1
        if counts != {step: proof.classes for step, proof in self._by_step.items()}:
            raise InternalError(f"{counts} classes are proven to fail, counted otherwise")


def _classes(proof: Proof) -> int:
    return proof.classes
