"""What the extender answers to kube-scheduler: requests in, answers and effects out.

A pod of a group that the scheduler knows is a *member*. Every other pod is an *ordinary* pod:
kube-scheduler decides about it alone.

- ``filter`` of a member: the decided node and no other, or the reason why none is decided.
- ``filter`` of an ordinary pod: every node on which it fits beside what is decided.
- ``prioritize``: 10 for the decided node of a member, and for the nodes without decided members.
- ``preempt`` of a member: no node, since the scheduler itself preempts for gangs.
- ``preempt`` of an ordinary pod: nodes on which no member of a gang is a victim, if there are any.
- ``bind`` of a member: held back for the other members.
- ``bind`` of an ordinary pod: sent at once.

Rules:
  R1  an answer only narrows: the nodes of ``filter`` are a subset of those of the request;
  R2  nodes that are refused count as unresolvable, so that kube-scheduler evicts nothing for a
      member that waits for others, or for a capacity that is reserved for seconds;
  R3  if the filters of kube-scheduler refuse the decided node, although that node is nominated, the
      gang is withdrawn and the node is paused. Without the nomination the list may be a sample of
      the feasible nodes: the node is nominated, and kube-scheduler tries it alone;
  R4  a member that is bound is left its node: the answer of ``bind`` was lost, and without a node
      kube-scheduler would write that a running pod is unschedulable;
  R5  what is kept about pods that are not known here is bounded: such a pod may be gone already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol, TypeAlias, final

from attrs import frozen

from gangsched.errors import InvalidPodGroupError
from gangsched.events import Bind, Effect
from gangsched.kubernetes.extender._messages import HostPriority, MetaVictims
from gangsched.kubernetes.extender._node_pauses import NodePauses
from gangsched.kubernetes.extender._plans import (
    Nominate,
    NotDecided,
    PlanEffect,
    Plans,
)
from gangsched.kubernetes.extender._reasons import Reasons
from gangsched.model import GroupKey, Node, NodeName, Pod, PodUID

__all__ = [
    "Asked",
    "ExtenderEffect",
    "Extender",
    "Filtered",
    "HowToBind",
    "PauseNode",
    "ResumeNode",
    "View",
]

_MOST_ORDINARY: Final = 65_536
"""How many pods are kept at most of those that are not known here."""
_BEST: Final = 10
_PODS: Final = "pods"


class View(Protocol):
    """What is read of the cluster state."""

    def pod(self, uid: str, /) -> Pod | None:
        """Return a pod; None if it is not known."""
        ...

    def node(self, name: str, /) -> Node | None:
        """Return a node; None if it is not known."""
        ...

    def pods_on(self, node: str, /) -> Iterable[Pod]:
        """Return the pods that are assigned to a node and have not finished."""
        ...


@final
@frozen
class Asked:
    """The pod of a request.

    Attributes:
        pod: The pod.
        is_ours: Whether its ``schedulerName`` is one of those whose gangs are decided here.
        nominated: Its ``status.nominatedNodeName``, as kube-scheduler knows it; None if not set.
    """

    pod: Pod
    is_ours: bool = True
    nominated: str | None = None


@final
@frozen
class Filtered:
    """The answer of ``filter``.

    Attributes:
        names: The nodes that are left.
        failed: By the name of each other node, the reason.
        effects: What is to be done.
        is_new: Whether a member was refused of which the scheduler has said nothing yet.
    """

    names: list[str]
    failed: dict[str, str]
    effects: list[ExtenderEffect]
    is_new: bool = False


@final
@frozen
class PauseNode:
    """Let the scheduler decide on no more members for a node."""

    node: NodeName


@final
@frozen
class ResumeNode:
    """Let the scheduler use a node again."""

    node: NodeName


ExtenderEffect: TypeAlias = PlanEffect | PauseNode | ResumeNode


class HowToBind(Enum):
    """What is to be done about a request to bind."""

    AT_ONCE = "at_once"
    HELD = "held"
    DONE = "done"
    UNKNOWN = "unknown"


@final
class Extender:
    """The answers, and the decisions that they rest on.

    Args:
        view: The cluster state.
        group: Returns the group of a pod; None for a pod without one.
        timeout: For how many seconds a gang waits for the next of its members.

    Attributes:
        plans: The decisions that are not carried out.
    """

    def __init__(
        self, view: View, group: Callable[[Pod], GroupKey | None], *, timeout: float
    ) -> None:
        self._view = view
        self._group = group
        self.plans: Final = Plans(timeout=timeout)
        self._pauses = NodePauses()
        self._reasons = Reasons()
        self._ordinary: dict[PodUID, None] = {}
        self._early: dict[PodUID, None] = {}  # members that were refused before they were known

    # What the scheduler says ----------------------------------------------------------------

    def observe(self, effects: Iterable[Effect], now: float) -> list[ExtenderEffect]:
        """Take in the effects of one call of the scheduler."""
        gangs: dict[GroupKey, list[Bind]] = {}
        for effect in effects:
            match effect:
                case Bind(uid):
                    key = self._group_of_known(uid)
                    # a pod that is gone, or has left its group, is a gang of its own
                    gangs.setdefault(key or GroupKey(uid), []).append(effect)
                    if uid in self._early:
                        del self._early[uid]
                        self.plans.refuse(uid)
                case _:
                    self._reasons.observe(effect)
        for key, binds in gangs.items():
            self._reasons.forget(key)
            for bind in binds:
                self._reasons.forget(bind.uid)
        return [*self.plans.decided(gangs, now)]

    def pod_is_gone(self, uid: PodUID) -> list[ExtenderEffect]:
        """Take in that a pod was deleted."""
        self._reasons.forget(uid)
        self._ordinary.pop(uid, None)
        self._early.pop(uid, None)
        return [*self.plans.pod_is_gone(uid)]

    def node_is_gone(self, name: NodeName) -> list[ExtenderEffect]:
        """Take in that a node was deleted."""
        self._pauses.forget(name)
        return [*self.plans.node_is_gone(name)]

    def ended(self, bind: Bind, now: float, *, is_bound: bool) -> None:
        """Take in the end of a released or withdrawn bind."""
        self.plans.ended(bind, now, is_bound=is_bound)
        if is_bound:
            self._pauses.accepted(bind.node)

    def advance(self, now: float) -> list[ExtenderEffect]:
        """Take in that time has passed."""
        resumed = (ResumeNode(node) for node in self._pauses.ended(now))
        return [*self.plans.advance(now), *resumed]

    def next_deadline(self) -> float | None:
        """Return when ``advance`` has something to do; None if never."""
        found = (self.plans.next_deadline(), self._pauses.next_deadline())
        return min((at for at in found if at is not None), default=None)

    # The verbs ------------------------------------------------------------------------------

    def filter(self, asked: Asked, names: Sequence[str], now: float) -> Filtered:
        """Return which of the nodes are left for a pod."""
        try:
            key = self._group_of(asked)
        except InvalidPodGroupError as error:
            return _refused(names, str(error), [])
        if key is None:
            return self._filter_ordinary(asked.pod, names)
        uid = asked.pod.uid
        known = self._view.pod(uid)
        if known is not None and known.node_name is not None:
            return _only(known.node_name, names, f"pod {known.key} is on node {known.node_name}")
        bind = self.plans.bind_of(uid)
        if bind is None:
            self._refuse(uid, is_known=known is not None)
            reason = self._reasons.of(uid, key)
            is_new = reason is None
            return _refused(names, reason or f"pod group {key} is not decided yet", [], is_new)
        if bind.node in names:
            reason = f"pod group {key} was decided to use another node for this pod"
            return _only(bind.node, names, reason)
        if asked.nominated != bind.node:
            reason = f"pod group {key}: the decided node is nominated"
            return _refused(names, reason, [Nominate(uid, bind.node)])
        return self._misfit(uid, bind, names, now)

    def prioritize(self, asked: Asked, names: Sequence[str]) -> list[HostPriority]:
        """Return the scores of nodes for a pod."""
        bind = self.plans.bind_of(asked.pod.uid)
        if bind is not None:
            return [HostPriority(name, _BEST if name == bind.node else 0) for name in names]
        reserved = self.plans.reserved()
        return [HostPriority(name, 0 if name in reserved else _BEST) for name in names]

    def preempt(self, asked: Asked, victims: Mapping[str, MetaVictims]) -> dict[str, MetaVictims]:
        """Return which of the nodes may be freed for a pod by evicting their victims."""
        try:
            if self._group_of(asked) is not None:
                return {}
        except InvalidPodGroupError:
            return {}
        # kube-scheduler takes a node without victims for an error, and then uses no other either
        given = {name: each for name, each in victims.items() if each.pods}
        kept = {
            name: each
            for name, each in given.items()
            if not any(self._group_of_known(pod.uid) for pod in each.pods or ())
        }
        return kept or given

    def bind(self, uid: PodUID, node: str, now: float) -> tuple[HowToBind, list[ExtenderEffect]]:
        """Return what is to be done about a request to bind.

        Raises:
            NotDecided: The pod is a member, and was not decided to be on that node.
        """
        pod = self._view.pod(uid)
        if pod is None:
            is_ordinary = uid in self._ordinary
            self._ordinary.pop(uid, None)
            return (HowToBind.AT_ONCE if is_ordinary else HowToBind.UNKNOWN), []
        if pod.node_name == node:
            return HowToBind.DONE, []
        if pod.node_name is not None:
            raise NotDecided(f"pod {pod.key} is on node {pod.node_name}")
        return HowToBind.HELD, [*self.plans.arrive(uid, node, now)]

    def is_ordinary(self, asked: Asked) -> bool:
        """Return whether a pod is not a member of a group that is decided here."""
        try:
            return self._group_of(asked) is None
        except InvalidPodGroupError:
            return False

    # Parts of the answers -------------------------------------------------------------------

    def _group_of(self, asked: Asked) -> GroupKey | None:
        return self._group(asked.pod) if asked.is_ours else None

    def _group_of_known(self, uid: str) -> GroupKey | None:
        pod = self._view.pod(uid)
        try:
            return None if pod is None else self._group(pod)
        except InvalidPodGroupError:
            return None

    def _refuse(self, uid: PodUID, *, is_known: bool) -> None:
        """Note that a member was refused: the decision about it has to wake it."""
        if is_known:
            self.plans.refuse(uid)
        else:
            _keep(self._early, uid)

    def _filter_ordinary(self, pod: Pod, names: Sequence[str]) -> Filtered:
        _keep(self._ordinary, pod.uid)
        reserved = self.plans.reserved()
        full = {name for name in names if name in reserved and not self._has_capacity(name, pod)}
        reason = "the capacity is reserved for a pod group"
        return Filtered(
            [name for name in names if name not in full], dict.fromkeys(full, reason), []
        )

    def _has_capacity(self, name: str, pod: Pod) -> bool:
        """Return whether a pod fits beside the pods of a node and those decided to be there."""
        node = self._view.node(name)
        if node is None:
            return True
        pods = {each.uid: each for each in self._view.pods_on(name)}
        for uid in self.plans.pods_for(name):
            decided = self._view.pod(uid)
            if decided is not None:
                pods[uid] = decided
        free = dict(node.allocatable.to_milli())
        if _PODS in free:
            free[_PODS] -= 1000 * (len(pods) + 1)
        for each in (*pods.values(), pod):
            for resource, amount in each.requests.to_milli().items():
                if resource != _PODS:
                    free[resource] = free.get(resource, 0) - amount
        asked = {*pod.requests, _PODS}
        return all(amount >= 0 for resource, amount in free.items() if resource in asked)

    def _misfit(self, uid: PodUID, bind: Bind, names: Sequence[str], now: float) -> Filtered:
        withdrawn = self.plans.withdraw(
            uid, f"the filters of kube-scheduler refuse node {bind.node} for pod {uid}"
        )
        reason = f"the filters of kube-scheduler refuse node {bind.node}"
        if not withdrawn:  # it is released: the request under way decides
            return _refused(names, reason, [])
        self._pauses.refused(bind.node, now)
        # the members that are not refused yet come again and are refused then
        self.plans.refuse(uid)
        return _refused(names, reason, [*withdrawn, PauseNode(bind.node)])

    def _check(self) -> None:
        """Check the invariants."""
        self.plans._check()
        assert len(self._ordinary) <= _MOST_ORDINARY
        assert len(self._early) <= _MOST_ORDINARY


def _keep(pods: dict[PodUID, None], uid: PodUID) -> None:
    """Add a pod, and forget the first one if there are too many."""
    pods[uid] = None
    if len(pods) > _MOST_ORDINARY:
        del pods[next(iter(pods))]


def _only(node: str, names: Sequence[str], reason: str) -> Filtered:
    """Return the answer that leaves one node, if it is among the names."""
    left = [node] if node in names else []
    return Filtered(left, {name: reason for name in names if name != node}, [])


def _refused(
    names: Sequence[str],
    reason: str,
    effects: list[ExtenderEffect],
    is_new: bool = False,
) -> Filtered:
    return Filtered([], dict.fromkeys(names, reason), effects, is_new)
