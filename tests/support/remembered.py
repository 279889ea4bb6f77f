"""What the owners of a scheduler's state hold, by name."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import fields

from gangsched.framework.state.scheduler_state import State

__all__ = ["remembered"]

GIVEN = "settings"


def remembered(state: State) -> Iterator[tuple[str, object]]:
    """Yield each attribute of each owner, with its name; an owner of another package as a whole."""
    for part in fields(State):
        owner = getattr(state, part.name)
        if part.name == GIVEN:
            continue
        if type(owner).__module__.startswith("gangsched.framework.state."):
            for each in fields(type(owner)):
                yield each.name, getattr(owner, each.name)
        else:
            yield part.name, owner
