"""Gangs by account: a tournament among accounts, and within each the order of sort keys.

Theory of operation. Accounts may be a tree: queues below queues. Among the accounts below one, the
first is that with the smallest share; of equal shares, that whose first gang has the smallest sort
key. So the first gang of all is found from the root down. A change of usage moves the accounts on
one path, and none of their gangs has to be looked at. An order without shares has one account, with
the empty name.

Two gangs are compared where their paths part (``Turn``). That is no order of all gangs, since one
is served after those of its account that are before it: ``in_order`` plays the tournament.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, final

from attrs import frozen
from sortedcontainers import SortedKeyList

from gangsched.core.records.gang import GangRecord
from gangsched.errors import InternalError
from gangsched.primitives.heap import PriorityHeap

__all__ = ["ActiveGangs", "ParkedGangs", "Shares", "Turn", "alone", "in_order"]

_Path: TypeAlias = tuple[str, ...]


@final
@frozen
class Shares:
    """How accounts compare.

    Attributes:
        path_of: Returns the names of an account and of all above it, the root first.
        share: Returns the share of an account, given its first gang if that may be half placed,
            as numbers that are compared one after the other.
        drift: Whether shares change as time passes. Then accounts are compared when they are read.
    """

    path_of: Callable[[str], _Path]
    share: Callable[[str, GangRecord | None], tuple[float, ...]]
    drift: bool = False


def alone(account: str) -> tuple[str, ...]:
    """Return the path of an account without others above."""
    return (account,)


@final
class Turn:
    """What two gangs are compared by: their shares where their accounts part, then sort keys."""

    __slots__ = ("_gang", "_path", "_shares")

    def __init__(self, gang: GangRecord, shares: Shares) -> None:
        self._gang, self._shares = gang, shares
        self._path: _Path = shares.path_of(gang.account)

    def __lt__(self, other: Turn) -> bool:
        share = self._shares.share
        for one, another in zip(self._path, other._path, strict=False):
            if one != another:
                mine, its = share(one, self._gang), share(another, other._gang)
                return bool((*mine, *self._gang.sort_key) < (*its, *other._gang.sort_key))
        return bool(self._gang.sort_key < other._gang.sort_key)


def in_order(gangs: Iterable[GangRecord], shares: Shares) -> Iterator[GangRecord]:
    """Yield gangs in the order in which they are served if no share changes. O(n log n)."""
    by_account: dict[str, list[GangRecord]] = {}
    for gang in gangs:
        by_account.setdefault(gang.account, []).append(gang)
    for each in by_account.values():
        each.sort(key=_sort_key)
    return _merged({shares.path_of(a): iter(each) for a, each in by_account.items()}, 0, shares)


def _merged(
    by_path: dict[_Path, Iterator[GangRecord]], depth: int, shares: Shares
) -> Iterator[GangRecord]:
    """Merge the gangs of accounts that have the same path down to a depth."""
    below: dict[str, dict[_Path, Iterator[GangRecord]]] = {}
    for path, gangs in by_path.items():
        if len(path) == depth:
            return gangs
        below.setdefault(path[depth], {})[path] = gangs
    if len(below) == 1:
        return _merged(by_path, depth + 1, shares)
    parts = [(name, _merged(part, depth + 1, shares)) for name, part in below.items()]
    return _played(parts, shares)


def _played(parts: list[tuple[str, Iterator[GangRecord]]], shares: Shares) -> Iterator[GangRecord]:
    heap: list[tuple[Any, int, GangRecord]] = []

    def put(number: int) -> None:
        name, gangs = parts[number]
        first = next(gangs, None)
        if first is not None:
            key = (*shares.share(name, first), *first.sort_key)
            heapq.heappush(heap, (key, number, first))

    for number in range(len(parts)):
        put(number)
    while heap:
        _key, number, first = heapq.heappop(heap)
        yield first
        put(number)


@final
class _Account:
    """An account with active gangs below; of a leaf they are in the heap, else its children."""

    __slots__ = ("above", "handle", "heap", "is_leaf", "key", "path")

    def __init__(self, path: _Path, above: _Account | None) -> None:
        self.path = path
        self.above = above
        self.is_leaf = False
        self.heap: PriorityHeap[Any] = PriorityHeap()
        self.key: tuple[Any, ...] | None = None
        self.handle: Any = None

    @property
    def first(self) -> GangRecord:
        found: Any = self.heap.peek()
        while isinstance(found, _Account):
            found = found.heap.peek()
        gang: GangRecord = found
        return gang


@final
class ActiveGangs:
    """The gangs that are tried, in queue order.

    Invariant: an account is known exactly while it has gangs, and then it is in the heap of the
    account above, with its share and the sort key of its first gang.

    Args:
        shares: How accounts compare.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares: Final = shares
        self._root: _Account = _Account((), None)
        self._accounts: dict[_Path, _Account] = {}
        self._count = 0

    def add(self, gang: GangRecord) -> None:
        """Add a gang. O(depth x log gangs)."""
        account = self._account(self._shares.path_of(gang.account))
        account.is_leaf = True
        gang.handle = account.heap.push(gang.sort_key, gang)
        self._count += 1
        self._place(account)

    def remove(self, gang: GangRecord) -> None:
        """Take a gang out. O(depth x log gangs)."""
        account = self._accounts[self._shares.path_of(gang.account)]
        account.heap.remove(gang.handle)
        gang.handle = None
        self._count -= 1
        self._place(account)

    def first(self) -> GangRecord | None:
        """Return the first gang; None without any. O(depth x log gangs).

        If shares drift, it is O(active accounts).
        """
        if not self._count:
            return None
        return self._first_now(self._root) if self._shares.drift else self._root.first

    def _first_now(self, account: _Account) -> GangRecord:
        if account.is_leaf:
            return account.first
        share, best = self._shares.share, None
        for below in account.heap:
            first = self._first_now(below)
            key = (*share(below.path[-1], first), *first.sort_key)
            if best is None or key < best[0]:
                best = key, first
        assert best is not None
        return best[1]

    def used(self, account: str) -> None:
        """Note that the share of an account has changed. O(depth x log accounts)."""
        path = self._shares.path_of(account)
        while path and path not in self._accounts:  # it has no active gangs, but others below may
            path = path[:-1]
        if path:
            self._place(self._accounts[path])

    def _account(self, path: _Path) -> _Account:
        account = self._accounts.get(path)
        if account is None:
            above = self._account(path[:-1]) if len(path) > 1 else self._root
            account = self._accounts[path] = _Account(path, above)
        return account

    def _place(self, account: _Account) -> None:
        """Put an account, and all above it, where their first gangs and shares belong."""
        while account.above is not None:
            above = account.above
            if not len(account.heap):
                del self._accounts[account.path]
                if account.handle is not None:
                    above.heap.remove(account.handle)
            else:
                key = self._key(account)
                if account.key is None:
                    account.handle = above.heap.push(key, account)
                elif account.key != key:
                    account.handle = above.heap.rekey(account.handle, key)
                account.key = key
            account = above

    def _key(self, account: _Account) -> tuple[Any, ...]:
        first = account.first
        return (*self._shares.share(account.path[-1], first), *first.sort_key)

    def check(self) -> None:
        """Check the invariant. O(accounts)."""
        below = [each for each in self._accounts.values() for each in each.heap]
        placed = {id(each) for each in (*below, *self._root.heap) if isinstance(each, _Account)}
        if placed != set(map(id, self._accounts.values())):
            raise InternalError("an account is in the queue without active gangs, or the reverse")
        for account in () if self._shares.drift else self._accounts.values():
            if account.key != self._key(account):
                raise InternalError(f"the account {account.path} has the turn {account.key}")

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[GangRecord]:
        """Iterate in queue order. O(n log n)."""
        active = (each for account in self._accounts.values() for each in account.heap)
        return in_order((each for each in active if isinstance(each, GangRecord)), self._shares)


