"""What groups reserve and hold of the quotas of their namespaces, and which wait for one.

Theory of operation. A group may start if what its minimum needs fits the quotas of its namespace;
otherwise it *waits*. With a member on a node it *reserves* what its minimum needs. Members with
nodes are counted one by one, elastic ones included. A group is *charged* the larger of both: what
it reserves, and what its members hold. When less is charged than before, the caller asks for the
waiting groups again. Groups that start together are asked together: otherwise two bundles could
wait for each other.

Members that are on nodes when they are first seen are counted without a question. So a quota may be
exceeded after its limit was lowered, as a ResourceQuota of Kubernetes; nothing further is admitted
then. What a group reserves beyond what it holds must fit, since its members start within it.

Invariants (checked by ``_check``):
  I1  the used amount of a quota is the sum of the charges of the groups in its namespaces;
  I2  a group that is charged, or waits, is in a namespace with a quota. It may do both: an elastic
      member waits while others run.

Source: KEP-34, "Admission Controller": quota is reserved for a group with ``totalResources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, final

from attrs import frozen

from gangsched.errors import InternalError
from gangsched.model import GroupKey, Resources
from gangsched.options.quota import EXCEEDED, TOO_LARGE, Quota, as_quotas
from gangsched.resources import NOTHING

__all__ = ["Charge", "QuotaLedger"]


@final
@frozen
class Charge:
    """What a group reserves.

    Attributes:
        key: The group.
        amounts: What it reserves.
    """

    key: GroupKey
    amounts: Resources


@final
class QuotaLedger:
    """What groups reserve and hold, and which wait for a quota.

    Runtime complexity: every method is O(quotas of a namespace x resources) for each group given,
    unless it says otherwise.

    Not thread-safe.

    Args:
        quotas: The quotas.

    Attributes:
        is_used: Whether there is a quota at all.
    """

    __slots__ = (
        "_charged",
        "_charges",
        "_has_returned",
        "_held",
        "_of",
        "_quotas",
        "_used",
        "_waiting",
        "is_used",
    )

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas = as_quotas(quotas)
        self.is_used: Final = bool(self._quotas)
        # the quotas of each namespace, by number
        self._of: dict[str, list[int]] = {}
        for number, quota in enumerate(self._quotas):
            for namespace in dict.fromkeys(quota.namespaces):
                self._of.setdefault(namespace, []).append(number)
        self._used: dict[str, dict[str, int]] = {quota.name: {} for quota in self._quotas}
        self._charges: dict[GroupKey, Charge] = {}
        self._held: dict[GroupKey, Resources] = {}
        self._charged: dict[GroupKey, Resources] = {}
        self._waiting: dict[GroupKey, str] = {}
        self._has_returned = False

    @property
    def waiting(self) -> tuple[GroupKey, ...]:
        """The groups that wait, in the order in which they were refused. O(groups)."""
        return tuple(self._waiting)

    def __len__(self) -> int:
        """Return how many groups reserve something, or wait. O(1)."""
        return len(self._charges) + len(self._waiting)

    def covers(self, key: GroupKey) -> bool:
        """Return whether the namespace of a group has a quota. O(1)."""
        return key.partition("/")[0] in self._of

    def reason(self, key: GroupKey) -> str:
        """Return why a group waits; empty if it does not. O(1)."""
        return self._waiting.get(key, "")

    def exceeded(self, wanted: Sequence[tuple[GroupKey, Resources]]) -> str:
        """Return why groups may not reserve amounts; empty if they may.

        It is the message about the first quota that they would exceed. Groups that wait for a
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
        more: Mapping[GroupKey, Resources],
        least: Mapping[GroupKey, Resources] = MappingProxyType({}),
    ) -> str:
        """Return why groups may not hold so much more than now; empty if they may.

        Args:
            more: What their members would hold besides.
            least: What groups that start would reserve, whatever their members hold.
        """
        targets: list[tuple[GroupKey, Resources]] = []
        for key in {**more, **least}:
            held = self._held.get(key, NOTHING) + more.get(key, NOTHING)
            targets.append((key, _larger(self._to_charge(key, held), least.get(key, NOTHING))))
        return self._exceeded(targets)

    def wait(self, key: GroupKey, problem: str) -> None:
        """Note that a group waits for a quota, and why. O(1)."""
        self._waiting[key] = problem

    def has_reserved(self, key: GroupKey) -> bool:
        """Return whether a group reserves something. O(1)."""
        return key in self._charges

    def reserve(self, key: GroupKey, amounts: Resources) -> None:
        """Reserve amounts for a group that is on nodes, instead of what it has reserved.

        If they do not fit beside what others are charged, the group is charged what it holds.
        """
        if not self._may_reserve(key, amounts):
            self._release(key)
        elif key not in self._charges or self._charges[key].amounts != amounts:
            self._put(Charge(key, amounts))

    def hold(self, key: GroupKey, before: Resources, after: Resources) -> None:
        """Count what a member of a group holds: *after*, and no longer *before*."""
        if not self.covers(key):
            return
        held = self._held.get(key, NOTHING) - before + after
        if any(held.values()):
            self._held[key] = held
        else:
            self._held.pop(key, None)
        self._recount(key)

    def release(self, key: GroupKey) -> None:
        """Return what a group has reserved; it does not wait any more."""
        self._waiting.pop(key, None)
        self._release(key)

    def stop_waiting(self, key: GroupKey) -> None:
        """Note that a group does not ask for quota any more. O(1)."""
        self._waiting.pop(key, None)

    def take_returned(self) -> bool:
        """Return whether less is charged to a group than before, since the last call. O(1)."""
        returned, self._has_returned = self._has_returned, False
        return returned

    def note_returned(self) -> None:
        """Let the groups that wait be asked again, as if less was charged than before. O(1)."""
        self._has_returned = bool(self._waiting)

    def restore(self, charges: Iterable[Charge], waiting: Iterable[tuple[GroupKey, str]]) -> None:
        """Remember what a snapshot has of groups with a quota; members are counted when read."""
        for charge in charges:
            self._put(charge)
        self._waiting.update((key, why) for key, why in waiting if self.covers(key))

    # Inside ---------------------------------------------------------------------------------

    def _put(self, charge: Charge) -> None:
        if not self.covers(charge.key):
            return
        self._charges[charge.key] = charge
        self._recount(charge.key)

    def _release(self, key: GroupKey) -> None:
        if self._charges.pop(key, None) is not None:
            self._recount(key)

    def _may_reserve(self, key: GroupKey, amounts: Resources) -> bool:
        """Return whether a group may reserve amounts beyond what it holds."""
        held = self._held.get(key, NOTHING)
        before = self._charged.get(key, NOTHING)
        for number in self._of[key.partition("/")[0]]:
            quota = self._quotas[number]
            used = self._used[quota.name]
            for name, limit in quota.hard.items():
                amount = amounts.get(name, 0)
                others = used.get(name, 0) - before.get(name, 0)
                if amount > held.get(name, 0) and others + amount > limit:
                    return False
        return True

    def _to_charge(self, key: GroupKey, held: Resources) -> Resources:
        """Return what a group is charged while its members hold so much."""
        charge = self._charges.get(key)
        return held if charge is None else _larger(charge.amounts, held)

    def _recount(self, key: GroupKey) -> None:
        """Charge a group what it reserves and holds now."""
        before = self._charged.pop(key, NOTHING)
        after = self._to_charge(key, self._held.get(key, NOTHING))
        if any(after.values()):
            self._charged[key] = after
        changes = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
        self._has_returned |= any(change < 0 for change in changes.values())
        for number in self._of[key.partition("/")[0]]:
            used = self._used[self._quotas[number].name]
            for name, change in changes.items():
                left = used.get(name, 0) + change
                if left:
                    used[name] = left
                else:
                    used.pop(name, None)

    def _exceeded(self, targets: Iterable[tuple[GroupKey, Resources]]) -> str:
        """Return why groups may not be charged amounts; empty if they may."""
        totals: dict[int, dict[str, int]] = {}
        for key, amounts in targets:
            before = self._charged.get(key, NOTHING)
            for number in self._of.get(key.partition("/")[0], ()):
                total = totals.setdefault(number, {})
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount - before.get(name, 0)
        # the first quota by the order of the arguments is named
        return self._problem((self._quotas[number], totals[number]) for number in sorted(totals))

    def _problem(self, totals: Iterable[tuple[Quota, dict[str, int]]]) -> str:
        for quota, total in totals:
            used = self._used[quota.name]
            for name, amount in total.items():
                limit = quota.hard.get(name)
                if limit is not None and amount > 0 and used.get(name, 0) + amount > limit:
                    found = Resources.from_milli({name: amount}).quantity(name)
                    taken = Resources.from_milli(used).quantity(name) if name in used else "0"
                    return (
                        f"{EXCEEDED}{quota.name}: requested {name}={found},"
                        f" used {name}={taken}, limited {name}={quota.hard.quantity(name)}"
                        f"{TOO_LARGE if amount > limit else ''}"
                    )
        return ""

    def _check(self) -> None:
        known = {*self._charges, *self._held}
        if known - {key for key in known if self.covers(key)}:
            raise InternalError("a group without a quota is charged")
        for number, quota in enumerate(self._quotas):
            total: dict[str, int] = {}
            for key in known:
                if number in self._of.get(key.partition("/")[0], ()):
                    for name, amount in self._to_charge(key, self._held.get(key, NOTHING)).items():
                        total[name] = total.get(name, 0) + amount
            if {n: amount for n, amount in total.items() if amount} != self._used[quota.name]:
                raise InternalError(f"quota {quota.name} has {self._used[quota.name]}, not {total}")


def _larger(one: Resources, other: Resources) -> Resources:
    """Return the larger amount of each resource."""
    if not other:
        return one
    if not one:
        return other
    return Resources.from_milli({n: max(one.get(n, 0), other.get(n, 0)) for n in {*one, *other}})
