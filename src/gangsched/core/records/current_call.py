"""What one call of the scheduler has gathered and not yet dealt with; empty between two calls.

Invariants (checked by ``_check``):
  I1  of a call that is over nothing is left but, if it raised at its end, its effects. If it raised
      before, the next one deals with all that is left; a fork has it, too. So has a restored
      scheduler what reading the snapshot has gathered.
"""

from __future__ import annotations

from typing import final

from gangsched.core.records.gang import GangRecord, LostNode
from gangsched.errors import GangschedError, InternalError
from gangsched.events import Effect
from gangsched.model import GroupKey, Pod, PodUID

__all__ = ["CurrentCall"]


@final
class CurrentCall:
    """What is gathered.

    Attributes:
        out: The effects, in the order in which they happened.
        touched: The gangs that are to be settled. Of one key there may be two: that of a pod that
            is forgotten, and that of the pod that it is read as now.
        pods_changed: Whether pods came to nodes or left them since blocked demands were woken.
        pods_tried: Whether members did that in an attempt: they may only wait there.
        asked: The gang of which members began to wait: permit was just asked.
        lost: Pods that an event took off the nodes they were assumed on, until plugins are told.
        refused: Waiting pods that a plugin refused when it was asked again, with the reason.
        removed: Groups that lost their last pod.
        ended: The pods that ended after they were bound, if they are noted.
        used: The accounts of which the usage has changed, if they are noted.
        errors: What plugins raised in steps that cannot be undone; it is raised at the end.
        seen: What was asked about pods before the current event changed anything; see ``intake``.
        is_over: Whether the call has dealt with all of it; False after it has raised before, and
            after a restore.
    """

    def __init__(self) -> None:
        self.out: list[Effect] = []
        self.touched: dict[GangRecord, None] = {}
        self.pods_changed = self.pods_tried = False
        self.asked: GangRecord | None = None
        self.lost: list[LostNode] = []
        self.refused: dict[PodUID, str] = {}
        self.removed: dict[GroupKey, None] = {}
        self.ended: list[Pod] = []
        self.used: dict[str, None] = {}
        self.errors: list[GangschedError] = []
        self.seen: dict[PodUID, object] = {}
        self.is_over = True

    def _check(self) -> None:
        left = {name for name, each in vars(self).items() if each} - {"out", "is_over"}
        if left and self.is_over:
            raise InternalError(f"a call is over and has left {', '.join(sorted(left))}")
