"""Bundle: the keys of pod groups that start together, shared by all of these groups.

The specification of each group of a bundle names all the others. With thousands of groups, to
compare the names with each event would cost as much as to ask each group. So groups that name the
same groups share one object, and compare it by identity.

What is remembered of the groups saves asking them; ``gangsched.framework.queueing.bundles`` says
how it is used.

Invariants (checked by ``Bundles._check``):
  I1  groups share a bundle exactly if they name the same groups, themselves included;
  I2  a bundle is dropped with the last group that names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from gangsched.errors import InternalError
from gangsched.model import GroupKey, PodGroup

__all__ = ["Bundle", "Bundles"]


@final
class Bundle:
    """The groups that start together.

    Attributes:
        keys: Their keys, sorted.
        lacking: A group that cannot start yet, as found at the last check; the next check begins
            with it. None if no such group is known.
        is_closed: Whether all groups that have not started are known to be gated, so that none can
            be tried. Always false for a bundle of few groups.
        users: The number of groups whose specification names these groups.
    """

    __slots__ = ("is_closed", "keys", "lacking", "users")

    def __init__(self, keys: tuple[GroupKey, ...]) -> None:
        self.keys: tuple[GroupKey, ...] = keys
        self.lacking: GroupKey | None = None
        self.is_closed: bool = False
        self.users: int = 0


@final
class Bundles:
    """The bundles that specifications name. O(groups of the bundle) for each call."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[GroupKey, ...], Bundle] = {}

    def join(self, spec: PodGroup) -> Bundle | None:
        """Return the bundle that a specification names; None if it names none."""
        if not spec.bundle:
            return None
        keys = tuple(sorted({spec.key, *spec.bundle}))
        found = self._known.get(keys)
        if found is None:
            found = self._known[keys] = Bundle(keys)
        found.users += 1
        return found

    def leave(self, bundle: Bundle | None) -> None:
        """Note that a specification does not name a bundle any more."""
        if bundle is None:
            return
        bundle.users -= 1
        if not bundle.users:
            del self._known[bundle.keys]

    def _check(self, used: Iterable[tuple[PodGroup | None, Bundle | None]]) -> None:
        users: dict[tuple[GroupKey, ...], int] = {}
        for spec, bundle in used:
            named = () if spec is None or not spec.bundle else (spec.key, *spec.bundle)
            keys = tuple(sorted(set(named)))
            if (() if bundle is None else bundle.keys) != keys:
                raise InternalError(f"a group names the bundle {keys}, and is in another")
            if bundle is not None:
                users[keys] = users.get(keys, 0) + 1
                if self._known.get(keys) is not bundle:
                    raise InternalError(f"bundle {keys} is known twice")
        if users != {keys: bundle.users for keys, bundle in self._known.items()}:
            raise InternalError(f"bundles are used by {users} groups, counted otherwise")
