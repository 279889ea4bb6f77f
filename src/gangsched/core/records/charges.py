"""What groups and regular pods reserve and hold of quotas, and which wait for one.

Theory of operation. A group may start if what its minimum needs fits its accounts (see
``account_tree``); otherwise it *waits*. With a member on a node it *reserves* what its minimum
needs. Members with nodes are counted one by one, elastic ones included. A group is *charged* the
larger of both: what it reserves, and what its members hold. When less is charged than before, the
caller asks for the waiting groups again. Groups that start together are asked together: otherwise
two bundles could wait for each other. A regular pod is an owner like a group, and reserves nothing.

Members that are on nodes when they are first seen are counted without a question. So a quota may be
exceeded after its limit was lowered, as a ResourceQuota of Kubernetes; nothing further is admitted
then. What a group reserves beyond what it holds must fit, since its members start within it.

Within a trial, victims are lifted: an owner of which everything is lifted is charged nothing. The
preemptor is charged what it asks for.

Invariants (checked by ``_check``):
  I1  what is charged to an account is the sum of the charges of its owners, and of what is below;
  I2  an owner that reserves something, or waits, has an account. It may do both: an elastic member
      waits while others run;
  I3  between two calls no trial is under way.

Source: KEP-34, "Admission Controller": quota is reserved for a group with ``totalResources``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, final

from attrs import frozen

from gangsched.core.records.account_tree import Account, AccountTree
from gangsched.core.records.gang import GangRecord
from gangsched.core.records.waiters import Alike, LineKey, Waiters
from gangsched.errors import InternalError
from gangsched.model import Pod
from gangsched.options.quota import Quota
from gangsched.resources import NOTHING, Resources

__all__ = ["Charge", "Charges", "Owner"]

Owner: TypeAlias = str
"""The key of a group, or ``pod:`` and the UID of a regular pod."""


@final
@frozen
class Charge:
    """What an owner reserves.

    Attributes:
        key: The owner.
        amounts: What it reserves.
    """

    key: Owner
    amounts: Resources


@final
class Charges:
    """What owners reserve and hold, and which wait for a quota.

    Runtime complexity: every method is O(accounts x depth x resources) for each owner given, unless
    it says otherwise.

    Not thread-safe.

    Args:
        quotas: The quotas.
        history: See ``AccountTree``.

    Attributes:
        tree: The accounts.
        is_used: Whether there is a quota at all.
        waiters: Who waits, in lines.
    """

    __slots__ = (
        "_accounts",
        "_ahead",
        "_changed",
        "_charged",
        "_charges",
        "_held",
        "_lifted",
        "_pretended",
        "_queue",
        "_returned",
        "_tried",
        "_tried_before",
        "_waiting",
        "is_used",
        "tree",
        "waiters",
    )

    def __init__(self, quotas: Iterable[Quota] = (), history: float | None = None) -> None:
        self.tree: Final = AccountTree(quotas, history)
        self.is_used: Final = not self.tree.is_empty
        self._accounts: dict[Owner, tuple[Account, ...]] = {}
        self._queue: dict[Owner, str] = {}
        self._changed: dict[str, None] = {}
        self._charges: dict[Owner, Charge] = {}
        self._held: dict[Owner, Resources] = {}
        self._lifted: dict[Owner, Resources] = {}
        self._pretended: dict[Owner, Resources] = {}
        self._charged: dict[Owner, Resources] = {}
        self._waiting: dict[Owner, str] = {}
        self.waiters: Waiters = Waiters(self.tree.path_of, self.tree.share)
        self._ahead: set[Owner] = set()
        # who has looked for victims, as things are, and before that since nodes could take more
        self._tried: dict[tuple[LineKey, Hashable], None] = {}
        self._tried_before: dict[tuple[LineKey, Hashable], None] = {}
        self._returned: dict[str, None] = {}

    # Owners -------------------------------------------------------------------------------------

    def place(self, key: Owner, namespace: str, queue: str | None) -> None:
        """Charge an owner to the quotas of its namespace and to its queue, from now on."""
        own = self.tree.queue_of(namespace, queue)
        self._queue[key] = "" if own is None else own.name
        accounts = self.tree.of(namespace, queue)
        if self._accounts.get(key) == accounts:
            return
        charged = self._charged.get(key, NOTHING)
        self._charge(key, charged, NOTHING)
        self._accounts[key] = accounts
        self._charge(key, NOTHING, charged)

    def join(self, key: Owner, pod: Pod) -> None:
        """Place an owner that is not known yet, by one of its pods."""
        if key not in self._accounts:
            self.place(key, pod.namespace, pod.queue)

    def accounts_of(self, key: Owner) -> tuple[Account, ...]:
        """Return what an owner is charged to, in the order of the quotas. O(1)."""
        return self._accounts.get(key, ())

    def queue_of(self, key: Owner) -> str:
        """Return the name of the queue of an owner; ``""`` without one. O(1)."""
        return self._queue.get(key, "")

    def covers(self, key: Owner) -> bool:
        """Return whether an owner has an account. O(1)."""
        return bool(self._accounts.get(key))

    def forget(self, key: Owner) -> None:
        """Forget an owner without pods, unless it reserves something. O(1)."""
        self.stop_waiting(key)
        if key not in self._charges:
            self._accounts.pop(key, None)
            self._queue.pop(key, None)

    # Waiting ------------------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[Owner, ...]:
        """The owners that wait, in the order in which they were refused. O(owners)."""
        return tuple(self._waiting)

    def __len__(self) -> int:
        """Return how many owners reserve something, or wait. O(1)."""
        return len(self._charges) + len(self._waiting)

    def reason(self, key: Owner) -> str:
        """Return why an owner waits; empty if it does not. O(1)."""
        return self._waiting.get(key, "")

    def wait(self, key: Owner, problem: str, gang: GangRecord, alike: Hashable) -> None:
        """Note that an owner waits for a quota. O(log owners).

        Args:
            key: The owner.
            problem: Why.
            gang: Its gang; its sort key says where it is among those that ask for the same.
            alike: Equal for owners that fit exactly if the others do.
        """
        self._waiting[key] = problem
        self.waiters.put(key, gang, alike)

    def stop_waiting(self, key: Owner) -> None:
        """Note that an owner does not ask for quota any more. O(log owners)."""
        if self._waiting.pop(key, None) is not None:
            self.waiters.discard(key)

    def surely_lacks(self, alike: Hashable) -> bool:
        """Return whether those that ask for the same lack something, whoever is before them."""
        if not isinstance(alike, Alike):
            return False
        accounts = [self.tree.by_name[name] for name in alike.accounts]
        return any(a.left(n) < more for a in accounts for n, more in alike.amounts.items())

    def is_hopeless(self, account: str, returned: Collection[str]) -> bool:
        """Return whether nobody that waits at or below an account fits, as far as its tree says.

        Runtime complexity: O(what is asked for below x resources) for a root, O(1) for others.

        Args:
            account: The account.
            returned: The roots of which something was given back.
        """
        root = self.tree.by_name.get(account)
        if root is None or root.parent is not None:
            return False
        for asked in self.waiters.asked_below(account):
            if asked is None or (account in returned and not root.surely_lacks(asked.amounts)):
                return False
        return True

    def line_up(self, key: Owner, gang: GangRecord) -> None:
        """Put an owner that waits where its gang is by now, in its line. O(log owners)."""
        if key in self._waiting:
            self.waiters.put(key, gang, self.waiters.line_of(key)[1])

    def note_tried(self, key: Owner, demand: Hashable) -> None:
        """Note that an owner looks for victims: those like it need not, as things are. O(1).

        Args:
            key: The owner.
            demand: What its gang asks of nodes, and whom it may evict.
        """
        self._tried[self.waiters.line_of(key), demand] = None

    def was_tried(self, key: Owner, demand: Hashable) -> bool:
        """Return whether one like an owner has looked for victims, as things are. O(1)."""
        return (self.waiters.line_of(key), demand) in self._tried

    def asked(self, key: Owner) -> Resources:
        """Return what an owner asks that waits and holds nothing; nothing for others. O(1)."""
        alike = self.waiters.line_of(key)[1]
        return alike.amounts if isinstance(alike, Alike) else NOTHING

    def forget_tried(self) -> list[GangRecord]:
        """Let owners look for victims again that did; return the first gangs of their lines."""
        tried, self._tried, self._tried_before = self._tried_before | self._tried, {}, {}
        firsts = [self.waiters.first(line) for line, _demand in tried]
        return [gang for gang in firsts if gang is not None]

    def take_returned(self) -> dict[str, None]:
        """Return the roots of which less is charged than before, since the last call. O(1)."""
        returned, self._returned = self._returned, {}
        return returned if self._waiting else {}

    def ask_again(self) -> None:
        """Let the owners that wait be asked again: who was ahead of them is not known. O(roots)."""
        self._returned = {each.name: None for each in self.tree if each.parent is None}

    def take_changed(self) -> dict[str, None]:
        """Return the accounts to which more or less is charged, since the last call. O(1)."""
        changed, self._changed = self._changed, {}
        return changed

    def note_ahead(self, owners: Iterable[Owner]) -> None:
        """Note the owners for the sake of which others were not asked to start."""
        self._ahead = set(owners)

    def note_left(self, key: Owner) -> None:
        """Note that an owner leaves the queue and takes nothing: others may start. O(1)."""
        if key in self._ahead:
            self._ahead.discard(key)
            self._note_returned(key)

    def _note_returned(self, key: Owner) -> None:
        for account in self._accounts.get(key, ()):
            self._returned[account.root.name] = None

    # What fits ----------------------------------------------------------------------------------

    def exceeded(self, wanted: Sequence[tuple[Owner, Resources]]) -> str:
        """Return why owners may not reserve amounts; empty if they may.

        It is the message about the first quota that they would exceed. Owners that wait for a
        quota already get this message as their reason.
        """
        problem = self._exceeded(
            (key, _larger(amounts, self._held.get(key, NOTHING))) for key, amounts in wanted
        )
        for key, _amounts in wanted:
            if problem and key in self._waiting:
                self._waiting[key] = problem
        return problem

    def exceeded_by(
        self,
        more: Mapping[Owner, Resources],
        least: Mapping[Owner, Resources] = MappingProxyType({}),
    ) -> str:
        """Return why owners may not hold so much more than now; empty if they may.

        Args:
            more: What their members would hold besides.
            least: What owners that start would reserve, whatever their members hold.
        """
        targets: list[tuple[Owner, Resources]] = []
        for key in {**more, **least}:
            held = self._held.get(key, NOTHING) + more.get(key, NOTHING)
            targets.append((key, _larger(self._to_charge(key, held), least.get(key, NOTHING))))
        return self._exceeded(targets)

    def is_exceeded(self, key: Owner) -> bool:
        """Return whether the accounts of an owner are charged more than they may be."""
        names = self._charged.get(key, NOTHING)
        return any(each.is_exceeded(name) for each in self.accounts_of(key) for name in names)

    # Charging -----------------------------------------------------------------------------------

    def keep(self, key: Owner, amounts: Resources) -> None:
        """Reserve amounts for an owner whose victims are about to give them back."""
        self._put(Charge(key, amounts))

    def target(self, key: Owner, more: Resources) -> Resources:
        """Return what an owner is charged if it holds so much more. O(resources)."""
        return self._to_charge(key, self._held.get(key, NOTHING) + more)

    def target_of(self, key: Owner, reserved: Resources) -> Resources:
        """Return what an owner is charged if it reserves so much. O(resources)."""
        return _larger(reserved, self._held.get(key, NOTHING))

    def alike(self, key: Owner, amounts: Resources, *, preempts: bool) -> Hashable:
        """Return what is equal for owners like one; the owner itself if none is like it. O(1)."""
        if key in self._charged:
            return key
        accounts = self.accounts_of(key)
        names = tuple([account.name for account in accounts])
        of_tree = len(accounts) == 1 and accounts[0].has_part
        return Alike(names, amounts, preempts, of_tree)

    def has_reserved(self, key: Owner) -> bool:
        """Return whether an owner reserves something. O(1)."""
        return key in self._charges

    def reserve(self, key: Owner, amounts: Resources) -> None:
        """Reserve amounts for a group that is on nodes, instead of what it has reserved.

        If they do not fit beside what others are charged, the group is charged what it holds.
        """
        if not self._may_reserve(key, amounts):
            self.unreserve(key)
        elif key not in self._charges or self._charges[key].amounts != amounts:
            self._put(Charge(key, amounts))

    def hold(self, key: Owner, requests: Resources, sign: int) -> None:
        """Count what a pod of an owner holds: once more (1), or once less (-1)."""
        if not self.is_used:
            return
        held = self._held.get(key, NOTHING)
        held = held + requests if sign > 0 else held - requests
        if any(held.values()):
            self._held[key] = held
        else:
            self._held.pop(key, None)
        self._recount(key)
        if sign > 0:  # it may be a victim now, though no more is charged than was reserved
            self._note(key)

    def release(self, key: Owner) -> None:
        """Return what an owner has reserved; it does not wait any more."""
        self.stop_waiting(key)
        self.unreserve(key)

    def restore(self, charges: Iterable[Charge]) -> None:
        """Remember what owners reserved, as a snapshot says; members are counted when read."""
        for charge in charges:
            self._put(charge)

    # Trials -------------------------------------------------------------------------------------

    def pretend(self, targets: Iterable[tuple[Owner, Resources]]) -> None:
        """Charge owners so much within a trial, instead of what they are charged."""
        for key, amounts in targets:
            before = self._now(key)
            self._pretended[key] = amounts
            self._shift(key, before)

    def lift(self, key: Owner, requests: Resources, sign: int) -> None:
        """Count within a trial what a victim holds as given back, or (-1) as held again."""
        before = self._now(key)
        lifted = self._lifted.get(key, NOTHING)
        lifted = lifted + requests if sign > 0 else lifted - requests
        if any(lifted.values()):
            self._lifted[key] = lifted
        else:
            self._lifted.pop(key, None)
        self._shift(key, before)

    def ignore_reserved(self, key: Owner) -> None:
        """Count within a trial what an owner reserves as given back."""
        self.pretend([(key, self._held.get(key, NOTHING))])

    def heed_reserved(self, key: Owner) -> None:
        """End ``ignore_reserved``."""
        before = self._now(key)
        self._pretended.pop(key, None)
        self._shift(key, before)

    def end_trial(self) -> None:
        """Charge owners again what they are charged. O(owners of the trial)."""
        for key in {**self._lifted, **self._pretended}:
            before = self._now(key)
            self._lifted.pop(key, None)
            self._pretended.pop(key, None)
            self._shift(key, before)

    def _now(self, key: Owner) -> Resources:
        """Return what an owner is charged in the current trial."""
        pretended, lifted = self._pretended.get(key), self._lifted.get(key)
        if pretended is not None:
            return pretended
        if lifted is None:
            return self._charged.get(key, NOTHING)
        held = self._held.get(key, NOTHING) - lifted
        return self._to_charge(key, held) if any(held.values()) else NOTHING

    def _shift(self, key: Owner, before: Resources) -> None:
        self._move(key, before, self._now(key))

    # Inside ---------------------------------------------------------------------------------

    def _put(self, charge: Charge) -> None:
        if not self.covers(charge.key):
            return
        self._charges[charge.key] = charge
        self._recount(charge.key)

    def unreserve(self, key: Owner) -> None:
        """Return what an owner has reserved. O(1) if it has reserved nothing."""
        if self._charges.pop(key, None) is not None:
            self._recount(key)

    def _may_reserve(self, key: Owner, amounts: Resources) -> bool:
        """Return whether an owner may reserve amounts beyond what it holds."""
        held = self._held.get(key, NOTHING)
        beyond = {name: amount for name, amount in amounts.items() if amount > held.get(name, 0)}
        before = self._charged.get(key, NOTHING)
        self._move(key, before, NOTHING)
        problem = self.tree.exceeded(dict.fromkeys(self.accounts_of(key), beyond))
        self._move(key, NOTHING, before)
        return not problem

    def _to_charge(self, key: Owner, held: Resources) -> Resources:
        """Return what an owner is charged while its pods hold so much."""
        charge = self._charges.get(key)
        return held if charge is None else _larger(charge.amounts, held)

    def _recount(self, key: Owner) -> None:
        """Charge an owner what it reserves and holds now."""
        before = self._charged.pop(key, NOTHING)
        after = self._to_charge(key, self._held.get(key, NOTHING))
        if any(after.values()):
            self._charged[key] = after
        self._charge(key, before, after)

    def _charge(self, key: Owner, before: Resources, after: Resources) -> None:
        """Charge what differs to the accounts of an owner, and note what has changed."""
        if self.tree.history is not None:
            for account in self._accounts.get(key, ()):
                self.tree.remember(account)
        changes = self._move(key, before, after)
        if changes:
            self._note(key)
        if any(change < 0 for change in changes.values()):
            self._note_returned(key)

    def _note(self, key: Owner) -> None:
        if self._tried:
            self._tried_before |= self._tried
            self._tried = {}
        for account in self._accounts.get(key, ()):
            self._changed[account.name] = None

    def _move(self, key: Owner, before: Resources, after: Resources) -> dict[str, int]:
        """Charge what differs to the accounts of an owner, and return it."""
        changes = _changes(before, after)
        for name, amount in changes.items():
            for account in self._accounts.get(key, ()):
                account.charge(name, amount)
        for account in self._accounts.get(key, ()) if changes else ():
            self.waiters.note_share(account.name)
        return changes

    def _exceeded(self, targets: Iterable[tuple[Owner, Resources]]) -> str:
        """Return why owners may not be charged amounts; empty if they may."""
        totals: dict[Account, dict[str, int]] = {}
        for key, amounts in targets:
            changes = _changes(self._charged.get(key, NOTHING), amounts)
            for account in self._accounts.get(key, ()):
                total = totals.setdefault(account, {})
                for name, amount in changes.items():
                    total[name] = total.get(name, 0) + amount
        return self.tree.exceeded(totals)

    def _check(self) -> None:
        known = {*self._charges, *self._held}
        if not all(map(self.covers, self._charges)):
            raise InternalError("an owner without a quota reserves something")
        if known - self._accounts.keys():
            raise InternalError("an owner is charged to no place")
        self.waiters.check(self._waiting)
        if self._lifted or self._pretended:
            raise InternalError("a trial of the accounts is still under way")
        charged: dict[Account, dict[str, int]] = {}
        for key in known:
            amounts = self._to_charge(key, self._held.get(key, NOTHING))
            for account in self._accounts[key]:
                total = charged.setdefault(account, {})
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount
        self.tree._check(charged)


def _changes(before: Resources, after: Resources) -> dict[str, int]:
    """Return by how much amounts differ."""
    names = dict.fromkeys((*before, *after)) if before else after
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in names}
    return {name: change for name, change in changes.items() if change}


def _larger(one: Resources, other: Resources) -> Resources:
    """Return the larger amount of each resource."""
    if not other:
        return one
    if not one:
        return other
    return Resources.from_milli({n: max(one.get(n, 0), other.get(n, 0)) for n in {*one, *other}})
