"""The hint of an error about an unknown field: the known field that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["hint"]


def hint(name: object, known: Iterable[str]) -> str:
    """Return ``" (did you mean NAME?)"`` for the nearest known name; an empty text without one."""
    from difflib import get_close_matches  # only errors need it

    found = get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""
