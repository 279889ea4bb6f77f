"""Whether waiting pods may go by now, or can no longer start where they wait.

Theory of operation. As in kube-scheduler, a waiting pod has *pending* permit plugins: those that
said ``Wait`` and have not allowed it yet. A pod is allowed when none is left. A plugin that allowed
a pod, in ``permit`` or by ``PermitAllowed``, is not asked about it again in this wait.

The members of a gang are released together, once as many of them are allowed as the quorum needs.
Members with a pending plugin do not count for that. They keep waiting, and follow when they are
allowed. A plugin that answers for the whole group is asked about one member, and its answer holds
for all of them. The plugin with the quorum is asked each time, because its answer may get worse.

Rules:
  R1  pending plugins are asked again after each event that concerns the pod or its group. Those of
      a waiting sibling are also asked when a member that needs no wait comes to a node;
  R2  an answer never makes a wait longer: it ends at the deadline that ``PodWaiting`` has stated,
      so that law 6 does not depend on what plugins and hosts say;
  R3  no pod changes its place here. A release is returned as an outcome for ``transition``, and a
      waiting pod that a plugin refuses is noted in ``CurrentCall.refused``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, final

from attrs import evolve, frozen

from gangsched._core._registry import PodGroupInfo
from gangsched._core._waiting import WaitingMap, WaitingPod
from gangsched._plugin_calls import name_of
from gangsched.errors import GangschedError
from gangsched.framework.lifecycle import release
from gangsched.framework.lifecycle.entity_outcomes import PermitGranted, Rejected
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.placement import topology
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member, Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import PodUID
from gangsched.outcomes import Unschedulable

__all__ = ["allow", "ask_siblings", "astray", "recheck", "waiting_with"]


@final
@frozen
class _Answers:
    """What pending plugins say when they are asked again.

    Attributes:
        left: By pod, the names of the plugins that are still pending.
        refused: By pod, why a plugin refuses it.
        is_blocked: Whether a plugin that answers for the whole group lets it wait.
    """

    left: dict[PodUID, Collection[str]]
    refused: dict[PodUID, str]
    is_blocked: bool = False

    def keeps(self, uid: PodUID) -> bool:
        """Return whether a pod may not go yet. O(1)."""
        return bool(self.left.get(uid)) or uid in self.refused


def waiting_with(pods: Pods, member: Member) -> list[Member]:
    """Return the waiting pods that are released together with one: itself, or its siblings."""
    if member.group is None:
        return [member] if member.pod.uid in pods.waiting else []
    return [pods.members[entry.uid] for entry in pods.waiting.of(member.group.key)]


def recheck(
    settings: Settings, pods: Pods, call: CurrentCall, members: Sequence[Member], *, now: float
) -> PermitGranted | None:
    """Ask the pending plugins again; return the release if enough members are allowed.

    Runtime complexity: O(waiting members), and one call of each pending plugin that is asked about
    each member.

    Args:
        settings: What the caller set.
        pods: The known pods.
        call: What the current call gathers.
        members: The waiting members of one group, or one waiting regular pod.
        now: The current instant.
    """
    if not members:
        return None
    try:
        answers = _ask_for_all(settings, pods, members, now=now)
        _ask_for_each(settings, pods, members, answers, now=now)
        granted = _granted(settings, call, members, answers, now=now)
    except GangschedError as error:
        call.deferred.append(error)
        return None
    call.refused.update(answers.refused)
    if granted is None:
        rule = settings.profile.quorum
        _note(pods.waiting, answers.left, "" if rule is None else name_of(rule))
    return granted


def ask_siblings(
    settings: Settings, pods: Pods, call: CurrentCall, member: Member, *, now: float
) -> tuple[list[Member], list[Member]]:
    """Ask the pending plugins of the siblings of a member that needs no wait.

    Nothing is noted about a sibling, because the cycle may be undone.

    Returns:
        The waiting siblings that are allowed, and those that are not, in order of arrival.
    """
    siblings = waiting_with(pods, member)
    answers = _Answers({}, call.refused)
    _ask_for_each(settings, pods, siblings, answers, now=now)
    kept = [sibling for sibling in siblings if answers.keeps(sibling.pod.uid)]
    return [sibling for sibling in siblings if not answers.keeps(sibling.pod.uid)], kept


def allow(pods: Pods, members: Iterable[Member], plugin: str) -> bool:
    """Note that a plugin allows waiting pods of one entity; return whether it was pending.

    Runtime complexity: O(waiting members).
    """
    entries = [_entry(pods, member) for member in members]
    left: dict[PodUID, Collection[str]] = {
        entry.uid: [name for name in entry.pending_plugins if name != plugin]
        for entry in entries
        if plugin in entry.pending_plugins
    }
    _note(pods.waiting, left, "")
    return bool(left)


def _ask_for_all(
    settings: Settings, pods: Pods, members: Sequence[Member], *, now: float
) -> _Answers:
    """Ask the plugins that answer for the whole group about its first waiting member."""
    wide = settings.profile.group_wide["permit"]
    names = {name_of(plugin) for plugin in wide}
    entries = [_entry(pods, member) for member in members]
    pending = {name for entry in entries for name in entry.pending_plugins}
    asked = [p for p in wide if p is settings.profile.quorum or name_of(p) in pending]
    answer = extension_points.permit(settings, members[0], now, tuple(asked))
    if isinstance(answer, Unschedulable):
        refused = {members[0].pod.uid: answer.reason}
        return _Answers(
            {entry.uid: entry.pending_plugins for entry in entries}, refused, is_blocked=True
        )
    done = names.difference(name for name, _timeout in answer)
    left: dict[PodUID, Collection[str]] = {
        entry.uid: [name for name in entry.pending_plugins if name not in done] for entry in entries
    }
    return _Answers(left, {}, is_blocked=bool(answer))


def _ask_for_each(
    settings: Settings, pods: Pods, members: Iterable[Member], answers: _Answers, *, now: float
) -> None:
    """Ask the other pending plugins about each member, and add to the answers."""
    for_each: tuple[Any, ...] = settings.profile.per_member["permit"]
    for member in members if for_each else ():
        uid = member.pod.uid
        names = answers.left[uid] if uid in answers.left else _entry(pods, member).pending_plugins
        asked = tuple(plugin for plugin in for_each if name_of(plugin) in names)
        if not asked:
            continue
        answer = extension_points.permit(settings, member, now, asked)
        if isinstance(answer, Unschedulable):
            answers.refused[uid] = answer.reason
            continue
        waits = {name for name, _timeout in answer}
        own = {name_of(plugin) for plugin in asked}
        answers.left[uid] = [n for n in answers.left.get(uid, waits) if n in waits or n not in own]


def _granted(
    settings: Settings,
    call: CurrentCall,
    members: Sequence[Member],
    answers: _Answers,
    *,
    now: float,
) -> PermitGranted | None:
    ready = [member for member in members if not answers.keeps(member.pod.uid)]
    if answers.is_blocked or not ready:
        return None
    kept = [member for member in members if answers.keeps(member.pod.uid)]
    if not release.is_quorum_without(settings, call, ready, kept):
        return None
    return release.prepare(settings, call, ready, now=now, kept=kept)


def _note(waiting: WaitingMap, left: dict[PodUID, Collection[str]], always: str) -> None:
    """Keep only the plugins that are still pending, and the one that is always asked."""
    for uid, names in left.items():
        entry = waiting.get(uid)
        assert entry is not None
        before = entry.pending_plugins
        pending = tuple([name for name in before if name in names or name == always])
        if len(pending) < len(before):
            waiting.replace(evolve(entry, pending_plugins=pending))


def _entry(pods: Pods, member: Member) -> WaitingPod:
    entry = pods.waiting.get(member.pod.uid)
    assert entry is not None
    return entry


def astray(nodes: Nodes, pods: Pods, info: PodGroupInfo) -> Rejected | None:
    """Return the rejection of a group that waits on permit outside of its topology value."""
    reason = topology.rejection_reason(nodes, pods, info)
    return Rejected(reason) if reason else None
