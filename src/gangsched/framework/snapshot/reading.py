"""What the readers of a snapshot share: the new state, the rows, and how a reference is looked up.

Rules:
  R1  a row that refers to a missing row, or repeats a row that must be unique, is refused with the
      name of its field.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import TypeVar, final

from attrs import define, field

from gangsched._core._entity import QueuedEntity
from gangsched.errors import InvalidValueError
from gangsched.framework.snapshot.rows import SnapshotRow
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from gangsched.model import PodUID

__all__ = ["Reading", "each_once", "get", "pairs_once", "require", "unique"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
@define(eq=False)
class Reading:
    """One reading of a snapshot.

    Attributes:
        state: The new state, which is filled.
        rows: The rows of the snapshot.
        entities: The entities that were read, by number.
        of_pods: The entities of regular pods, by the UID of the pod.
        numbers: The numbers of the known pods and entities.
    """

    state: State
    rows: SnapshotRow
    entities: dict[int, QueuedEntity] = field(factory=dict[int, QueuedEntity])
    of_pods: dict[PodUID, QueuedEntity] = field(factory=dict[PodUID, QueuedEntity])
    numbers: set[int] = field(factory=set[int])

    def entity(self, seq: int, path: str) -> QueuedEntity:
        """Return an entity by its number."""
        return get(self.entities, seq, path)

    def member(self, uid: PodUID, path: str) -> Member:
        """Return a known pod."""
        return get(self.state.pods.members, uid, path)


def get(known: Mapping[K, V], name: K, path: str) -> V:
    """Return what a row refers to.

    Raises:
        InvalidValueError: The snapshot has no row for it.
    """
    if name not in known:
        raise InvalidValueError(path, name, "listed in the snapshot")
    return known[name]


def unique(known: Container[object], name: object, path: str) -> None:
    """Require that a row is the first one for *name*."""
    if name in known:
        raise InvalidValueError(path, name, "listed once in the snapshot")


def each_once(names: Iterable[K], path: str) -> dict[K, None]:
    """Return the names of a list, which must differ."""
    found: dict[K, None] = {}
    for n, name in enumerate(names):
        unique(found, name, f"{path}[{n}]")
        found[name] = None
    return found


def pairs_once(pairs: Iterable[tuple[K, V]], path: str) -> dict[K, V]:
    """Return the pairs of a list, whose names must differ, as a dict."""
    given = tuple(pairs)
    each_once((name for name, _value in given), path)
    return dict(given)


def require(condition: object, path: str, value: object, expected: str | Callable[[], str]) -> None:
    """Require a condition about the value of a field."""
    if not condition:
        raise InvalidValueError(path, value, expected if isinstance(expected, str) else expected())
