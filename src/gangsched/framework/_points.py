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

from collections.abc import Hashable
from typing import Any, cast, final

from gangsched._core import _quorum
from gangsched.errors import GangschedError, PluginError
from gangsched.events import Bind
from gangsched.framework._state import Member, State
from gangsched.framework.cycle_state import CycleState
from gangsched.framework.nodes import NodeInfo
from gangsched.framework.pod_class import PodClass
from gangsched.model import NodeName, Pod, Resources
from gangsched.outcomes import (
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
    "evaluate",
    "group_requests",
    "judged",
    "members_needed",
    "permit",
    "post_bind",
    "post_filter",
    "pre_bind",
    "pre_enqueue",
    "pre_filter",
    "queue_sort",
    "reserve",
    "signature",
    "unreserve",
]

_UNBOUNDED = 1 << 40
_LAST = 1 << 62


def _call(
    plugin: Any, point: str, about: Pod | GroupView, allowed: Any, *args: Any, **kwargs: Any
) -> Any:
    try:
        answer = getattr(plugin, point)(*args, **kwargs)
    except PluginError:
        raise  # of the plugins that it calls, one is named already
    except Exception as error:
        raise PluginError(plugin.name, point, about.key, f"raised {error!r}") from error
    if not isinstance(answer, allowed):
        raise PluginError(plugin.name, point, about.key, f"returned {answer!r}")
    return answer


def _first_no(plugins: tuple[Any, ...], point: str, pod: Pod, *args: Any, now: float) -> Outcome:
    for plugin in plugins:
        answer = _call(plugin, point, pod, (Success, Skip, Unschedulable), *args, now=now)
        if isinstance(answer, Unschedulable):
            return answer
    return SUCCESS


def queue_sort(state: State, entity: EntityView) -> Rank:
    """Ask for an entity's place in the queue; the last one where the plugin gives none."""
    plugin = state.profile.queue_sort
    try:
        rank: Rank = _call(plugin, "queue_sort", entity.pod, tuple, entity)
        if len(rank) != 5 or not all(isinstance(n, int | float) and n == n for n in rank):
            raise PluginError(plugin.name, "queue_sort", entity.pod.key, f"returned {rank!r}")
    except GangschedError as error:
        state.deferred.append(error)
        return (_LAST, entity.queued_at, 2, entity.seq, 0)
    return rank


def pre_enqueue(state: State, pod: Pod, group: GroupView | None, now: float) -> Outcome:
    """Ask whether a pod may queue."""
    try:
        return _first_no(state.profile.pre_enqueue, "pre_enqueue", pod, pod, group, now=now)
    except GangschedError as error:
        state.deferred.append(error)
        return Unschedulable(str(error))


def pre_filter(state: State, cycle: CycleState, pod: Pod, now: float) -> Outcome:
    """Run the cheap checks of a cycle."""
    return _first_no(state.profile.pre_filter, "pre_filter", pod, cycle, pod, now=now)


def pre_bind(state: State, member: Member, now: float) -> Outcome:
    """Run what precedes a bind."""
    pod = member.pod
    args = (member.cycle, pod, member.node)
    return _first_no(state.profile.pre_bind, "pre_bind", pod, *args, now=now)


def signature(state: State, pod: Pod) -> Hashable:
    """Return the part of a pod that filters and scores depend on; its UID when unknown."""
    if not state.profile.signed:
        return pod.uid
    parts: list[Hashable] = []
    for plugin in state.profile.signers:
        part = _call(plugin, "pod_signature", pod, Hashable, pod)
        try:
            hash(part)
        except TypeError as error:
            problem = f"returned {part!r}, which has no hash"
            raise PluginError(
                getattr(plugin, "name", repr(plugin)), "pod_signature", pod.key, problem
            ) from error
        parts.append(part)
    return tuple(parts)


@final
class _Judge:
    """Filter, bound and score nodes for one pod; see ``gangsched.framework.pod_class.Judge``."""

    def __init__(self, state: State, cycle: CycleState, pod: Pod, now: float) -> None:
        self._state = state
        self._cycle = cycle
        self._pod = pod
        self._now = now
        self.outcome: Outcome = SUCCESS

    def screen(self, info: NodeInfo) -> tuple[int, str]:
        pod, profile = self._pod, self._state.profile
        allowed = (Success, Skip, Unschedulable)
        for plugin in profile.filter:
            answer = _call(plugin, "filter", pod, allowed, self._cycle, pod, info)
            if isinstance(answer, Unschedulable):
                return (0, answer.reason or plugin.name)
        room = _UNBOUNDED
        for bounding in profile.headrooms:
            room = min(room, _call(bounding, "headroom", pod, int, pod, info))
        return (room, "")

    def before_scoring(self) -> None:
        self.outcome = _first_no(
            self._state.profile.pre_score,
            "pre_score",
            self._pod,
            self._cycle,
            self._pod,
            now=self._now,
        )

    def score(self, info: NodeInfo) -> int:
        score = 0
        if not isinstance(self.outcome, Unschedulable):
            for plugin in self._state.profile.score:
                score += _call(plugin, "score", self._pod, int, self._cycle, self._pod, info)
        return score


