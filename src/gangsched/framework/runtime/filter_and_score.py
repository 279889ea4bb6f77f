"""Judging nodes: the filters, bounds and scores of plugins, asked once for each class of nodes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, final

from gangsched.errors import GangschedError
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.nodes.node_class import NodeClass
from gangsched.framework.nodes.pod_class import Judge, PodClass
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Skip, Success, Unschedulable

__all__ = ["foresee", "is_resolvable", "judge_nodes", "judged"]

_FILTERED = (Success, Skip, Unschedulable)
_UNBOUNDED = 1 << 40


@final
class _Judge:
    """Filter, bound and score nodes for one pod; see ``gangsched.framework.nodes.pod_class.Judge``.

    A plugin that tells few nodes apart is asked once for all nodes of which it reads the same,
    whatever others read of them.
    """

    def __init__(
        self, state: State, cycle: CycleState, pod_class: PodClass, pod: Pod, now: float
    ) -> None:
        self._state = state
        self._cycle = cycle
        self._answers = pod_class.answers
        self._pod = pod
        self._now = now
        self.outcome: Outcome = SUCCESS

    def screen(self, given: NodeClass) -> tuple[int, str]:
        pod, profile, view = self._pod, self._state.profile, given.sample
        for plugin in profile.filter:
            answer: Outcome = self._ask(plugin, "filter", _FILTERED, given)
            if answer is not SUCCESS and isinstance(answer, Unschedulable):
                return (0, answer.reason or plugin.name)
        room = _UNBOUNDED
        for bounding in profile.headrooms:
            bound = extension_points.call(bounding, "headroom", pod, int, pod, view)
            if bound < room:
                room = bound
        return (room, "")

    def is_resolvable(self, given: NodeClass) -> bool:
        """Return False if any filter refuses a node and says that evictions cannot help."""
        # all are asked: one that cannot be helped may come after a lack of capacity
        for plugin in self._state.profile.filter:
            answer: Outcome = self._ask(plugin, "filter", _FILTERED, given)
            if isinstance(answer, Unschedulable) and not answer.resolvable:
                return False
        return True

    def before_scoring(self) -> None:
        self.outcome = extension_points.first_no(
            self._state.profile.pre_score,
            "pre_score",
            self._pod,
            self._cycle,
            self._pod,
            now=self._now,
        )

    def score(self, given: NodeClass) -> int:
        score = 0
        if not isinstance(self.outcome, Unschedulable):
            for plugin in self._state.profile.score:
                score += self._ask(plugin, "score", int, given)
        return score

    def _ask(self, plugin: Any, point: str, allowed: Any, given: NodeClass) -> Any:
        pod, part = self._pod, self._state.profile.parts.get(id(plugin))
        if part is None or given.key is None:
            return extension_points.call(
                plugin, point, pod, allowed, self._cycle, pod, given.sample
            )
        number, reads_labels = part
        seen = (id(plugin), point, given.key[number], given.key[-1] if reads_labels else None)
        answer = self._answers.get(seen)
        if answer is None:
            answer = extension_points.call(
                plugin, point, pod, allowed, self._cycle, pod, given.sample
            )
            self._answers[seen] = answer
        return answer


def judged(state: State, pod_class: PodClass, now: float) -> PodClass:
    """Return a class of signed pods, judged as the nodes are now."""
    cycle = CycleState(None, state.nodes.infos)
    pod_class.refresh(state.nodes, _Judge(state, cycle, pod_class, pod_class.sample, now))
    return pod_class


def foresee(state: State, pod_class: PodClass, now: float) -> None:
    """Judge nodes for a class that is new, before anybody of it has a turn.

    What a plugin raises is raised in that turn, and names the pod.
    """
    if state.profile.signed:
        with suppress(GangschedError):
            judged(state, pod_class, now)


def judge_nodes(
    state: State, cycle: CycleState, member: Member, now: float
) -> tuple[PodClass, Judge, Outcome]:
    """Filter and score for one pod; return its class, judged, and what ``pre_score`` said.

    With it comes the judge, for nodes as they would be.
    """
    pod_class = member.pod_class
    if not state.profile.signed:
        # an answer that may depend on the cycle is good for this cycle alone
        pod_class = PodClass(pod_class.signature, member.pod)
    judge = _Judge(state, cycle, pod_class, member.pod, now)
    pod_class.refresh(state.nodes, judge)
    return pod_class, judge, judge.outcome


def is_resolvable(
    state: State, cycle: CycleState, member: Member, given: NodeClass, now: float
) -> bool:
    """Return whether evictions may make nodes of a class take a pod.

    False if a filter refuses such a node with ``resolvable=False``; that is kube-scheduler's
    ``UnschedulableAndUnresolvable``.
    """
    pod_class = member.pod_class
    if not state.profile.signed:
        pod_class = PodClass(pod_class.signature, member.pod)
    return _Judge(state, cycle, pod_class, member.pod, now).is_resolvable(given)
