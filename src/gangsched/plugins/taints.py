"""Filter out nodes with untolerated taints; score the others by ``PreferNoSchedule``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, final

from attrs import frozen

from gangsched.constraints import TaintEffect
from gangsched.model import NodeName, Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.plugins._scores import by_largest
from gangsched.protocols import CycleView, NodeView

__all__ = ["CountingTaintToleration", "TaintToleration"]

# without the taint, as kube-scheduler counts nodes since 1.36
_UNTOLERATED: Final = Unschedulable("node(s) had untolerated taint(s)", resolvable=False)


@frozen
class TaintToleration:
    """Refuse untolerated ``NoSchedule`` and ``NoExecute`` taints; avoid ``PreferNoSchedule``."""

    @property
    def name(self) -> str:
        """``TaintToleration``."""
        return "TaintToleration"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the tolerations; None if there are none."""
        return pod.tolerations or None

    @property
    def signs_node_alone(self) -> bool:
        """True: pods change no taint."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return the taints."""
        return node.node.taints

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if it has a taint that *pod* does not tolerate."""
        for taint in node.node.taints:
            if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
                continue
            if not any(t.tolerates(taint) for t in pod.tolerations):
                return _UNTOLERATED
        return SUCCESS

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return 0 if *node* has an untolerated ``PreferNoSchedule`` taint, else 100."""
        avoided = any(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            and not any(t.tolerates(taint) for t in pod.tolerations)
            for taint in node.node.taints
        )
        return 0 if avoided else 100


@final
@frozen
class CountingTaintToleration(TaintToleration):
    """``TaintToleration`` with the score of kube-scheduler.

    The score falls with the number of untolerated ``PreferNoSchedule`` taints, in relation to the
    node with the most of them.
    """

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the number of untolerated ``PreferNoSchedule`` taints of *node*."""
        return sum(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            and not any(t.tolerates(taint) for t in pod.tolerations)
            for taint in node.node.taints
        )

    def normalize_score(
        self, state: CycleView, pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        """Return 100 for no such taint, 0 for the most."""
        return by_largest(scores, reverse=True)
