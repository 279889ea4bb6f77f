"""How ``copying.fork`` copies objects of each kind."""

from __future__ import annotations

from collections import OrderedDict, deque
from operator import is_
from typing import Any, ClassVar

import attrs
import pytest
from sortedcontainers import SortedDict, SortedList

from gangsched.forking import copying
from gangsched.forking.lazy_dict import LazyDict
from gangsched.primitives.backoff import Backoff


def test_fork_preserves_aliasing() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    made = copying.fork(ring)
    assert made is not ring
    assert made[1] is made
    one = deque([[1]], maxlen=3)
    twice = copying.fork({"a": one, "b": one, 3: SortedDict({1: one[0]})})
    assert twice["a"] is twice["b"]
    assert twice["a"] is not one
    assert (twice["a"].maxlen, twice[3][1] is twice["a"][0]) == (3, True)


def containers() -> dict[str, Any]:
    return {
        "list": [[1]],
        "dict": {"a": 1},
        "dict of what changes": {"a": [1]},
        "dict by what changes": {ByIdentity(): 1},
        "ordered dict": OrderedDict(a=[1]),
        "set": {1},
        "deque": deque([[1]]),
        "sorted dict": SortedDict({1: [1]}),
        "sorted list": SortedList([1]),
        "sorted list of what changes": SortedList([[1]]),
        "object": ByIdentity(),
    }


class ByIdentity:
    """A mutable class of the library."""


ByIdentity.__module__ = "gangsched.primitives.somewhere"


@pytest.mark.parametrize("kind", containers())
def test_fork_copies_each_object_once(kind: str) -> None:
    thing = containers()[kind]
    first, second = copying.fork((thing, thing))
    assert first is second
    assert first is not thing
    assert type(first) in (type(thing), LazyDict)


def test_fork_copies_a_frozen_object_with_mutable_parts() -> None:
    @attrs.frozen
    class Pair:
        one: list[int]
        other: list[int]

    Pair.__module__ = "gangsched.primitives.somewhere"
    pair = Pair([1], [2])
    made = copying.fork(pair)
    assert made == pair
    made.one.append(3)
    made.other.append(4)
    assert (pair.one, pair.other) == ([1], [2])


def test_fork_shares_a_frozen_object_with_immutable_parts() -> None:
    backoff = Backoff(initial=1.0, maximum=8.0)
    assert copying.fork(backoff) is backoff


def test_fork_keeps_subclasses_of_dict() -> None:
    members = OrderedDict((n, (n, [n])) for n in range(3))
    made = copying.fork(members)
    assert type(made) is OrderedDict
    made.move_to_end(0)
    made[1][1].append(9)
    assert list(made.items()) == [(1, (1, [1, 9])), (2, (2, [2])), (0, (0, [0]))]
    assert list(members.items()) == [(0, (0, [0])), (1, (1, [1])), (2, (2, [2]))]


class Sealed:
    """Stands for a class of the extension: what an object holds is seen only by pickling it."""

    __slots__ = ()
    made: ClassVar[int] = 0
    inside: ClassVar[dict[int, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (Sealed.make, (7,), self.inside[id(self)])

    def __setstate__(self, inside: Any) -> None:
        self.inside[id(self)] = inside

    @classmethod
    def make(cls, number: int) -> Sealed:
        cls.made += number
        return cls()


def test_fork_copies_the_compiled_heap_by_its_pickle_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sealed, "__module__", "gangsched.primitives.heap._c")
    monkeypatch.setattr(Sealed, "made", 0)
    monkeypatch.setattr(Sealed, "inside", {})
    one, items = Sealed(), [1]
    one.__setstate__([items, one])  # it holds itself
    first, second, others = copying.fork((one, one, items))
    assert first is second
    assert first is not one
    assert Sealed.made == 7
    copied, itself = Sealed.inside[id(first)]
    assert copied is others
    assert (copied, copied is items, itself is first) == ([1], False, True)


def test_fork_copies_slots_of_private_names() -> None:
    """A private name has the name of its class in it, without what that begins with."""
    names = ("__dunder__", "__left", "_kept", "open")
    kind: Any = type(
        "_X_", (), {"__slots__": names, "__module__": "gangsched.primitives.somewhere"}
    )
    slots = ("__dunder__", "_X___left", "_kept", "open")
    thing = kind()
    for name in slots:
        setattr(thing, name, [name])
    made = copying.fork(thing)
    assert [getattr(made, name) for name in slots] == [[name] for name in slots]
    assert all(getattr(made, name) is not getattr(thing, name) for name in slots)


def test_fork_shares_functions() -> None:
    functions = [len, test_fork_shares_functions, lambda: None]

    assert all(map(is_, copying.fork(functions), functions))
