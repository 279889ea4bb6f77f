"""What the start of a gang needs: a quorum, roles, whole copies, topology, bundle; and taints.

Rules:
  R1  while events are delayed, a member whose deletion is not delivered yet may have had any role;
      see ``GangView.unreported``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from gangsched.testing._plain_pod import PlainPod

__all__ = [
    "GangView",
    "bundle_violation",
    "copy_violation",
    "has_quorum",
    "quorum_violation",
    "taint_violation",
    "topology_violation",
    "whole_copies",
]


class GangView(Protocol):
    """What the checks of a start read; the observer provides it.

    Attributes:
        pods: The pods that exist, by UID.
        placed: The node of each placed pod.
        labels: The labels of each node.
        started: The gangs that have started.
    """

    pods: dict[str, PlainPod]
    placed: dict[str, str]
    labels: dict[str, Mapping[str, str]]
    started: set[str]

    def members(self, group: str) -> list[str]:
        """Return the UIDs of the members of a gang."""
        ...

    def unreported(self, group: str) -> int:
        """Return how many members of a gang are gone while their deletion is delayed."""
        ...


def has_quorum(view: GangView, group: str) -> bool:
    """Return whether the placed members of a gang reach its minimum, and that of each role."""
    placed = _placed(view, group)
    if not placed:
        return False
    first = view.pods[placed[0]]
    roles = [view.pods[uid].role for uid in placed]
    enough = all(roles.count(role) >= least for role, least in first.roles.items())
    enough &= whole_copies(view.pods[uid] for uid in placed) * first.copy_size >= (
        first.min_available if first.copies else 0
    )
    return enough and len(placed) >= first.min_available


def whole_copies(pods: Iterable[PlainPod]) -> int:
    """Return how many copies some members of a gang make up."""
    sizes = Counter((pod.copy, pod.copy_size) for pod in pods if pod.copies)
    return sum(number >= size for (_copy, size), number in sizes.items())


def quorum_violation(view: GangView, group: str) -> str:
    """Return how a gang starts below its quorum; "" if it does not."""
    placed = _placed(view, group)
    first, unreported = view.pods[placed[0]], view.unreported(group)
    starts = f"gang {group} starts with {len(placed)} ({', '.join(placed)})"
    if len(placed) + unreported < first.min_available:
        return f"{starts}, and needs {first.min_available} together"
    roles = [view.pods[uid].role for uid in placed]
    missing = {role: least - roles.count(role) for role, least in first.roles.items()}
    short = [role for role, count in missing.items() if count > 0]
    if sum(missing[role] for role in short) > unreported:
        role = short[0]
        return (
            f"{starts}, of which {roles.count(role)} have role {role}, "
            f"and needs {first.roles[role]}"
        )
    if first.copies and not unreported:
        whole = whole_copies(view.pods[uid] for uid in placed)
        needed = first.min_available // first.copy_size
        if whole < needed:
            return f"{starts}, which are {whole} whole copies, and needs {needed}"
    return ""


def copy_violation(view: GangView, group: str, before: Collection[str]) -> str:
    """Return which copy of a gang starts by half; "" if none does.

    Args:
        view: The pods.
        group: The gang.
        before: The pods that were placed before. Members that replace lost ones join the others.
    """
    copies: dict[int, list[str]] = {}
    for uid in _placed(view, group):
        copy = view.pods[uid].copy
        if copy is not None:
            copies.setdefault(copy, []).append(uid)
    for copy, uids in copies.items():
        size = view.pods[uids[0]].copy_size
        is_new = not any(uid in before for uid in uids)
        if is_new and len(uids) + view.unreported(group) < size:
            starts = f"copy {copy} of gang {group} starts with {len(uids)} ({', '.join(uids)})"
            return f"{starts}, and needs {size} together"
    return ""


def topology_violation(view: GangView, group: str) -> str:
    """Return how a gang spans several values of its topology key; "" if it does not."""
    placed = _placed(view, group)
    key = view.pods[placed[0]].topology_key
    if key is None:
        return ""
    values = {uid: view.labels[view.placed[uid]].get(key) for uid in placed}
    if len(set(values.values())) == 1 and None not in values.values():
        return ""
    where = [f"{uid} in {'none' if value is None else value}" for uid, value in values.items()]
    return f"gang {group} must be within one {key}, and is placed with {', '.join(where)}"


def bundle_violation(view: GangView, group: str) -> str:
    """Return how a gang starts without another gang of its bundle; "" if it does not."""
    placed = _placed(view, group)
    for other in view.pods[placed[0]].bundle:
        if other not in view.started and not view.unreported(other):
            return f"gang {group} starts ({', '.join(placed)}) without gang {other} of its bundle"
    return ""


def taint_violation(
    pods: Mapping[str, PlainPod], nodes: Mapping[str, str], taints: Mapping[str, Collection[str]]
) -> str:
    """Return which pod is on a node with a taint that it does not tolerate; "" if none is.

    Args:
        pods: The pods, by UID.
        nodes: The node of each pod, by UID.
        taints: The taints of each node.
    """
    for uid, name in nodes.items():
        bad = [t for t in taints.get(name, ()) if uid in pods and t not in pods[uid].tolerates]
        if bad:
            return f"{uid} is on {name}, and does not tolerate its taint {bad[0]}"
    return ""


def _placed(view: GangView, group: str) -> list[str]:
    return [uid for uid in view.members(group) if uid in view.placed]
