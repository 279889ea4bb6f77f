"""The quotas: what a gang may take beside those that hold nodes.

Theory of operation. A quota counts what members of groups hold on nodes, elastic ones included; the
mover tells ``QuotaLedger`` of it. A group with a member on a node is charged what its minimum needs
if that is more: its other members will follow. A gang is asked when it is settled, and once more
when its turn comes: another one may have taken what was left. It fits if what its minimum needs
fits beside all others.

Rules:
  R1  groups that start together are asked together;
  R2  a minimum needs its ``min_resources``, or what its largest members request if that is more. So
      any of its members may be the ones that start. A group that fell below its minimum needs what
      the largest of its pending members request;
  R3  a member beyond the minimum is placed only if that fits, too, whenever it came, beside what
      the minima reserve that start with it (``Allowance``). Others are tried in its stead;
  R4  a group that is being restarted is charged as if it ran, until it is tried again; after its
      backoff only if its minimum exists;
  R5  when a charge ends, the gangs that wait are asked again in queue order, each beside those that
      fit before it. If one of these leaves the queue without a node, the others are asked again;
  R6  a gang that is not admitted for another reason does not wait for a quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Final, final

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.core import restarts
from gangsched.core.gang import Gang, PodRecord
from gangsched.core.state import State
from gangsched.model import GroupKey, Resources
from gangsched.resources import NOTHING

__all__ = ["Allowance", "ask_waiting", "charge", "denial", "note_left", "stop_waiting"]

_COUNTED: Final = frozenset(
    {
        MemberState.UNSCHEDULED,
        MemberState.WAITING,
        MemberState.BINDING,
        MemberState.ASSIGNED,
    }
)


def denial(state: State, gang: Gang) -> tuple[PodGroupInfo, str] | None:
    """Return the group that must wait for a quota, and why; None if none must. O(members)."""
    ledger = state.records.quotas
    pending = {record.info.key: record.info for record in gang.in_order() if record.info}
    for info in pending.values():
        if not ledger.covers(info.key):
            continue
        if info.was_scheduled:
            problem = _exceeded_again(state, gang, info)
        else:
            problem = ledger.exceeded(_claims(gang, info))
        if problem:
            ledger.wait(info.key, problem)
            return info, problem
        ledger.stop_waiting(info.key)
    return None


def charge(state: State, gang: Gang) -> None:
    """Charge the groups that have members on nodes, or are being restarted; release the others."""
    ledger = state.records.quotas
    for info in gang.infos.values():
        if not ledger.covers(info.key):
            continue
        if not info.unscheduled:
            ledger.stop_waiting(info.key)
        if _on_nodes(gang, info):
            ledger.force(info.key, _needed(gang, info))
        elif not restarts.is_under_way(state, info) and not _returns(state, info):
            waits = ledger.reason(info.key)
            ledger.release(info.key)
            if waits:
                ledger.wait(info.key, waits)


def _returns(state: State, info: PodGroupInfo) -> bool:
    return info.is_complete and restarts.returns(state, info)


def ask_waiting(state: State) -> None:
    """Note the gangs that wait for a quota and fit by now, if a charge was returned.

    Runtime complexity: O(n log n) for n groups that wait, and their members.
    """
    ledger, records = state.records.quotas, state.records
    if not ledger.take_returned():
        return
    known = [records.registry.get(key) for key in ledger.waiting]
    found = [info for info in known if info is not None]
    found.sort(key=lambda info: (-_priority(state, info), info.created_at, info.uid))
    ahead: list[tuple[GroupKey, Resources]] = []
    for info in found:
        gang = records.gang_of.get(info.key)
        if gang is None or gang in state.touched:
            continue  # another group of its bundle was asked about for both
        if info.was_scheduled:
            if not _exceeded_again(state, gang, info):
                state.touch(gang)
        else:
            claims = _claims(gang, info)
            if not ledger.exceeded([*ahead, *claims]):
                ahead += claims
                state.touch(gang)


def _priority(state: State, info: PodGroupInfo) -> int:
    gang = state.records.gang_of.get(info.key)
    return info.priority if gang is None else gang.priority


def stop_waiting(state: State, gang: Gang) -> None:
    """Note that a gang is not admitted for another reason, so it would take no quota. O(groups)."""
    for key in gang.infos:
        state.records.quotas.stop_waiting(key)


def note_left(state: State, gang: Gang) -> None:
    """Note that a gang left the queue: without a node it does not use what it was admitted for."""
    ledger = state.records.quotas
    if ledger.is_used and any(
        not i.scheduled and ledger.covers(i.key) for i in gang.infos.values()
    ):
        ledger.note_returned()


@final
class Allowance:
    """What members of a gang may take of quotas beyond the minima that start with them.

    Args:
        state: The state.
        gang: The gang.
        starts: Whether the groups of the gang that have not started do so; they reserve what their
            minima need.
    """

    def __init__(self, state: State, gang: Gang, *, starts: bool) -> None:
        self._ledger = state.records.quotas
        infos = gang.infos.values() if starts else ()
        self._least = dict(_claim(gang, i) for i in infos if not i.was_scheduled)
        self._more: dict[GroupKey, Resources] = {}
        self._known: dict[tuple[GroupKey, Resources], bool] = {}

    def copy(self) -> Allowance:
        """Return another one of which as much was taken. O(groups)."""
        made = copy(self)
        made._more, made._known = dict(self._more), dict(self._known)
        return made

    def allows(self, record: PodRecord) -> bool:
        """Return whether a member may start, too. O(groups x quotas) for each other request."""
        if record.info is None:
            return True
        asked = (record.info.key, record.pod.requests)
        found = self._known.get(asked)
        if found is None:
            more = {**self._more, asked[0]: self._more.get(asked[0], NOTHING) + asked[1]}
            found = self._known[asked] = not self._ledger.exceeded_by(more, self._least)
        return found

    def take(self, record: PodRecord) -> None:
        """Count a member that starts, whether it is allowed or not. O(1)."""
        if record.info is not None:
            key = record.info.key
            self._more[key] = self._more.get(key, NOTHING) + record.pod.requests
            self._known.clear()


# Inside -----------------------------------------------------------------------------------------


def _members(gang: Gang, info: PodGroupInfo) -> Iterable[PodRecord]:
    return (record for record in gang.members.values() if record.info is info)


def _claims(gang: Gang, info: PodGroupInfo) -> list[tuple[GroupKey, Resources]]:
    """Return what a group, and those that start with it, need. O(members)."""
    others = [i for i in gang.infos.values() if i is not info and not i.was_scheduled]
    return [_claim(gang, each) for each in (info, *others)]


def _claim(gang: Gang, info: PodGroupInfo) -> tuple[GroupKey, Resources]:
    return info.key, _needed(gang, info) + _leaving(gang, info)


def _leaving(gang: Gang, info: PodGroupInfo) -> Resources:
    """Return what old members still hold on nodes, beside those that start. O(members)."""
    if not info.members.count(MemberState.TERMINATING):
        return NOTHING
    left = [r for r in _members(gang, info) if r.state is MemberState.TERMINATING and r.slot >= 0]
    return sum((record.pod.requests for record in left), NOTHING)


def _exceeded_again(state: State, gang: Gang, info: PodGroupInfo) -> str:
    """Return why no pending members of a started group may start; empty if some may. O(members)."""
    lacks = state.points.roles_needed(info)
    needed = lacks.get("", 0)
    if max(lacks.values(), default=0) <= 0 or needed > info.unscheduled:
        return _exceeded_by_each(state, gang, info)
    pending = [(r.role, r.pod.requests) for r in gang.pending.values() if r.info is info]
    roles = {role: more for role, more in lacks.items() if role and more > 0}
    amounts = _most(pending, max(needed, sum(roles.values())), roles)
    return state.records.quotas.exceeded_by({info.key: amounts})


def _exceeded_by_each(state: State, gang: Gang, info: PodGroupInfo) -> str:
    """Return why none of the pending members may start; empty if one may. O(members)."""
    problem, asked = "", set[Resources]()
    for record in gang.in_order():
        requests = record.pod.requests
        if record.info is info and requests not in asked:
            asked.add(requests)
            found = state.records.quotas.exceeded_by({info.key: requests})
            if not found:
                return ""
            problem = problem or found
    return problem


def _on_nodes(gang: Gang, info: PodGroupInfo) -> bool:
    """Return whether a member holds a node. O(1), O(members) if some are terminating."""
    if info.scheduled > 0:
        return True
    return info.members.count(MemberState.TERMINATING) > 0 and any(
        record.slot >= 0 for record in _members(gang, info)
    )


def _needed(gang: Gang, info: PodGroupInfo) -> Resources:
    """Return what the minimum of a group needs. O(members)."""
    requests = [(r.role, r.pod.requests) for r in _members(gang, info) if r.state in _COUNTED]
    # an attempt places one member at least, also if enough have succeeded
    needed = max((info.min_available or 0) - info.succeeded, 1)
    return _larger(info.min_resources, _most(requests, needed, info.roles))


def _most(
    requests: Sequence[tuple[str | None, Resources]], needed: int, roles: Mapping[str, int]
) -> Resources:
    """Return the most that so many members may request, with so many of each role at least.

    Each resource is taken for itself, so it may be more than any members request together.
    """
    if len(requests) <= needed:
        return sum((each for _role, each in requests), NOTHING)
    found: dict[str, int] = {}
    for name in {name for _role, each in requests for name in each}:
        left = sorted(((each.get(name, 0), role) for role, each in requests), key=_amount)
        total, missing = 0, {**roles}
        others: list[int] = []
        for amount, role in reversed(left):
            if role is not None and missing.get(role, 0) > 0:
                missing[role] -= 1
                total += amount
            else:
                others.append(amount)
        of_roles = len(left) - len(others)
        found[name] = total + sum(others[: max(needed - of_roles, 0)])
    return Resources.from_milli(found)


def _amount(each: tuple[int, str | None]) -> int:
    return each[0]


def _larger(one: Resources, other: Resources) -> Resources:
    if not one or not other:
        return one or other
    return Resources.from_milli({n: max(one.get(n, 0), other.get(n, 0)) for n in {*one, *other}})
