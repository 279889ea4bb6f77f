"""What a start has to be beside enough members: their roles, their nodes, and who starts with them.

Rules:
  R1  who is gone without the scheduler's knowing, while facts are told late, may have been any
      member; see ``Account.ghosts``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from gangsched.testing._plain import PlainPod

__all__ = ["Account", "apart", "in_part", "intruder", "is_settled", "without"]


class Account(Protocol):
    """What has to be known to judge a start; the ledger knows it.

    Attributes:
        pods: The pods that are there.
        placed: Who is placed, and where.
        labels: The labels of each node.
        started: The gangs that have started.
    """

    pods: dict[str, PlainPod]
    placed: dict[str, str]
    labels: dict[str, Mapping[str, str]]
    started: set[str]

    def members(self, group: str) -> list[str]:
        """Return the members of a gang that are there."""
        ...

    def ghosts(self, group: str) -> int:
        """Return how many members of a gang are gone without the scheduler's knowing."""
        ...


def is_settled(ledger: Account, group: str) -> bool:
    """Say whether as many members of a gang are placed as it needs, and of its roles."""
    there = _placed(ledger, group)
    if not there:
        return False
    first = ledger.pods[there[0]]
    roles = [ledger.pods[uid].role for uid in there]
    enough = all(roles.count(role) >= least for role, least in first.roles.items())
    return enough and len(there) >= first.min_available


def in_part(ledger: Account, group: str) -> str:
    """Say how a gang starts with less than it needs; "" when it does not."""
    there = _placed(ledger, group)
    first, ghosts = ledger.pods[there[0]], ledger.ghosts(group)
    starts = f"gang {group} starts with {len(there)} ({', '.join(there)})"
    if len(there) + ghosts < first.min_available:
        return f"{starts}, and needs {first.min_available} together"
    roles = [ledger.pods[uid].role for uid in there]
    missing = {role: least - roles.count(role) for role, least in first.roles.items()}
    short = [role for role, count in missing.items() if count > 0]
    if sum(missing[role] for role in short) > ghosts:
        role = short[0]
        return f"{starts}, of which {roles.count(role)} are {role}, and needs {first.roles[role]}"
    return ""


def apart(ledger: Account, group: str) -> str:
    """Say how a gang is not within one value of the label that it names; "" when it is."""
    there = _placed(ledger, group)
    key = ledger.pods[there[0]].within
    if key is None:
        return ""
    on = {uid: ledger.labels[ledger.placed[uid]].get(key) for uid in there}
    if len(set(on.values())) == 1 and None not in on.values():
        return ""
    told = [f"{uid} in {'none' if value is None else value}" for uid, value in on.items()]
    return f"gang {group} belongs within one {key}, and is placed with {', '.join(told)}"


def without(ledger: Account, group: str) -> str:
    """Say how a gang starts without another of its bundle; "" when it does not."""
    there = _placed(ledger, group)
    for other in ledger.pods[there[0]].bundle:
        if other not in ledger.started and not ledger.ghosts(other):
            return (
                f"gang {group} starts ({', '.join(there)}) without gang {other}, with which it "
                "belongs together"
            )
    return ""


def intruder(
    pods: Mapping[str, PlainPod], where: Mapping[str, str], taints: Mapping[str, Collection[str]]
) -> str:
    """Say who is on a node with a taint that it does not tolerate; "" when nobody is.

    Args:
        pods: The pods, by UID.
        where: Who is on which node.
        taints: The taints of each node.
    """
    for uid, name in where.items():
        bad = [t for t in taints.get(name, ()) if uid in pods and t not in pods[uid].tolerates]
        if bad:
            return f"{uid} is on {name}, whose taint {bad[0]} it does not tolerate"
    return ""


def _placed(ledger: Account, group: str) -> list[str]:
    return [uid for uid in ledger.members(group) if uid in ledger.placed]
