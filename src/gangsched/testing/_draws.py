"""What the state machine draws: templates of gangs and nodes, and the members of gangs.

Rules:
  R1  the members of one gang agree on all fields of the gang;
  R2  the gangs of one bundle name each other, and none of them is in a family;
  R3  each list of choices begins with the simplest, towards which Hypothesis shrinks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Final

from attrs import field, frozen
from hypothesis import strategies as st

from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._plain_pod import FEATURES, PlainPod

__all__ = [
    "AMOUNTS",
    "CROWDS",
    "FAMILIES",
    "SIZES",
    "TOO_LARGE",
    "NODE_TEMPLATES",
    "Family",
    "GangTemplate",
    "NodeTemplate",
    "alone",
    "bundles",
    "feature_set",
    "interleaved",
    "gang_templates",
]

AMOUNTS: Final = st.sampled_from([1, 1, 1, 2])
SIZES: Final = st.sampled_from([1, 2, 2, 3, 4, 8, 8])
CROWDS: Final = st.sampled_from([0, 0, 0, 0, 5, 12])
"""How many nodes without capacity, or pods that fit nowhere, come before all others.

A scheduler that looks at the first few only is found by these."""
TOO_LARGE: Final = 9
_MINIMA: Final = st.sampled_from([2, 2, 2, 3, 1, 4, 6, 8])
_ROLES: Final[tuple[Mapping[str, int], ...]] = (
    {},
    {"ps": 1},
    {"ps": 1, "worker": 1},
    {"worker": 2},
)
_COPIES: Final = ((0, 0, 0), (2, 1, 2), (3, 2, 2), (2, 1, 3))
"""How a gang consists of copies, in the places of its roles: count, minimum, size."""
FEATURE_SETS: Final = st.sampled_from(range(len(FEATURES) + 2))
"""See ``feature_set``."""
_LABEL: Final = "zone"
_TAINT: Final = "dedicated"
_NAMES: Final = 6


@frozen
class GangTemplate:
    """The fields that all members of a gang share."""

    minimum: int
    amount: int
    priority: int
    roles: Mapping[str, int] = field(factory=dict[str, int])
    in_one_zone: bool = False
    bundled: bool = False
    tolerates: bool = False

    def copies_for(self, features: Collection[str]) -> tuple[int, int, int]:
        """Return count, minimum and size of its copies for a scheduler with some features."""
        # with all features some gangs have roles, and others copies
        has_copies = "copies" in features and ("roles" not in features or self.minimum == 2)
        return _COPIES[_ROLES.index(self.roles)] if has_copies else (0, 0, 0)

    def minimum_for(self, features: Collection[str]) -> int:
        """Return the minimum of the gang for a scheduler with some features."""
        _count, minimum, size = self.copies_for(features)
        if size:
            return minimum * size
        return max(self.minimum, sum(self.roles.values()) if "roles" in features else 0)

    def quorum(self, count: int, first: int, features: Collection[str]) -> list[str | None]:
        """Return the roles of *count* members, rotated by *first*; or the numbers of copies."""
        copies, _minimum, size = self.copies_for(features)
        if copies:
            return [str((n // size + first) % copies) for n in range(count)]
        roles: list[str | None] = [role for role, n in self.roles.items() for _ in range(n)]
        roles = [*roles, *[None] * (count - len(roles))][:count]
        at = first % len(roles) if roles else 0
        return [*roles[at:], *roles[:at]]

    def role(self, number: int, features: Collection[str]) -> str | None:
        """Return the role, or the number of the copy, of a member that is submitted alone."""
        copies, _minimum, _size = self.copies_for(features)
        if copies:
            return str(number % copies)
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
        parent: str | None,
        features: Collection[str],
    ) -> PlainPod:
        """Return a member of the gang; of one with copies, *role* is the number of its copy."""
        copies, _minimum, size = self.copies_for(features)
        return PlainPod(
            uid=f"u{number}",
            name=f"w-{name % _NAMES}",
            group=f"g{gang}",
            min_available=self.minimum_for(features),
            requests=amounts,
            priority=self.priority,
            role=None if copies else role,
            roles=self.roles if "roles" in features and not copies else {},
            topology_key=_LABEL if self.in_one_zone else None,
            bundle=tuple(f"g{other}" for other in bundle if other != gang),
            tolerates=(_TAINT,) if self.tolerates else (),
            copies=copies,
            copy_size=size,
            copy=int(role) if copies and role is not None else None,
            parent=parent,
        )


@frozen
class NodeTemplate:
    """The labels and taints of a node."""

    zone: str | None = None
    tainted: bool = False

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return {} if self.zone is None else {_LABEL: self.zone}

    @property
    def taints(self) -> tuple[str, ...]:
        """The node's taints."""
        return (_TAINT,) if self.tainted else ()


