"""Running the extension points: the one place that calls plugins.

Rules:
  R1  what a plugin raises, or returns against its contract, becomes a ``PluginError`` that names
      the plugin and the point, and chains the cause;
  R2  plugins run in the profile's order; ``unreserve`` in the reverse;
  R3  the points that run where the scheduler cannot stop half-way (``queue_sort``,
      ``pre_enqueue``, ``unreserve``, ``post_bind``, and what is optional at ``permit``) do not
      raise: they answer as if the plugin had said no, and the error is raised when the call is
      done. So do ``permit`` and what follows it where a fact, not a cycle, asks: who waits then
      waits on, until the next fact about the group or the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from gangsched._core import _quorum
from gangsched.errors import GangschedError, PluginError
from gangsched.events import Bind
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import Node, NodeName, Pod, Resources
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
from gangsched.protocols import EntityView, GroupView, Rank
from gangsched.resources import NOTHING

__all__ = [
    "bind",
    "call",
    "first_no",
    "group_requests",
    "members_needed",
    "name_of",
    "permit",
    "post_bind",
    "post_filter",
    "pre_bind",
    "pre_enqueue",
    "pre_filter",
    "queue_sort",
    "reserve",
    "roles_needed",
    "unreserve",
]

_Plugins: TypeAlias = tuple[Any, ...]

_LAST = 1 << 62


def call(
    plugin: Any, point: str, about: Pod | GroupView | Node, allowed: Any, *args: Any, **kwargs: Any
) -> Any:
    """Call a plugin at a point, and return its answer, which must be of an allowed class.

    Raises:
        PluginError: It raised, or answered against its contract.
    """
    try:
        answer = getattr(plugin, point)(*args, **kwargs)
    except PluginError:
        raise  # of the plugins that it calls, one is named already
    except Exception as error:
        raise PluginError(plugin.name, point, _key(about), f"raised {error!r}") from error
    if not isinstance(answer, allowed):
        raise PluginError(plugin.name, point, _key(about), f"returned {answer!r}")
    return answer


def _key(about: Pod | GroupView | Node) -> str:
    return about.name if isinstance(about, Node) else about.key


def first_no(plugins: tuple[Any, ...], point: str, pod: Pod, *args: Any, now: float) -> Outcome:
    """Ask plugins in order; return the first no, or yes.

    Raises:
        PluginError: One raised, or answered against its contract.
    """
    plugin: Any = None
    try:
        for plugin in plugins:
            answer = getattr(plugin, point)(*args, now=now)
            if answer is SUCCESS:
                continue
            if isinstance(answer, Unschedulable):
                return answer
            if not isinstance(answer, Success | Skip):
                raise PluginError(plugin.name, point, pod.key, f"returned {answer!r}")
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin.name, point, pod.key, f"raised {error!r}") from error
    return SUCCESS


def name_of(plugin: Any) -> str:
    """Return what a plugin is called in an error; a profile takes none without a name."""
    name: str = plugin.name
    return name


def queue_sort(state: State, entity: EntityView) -> Rank:
    """Ask for an entity's place in the queue; the last one where the plugin gives none."""
    plugin = state.profile.queue_sort
    try:
        rank: Rank = call(plugin, "queue_sort", entity.pod, tuple, entity)
        if len(rank) != 5 or not all(isinstance(n, int | float) and n == n for n in rank):
            raise PluginError(plugin.name, "queue_sort", entity.pod.key, f"returned {rank!r}")
    except GangschedError as error:
        state.deferred.append(error)
        return (_LAST, entity.queued_at, 2, entity.seq, 0)
    return rank


def pre_enqueue(state: State, pod: Pod, group: GroupView | None, now: float) -> Outcome:
    """Ask whether a pod may queue."""
    try:
        return first_no(state.profile.pre_enqueue, "pre_enqueue", pod, pod, group, now=now)
    except GangschedError as error:
        state.deferred.append(error)
        return Unschedulable(str(error))


def pre_filter(
    state: State, cycle: CycleState, pod: Pod, now: float, plugins: _Plugins | None = None
) -> Outcome:
    """Run the cheap checks of a cycle, all or those of *plugins*."""
    asked = state.profile.pre_filter if plugins is None else plugins
    return first_no(asked, "pre_filter", pod, cycle, pod, now=now)


def pre_bind(state: State, member: Member, now: float) -> Outcome:
    """Run what precedes a bind."""
    pod = member.pod
    args = (member.cycle, pod, member.node)
    return first_no(state.profile.pre_bind, "pre_bind", pod, *args, now=now)


