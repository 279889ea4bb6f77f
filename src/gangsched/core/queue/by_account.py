"""Gangs by account: accounts by their shares, and the gangs of one account by their sort keys.

An order that depends on usage gives each account a share, and the account with the smallest share
goes first. So a change of usage moves one account, and none of its gangs has to be looked at. An
order without shares has one account, with the empty name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, final

from sortedcontainers import SortedKeyList

from gangsched.core.records.gang import GangRecord
from gangsched.errors import InternalError
from gangsched.primitives.heap import PriorityHeap

__all__ = ["ActiveGangs", "ParkedGangs", "Shares", "turn_of"]

Shares: TypeAlias = Callable[[GangRecord], float]
"""Returns the share of the account of a gang."""


def turn_of(gang: GangRecord, share: Shares) -> tuple[Any, ...]:
    """Return what gangs are ordered by: the share of the account, then the sort key."""
    return (share(gang), *gang.sort_key)


@final
class _Account:
    __slots__ = ("gangs", "handle", "key", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.gangs: PriorityHeap[GangRecord] = PriorityHeap()
        self.key: tuple[Any, ...] | None = None
        self.handle: Any = None


@final
class ActiveGangs:
    """The gangs that are tried, in queue order.

    Invariant: an account is in the heap of accounts exactly while it has gangs, with its share and
    the sort key of its first gang.

    Args:
        share: Returns the share of the account of a gang.
    """

    def __init__(self, share: Shares) -> None:
        self._share: Final = share
        self._accounts: dict[str, _Account] = {}
        self._order: PriorityHeap[_Account] = PriorityHeap()

    def add(self, gang: GangRecord) -> None:
        """Add a gang. O(log gangs)."""
        account = self._accounts.get(gang.account)
        if account is None:
            account = self._accounts[gang.account] = _Account(gang.account)
        gang.handle = account.gangs.push(gang.sort_key, gang)
        self._place(account)

    def remove(self, gang: GangRecord) -> None:
        """Take a gang out. O(log gangs)."""
        account = self._accounts[gang.account]
        account.gangs.remove(gang.handle)
        gang.handle = None
        self._place(account)

    def first(self) -> GangRecord | None:
        """Return the first gang; None without any. O(log gangs)."""
        return self._order.peek().gangs.peek() if self._accounts else None

    def used(self, account: str) -> None:
        """Note that the share of an account has changed. O(log accounts)."""
        known = self._accounts.get(account)
        if known is not None:
            self._place(known)

    def _place(self, account: _Account) -> None:
        if not len(account.gangs):
            del self._accounts[account.name]
            self._order.remove(account.handle)
            return
        key = turn_of(account.gangs.peek(), self._share)
        if account.key is None:
            account.handle = self._order.push(key, account)
        elif account.key != key:
            account.handle = self._order.rekey(account.handle, key)
        account.key = key

    def check(self) -> None:
        """Check the invariant. O(accounts)."""
        if {id(account) for account in self._order} != set(map(id, self._accounts.values())):
            raise InternalError("an account is in the queue without active gangs, or the reverse")
        for account in self._accounts.values():
            if account.key != turn_of(account.gangs.peek(), self._share):
                raise InternalError(f"the account {account.name!r} has the turn {account.key}")

    def __len__(self) -> int:
        return sum(len(account.gangs) for account in self._accounts.values())

    def __iter__(self) -> Iterator[GangRecord]:
        """Iterate in queue order. O(n log n)."""
        found = [gang for account in self._accounts.values() for gang in account.gangs]
        return iter(sorted(found, key=lambda gang: turn_of(gang, self._share)))


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

    def first(self, share: Shares) -> GangRecord:
        """Return the first gang in queue order. O(accounts)."""
        firsts: list[GangRecord] = [gangs[0] for gangs in self._accounts.values()]
        if len(firsts) == 1:
            return firsts[0]
        return min(firsts, key=lambda gang: turn_of(gang, share))

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
