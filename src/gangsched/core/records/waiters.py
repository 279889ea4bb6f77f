"""Who waits for a quota: in lines of those that ask the same of an account, below that account.

If the first of a line does not fit, none of it does. So when something is given back, a line is
asked about once, and not each owner in it. And what all lines below an account ask for is known of
the account. So those are looked at below which something may fit, in the order of service.

Invariants (``check``):
  I1  an owner is in exactly one line, with the sort key that its gang had;
  I2  an account is known exactly while there are lines below it, and counts what they ask for.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, final

from attrs import frozen
from sortedcontainers import SortedList

from gangsched.core.records.gang import GangRecord
from gangsched.errors import InternalError
from gangsched.resources import Resources

__all__ = ["Alike", "Asked", "LineKey", "Waiter", "Waiters"]

Waiter: TypeAlias = tuple[tuple[Any, ...], str, GangRecord, Hashable]
"""The sort key of an owner that waits, the owner, its gang, and what it asks for."""
LineKey: TypeAlias = tuple[str, Hashable]
"""The account of a line, and what its owners ask for."""
_Share: TypeAlias = Callable[[str], tuple[float, ...]]
_ALL: Final = "\0"
"""What is above the roots; no account has this name."""


class Asked(NamedTuple):
    """What owners ask of a tree of queues.

    Attributes:
        amounts: What each of them would be charged.
        preempts: Whether they may evict pods.
    """

    amounts: Resources
    preempts: bool


@final
@frozen
class Alike:
    """What is equal for owners that fit exactly if the others do: they hold nothing yet.

    Attributes:
        accounts: The names of their accounts.
        amounts: What each of them would be charged.
        preempts: Whether they may evict pods.
        is_of_tree: Whether nothing but the tree of one queue limits them.
    """

    accounts: tuple[str, ...]
    amounts: Resources
    preempts: bool
    is_of_tree: bool

    @property
    def asked(self) -> Asked | None:
        """What they ask of their tree; None if other quotas count, too."""
        return Asked(self.amounts, self.preempts) if self.is_of_tree else None


@final
class Waiters:
    """The lines.

    Args:
        path_of: Returns the names of an account and of all above it, the root first.
        share: Returns the share of an account.
    """

    def __init__(self, path_of: Callable[[str], tuple[str, ...]], share: _Share) -> None:
        self.path_of: Callable[[str], tuple[str, ...]] = path_of
        self.share: _Share = share
        self._leading: dict[str, tuple[Any, ...]] = {}
        self._lines: dict[str, dict[Hashable, Any]] = {}
        self._below: dict[str, Counter[str]] = {}
        self._asked: dict[str, Counter[Asked | None]] = {}
        self._place: dict[str, tuple[LineKey, Waiter]] = {}

    def put(self, owner: str, gang: GangRecord, alike: Hashable) -> None:
        """Put an owner in the line of those that ask for the same. O(depth + log owners)."""
        waiter: Waiter = ((*gang.sort_key, owner), owner, gang, alike)
        if self._place.get(owner) == ((gang.account, alike), waiter):
            return
        self.discard(owner)
        lines = self._lines.setdefault(gang.account, {})
        if alike not in lines:
            lines[alike] = SortedList()
            self._count(gang.account, alike, 1)
        lines[alike].add(waiter)
        self.note_share(gang.account)
        self._place[owner] = (gang.account, alike), waiter

    def discard(self, owner: str) -> None:
        """Take an owner out of its line, if it is in one. O(depth + log owners)."""
        place = self._place.pop(owner, None)
        if place is None:
            return
        (account, alike), waiter = place
        lines = self._lines[account]
        lines[alike].remove(waiter)
        self.note_share(account)
        if not lines[alike]:
            del lines[alike]
            if not lines:
                del self._lines[account]
            self._count(account, alike, -1)

    def _count(self, account: str, alike: Hashable, change: int) -> None:
        above, asks = _ALL, _asked(alike)
        for name in self.path_of(account):
            asked, below = self._asked.setdefault(name, Counter()), self._below
            asked[asks] += change
            below.setdefault(above, Counter())[name] += change
            if not asked[asks]:
                del asked[asks]
            if not below[above][name]:
                del below[above][name]
                del self._asked[name]
            above = name

    def line_of(self, owner: str) -> LineKey:
        """Return the line of an owner; one of its own if it is in none. O(1)."""
        place = self._place.get(owner)
        return ("", owner) if place is None else place[0]

    def asked_below(self, account: str) -> Mapping[Asked | None, int]:
        """Return what lines at or below an account ask for, each with their number. O(1).

        None stands for those that other quotas limit, too, and for those that nobody is like.
        """
        return self._asked.get(account, _NONE)

    def first(self, line: LineKey) -> GangRecord | None:
        """Return the first gang of a line; None if nobody is in it any more. O(1)."""
        found = self._lines.get(line[0], _NO_LINES).get(line[1])
        return None if found is None else found[0][2]

    def firsts(self, account: str = _ALL) -> Iterator[GangRecord]:
        """Yield the first gangs of lines at or below an account; of all by default. O(lines)."""
        for _alike, line in self._of(account):
            yield line[0][2]
        for name in self._below.get(account, ()):
            yield from self.firsts(name)

    def firsts_that_ask(self, account: str, asked: Asked | None) -> Iterator[GangRecord]:
        """Yield the first gangs of lines at or below an account that ask for something."""
        for alike, line in self._of(account):
            if _asked(alike) == asked:
                yield line[0][2]
        for name in self._below.get(account, ()):
            if asked in self._asked[name]:
                yield from self.firsts_that_ask(name, asked)

    def note_share(self, account: str) -> None:
        """Note that the share of an account may have changed. O(depth)."""
        if self._leading:
            for name in self.path_of(account):
                self._leading.pop(name, None)

    def note_shares(self) -> None:
        """Note that the shares of all accounts may have changed. O(accounts)."""
        self._leading.clear()

    def play(
        self, refused: Collection[Hashable], is_left_out: Callable[[str], bool]
    ) -> Iterator[Waiter]:
        """Yield who waits, in the order of service; no owner may come or go meanwhile.

        Runtime complexity: O(accounts around those that are looked into), and O(accounts around
        those whose shares have changed).

        Args:
            refused: What is refused by then: of those that ask for it, no other one is yielded.
            is_left_out: Returns whether nobody at or below an account is yielded.
        """
        return self._play(_ALL, refused, is_left_out)

    def _play(
        self, account: str, refused: Collection[Hashable], is_left_out: Callable[[str], bool]
    ) -> Iterator[Waiter]:
        own = [_unless(line, alike, refused) for alike, line in self._of(account)]
        if own:
            yield from heapq.merge(*own)
        below = list(self._below.get(account, ()))
        parts: dict[int, Iterator[Waiter]] = {}
        known: dict[int, Waiter] = {}
        # a sort key is found only if shares are equal; the empty one comes before all others
        heap: list[tuple[tuple[float, ...], tuple[Any, ...], int]] = [
            (self.share(name), (), number) for number, name in enumerate(below)
        ]
        heapq.heapify(heap)
        while heap:
            share, key, number = heapq.heappop(heap)
            name = below[number]
            if not key and heap and heap[0][0] == share:
                heapq.heappush(heap, (share, self._lead(name), number))
                continue
            first = known.pop(number, None)
            if first is not None:
                yield first
            elif number not in parts:
                parts[number] = self._play(name, refused, is_left_out)
            following = None if is_left_out(name) else next(parts[number], None)
            if following is not None:
                known[number] = following
                heapq.heappush(heap, (self.share(name), following[0], number))

    def _lead(self, account: str) -> tuple[Any, ...]:
        """Return the sort key of the first one that waits at or below an account."""
        found = self._leading.get(account)
        if found is None:
            own = [line[0][0] for _alike, line in self._of(account)]
            if own:
                found = min(own)
            else:
                shares = {name: self.share(name) for name in self._below[account]}
                least = min(shares.values())
                found = min(self._lead(name) for name, share in shares.items() if share == least)
            self._leading[account] = found
        return found

    def _of(self, account: str) -> Collection[tuple[Hashable, Any]]:
        return self._lines.get(account, _NO_LINES).items()

    def check(self, owners: Collection[str]) -> None:
        """Check the invariants. O(owners x depth)."""
        if self._place.keys() != set(owners):
            raise InternalError(f"{set(owners) ^ self._place.keys()} are in no line, or wait not")
        lines = {
            (name, alike): line for name, of in self._lines.items() for alike, line in of.items()
        }
        if sum(map(len, lines.values())) != len(self._place) or not all(lines.values()):
            raise InternalError("an owner is in two lines, or a line is empty")
        asked: dict[str, Counter[Asked | None]] = {}
        for account, alike in lines:
            for name in self.path_of(account):
                asked.setdefault(name, Counter())[_asked(alike)] += 1
        if asked != self._asked:
            raise InternalError(f"accounts count {self._asked}, not {asked}")


def _asked(alike: Hashable) -> Asked | None:
    return alike.asked if isinstance(alike, Alike) else None


_NONE: Final[Mapping[Asked | None, int]] = {}
_NO_LINES: Final[Mapping[Hashable, Any]] = {}


def _unless(line: Any, alike: Hashable, refused: Collection[Hashable]) -> Iterator[Waiter]:
    for waiter in line:
        if alike in refused:
            return
        yield waiter