@frozen
class Family:
    """Groups of groups.

    Attributes:
        parents: Each parent, those above first.
        of: The parent of each of the first gangs, by number.
    """

    parents: tuple[PlainParent, ...] = ()
    of: tuple[str | None, ...] = ()

    def parent(self, gang: int) -> str | None:
        """Return the parent of a gang."""
        return self.of[gang] if gang < len(self.of) else None

    def gangs(self) -> list[int]:
        """Return the gangs with a parent."""
        return [n for n, name in enumerate(self.of) if name is not None]


def _family(of: str, *minima: int) -> Family:
    """Return a family: the parents of its gangs, as letters, and the minimum of each parent.

    The parent ``a`` is above the others.
    """
    parents = [
        PlainParent(name=name, min_groups=least, parent="a" if n else None)
        for n, (name, least) in enumerate(zip("abc", minima, strict=False))
    ]
    return Family(tuple(parents), tuple(None if name == "-" else name for name in of))


FAMILIES: Final = st.sampled_from(
    [
        *(_family("aa", 2), _family("aa", 1), _family("aaa", 2), _family("-aa", 1)),
        *(_family("abb", 2, 2), _family("abb", 1, 2), _family("bbc", 2, 1, 1)),
    ]
)

NODE_TEMPLATES: Final = st.builds(
    NodeTemplate, st.sampled_from(["a", "a", "b", "b", None]), st.sampled_from([False, False, True])
)


def feature_set(number: int, declared: Collection[str]) -> frozenset[str]:
    """Return the features of a test case by a drawn number: none, one, or all that are declared."""
    sets = [(), *((each,) for each in FEATURES if each in declared), FEATURES]
    return frozenset(declared).intersection(sets[number % len(sets)])


def gang_templates(count: int) -> st.SearchStrategy[list[GangTemplate]]:
    """Draw the templates of *count* gangs."""
    flag = st.booleans()
    one = st.builds(
        GangTemplate,
        _MINIMA,
        AMOUNTS,
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from(_ROLES),
        flag,
        flag,
        flag,
    )
    return st.lists(one, min_size=count, max_size=count)


def bundles(
    gangs: Sequence[GangTemplate], features: Collection[str], family: Family
) -> list[tuple[int, ...]]:
    """Return the bundle of each gang: the numbers of its gangs, its own among them."""
    has_bundles, of_family = "bundles" in features, family.gangs()
    bundled = [n for n, g in enumerate(gangs) if g.bundled and has_bundles and n not in of_family]
    return [tuple(bundled) if n in bundled else (n,) for n in range(len(gangs))]


def alone(number: int, name: int, amounts: Mapping[str, int]) -> PlainPod:
    """Return a pod without a gang; *name* also decides its priority and toleration."""
    return PlainPod(
        uid=f"u{number}",
        name=f"w-{name % _NAMES}",
        requests=amounts,
        priority=int(name % 3 == 1),
        tolerates=(_TAINT,) if name % 2 else (),
    )


def interleaved(
    quorums: Sequence[Sequence[tuple[int, str | None]]],
) -> list[tuple[int, str | None]]:
    """Return the members of several gangs, interleaved."""
    longest = max(map(len, quorums), default=0)
    return list(chain.from_iterable(each[n : n + 1] for n in range(longest) for each in quorums))
