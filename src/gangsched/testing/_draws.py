"""What the machine draws: what gangs are like, and what their members are.

Rules:
  R1  members of one gang agree on all that is said of the gang;
  R2  gangs of one bundle name each other;
  R3  the first that is drawn is the plainest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Final

from attrs import field, frozen
from hypothesis import strategies as st

from gangsched.testing._plain import FEATURES, PlainPod

__all__ = ["AMOUNTS", "SIZES", "SPOTS", "Kind", "Spot", "alone", "bundles", "by_turns", "kinds"]

AMOUNTS: Final = st.sampled_from([1, 1, 1, 2])
SIZES: Final = st.sampled_from([1, 2, 2, 3, 4, 8, 8])
_MINIMA: Final = st.sampled_from([2, 2, 2, 3, 1, 4, 6, 8])
_ROLES: Final[tuple[Mapping[str, int], ...]] = (
    {},
    {"ps": 1},
    {"ps": 1, "worker": 1},
    {"worker": 2},
)
ABOUT: Final = st.sampled_from([(), (), *((feature,) for feature in FEATURES), FEATURES])
_LABEL: Final = "zone"
_TAINT: Final = "kept"
_NAMES: Final = 6


@frozen
class Kind:
    """What the members of a gang have in common."""

    minimum: int
    amount: int
    priority: int
    roles: Mapping[str, int] = field(factory=dict[str, int])
    within: bool = False
    bundled: bool = False
    tolerates: bool = False

    def least(self, features: Collection[str]) -> int:
        """Return how many members it needs, where the scheduler knows of some features."""
        return max(self.minimum, sum(self.roles.values()) if "roles" in features else 0)

    def whole(self, count: int, first: int) -> list[str | None]:
        """Return the roles of so many members that come together, in an order that varies."""
        roles: list[str | None] = [role for role, n in self.roles.items() for _ in range(n)]
        roles = [*roles, *[None] * (count - len(roles))][:count]
        at = first % len(roles) if roles else 0
        return [*roles[at:], *roles[:at]]

    def role(self, number: int) -> str | None:
        """Return the role of one that comes by itself."""
        some = [*self.roles, None]
        return some[number % len(some)]

    def pod(
        self,
        number: int,
        gang: int,
        *,
        name: int,
        amounts: Mapping[str, int],
        role: str | None,
        bundle: Collection[int],
        features: Collection[str],
    ) -> PlainPod:
        """Return a member."""
        return PlainPod(
            uid=f"u{number}",
            name=f"w-{name % _NAMES}",
            group=f"g{gang}",
            min_available=self.least(features),
            requests=amounts,
            priority=self.priority,
            role=role,
            roles=self.roles if "roles" in features else {},
            within=_LABEL if self.within else None,
            bundle=tuple(f"g{other}" for other in bundle if other != gang),
            tolerates=(_TAINT,) if self.tolerates else (),
        )


@frozen
class Spot:
    """What nodes have beside room."""

    zone: str | None = None
    tainted: bool = False

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return {} if self.zone is None else {_LABEL: self.zone}

    @property
    def taints(self) -> tuple[str, ...]:
        """Its taints."""
        return (_TAINT,) if self.tainted else ()


SPOTS: Final = st.builds(
    Spot, st.sampled_from(["a", "a", "b", "b", None]), st.sampled_from([False, False, True])
)


def kinds(count: int) -> st.SearchStrategy[list[Kind]]:
    """Draw what so many gangs are like."""
    often = st.booleans()
    one = st.builds(
        Kind,
        _MINIMA,
        AMOUNTS,
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from(_ROLES),
        often,
        often,
        often,
    )
    return st.lists(one, min_size=count, max_size=count)


def bundles(some: Sequence[Kind], features: Collection[str]) -> list[tuple[int, ...]]:
    """Return with which gangs each one starts, itself among them."""
    if "bundles" not in features:
        return [(n,) for n in range(len(some))]
    bundled = tuple(n for n, kind in enumerate(some) if kind.bundled)
    return [bundled if kind.bundled and len(bundled) > 1 else (n,) for n, kind in enumerate(some)]


def alone(number: int, name: int, amounts: Mapping[str, int]) -> PlainPod:
    """Return a pod of no gang; what its name is drawn by says the rest."""
    return PlainPod(
        uid=f"u{number}",
        name=f"w-{name % _NAMES}",
        requests=amounts,
        priority=int(name % 3 == 1),
        tolerates=(_TAINT,) if name % 2 else (),
    )


def by_turns(whole: Sequence[Sequence[tuple[int, str | None]]]) -> list[tuple[int, str | None]]:
    """Return members of some gangs, one of each in turn."""
    longest = max(map(len, whole), default=0)
    return list(chain.from_iterable(each[n : n + 1] for n in range(longest) for each in whole))
