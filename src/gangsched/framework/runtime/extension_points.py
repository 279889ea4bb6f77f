"""Run the extension points: which plugins are asked, in which order, and which answer counts.

Where a point runs decides what a plugin that fails can undo. In the scheduling cycle of a pod or a
gang nothing has been released yet, so the error is raised and the caller restores the state. In the
middle of an event, or while nodes are given back, the work that is done cannot be undone. There the
scheduler goes on with the safe answer, and the call raises the error at its end.

Rules:
  R1  what a plugin raises, or returns against its contract, becomes a ``PluginError`` that names
      the plugin, the point and the value, with the cause chained; see ``calls``;
  R2  plugins run in the order of the profile; ``unreserve`` runs in the reverse order;
  R3  ``queue_sort``, ``pre_enqueue``, ``unreserve``, ``post_bind`` and the rules about groups do
      not raise. The error is deferred to the end of the call, and the answer is the safe one: the
      last place in the queue, not admitted, no verdict, the rule ``once_satisfied``;
  R4  where an event lets waiting members go, an error at ``permit``, ``pre_bind`` or ``bind`` is
      deferred too. The members wait on, until the next event of the group or their deadline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from attrs import evolve

from gangsched import _plugin_calls as calls
from gangsched import _sort_keys as sort_keys
from gangsched._plugin_calls import name_of
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, PluginError
from gangsched.events import Bind, VolumeChoice
from gangsched.explain import Diagnosis
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.runtime.group_rules import group_requests, members_needed, roles_needed
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Member
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName, Pod
from gangsched.outcomes import (
    SKIP,
    SUCCESS,
    EvictGroup,
    HoldGroup,
    Outcome,
    RejectGroup,
    Skip,
    Success,
    Unschedulable,
    Verdict,
    Wait,
)
from gangsched.protocols import EntityView, GroupView, QueueSortKey

__all__ = [
    "Waits",
    "bind",
    "concerned",
    "concerned_among",
    "group_requests",
    "members_needed",
    "name_of",
    "permit",
    "post_bind",
    "post_filter",
    "pre_bind",
    "pre_enqueue",
    "pre_filter",
    "pre_filter_refusal",
    "queue_sort",
    "reserve",
    "roles_needed",
    "unreserve",
]

_Plugins: TypeAlias = tuple[Any, ...]

Waits: TypeAlias = tuple[tuple[str, float], ...]
"""The names of the permit plugins that let a pod wait, each with its timeout in seconds."""

_POST_FILTER: Final = (Success, Skip, Unschedulable, RejectGroup, HoldGroup, EvictGroup)
_PERMIT: Final = (Success, Skip, Wait, Unschedulable)
_UNRESERVE: Final = (RejectGroup, EvictGroup, type(None))
_class_of: Final[Callable[[Member], PodClass]] = attrgetter("pod_class")


def queue_sort(settings: Settings, call: CurrentCall, entity: EntityView) -> QueueSortKey:
    """Return the sort key of an entity; the last one if the plugin fails to give one."""
    plugin = settings.profile.queue_sort
    try:
        answer = calls.call(plugin, "queue_sort", entity.pod, object, entity)
        key = sort_keys.comparable(answer)
        if key is None:
            raise calls.returned(plugin, "queue_sort", entity.pod, answer)
    except GangschedError as error:
        call.deferred.append(error)
        return sort_keys.last(entity)
    return key


def pre_enqueue(
    settings: Settings, call: CurrentCall, pod: Pod, group: GroupView | None, now: float
) -> Outcome:
    """Ask whether a pod is admitted to the queue."""
    try:
        return calls.first_unschedulable(
            settings.profile.pre_enqueue, "pre_enqueue", pod, pod, group, now=now
        )
    except GangschedError as error:
        call.deferred.append(error)
        return Unschedulable(str(error))


def pre_filter(
    settings: Settings, cycle: CycleState, pod: Pod, now: float, plugins: _Plugins | None = None
) -> Outcome:
    """Run the checks that look at no node: of all plugins, or of *plugins*."""
    asked = settings.profile.pre_filter if plugins is None else plugins
    return calls.first_unschedulable(asked, "pre_filter", pod, cycle, pod, now=now)


def pre_filter_refusal(
    settings: Settings,
    nodes: Nodes,
    cycle: CycleState,
    pod: Pod,
    now: float,
    plugins: _Plugins | None = None,
) -> Diagnosis | str | None:
    """Run the same checks; return why a pod is refused, None if it passes.

    Returns:
        A diagnosis if only an event can change the answer, because the plugin reads nothing but
        objects, nodes and pods; see ``gangsched.protocols.ObjectsRead``. Otherwise the reason.
    """
    asked = settings.profile.pre_filter if plugins is None else plugins
    found = calls.first_refusal(asked, "pre_filter", pod, cycle, pod, now=now)
    if found is None:
        return None
    plugin, outcome = found
    if any(plugin is one for one in settings.profile.event_driven):
        return Diagnosis(len(nodes.infos), (), outcome.reason)
    return outcome.reason


def concerned(settings: Settings, member: Member, point: str, plugins: _Plugins) -> _Plugins:
    """Return those plugins that have to do with a pod; see ``IgnoresPods``. O(1).

    Args:
        settings: What the caller set.
        member: The pod.
        point: A name for *plugins*, the same for the same plugins.
        plugins: The plugins.

    Raises:
        PluginError: A plugin raised, or returned anything but a bool.
    """
    if not plugins or not settings.profile.ignoring:
        return plugins
    found = member.pod_class.asked.get(point)
    if found is None:
        pod = member.pod_class.sample
        found = member.pod_class.asked[point] = tuple(
            plugin
            for plugin in plugins
            if not callable(getattr(plugin, "ignores", None))
            or not calls.call(plugin, "ignores", pod, bool, pod)
        )
    return found


def concerned_among(
    settings: Settings, members: Sequence[Member], point: str, plugins: _Plugins
) -> list[tuple[Member, _Plugins]]:
    """Return the members that some of the plugins have to do with, each with these plugins.

    See ``concerned`` for the arguments. O(members) without a loop in Python if there are none, as
    for members that state no constraint.
    """
    if len(set(map(_class_of, members))) == 1:  # most gangs are of one class
        some = concerned(settings, members[0], point, plugins)
        return [(member, some) for member in members] if some else []
    asked = {
        sample.pod_class: concerned(settings, sample, point, plugins)
        for sample in dict(zip(map(_class_of, members), members, strict=True)).values()
    }
    if not any(asked.values()):
        return []
    pairs = ((member, asked[member.pod_class]) for member in members)
    return [(member, some) for member, some in pairs if some]


def post_filter(
    settings: Settings, cycle: CycleState, pod: Pod, reason: str, now: float
) -> Outcome | Verdict:
    """Ask what follows from a failed cycle.

    As in kube-scheduler, the first ``Success`` or verdict counts and ends the point. After
    ``Unschedulable`` and ``Skip`` the next plugin is asked.

    Returns:
        ``Success`` or a verdict; without one, ``Unschedulable`` with the reasons of all plugins;
        ``Skip`` if every plugin skipped.
    """
    reasons: list[str] = []
    resolvable = False
    for plugin in settings.profile.post_filter:
        found: Outcome | Verdict = calls.call(
            plugin, "post_filter", pod, _POST_FILTER, cycle, pod, reason, now=now
        )
        if isinstance(found, Unschedulable):
            reasons += found.reasons
            resolvable = resolvable or found.resolvable
        elif not isinstance(found, Skip):
            return found
    return Unschedulable(reasons, resolvable=resolvable) if reasons else SKIP


def reserve(
    settings: Settings, member: Member, now: float, plugins: _Plugins | None = None
) -> Outcome:
    """Run ``reserve`` for a tentative placement: of all plugins, or of *plugins*."""
    asked = plugins
    if asked is None:
        asked = concerned(settings, member, "reserve", settings.profile.reserve)
    if not asked:
        return SUCCESS
    args = (member.cycle, member.pod, member.node)
    return calls.first_unschedulable(asked, "reserve", member.pod, *args, now=now)


def unreserve(
    settings: Settings, call: CurrentCall, member: Member, cause: str, now: float
) -> RejectGroup | EvictGroup | None:
    """Run ``unreserve`` of every plugin; return the first verdict."""
    verdict: RejectGroup | EvictGroup | None = None
    args = (member.cycle, member.pod, member.node)
    for plugin in reversed(concerned(settings, member, "reserve", settings.profile.reserve)):
        try:
            answer: RejectGroup | EvictGroup | None = calls.call(
                plugin, "unreserve", member.pod, _UNRESERVE, *args, cause=cause, now=now
            )
        except GangschedError as error:
            call.deferred.append(error)
            continue
        verdict = verdict or answer
    return verdict


def permit(
    settings: Settings, member: Member, now: float, plugins: _Plugins | None = None
) -> Waits | Unschedulable:
    """Ask whether a pod may be released: of all plugins, or of *plugins*.

    Returns:
        The first ``Unschedulable``; otherwise the names of the plugins that let the pod wait, each
        with its timeout in seconds. No name means that every plugin allows the release.
    """
    waits: list[tuple[str, float]] = []
    cycle, pod, node = member.cycle, member.pod, member.node
    for plugin in settings.profile.permit if plugins is None else plugins:
        answer = calls.call(plugin, "permit", pod, _PERMIT, cycle, pod, node, now=now)
        if answer is SUCCESS:
            continue  # most answers: worth the short way
        if isinstance(answer, Unschedulable):
            return answer
        if isinstance(answer, Wait):
            if not math.isfinite(now + answer.timeout):
                expected = f"a Wait whose timeout added to now={now!r} is finite"
                raise calls.returned(plugin, "permit", pod, answer, expected)
            profile = settings.profile
            for other, name in zip(profile.permit, profile.permit_names, strict=True):
                if other is plugin:
                    waits.append((name, answer.timeout))
    return tuple(waits)


def pre_bind(settings: Settings, member: Member, now: float) -> Outcome:
    """Run ``pre_bind`` of every plugin for a pod that is about to be bound."""
    pod = member.pod
    args = (member.cycle, pod, member.node)
    return calls.first_unschedulable(settings.profile.pre_bind, "pre_bind", pod, *args, now=now)


def bind(settings: Settings, member: Member, now: float) -> Bind:
    """Ask for the effect that binds a pod; the first answer other than ``Skip`` counts.

    Raises:
        PluginError: A plugin raised, returned anything but the bind of this pod on this node in
            this attempt, or all plugins skipped.
    """
    pod, node = member.pod, member.node
    plugin: Any = None
    try:
        for plugin in settings.profile.bind:
            answer = plugin.bind(pod, node, member.attempt, now=now)
            if (
                type(answer) is Bind
                and answer.uid == pod.uid
                and answer.node == node
                and answer.attempt == member.attempt
            ):
                return _with_volumes(settings, answer, pod) if pod.volume_claims else answer
            if type(answer) is Skip:
                continue
            raise calls.returned(plugin, "bind", pod, answer)
    except PluginError:
        raise
    except Exception as error:
        raise calls.raised(plugin, "bind", pod, error) from error
    names = ", ".join(name_of(plugin) for plugin in settings.profile.bind)
    raise PluginError(names, "bind", pod.key, "every plugin skipped the pod")


def _with_volumes(settings: Settings, bind: Bind, pod: Pod) -> Bind:
    """Return a bind with the volumes that plugins chose for the claims of its pod."""
    choosers = settings.profile.volume_choosers
    if not choosers:
        return bind
    found: list[VolumeChoice] = []
    for plugin in choosers:
        answer = calls.call(plugin, "volume_choices", pod, Iterable, pod, bind.node)
        if isinstance(answer, str | bytes):  # empty, it would pass for no choice
            raise calls.returned(plugin, "volume_choices", pod, answer)
        try:
            choices: tuple[Any, ...] = tuple(answer)
        except Exception as error:
            raise calls.raised(plugin, "volume_choices", pod, error) from error
        if not all(type(choice) is VolumeChoice for choice in choices):
            raise calls.returned(plugin, "volume_choices", pod, choices)
        found += choices
    return evolve(bind, volumes=tuple(found)) if found else bind


def post_bind(
    settings: Settings, call: CurrentCall, member: Member, node: NodeName, now: float
) -> None:
    """Notify every plugin of a pod that was bound."""
    pod = member.pod
    for plugin in concerned(settings, member, "post_bind", settings.profile.post_bind):
        try:
            calls.call(plugin, "post_bind", pod, type(None), pod, node, now=now)
        except GangschedError as error:
            call.deferred.append(error)
