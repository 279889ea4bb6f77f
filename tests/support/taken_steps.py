"""The steps that searches take, as they are taken."""

from __future__ import annotations

import pytest

from gangsched._packing.budget import Budget

__all__ = ["taken_steps"]


def taken_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the steps of each search."""
    taken: list[int] = []
    original = Budget._take

    def take(budget: Budget, number: int) -> None:
        taken.append(number)
        original(budget, number)

    monkeypatch.setattr(Budget, "_take", take)
    return taken
