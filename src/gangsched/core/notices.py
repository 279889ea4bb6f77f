"""``PodUnschedulable``: which pending pods are told why they are not placed, and when.

An autoscaler adds nodes for the pods that it sees as unschedulable. So it has to see every pending
member of a gang that failed, and not only the member that found no node.

Rules:
  R1  a pod that was tried itself is told after each try, with its own reason;
  R2  the other pending members of its gang get the reason of the gang. They are told only if it is
      another than they were told last.
"""

from __future__ import annotations

from gangsched._core import _quorum
from gangsched._core._quorum import MatchPolicy
from gangsched._core._registry import PodGroupInfo
from gangsched.core.records import Gang, PodRecord
from gangsched.core.state import State
from gangsched.events import GroupIncomplete, PodNotAdmitted, PodUnschedulable
from gangsched.model import GroupKey

__all__ = ["incomplete", "not_admitted", "presence", "tell", "tell_gang"]


def tell(state: State, record: PodRecord, reason: str) -> None:
    """Post why a pod that was tried is not placed."""
    record.reason = record.told = reason
    state.out.append(PodUnschedulable(record.uid, reason))


def tell_gang(state: State, gang: Gang, reason: str) -> None:
    """Tell the pending members of a gang that failed, but those that know. O(members log)."""
    for record in gang.in_order():
        tried = record.reason and record.told == record.reason and record.round == gang.round
        if not tried:
            record.reason = reason
        if record.told != record.reason:
            tell(state, record, record.reason)


def not_admitted(
    state: State, gang: Gang, info: PodGroupInfo | None, denial: str, told: str = ""
) -> None:
    """Post why a gang is not admitted to the queue, and tell its pending members.

    *told* is what these are told if the gang is complete and waits for something else.
    """
    if info is None:
        state.out.append(PodNotAdmitted(gang.pod.uid, denial))
        return
    present, absent = presence(info)
    if told:
        state.out.append(PodNotAdmitted(gang.pod.uid, denial))
        reason = told
    elif len(gang.infos) > 1 and present >= (info.min_available or 0) and not absent:
        state.out.append(PodNotAdmitted(gang.pod.uid, denial))
        reason = f"pod group {info.key} waits for another group of its bundle"
    else:
        state.out.append(GroupIncomplete(info.key, present, info.min_available, absent))
        reason = incomplete(info.key)
    # most members know it since an earlier one came, and need not be sorted
    pending = gang.pending.values()
    others = [r for r in pending if r.reason != reason or r.told != reason]
    for record in sorted(others, key=lambda each: each.seq):
        record.reason = reason
        if record.told != reason:
            tell(state, record, reason)


def incomplete(key: GroupKey) -> str:
    """Return what the members of an incomplete group are told."""
    return f"pod group {key} is incomplete"


def presence(info: PodGroupInfo) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    """Return how many members count for the quorum, and the roles with too few."""
    policy = MatchPolicy.WAITING_AND_RUNNING
    minimum = info.min_available
    if minimum is None:
        return info.all + info.succeeded, ()
    present = _quorum.counted(info, policy, minimum) + info.unscheduled
    shares = _quorum.shares(info, policy)
    some = [(share.role, share.least, share.scheduled + share.unscheduled) for share in shares]
    return present, tuple([each for each in some if each[2] < each[1]])
