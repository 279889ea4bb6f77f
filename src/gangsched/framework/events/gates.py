"""Why a pod is not scheduled although nothing is wrong with it: its gates.

Rules:
  R1  a pod with a scheduling gate is not scheduled. Neither is a pod with a hard constraint that
      the library does not know, or that no plugin of the profile checks. Constraints of its group
      count too;
  R2  a gated pod does not count for the quorum of its group.
"""

from __future__ import annotations

from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, Pod

__all__ = ["gates"]

_SPREAD = "topology_spread_constraints"


def gates(settings: Settings, pods: Pods, pod: Pod, group: GroupKey | None) -> list[str]:
    """Return the reasons that keep a pod from being scheduled; none for most pods. O(1).

    Args:
        settings: What the caller set.
        pods: The known pods and groups.
        pod: The pod.
        group: The group that it is in; None for a regular pod.
    """
    reasons: list[str] = []
    if pod.scheduling_gates:
        reasons.append(f"has scheduling gates: {', '.join(pod.scheduling_gates)}")
    if pod.unmodelled:
        reasons.append(f"has constraints that are not modelled: {', '.join(pod.unmodelled)}")
    unchecked = [name for name in settings.profile.not_checked if _has(pod, name)]
    if unchecked:
        reasons.append(f"has constraints that no plugin checks: {', '.join(unchecked)}")
    info = None if group is None else pods.registry.get(group)
    spec = None if info is None else info.spec
    if spec is not None and spec.unmodelled:
        held = ", ".join(spec.unmodelled)
        reasons.append(f"pod group {spec.key} has constraints that are not modelled: {held}")
    return reasons


def _has(pod: Pod, name: str) -> bool:
    """Return whether an attribute of a pod is a hard constraint."""
    if name == _SPREAD:
        return any(each.is_hard for each in pod.topology_spread_constraints)
    return bool(getattr(pod, name))
