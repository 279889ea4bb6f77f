"""The extension points, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from gangsched.events import Bind
from gangsched.model import NodeName, Pod
from gangsched.outcomes import EvictGroup, Outcome, RejectGroup, Skip, Verdict
from gangsched.protocols._groups import EntityView, GroupView
from gangsched.protocols._views import CycleView, NodeView

__all__ = [
    "BindPlugin",
    "FilterPlugin",
    "PermitPlugin",
    "Plugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortKey",
    "QueueSortPlugin",
    "ReservePlugin",
    "ScorePlugin",
]


QueueSortKey: TypeAlias = tuple[Any, ...]
"""A sort key in the queue: the smallest goes first. ``gangsched.SortKey`` is one, with names."""


class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str:
        """Its name in messages, unique in a profile."""
        ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Admits pods to the queue."""

    def pre_enqueue(self, pod: Pod, group: GroupView | None, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip`` to admit *pod*, ``Unschedulable`` to keep it out.

        Called again whenever the pod or its group changes. The members of a group are admitted
        together: the call is about any one of those that need a node, and its answer counts for
        all. So read *group*, not what may differ between its members; to keep out a single member,
        give it a scheduling gate, or refuse it in ``pre_filter``.
        """
        ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue. A profile has exactly one."""

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key of *entity*: the smallest key goes first.

        A key is a non-empty tuple of numbers, strings and such tuples. Give every key the same
        kinds of parts: keys of different kinds are ordered by kind. End the key with
        ``entity.seq``, so that no two keys are equal. A key of at most five numbers is fastest.

        Called once per enqueueing, not per comparison. The key stays until the entity is enqueued
        again.
        """
        ...


class PreFilterPlugin(Plugin, Protocol):
    """Checks a pod before any node is evaluated, and may write counts into the cycle."""

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Return ``Success``, ``Skip``, or ``Unschedulable`` to end the cycle."""
        ...


class FilterPlugin(Plugin, Protocol):
    """Accepts or refuses a node for a pod."""

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Return ``Success`` or ``Skip`` if *node* can take *pod*, else ``Unschedulable``.

        Pure. Called once for each kind of nodes and each pod signature, if the plugin signs both;
        see ``SignatureExtensions``. Otherwise, and for a pod for which ``reads_pods`` returns True,
        it is called for single nodes.

        The reasons are shown to users, who see how many nodes have each of them. They are a part of
        the answer: name a limit, and not how much of it is used. ``resolvable=False`` says that
        evicting pods from *node* would not help.
        """
        ...


class PostFilterPlugin(Plugin, Protocol):
    """Runs after a scheduling cycle found no node for a pod, or no quorum for its group."""

    def post_filter(
        self, state: CycleView, pod: Pod, reason: str, *, now: float
    ) -> Outcome | Verdict:
        """Return a verdict on a group, or ``Success``, to end the point.

        After ``Unschedulable`` and ``Skip`` the next plugin is asked, as in kube-scheduler.
        """
        ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares for the scoring of nodes."""

    def pre_score(
        self, state: CycleView, pod: Pod, nodes: Sequence[NodeView], *, now: float
    ) -> Outcome:
        """Return ``Success`` or ``Skip``, or ``Unschedulable`` to end the cycle.

        Not called if no node passes the filters.

        Args:
            state: The state of the scheduling cycle.
            pod: The pod.
            nodes: The nodes that passed the filters, in the order in which they were added.
            now: The current instant.
        """
        ...


class ScorePlugin(Plugin, Protocol):
    """Scores the nodes that can take a pod."""

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return how good *node* is for *pod*, 0 to 100; scores of all plugins are added.

        Absolute, not relative to other nodes. Pure; called as often as ``filter``.
        """
        ...


class ReservePlugin(Plugin, Protocol):
    """Takes and gives back what a tentative placement needs."""

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip``, or ``Unschedulable`` to undo the placement.

        A gang has been planned by then. A refusal rejects its attempt: no other nodes are tried,
        and it backs off. So does a refusal by the plugin's own ``filter``, which is asked once more
        before each further member, since it may read what was noted of those before. A rule that
        can be read from the pods on nodes is better a ``filter`` with ``reads_pods``. Pods that are
        bound already, as in the listing after a restart, never pass this point: give them to the
        plugin where you make it.
        """
        ...

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> RejectGroup | EvictGroup | None:
        """Undo ``reserve``. Idempotent; may be called for a pod that was never reserved.

        For a pod that was bound, ``pod_ended`` is called instead; see ``StateExtensions``.

        Runs for every member that gives its node back without being bound, in the reverse order of
        ``reserve``. A verdict on a group whose attempt is being rejected already changes nothing.

        Args:
            state: The state of the scheduling cycle.
            pod: The pod.
            node: The node that the pod gives back.
            cause: ``timeout``; ``deleted``; ``changed``: the pod has finished, is terminating or
                gated, or is now another pod or in another group; ``rejected``, with all
                of its group; ``refused``: a later point returned ``Unschedulable``;
                ``bind_failed``; or ``node_gone``.
            now: The current instant.
        """
        ...


class PermitPlugin(Plugin, Protocol):
    """The last decision before binding."""

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` to allow the pod, ``Wait`` to let it wait.

        The pod counts as assumed already. ``Unschedulable`` undoes its placement. A pod is released
        when each plugin has allowed it; the members of a gang are released together, when a quorum
        of them is allowed.

        After ``Wait`` the plugin is asked again when an event concerns the pod, its group, or an
        object that is read for it. The host may answer in its place with ``PermitAllowed`` and
        ``PermitRejected``. No answer makes the wait longer: it ends after the shortest timeout.
        """
        ...


class PreBindPlugin(Plugin, Protocol):
    """Runs for each released pod before its bind."""

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Return ``Success`` or ``Skip``, or ``Unschedulable`` to undo the placement."""
        ...


class BindPlugin(Plugin, Protocol):
    """Makes the effect that binds a pod."""

    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Bind | Skip:
        """Return the effect that binds *pod*, or ``Skip`` to leave it to the next plugin."""
        ...


class PostBindPlugin(Plugin, Protocol):
    """Is notified of each bound pod."""

    def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> None:
        """Process the notification; the return value is None."""
        ...
