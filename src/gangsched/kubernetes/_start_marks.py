"""What the pods of a gang say about its start, if no object of the gang says it.

A leader may find some members of a gang on nodes, and too few. Either an earlier leader was killed
between two binds, and these members run for nothing. Or the gang ran and has lost members, and the
others belong to its job controller. The status of a PodGroup tells one from the other, but a gang
of labels or annotations alone has no PodGroup. So its pods have two annotations:

- ``gangsched.io/bound-in-start`` comes with the Binding of a member of a gang that was not whole;
- ``gangsched.io/gang-was-whole`` is written on two members once the gang is whole, and comes with
  the Binding of each member that is bound later.

Rules:
  R1  the first annotation is a part of the Binding, so no pod is on a node without it;
  R2  pods that finish or terminate say nothing: they may be of an earlier gang of the same name;
  R3  a gang was whole if a member says so. If every member says that it was bound in a start, and
      none that the gang was whole, it was not. A member without annotations was bound by another
      program, and then nothing is known;
  R4  no decision depends on these annotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gangsched.model import Pod
from gangsched.model._pod_copy import pod_with_fields

__all__ = ["BOUND_IN_START", "WAS_WHOLE", "differ_by_marks", "holds_node", "say_whole"]

BOUND_IN_START: Final = "gangsched.io/bound-in-start"
WAS_WHOLE: Final = "gangsched.io/gang-was-whole"

_MARKS: Final = frozenset((BOUND_IN_START, WAS_WHOLE))


def holds_node(pod: Pod) -> bool:
    """Return whether a pod holds a node, and neither has finished nor terminates."""
    return pod.node_name is not None and pod.deleted_at is None and not pod.is_finished


def say_whole(pods: Iterable[Pod]) -> bool | None:
    """Return whether a gang was whole by what its pods say; None if that is not known. O(pods)."""
    placed = [pod for pod in pods if holds_node(pod)]
    if any(WAS_WHOLE in pod.annotations for pod in placed):
        return True
    is_start = placed and all(BOUND_IN_START in pod.annotations for pod in placed)
    return False if is_start else None


def differ_by_marks(before: Pod, after: Pod) -> bool:
    """Return whether two versions of a pod differ by these annotations alone."""
    if before.annotations == after.annotations:
        return False
    if _others(before.annotations) != _others(after.annotations):
        return False
    return pod_with_fields(before, annotations=after.annotations) == after


def _others(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in annotations.items() if name not in _MARKS}