@final
class ParkedGangs:
    """The gangs of one demand that wait."""

    __slots__ = ("_accounts",)

    def __init__(self) -> None:
        self._accounts: dict[str, Any] = {}

    def add(self, gang: GangRecord) -> None:
        """Add a gang. O(log gangs)."""
        found: Any = self._accounts.get(gang.account)
        if found is None:
            found = self._accounts[gang.account] = SortedKeyList(key=_sort_key)
        found.add(gang)

    def remove(self, gang: GangRecord) -> None:
        """Take a gang out. O(log gangs)."""
        found = self._accounts[gang.account]
        found.remove(gang)
        if not found:
            del self._accounts[gang.account]

    def first(self, shares: Shares) -> GangRecord:
        """Return the first gang in queue order. O(accounts)."""
        firsts: list[GangRecord] = [gangs[0] for gangs in self._accounts.values()]
        if len(firsts) == 1:
            return firsts[0]
        return next(in_order(firsts, shares))

    def by_account(self) -> Iterator[Iterator[GangRecord]]:
        """Yield the gangs of each account, in order."""
        return map(iter, self._accounts.values())

    def __len__(self) -> int:
        return sum(map(len, self._accounts.values()))

    def __bool__(self) -> bool:
        return bool(self._accounts)

    def __contains__(self, gang: GangRecord) -> bool:
        return gang in self._accounts.get(gang.account, ())


def _sort_key(gang: GangRecord) -> tuple[Any, ...]:
    return gang.sort_key
