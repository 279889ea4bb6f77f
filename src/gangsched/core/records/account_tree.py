"""What quotas leave: a tree of accounts that lend and borrow.

Theory of operation. Each quota is an account. A pod is charged to the caps of its namespace and to
its queue, and so to every account above these. Of each account, two amounts are kept:

- *used*: what all pods below it request. ``hard`` limits it.
- *drawn*: what it takes of the nominals of its tree. Of a queue, that is what its pods request. Of
  a parent, it is what its children draw beyond what each keeps for itself and does not lend.

A *pool* is what an account draws from: its nominal, and of each child what that lends. What a queue
may take is found on the way up: what it keeps for itself and has left, and what its parent has
left; never more than the rest of its pool and what it may borrow. Roots lend each other nothing.

The *share* of an account is the largest part that it draws beyond its pool, of what the pool above
could lend, over all resources and divided by its weight. An account within its pool has share 0.

With *history*, an account also remembers what it drew: the mean over the past, in which usage
counts half after each half-life. It is exact, since it is brought up to date at each change. The
share counts what is drawn now, or that mean if it is more. So a queue that had much waits for those
that had little. Reclaim does not look at the past: no running pod is evicted for it.

Invariants (``_check``):
  I1  what an account uses is what its children use, and what was charged to it;
  I2  so it is with what it draws, less what its children keep;
  I3  no amount of zero is kept.

Source: KEP-79 of Kueue, "Hierarchical Cohorts", for what may be taken; its fair sharing for shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, final

from gangsched.errors import InternalError
from gangsched.options.quota import EXCEEDED, NO_QUEUE, PARENT_QUEUE, TOO_LARGE, Quota
from gangsched.resources import Resources

__all__ = ["Account", "AccountTree", "Share"]


Share: TypeAlias = tuple[float, float]
"""What siblings are compared by: 1.0 for one that borrows without weight, else 0.0; the amount."""
_NONE: Final[Share] = (0.0, 0.0)
_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


@final
class Account:
    """What is charged to a quota.

    Attributes:
        quota: The quota.
        number: Its place among the quotas.
        parent: The account above; None for a root.
        children: The accounts below.
        root: The account at the top.
        names: Its name and those of all above it, the root first.
        has_part: Whether it draws from the nominals of its tree.
        keeps_some: Whether it, or an account below, does not lend all that it has.
        used: What all pods below request, by resource, in thousandths.
        drawn: What it draws; see the module.
        known_share: Its share with the past, and the instant of it; None after a charge.
        past: The mean of what it drew, as of the instant ``past_at``; empty without history.
    """

    __slots__ = (
        "_kept",
        "_most",
        "_pool",
        "children",
        "drawn",
        "has_part",
        "keeps_some",
        "known_share",
        "names",
        "number",
        "parent",
        "past",
        "past_at",
        "quota",
        "root",
        "used",
    )

    def __init__(self, quota: Quota, number: int) -> None:
        self.quota: Final = quota
        self.number: Final = number
        self.parent: Account | None = None
        self.children: list[Account] = []
        self.root: Account = self
        self.names: tuple[str, ...] = (quota.name,)
        self.has_part: bool = quota.nominal is not None
        self.keeps_some: bool = False
        self.used: dict[str, int] = {}
        self.drawn: dict[str, int] = {}
        self.past: dict[str, float] = {}
        self.past_at: float = -math.inf
        self.known_share: tuple[float, Share] | None = None
        self._pool: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        self._most: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The name of the quota."""
        return self.quota.name

    @property
    def path(self) -> Iterator[Account]:
        """Yield this account, and all above it up to the root. O(depth)."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    @property
    def resources(self) -> Iterable[str]:
        """The resources that the queues of its tree share."""
        return self.root._pool

    def pool(self, resource: str) -> int:
        """Return what it may draw without borrowing. O(1)."""
        return self._pool.get(resource, 0)

    def keeps(self, resource: str) -> int:
        """Return what it never lends. O(1)."""
        return self._kept.get(resource, 0)

    def most(self, resource: str) -> int:
        """Return what it could draw if nobody else drew anything. O(1)."""
        return self._most.get(resource, 0)

    def over(self, resource: str) -> int:
        """Return by how much it draws more than its pool; negative for what is left. O(1).

        Nobody is over in a resource that no queue of the tree names: it is not limited.
        """
        if resource not in self.root._pool:
            return 0
        return self.drawn.get(resource, 0) - self.pool(resource)

    def left(self, resource: str) -> float:
        """Return how much more it may draw; negative if it draws too much already. O(depth)."""
        if not self.has_part or resource not in self.root._pool:
            return math.inf
        drawn, pool, kept = self.drawn.get(resource, 0), self.pool(resource), self.keeps(resource)
        if self.parent is None:
            return pool - drawn
        above = self.parent.left(resource)
        limit = self.quota.borrow.get(resource)
        if limit is not None:
            above = min(above, pool - kept - max(0, drawn - kept) + limit)
        return max(0, kept - drawn) + above

    def surely_lacks(self, amounts: Mapping[str, int]) -> bool:
        """Return whether its tree has less left than some amounts, wherever. O(resources)."""
        root = self.root
        if not self.has_part or root.keeps_some:
            return False
        pool, drawn = root._pool, root.drawn
        return any(n in pool and more > pool[n] - drawn.get(n, 0) for n, more in amounts.items())

    def is_exceeded(self, resource: str) -> bool:
        """Return whether it, or an account above, uses more than it may. O(depth)."""
        for each in self.path:
            limit = each.quota.hard.get(resource)
            if limit is not None and each.used.get(resource, 0) > limit:
                return True
        return self.left(resource) < 0

    def share(
        self, past: Mapping[str, float] = _NOTHING, among: Iterable[str] | None = None
    ) -> Share:
        """Return its share among its siblings. O(resources).

        Args:
            past: What counts as drawn if it is more than what is drawn now.
            among: The resources that count; None for all.
        """
        amount, weight = 0.0, self.quota.weight
        if self.parent is not None and self.has_part:
            for name in {**self.drawn, **past} if among is None else among:
                over = max(self.drawn.get(name, 0), past.get(name, 0)) - self.pool(name)
                lendable = self.parent.most(name)
                if over > 0 and lendable > 0:
                    # rounded once, so shares that are equal are equal here
                    amount = max(amount, over / (lendable * (weight or 1.0)))
        return (0.0 if weight else float(amount > 0), amount)

    def mean(self, now: float, half_life: float) -> dict[str, float]:
        """Return the mean of what it drew up to an instant. O(resources)."""
        if now <= self.past_at or self.past_at == -math.inf:
            return self.past
        kept = 0.5 ** ((now - self.past_at) / half_life)
        names = {**self.past, **self.drawn}
        return {n: self.past.get(n, 0) * kept + self.drawn.get(n, 0) * (1 - kept) for n in names}

    def charge(self, resource: str, change: int) -> None:
        """Charge a change of one resource to it and to all above. O(depth)."""
        account: Account | None = self
        drawing = change if self.has_part else 0
        while account is not None:
            account.known_share = None
            _add(account.used, resource, change)
            if drawing:
                kept, before = account.keeps(resource), account.drawn.get(resource, 0)
                _add(account.drawn, resource, drawing)
                drawing = max(0, before + drawing - kept) - max(0, before - kept)
            account = account.parent

    def __repr__(self) -> str:
        return f"<Account {self.name!r} uses {self.used}>"


@final
class AccountTree:
    """The accounts of some quotas.

    Args:
        quotas: The quotas, which make up trees: see ``as_quotas``.
        history: The half-life of what accounts remember, in seconds; None for no memory.

    Attributes:
        by_name: The accounts.
        has_queues: Whether there is a queue.
        now: The current instant, with history.
    """

    def __init__(self, quotas: Iterable[Quota] = (), history: float | None = None) -> None:
        self.history: float | None = history
        self.now: float = -math.inf
        self.by_name: dict[str, Account] = {
            quota.name: Account(quota, number) for number, quota in enumerate(quotas)
        }
        self.has_queues: bool = any(quota.is_queue for quota in quotas)
        # the caps and the queue of each namespace
        self._caps: dict[str, tuple[Account, ...]] = {}
        self._queue: dict[str, Account] = {}
        for account in self.by_name.values():
            for namespace in dict.fromkeys(account.quota.namespaces):
                if account.quota.is_queue:
                    self._queue[namespace] = account
                else:
                    self._caps[namespace] = (*self._caps.get(namespace, ()), account)
            if account.quota.parent is not None:
                account.parent = self.by_name[account.quota.parent]
                account.parent.children.append(account)
        for account in self.by_name.values():
            path = list(account.path)
            account.root, account.names = path[-1], tuple([each.name for each in reversed(path)])
        in_depth = sorted(self.by_name.values(), key=lambda each: len(each.names))
        for account in reversed(in_depth):
            _fill(account)
        for account in in_depth:
            _limit(account)

    @property
    def is_empty(self) -> bool:
        """Whether there is no quota."""
        return not self.by_name

    def of(self, namespace: str, queue: str | None = None) -> tuple[Account, ...]:
        """Return the accounts that a pod is charged to, without those above. O(caps).

        Args:
            namespace: The namespace of the pod.
            queue: The queue that it names; None for that of its namespace. A name that is not
                known counts as none: see ``problem``.
        """
        own = self._queue.get(namespace) if queue is None else self.by_name.get(queue)
        caps = self._caps.get(namespace, ())
        if own is None or own in caps:
            return caps
        return tuple(sorted((*caps, own), key=_number))

    def queue_of(self, namespace: str, queue: str | None = None) -> Account | None:
        """Return the queue of a pod; None without one. O(1)."""
        return self._queue.get(namespace) if queue is None else self.by_name.get(queue)

    def path_of(self, queue: str) -> tuple[str, ...]:
        """Return the names of a queue and of all above it, the root first. O(depth)."""
        account = self.by_name.get(queue)
        return (queue,) if account is None else account.names

    def share(self, queue: str) -> Share:
        """Return the share of a queue among its siblings. O(resources), O(1) if it is known."""
        account = self.by_name.get(queue)
        if account is None:
            return _NONE
        if account.known_share is None or account.known_share[0] != self.now:
            past = {} if self.history is None else account.mean(self.now, self.history)
            account.known_share = self.now, account.share(past)
        return account.known_share[1]

    def remember(self, account: Account) -> None:
        """Bring up to date what an account, and all above, remember. O(depth x resources)."""
        if self.history is not None:
            for each in account.path:
                each.past = each.mean(self.now, self.history)
                each.past_at, each.known_share = self.now, None

    def problem(self, queue: str | None) -> str:
        """Return why no pod may be in a queue; ``""`` if it may. O(1).

        Without any queue among the quotas, what pods say of queues is about another scheduler.
        """
        if queue is None or not self.has_queues:
            return ""
        account = self.by_name.get(queue)
        if account is None:
            return NO_QUEUE.format(queue)
        return PARENT_QUEUE.format(queue) if account.children else ""

    def exceeded(self, changes: Mapping[Account, Mapping[str, int]]) -> str:
        """Return why changes may not be charged together; ``""`` if they may.

        It is the message about the first account that they would exceed, in the order of the
        quotas. What takes no more than before is never refused.

        Runtime complexity: O(accounts x depth x resources).
        """
        done: list[tuple[Account, str, int]] = []
        problem = ""
        for account in sorted(changes, key=_number):
            change = changes[account]
            problem = next(filter(None, (_problem(account, n, c) for n, c in change.items())), "")
            if problem:
                break
            for name, amount in change.items():
                account.charge(name, amount)
                done.append((account, name, -amount))
        for account, name, amount in done:
            account.charge(name, amount)
        return problem

    def in_depth(self) -> Iterator[Account]:
        """Yield the accounts, each before those below it. O(accounts)."""
        left = [each for each in reversed(self.by_name.values()) if each.parent is None]
        while left:
            account = left.pop()
            yield account
            left += reversed(account.children)

    def __iter__(self) -> Iterator[Account]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def _check(self, charged: Mapping[Account, Mapping[str, int]]) -> None:
        """Check the invariants, given what was charged to each account directly."""
        for account in self.by_name.values():
            own, used, drawn = charged.get(account, {}), dict[str, int](), dict[str, int]()
            for name, amount in own.items():
                _add(used, name, amount)
                _add(drawn, name, amount if account.has_part else 0)
            for child in account.children:
                for name, amount in child.used.items():
                    _add(used, name, amount)
                for name, amount in child.drawn.items() if child.has_part else ():
                    _add(drawn, name, max(0, amount - child.keeps(name)))
            if used != account.used:
                raise InternalError(f"quota {account.name} has {account.used}, not {used}")
            if drawn != account.drawn:
                raise InternalError(f"quota {account.name} draws {account.drawn}, not {drawn}")


def _add(amounts: dict[str, int], name: str, change: int) -> None:
    left = amounts.get(name, 0) + change
    if left:
        amounts[name] = left
    else:
        amounts.pop(name, None)


def _number(account: Account) -> int:
    return account.number


def _fill(account: Account) -> None:
    """Compute the pool of an account, given those of its children, and what it keeps of it."""
    pool: dict[str, int] = dict(account.quota.nominal or {})
    for child in account.children:
        account.has_part |= child.has_part
        for name, amount in child._pool.items():
            pool[name] = pool.get(name, 0) + amount - child.keeps(name)
    account._pool = pool
    if account.parent is not None:
        lend = account.quota.lend
        account._kept = {n: max(0, pool[n] - lend[n]) for n in pool if n in lend}
    account.keeps_some = bool(account._kept) or any(each.keeps_some for each in account.children)


def _limit(account: Account) -> None:
    """Compute what an account could draw at the most, given that of its parent."""
    if account.parent is None:
        account._most = dict(account._pool)
        return
    borrow, most = account.quota.borrow, dict[str, int]()
    for name in account.root._pool:
        amount = account.keeps(name) + account.parent.most(name)
        if name in borrow:
            amount = min(amount, account.pool(name) + borrow[name])
        most[name] = amount
    account._most = most


def _problem(account: Account, name: str, more: int) -> str:
    """Return why an account may not be charged more of a resource; ``""`` if it may."""
    if more <= 0:
        return ""
    for each in account.path:
        limit, used = each.quota.hard.get(name), each.used.get(name, 0)
        if limit is not None and used + more > limit:
            return _message(each, name, more, limit, more > limit)
    left = account.left(name)
    if more > left:
        limit = account.drawn.get(name, 0) + int(left)
        nominal = f", nominal {name}={_quantity(name, account.pool(name))}"
        return _message(account, name, more, max(limit, 0), more > account.most(name), nominal)
    return ""


def _message(
    account: Account, name: str, more: int, limit: int, is_too_large: bool, nominal: str = ""
) -> str:
    amounts = (more, account.used.get(name, 0), limit)
    requested, used, limited = (_quantity(name, amount) for amount in amounts)
    return (
        f"{EXCEEDED}{account.name}: requested {name}={requested}, used {name}={used},"
        f" limited {name}={limited}{nominal}{TOO_LARGE if is_too_large else ''}"
    )


def _quantity(name: str, amount: int) -> str:
    return Resources.from_milli({name: amount}).quantity(name) if amount else "0"
