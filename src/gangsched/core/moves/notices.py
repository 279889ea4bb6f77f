"""``PodUnschedulable``: which pending pods are told why they are not placed, and when.

An autoscaler adds nodes for the pods that it sees as unschedulable. So it has to see every pending
member of a gang that failed, and not only the member that found no node.

Rules:
  R1  a pod that was tried itself is told after each try, with its own reason. Of members that go
      alone, those are told that do not know the reason, or else the first one;
  R2  a gang that is known to fail, because one that asks for the same has failed, fails once
      without a try, so that its pods are told, too;
  R3  the other pending members of its gang get the reason of the gang. They are told only if it is
      another than they were told last.
"""

from __future__ import annotations

from collections.abc import Mapping

from gangsched.core.records.gang import GangRecord, PodRecord, by_seq
from gangsched.core.state import State
from gangsched.events import GroupIncomplete, PodNotAdmitted, PodUnschedulable
from gangsched.model import GroupKey
from gangsched.primitives import quorum
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.primitives.standing import Row

__all__ = ["incomplete", "not_admitted", "presence", "standing_of", "tell", "tell_gang"]


def tell(state: State, record: PodRecord, reason: str) -> None:
    """Post why a pod that was tried is not placed."""
    record.reason = record.told = reason
    if record.gang.told_all != reason:
        record.gang.told_all = ""
    state.call.out.append(PodUnschedulable(record.uid, reason))


def tell_gang(state: State, gang: GangRecord, reason: str) -> None:
    """Tell the pending members of a gang that failed, but those that know. O(members log)."""
    for record in gang.in_order():
        tried = record.reason and record.told == record.reason and record.round == gang.round
        if not tried:
            record.reason = reason
        if record.told != record.reason:
            tell(state, record, record.reason)


def not_admitted(
    state: State,
    gang: GangRecord,
    info: PodGroupInfo | None,
    denial: str,
    told: str,
    *,
    is_known: bool,
) -> None:
    """Post why a gang is not admitted to the queue, and tell its pending members.

    Args:
        state: The state.
        gang: The gang.
        info: The group of it that is not admitted; None for a regular pod.
        denial: Why it is not.
        told: What its members are told if the gang is complete and waits for something else.
        is_known: Whether this was posted before; then it is posted for a new member only.
    """
    if info is None:
        if not is_known:
            state.call.out.append(PodNotAdmitted(gang.pod.uid, denial))
        return
    reason, notice = _why_not_admitted(state, gang, info, denial, told)
    others: list[PodRecord] = []
    for record in reversed(gang.pending.values()):
        if record.reason != reason or record.told != reason:
            others.append(record)
        elif gang.told_all == reason:
            break  # so does every one before it
    gang.told_all = reason
    if not is_known or any(record.told != reason for record in others):
        state.call.out.append(notice or PodNotAdmitted(gang.pod.uid, denial))
    for record in sorted(others, key=by_seq):
        record.reason = reason
        if record.told != reason:
            tell(state, record, reason)


def _why_not_admitted(
    state: State, gang: GangRecord, info: PodGroupInfo, denial: str, told: str
) -> tuple[str, GroupIncomplete | None]:
    """Return what the members of a group are told, and the notice if it is incomplete."""
    present, absent = presence(state, info)
    is_present = info.min_available is not None and present >= info.min_available and not absent
    if told:
        return told, None
    if not is_present:
        return incomplete(info.key), GroupIncomplete(info.key, present, info.min_available, absent)
    if gang.is_bundle:
        return f"pod group {info.key} waits for another group of its bundle", None
    return denial, None  # another plugin than that of groups refuses it


def incomplete(key: GroupKey) -> str:
    """Return what the members of an incomplete group are told."""
    return f"pod group {key} is incomplete"


def presence(state: State, info: PodGroupInfo) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    """Return how many members count for the quorum, and the roles with too few. O(roles)."""
    rows = standing_of(state, info)
    absent = [(role, row.least, row.present) for role, row in rows.items() if role and row.is_short]
    return rows[""].present, tuple(absent)


def standing_of(state: State, info: PodGroupInfo) -> Mapping[str, Row]:
    """Return how a group stands by its gang policy, ``""`` for all its members. O(roles)."""
    policy = state.settings.profile.match_policy
    if policy is not None:
        return quorum.stands(info, policy).rows
    wanted, rows = state.points.roles_needed(info), dict[str, Row]()
    for role, least in {"": info.min_available or 0, **info.roles}.items():
        counts = info.role(role) if role else info
        held = least - wanted[role] if role in wanted else counts.scheduled
        rows[role] = Row(least, held, held + counts.unscheduled)
    return rows
