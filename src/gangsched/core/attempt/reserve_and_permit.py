"""Reserve and Permit are asked about the members that were assumed, group by group.

Rules:
  R1  a plugin that answers for a whole group is asked about one member, before those that answer
      for each;
  R2  if a member that goes alone is refused, it gives its node back, and the others go on; any
      other refusal is about all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from gangsched.core.moves import attempt_steps
from gangsched.core.placement.late import accepted
from gangsched.core.points import Waits
from gangsched.core.records.gang import PodRecord, by_group
from gangsched.core.records.trial import Trial
from gangsched.core.state import State
from gangsched.cycle_state import CycleState
from gangsched.outcomes import Unschedulable
from gangsched.primitives.counters import MemberState
from gangsched.profile.calls import name_of

__all__ = ["Answers"]

_UNSCHEDULED: Final = MemberState.UNSCHEDULED


@final
class Answers:
    """What Reserve and Permit say of the members that were assumed.

    Args:
        state: The state.
        alone: Whether each member goes alone.

    Attributes:
        waits: The plugins that let members wait, by number.
        refused: The members that go alone and are refused, each with the reason and its cycle.
    """

    def __init__(self, state: State, *, alone: bool) -> None:
        self._state = state
        self._alone = alone
        self._reserved: set[PodRecord] = set()
        self.waits: dict[int, Waits] = {}
        self.refused: dict[PodRecord, tuple[str, CycleState]] = {}

    def ask(self, members: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Ask about all; return a member that is refused, and why, if all are given back."""
        for some in by_group(members):
            refusal = self._reserve(some) or self._permit(some) or self._speak_for_all(some)
            if refusal is not None:
                return refusal
        if self.waits and len(by_group(members)) > 1:
            staying = next(record for record in members if record not in self.refused)
            return staying, "the groups of a bundle do not wait on permit"
        return None

    def _reserve(self, some: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Ask Reserve about the members of a group: first what holds for all of them."""
        points, now = self._state.points, self._state.records.now
        wide, each = self._state.settings.profile.group_wide["reserve"]
        asked = points.each_concerned("reserve wide", wide, some[:1])
        of_group = len(asked)
        asked += points.each_concerned("reserve each", each, some)
        for number, (record, plugins) in enumerate(asked):
            if record in self.refused:
                continue
            has_notes = bool(self._reserved) and record not in self._reserved  # of its siblings
            denied = _refused_by_notes(self._state, record) if has_notes else None
            denied = denied or points.reserve(record, now, plugins)
            self._reserved.add(record)
            if denied is not None and (number < of_group or not self._goes_without(record, denied)):
                return record, denied.reason
        return None

    def _permit(self, some: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Ask Permit about the members of a group: first what holds for all of them."""
        points, now = self._state.points, self._state.records.now
        left = [record for record in some if record not in self.refused]
        wide, each = self._state.settings.profile.group_wide["permit"]
        asked = [(left[0], wide)] if wide and left else []
        asked += [(record, each) for record in left if each]
        for record, plugins in asked:
            answer = points.permit(record, now, plugins)
            if isinstance(answer, Unschedulable):
                if plugins is wide or not self._goes_without(record, answer):
                    return record, answer.reason
                continue
            for waiting in (left if plugins is wide else [record]) if answer else ():
                own = (*self.waits.get(waiting.seq, ()), *answer)
                self.waits[waiting.seq] = tuple(sorted(own, key=self._rank))
        return None

    def _rank(self, wait: tuple[str, float]) -> int:
        """Return where a plugin stands in the profile."""
        return [name_of(plugin) for plugin in self._state.settings.profile.permit].index(wait[0])

    def _speak_for_all(self, some: Sequence[PodRecord]) -> tuple[PodRecord, str] | None:
        """Let another member speak for its group at Reserve if the first one was refused."""
        left = [record for record in some if record not in self.refused]
        if not left or left[0] is some[0]:
            return None
        wide = self._state.settings.profile.group_wide["reserve"][0]
        points, now = self._state.points, self._state.records.now
        for record, plugins in points.each_concerned("reserve wide", wide, left[:1]):
            denied = points.reserve(record, now, plugins)
            if denied is not None:
                return record, denied.reason
        return None

    def _goes_without(self, record: PodRecord, denied: Unschedulable) -> bool:
        """Let the others go on without a member that goes alone; return whether they may."""
        if not self._alone:
            return False
        assert record.cycle is not None
        self.waits.pop(record.seq, None)
        self.refused[record] = (denied.reason, record.cycle)
        attempt_steps.give_back(self._state, record, _UNSCHEDULED, "refused")
        return True


def _refused_by_notes(state: State, record: PodRecord) -> Unschedulable | None:
    """Return why a filter refuses a planned node after siblings were reserved; None if none does.

    Pod by pod, ``filter`` reads what ``reserve`` noted of the siblings before. Members of a gang
    are all planned first, so those plugins that have both methods are asked once more. One with
    ``add_pod`` was told of the planned siblings.
    """
    assert record.pod_class is not None
    assert record.cycle is not None
    own = [late for late in record.pod_class.late if late.filters and _notes(late.plugin)]
    if not own:
        return None
    with Trial(state.records) as trial:
        trial.lift([record])
        return accepted(own, record, record.cycle, state.views, record.slot)


def _notes(plugin: Any) -> bool:
    return callable(getattr(plugin, "reserve", None)) and not hasattr(plugin, "add_pod")
