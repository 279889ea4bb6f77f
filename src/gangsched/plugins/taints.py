"""Keep pods off nodes whose taints they do not tolerate."""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from attrs import frozen

from gangsched.constraints import TaintEffect
from gangsched.model import Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView

__all__ = ["TaintToleration"]


@final
@frozen
class TaintToleration:
    """Refuse untolerated ``NoSchedule`` and ``NoExecute`` taints; shun ``PreferNoSchedule``."""

    @property
    def name(self) -> str:
        """``TaintToleration``."""
        return "TaintToleration"

    def pod_signature(self, pod: Pod) -> Hashable:
        """Depends on the tolerations."""
        return pod.tolerations

    def node_signature(self, node: NodeView) -> Hashable:
        """Depends on the taints."""
        return node.node.taints

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* for the first taint that *pod* does not tolerate."""
        for taint in node.node.taints:
            if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
                continue
            if not any(t.tolerates(taint) for t in pod.tolerations):
                return Unschedulable(
                    f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",
                    resolvable=False,
                )
        return SUCCESS

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return 100 without an untolerated ``PreferNoSchedule`` taint, 0 with any."""
        shunned = any(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            and not any(t.tolerates(taint) for t in pod.tolerations)
            for taint in node.node.taints
        )
        return 0 if shunned else 100