def judged(state: State, pod_class: PodClass, now: float) -> PodClass:
    """Return a class of signed pods, judged as the nodes are now."""
    cycle = CycleState(None, state.nodes.infos)
    pod_class.refresh(state.nodes, _Judge(state, cycle, pod_class.sample, now))
    return pod_class


def evaluate(
    state: State, cycle: CycleState, member: Member, now: float
) -> tuple[PodClass, Outcome]:
    """Filter and score for one pod; return its class, judged, and what ``pre_score`` said."""
    pod_class = member.pod_class
    if not state.profile.signed:
        # an answer that may depend on the cycle is good for this cycle alone
        pod_class = PodClass(pod_class.signature, member.pod)
    judge = _Judge(state, cycle, member.pod, now)
    pod_class.refresh(state.nodes, judge)
    return pod_class, judge.outcome


def post_filter(
    state: State, cycle: CycleState, pod: Pod, reason: str, now: float
) -> Outcome | Verdict:
    """Ask what follows from a failed cycle; the first answer but ``Skip`` counts."""
    allowed = (Success, Skip, Unschedulable, RejectGroup, HoldGroup, EvictGroup)
    answer: Outcome | Verdict = Unschedulable(reason)
    for plugin in state.profile.post_filter:
        found: Outcome | Verdict = _call(
            plugin, "post_filter", pod, allowed, cycle, pod, reason, now=now
        )
        if not isinstance(found, Skip):
            return found
    return answer


def reserve(state: State, member: Member, now: float) -> Outcome:
    """Let plugins take what a placement needs."""
    args = (member.cycle, member.pod, member.node)
    return _first_no(state.profile.reserve, "reserve", member.pod, *args, now=now)


def unreserve(
    state: State, member: Member, cause: str, now: float
) -> RejectGroup | EvictGroup | None:
    """Let plugins give back what a placement took; the first verdict counts."""
    verdict: RejectGroup | EvictGroup | None = None
    allowed = (RejectGroup, EvictGroup, type(None))
    args = (member.cycle, member.pod, member.node)
    for plugin in reversed(state.profile.reserve):
        try:
            answer: RejectGroup | EvictGroup | None = _call(
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
            answer = _call(rule, "members_needed", group, (int, type(None)), group)
        except GangschedError as error:
            state.deferred.append(error)
        else:
            return cast("int | None", answer)
    return _quorum.members_needed(group, _quorum.MatchPolicy.ONCE_SATISFIED)


def group_requests(state: State, group: GroupView) -> Resources:
    """Ask what a group needs of the cluster in all; of several answers their sum."""
    wanted = NOTHING
    for plugin in state.profile.requests:
        try:
            wanted += _call(plugin, "group_requests", group, Resources, group)
        except GangschedError as error:
            state.deferred.append(error)
    return wanted


def permit(state: State, member: Member, now: float) -> Outcome:
    """Ask whether a pod may go: any no, else the shortest wait, else yes."""
    wait: Wait | None = None
    args = (member.cycle, member.pod, member.node)
    for plugin in state.profile.permit:
        allowed = (Success, Skip, Wait, Unschedulable)
        answer = _call(plugin, "permit", member.pod, allowed, *args, now=now)
        if isinstance(answer, Unschedulable):
            return answer
        if isinstance(answer, Wait) and (wait is None or answer.timeout < wait.timeout):
            wait = answer
    return wait or SUCCESS


def bind(state: State, member: Member, now: float) -> Bind:
    """Ask for the effect that binds a pod; the first answer but ``Skip`` counts."""
    pod, node = member.pod, member.node
    for plugin in state.profile.bind:
        answer = _call(plugin, "bind", pod, (Bind, Skip), pod, node, member.attempt, now=now)
        if isinstance(answer, Bind):
            if (answer.uid, answer.node, answer.attempt) != (pod.uid, node, member.attempt):
                raise PluginError(plugin.name, "bind", pod.key, f"returned {answer!r}")
            return answer
    names = ", ".join(plugin.name for plugin in state.profile.bind)
    raise PluginError(names, "bind", pod.key, "all skipped")


def post_bind(state: State, pod: Pod, node: NodeName, now: float) -> None:
    """Tell plugins of a pod that was bound."""
    for plugin in state.profile.post_bind:
        try:
            _call(plugin, "post_bind", pod, type(None), pod, node, now=now)
        except GangschedError as error:
            state.deferred.append(error)
