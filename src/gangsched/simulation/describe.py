"""Events and effects, in the words of ``kubectl get pods`` and ``kubectl describe``.

Rules:
  R1  words only: this module decides, counts and prints nothing;
  R2  it uses the words of kubectl where there are some, and plain sentences elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from attrs import frozen

from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    CopyBound,
    Effect,
    Event,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    NodeAdded,
    NodeDeleted,
    Nominated,
    NominationLapsed,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodNotAdmitted,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    PriorityOverruled,
    Release,
    RestartLimitReached,
    VictimSearchExhausted,
)
from gangsched.model import Pod, PodPhase, PodUID
from gangsched.values.seconds import format_span

__all__ = ["EventLog", "LogEntry", "PodRow", "human_duration", "pod_rows"]

_NORMAL, _WARNING = "Normal", "Warning"


def human_duration(seconds: float) -> str:
    """Return an age as kubectl prints it: ``95s``, ``6m43s``, ``42m``, ``5h7m``, ``3d4h``."""
    s = max(int(seconds), 0)
    m, h, d = s // 60, s // 3600, s // 86400
    if s < 120:
        return f"{s}s"
    if m < 10:
        return _two(m, "m", s % 60, "s")
    if h < 3:
        return f"{m}m"
    if h < 8:
        return _two(h, "h", m % 60, "m")
    if h < 48:
        return f"{h}h"
    return _two(d, "d", h % 24, "h") if d < 8 else f"{d}d"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _of(path: str, verb: str) -> str:
    """Return a verb, with the copy of the group that does it if it is only one."""
    return f"{path} {verb.lower()}" if path else verb


def _more_members(count: int) -> str:
    return "1 more member" if count == 1 else f"{count} more members"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _instant(seconds: float) -> str:
    return f"t={format_span(seconds)}"


def _two(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first}{first_unit}{second}{second_unit}" if second else f"{first}{first_unit}"


@final
@frozen
class PodRow:
    """One line of ``kubectl get pods``."""

    name: str
    namespace: str
    ready: str
    status: str
    node: str | None
    age_s: float

    @property
    def age(self) -> str:
        """The age, as kubectl prints it."""
        return human_duration(self.age_s)


def pod_rows(pods: Iterable[Pod], *, now: float) -> tuple[PodRow, ...]:
    """Return the rows of ``kubectl get pods``, in the order in which the pods arrived."""
    return tuple(
        PodRow(
            pod.name,
            pod.namespace,
            "1/1" if (status := _status(pod)) == "Running" else "0/1",
            status,
            pod.node_name,
            now - pod.created_at,
        )
        for pod in pods
    )


def _status(pod: Pod) -> str:
    if pod.phase is PodPhase.SUCCEEDED:
        return "Completed"
    if pod.phase is PodPhase.FAILED:
        return "Error"
    if pod.deleted_at is not None:
        return "Terminating"
    if pod.node_name is not None:
        return "Running"
    return "SchedulingGated" if pod.scheduling_gates else "Pending"


@final
@frozen
class LogEntry:
    """One line of the events of ``kubectl describe``.

    Attributes:
        at: The instant, in seconds.
        type: ``Normal`` or ``Warning``.
        reason: One word, for programs.
        object: ``kind/namespace/name``, without the namespace for a node.
        message: A sentence, for people.
    """

    at: float
    type: str
    reason: str
    object: str
    message: str


@final
class EventLog:
    """Observes a simulation, and collects log entries.

    Attributes:
        entries: The entries, in order.
    """

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self._names: dict[PodUID, str] = {}

    def event(self, event: Event, now: float) -> None:
        """Add an entry for an event that a user would see."""
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                self._names[pod.uid] = pod.key
                if pod.is_finished:
                    word = "Completed" if pod.phase is PodPhase.SUCCEEDED else "Failed"
                    self._say(now, _NORMAL, word, f"pod/{pod.key}", "Pod has finished")
            case PodDeleted(uid):
                self._say(now, _NORMAL, "Killing", self._pod(uid), "Pod was deleted")
                self._names.pop(uid, None)
            case NodeAdded(node):
                text = f"Allocatable: {node.allocatable}"
                self._say(now, _NORMAL, "RegisteredNode", f"node/{node.name}", text)
            case NodeDeleted(name):
                self._say(now, _NORMAL, "RemovingNode", f"node/{name}", "Node is gone")
            case BindFailed(uid, _attempt, reason):
                text = f"Binding rejected: {reason}"
                self._say(now, _WARNING, "FailedBinding", self._pod(uid), text)
            case PermitAllowed(uid, plugin):
                text = f"Allowed by {plugin}"
                self._say(now, _NORMAL, "PermitAllowed", self._pod(uid), text)
            case PermitRejected(uid, plugin, _attempt, reason):
                text = f"Rejected by {plugin}: {reason}"
                self._say(now, _WARNING, "PermitRejected", self._pod(uid), text)
            case Bound() | _:
                pass

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Add an entry for each effect that a user would see."""
        for effect in effects:
            self._effect(effect, now)

    def settled(self, now: float) -> None:
        """Do nothing."""

    def _effect(self, effect: Effect, now: float) -> None:
        match effect:
            case PodScheduled(uid, node):
                pod = self._names.get(uid, uid)
                text = f"Successfully assigned {pod} to {node}"
                self._say(now, _NORMAL, "Scheduled", self._pod(uid), text)
            case PodUnschedulable(uid, reason):
                self._say(now, _WARNING, "FailedScheduling", self._pod(uid), reason)
            case PodWaiting(uid, node, deadline, remaining, _attempt, plugins):
                awaited = _more_members(remaining) if remaining else ", ".join(plugins)
                text = (
                    f"Waiting on permit on {node} for {awaited or 'its siblings'},"
                    f" until {_instant(deadline)} at the latest"
                )
                self._say(now, _NORMAL, "WaitingOnPermit", self._pod(uid), text)
            case PodRejected(uid, node, reason):
                text = f"Released {node}: {reason}"
                self._say(now, _WARNING, "FailedScheduling", self._pod(uid), text)
            case PodRefused(uid, reason):
                self._say(now, _WARNING, "Refused", self._pod(uid), reason)
            case PodNotAdmitted(uid, reason):
                self._say(now, _NORMAL, "NotAdmitted", self._pod(uid), reason)
            case GroupIncomplete(group, present, minimum, roles):
                needed = "a minimum, which is not given yet" if minimum is None else str(minimum)
                needed += "".join(f", {least} {role} (has {some})" for role, least, some in roles)
                text = f"Has {_members(present)}, needs {needed}"
                self._say(now, _NORMAL, "WaitingForMembers", f"podgroup/{group}", text)
            case GroupRejected(group, attempt, reason, retry):
                rest = f"; no retry before {_instant(retry)}" if retry > now else ""
                text = f"Attempt {attempt}: {reason}{rest}"
                self._say(now, _WARNING, "FailedScheduling", f"podgroup/{group}", text)
            case GroupScheduled(group, attempt, scheduled, waited):
                text = (
                    f"Attempt {attempt}: {_members(scheduled)} scheduled,"
                    f" after {format_span(waited)}"
                )
                self._say(now, _NORMAL, "Scheduled", f"podgroup/{group}", text)
            case GroupBound(group, attempt, bound):
                text = f"Attempt {attempt}: {_members(bound)} bound, it runs"
                self._say(now, _NORMAL, "Bound", f"podgroup/{group}", text)
            case CopyBound(group, path, bound):
                text = f"{path}: {_members(bound)} bound, it runs again"
                self._say(now, _NORMAL, "Bound", f"podgroup/{group}", text)
            case GroupPartlyBound(group, scheduled, minimum, uid, reason):
                text = (
                    f"Runs in part: {_members(scheduled)} of {minimum} on nodes,"
                    f" {self._pod(uid)} is not bound: {reason}"
                )
                self._say(now, _WARNING, "PartlyBound", f"podgroup/{group}", text)
            case GroupBelowMinimum(group, scheduled, minimum, path):
                text = f"{_of(path, 'Has')} {_members(scheduled)} of {minimum} on nodes"
                self._say(now, _WARNING, "BelowMinimum", f"podgroup/{group}", text)
            case GroupRestarted(group, restarts, limit, until, path):
                text = (
                    f"{_of(path, 'Restart')} {restarts} of {limit};"
                    f" no start before {_instant(until)}"
                )
                self._say(now, _WARNING, "Restarted", f"podgroup/{group}", text)
            case RestartLimitReached(group, restarts, path):
                text = (
                    f"{_of(path, 'Was')} restarted {restarts} times, the limit:"
                    " it keeps the members it has"
                )
                self._say(now, _WARNING, "RestartLimitReached", f"podgroup/{group}", text)
            case GroupRemoved(group):
                self._say(now, _NORMAL, "Removed", f"podgroup/{group}", "Has no pod any more")
            case Evict(uid, node, reason):
                text = f"Evicted from {node}: {reason}"
                self._say(now, _WARNING, "Evicted", self._pod(uid), text)
            case Nominated(group, _priority, places, victims, deadline):
                text = (
                    f"Capacity on {_nodes(len({node for _uid, node in places}))} is nominated for"
                    f" {_members(len(places))} until {_instant(deadline)} at the latest;"
                    f" evicted: {len(victims)}"
                )
                subject = self._pod(places[0][0]) if group is None else f"podgroup/{group}"
                self._say(now, _NORMAL, "Nominated", subject, text)
            case NominationLapsed(group, pods, reason):
                for subject in [f"podgroup/{group}"] if group else map(self._pod, pods):
                    self._say(now, _WARNING, "NominationLapsed", subject, reason)
            case VictimSearchExhausted(group, uid, steps, is_found):
                subject = self._pod(uid) if group is None else f"podgroup/{group}"
                found = "fewer victims may be enough" if is_found else "no victims were found"
                text = f"The search for victims used up its budget of {steps} steps: {found}"
                self._say(now, _WARNING, "VictimSearchExhausted", subject, text)
            case PriorityOverruled(uid, group, priority, used):
                text = f"priority {priority} is ignored: that of podgroup {group} is {used}"
                self._say(now, _WARNING, "PriorityOverruled", self._pod(uid), text)
            case Bind() | Release():
                pass

    def _pod(self, uid: PodUID) -> str:
        return f"pod/{self._names.get(uid, uid)}"

    def _say(self, now: float, kind: str, reason: str, subject: str, message: str) -> None:
        self.entries.append(LogEntry(now, kind, reason, subject, message))