def post_filter(
    state: State, cycle: CycleState, pod: Pod, reason: str, now: float
) -> Outcome | Verdict:
    """Ask what follows from a failed cycle; the first answer but ``Skip`` counts."""
    allowed = (Success, Skip, Unschedulable, RejectGroup, HoldGroup, EvictGroup)
    for plugin in state.profile.post_filter:
        found: Outcome | Verdict = call(
            plugin, "post_filter", pod, allowed, cycle, pod, reason, now=now
        )
        if not isinstance(found, Skip):
            return found
    return SKIP


def reserve(state: State, member: Member, now: float, plugins: _Plugins | None = None) -> Outcome:
    """Let plugins take what a placement needs, all or those of *plugins*."""
    args = (member.cycle, member.pod, member.node)
    asked = state.profile.reserve if plugins is None else plugins
    return first_no(asked, "reserve", member.pod, *args, now=now)


def unreserve(
    state: State, member: Member, cause: str, now: float
) -> RejectGroup | EvictGroup | None:
    """Let plugins give back what a placement took; the first verdict counts."""
    verdict: RejectGroup | EvictGroup | None = None
    allowed = (RejectGroup, EvictGroup, type(None))
    args = (member.cycle, member.pod, member.node)
    for plugin in reversed(state.profile.reserve):
        try:
            answer: RejectGroup | EvictGroup | None = call(
                plugin, "unreserve", member.pod, allowed, *args, cause=cause, now=now
            )
        except GangschedError as error:
            state.deferred.append(error)
            continue
        verdict = verdict or answer
    return verdict


def members_needed(state: State, group: GroupView) -> int | None:
    """Ask how many more members a group needs; None where they go one by one."""
    rule = state.profile.quorum
    if rule is not None:
        try:
            answer = call(rule, "members_needed", group, (int, type(None)), group)
        except GangschedError as error:
            state.deferred.append(error)
        else:
            return cast("int | None", answer)
    return _quorum.members_needed(group, _quorum.MatchPolicy.ONCE_SATISFIED)


def roles_needed(state: State, group: GroupView) -> Mapping[str, int]:
    """Ask how many more members of each role a group needs; see ``RoleRule``. O(roles)."""
    rule = state.profile.roles
    if group.roles and rule is not None:
        try:
            answer = call(rule, "roles_needed", group, Mapping, group)
            if not all(isinstance(k, str) and type(n) is int for k, n in answer.items()):
                raise PluginError(name_of(rule), "roles_needed", group.key, f"returned {answer!r}")
        except GangschedError as error:
            state.deferred.append(error)
        else:
            return cast("Mapping[str, int]", answer)
    if state.profile.quorum is None:
        return _quorum.roles_needed(group, _quorum.MatchPolicy.ONCE_SATISFIED)
    more = members_needed(state, group)
    return {} if more is None else {"": more}


def group_requests(state: State, group: GroupView) -> Resources:
    """Ask what a group needs of the cluster in all; of several answers their sum."""
    wanted = NOTHING
    for plugin in state.profile.requests:
        try:
            answer: Resources = call(plugin, "group_requests", group, Resources, group)
        except GangschedError as error:
            state.deferred.append(error)
        else:
            wanted = wanted + answer if wanted else answer
    return wanted


def permit(state: State, member: Member, now: float, plugins: _Plugins | None = None) -> Outcome:
    """Ask whether a pod may go: any no, else the shortest wait, else yes."""
    wait: Wait | None = None
    args = (member.cycle, member.pod, member.node)
    for plugin in state.profile.permit if plugins is None else plugins:
        allowed = (Success, Skip, Wait, Unschedulable)
        answer = call(plugin, "permit", member.pod, allowed, *args, now=now)
        if isinstance(answer, Unschedulable):
            return answer
        if isinstance(answer, Wait) and (wait is None or answer.timeout < wait.timeout):
            wait = answer
    return wait or SUCCESS


def bind(state: State, member: Member, now: float) -> Bind:
    """Ask for the effect that binds a pod; the first answer but ``Skip`` counts."""
    pod, node = member.pod, member.node
    plugin: Any = None
    try:
        for plugin in state.profile.bind:
            answer = plugin.bind(pod, node, member.attempt, now=now)
            if isinstance(answer, Skip):
                continue
            if (
                isinstance(answer, Bind)
                and answer.uid == pod.uid
                and answer.node == node
                and answer.attempt == member.attempt
            ):
                return answer
            raise PluginError(plugin.name, "bind", pod.key, f"returned {answer!r}")
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin.name, "bind", pod.key, f"raised {error!r}") from error
    names = ", ".join(plugin.name for plugin in state.profile.bind)
    raise PluginError(names, "bind", pod.key, "all skipped")


def post_bind(state: State, pod: Pod, node: NodeName, now: float) -> None:
    """Tell plugins of a pod that was bound."""
    for plugin in state.profile.post_bind:
        try:
            call(plugin, "post_bind", pod, type(None), pod, node, now=now)
        except GangschedError as error:
            state.deferred.append(error)
