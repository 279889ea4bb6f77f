"""When and where a gang can start, given the expected ends of running pods.

The gang is placed in a trial, by the code that places it when it starts, without the pods that will
have ended.

Rules:
  R1  if enough run times are known, the estimate is the earliest instant at which the gang fits;
  R2  otherwise nodes are drained for it: as few as possible, those with the fewest pods first.
      Draining is meant as in Slurm: no new pod is placed there, and no running pod is evicted;
  R3  all searches of one look ahead share a quarter of the search budget. When it is exhausted, a
      gang whose members need a search counts as one that does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

from attrs import frozen

from gangsched.core.admission.lacking import lacking
from gangsched.core.attempt.pending_members import demand_of, split
from gangsched.core.attempt.placing import Places, places
from gangsched.core.nodes.hold import Hold
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.records.trial import Lifted, Trial
from gangsched.core.state import State
from gangsched.core.state.reserved import Reserved
from gangsched.errors import GangschedError
from gangsched.model import PodUID

__all__ = ["StartEstimate", "look_ahead"]

_SHARE: Final = 4

_Parts: TypeAlias = Sequence[Sequence[Lifted]]
"""What leaves together, in the order in which it leaves."""


@final
@frozen
class StartEstimate:
    """When and where a gang can start.

    Attributes:
        starts_at: The expected start; infinite if it is unknown, as nodes are drained for it.
        reserved: The capacity to reserve, by node.
        planned: The members that it is reserved for, each with its node.
        drained: If nodes are drained, the pods on them.
    """

    starts_at: float
    reserved: dict[int, Reserved]
    planned: tuple[tuple[PodRecord, int], ...]
    drained: frozenset[PodUID] = frozenset()


def look_ahead(
    state: State, gang: GangRecord, ends: Mapping[PodUID, float], *, drains: bool
) -> StartEstimate | None:
    """Estimate when and where a gang can start; None if it cannot, as far as is known.

    Runtime complexity: O(n log n) for n pods on nodes, and O(log n) placements of the gang.

    Args:
        state: The state.
        gang: The gang.
        ends: The expected end of each pod that holds a node and has a known one.
        drains: Whether nodes may be drained for it if the run times are not enough.
    """
    look = _Look(state, gang)
    if not look.members:
        return None
    guard, state.records.guard = state.records.guard, None
    try:
        return look.by_run_times(ends) or (look.by_draining() if drains else None)
    except GangschedError:
        return None  # its own cycle will raise it, and name the pod
    finally:
        state.records.guard = guard


@final
class _Look:
    """The placements of one gang on the nodes as they will be."""

    def __init__(self, state: State, gang: GangRecord) -> None:
        self._state = state
        self._gang = gang
        # a regular pod is placed alone, as is a member of a group that has started
        self.members: list[PodRecord] = split(state, gang)[bool(gang.infos)]
        self._needed = lacking(state, gang) if gang.infos else None
        self._demand = demand_of(state, gang)
        self._budget: int = state.settings.search_budget // _SHARE
        current = state.reservation.current
        self._reserved: list[Hold] = [] if current is None else current.holds
        self._others: list[PodRecord] = [
            record
            for record in state.records.on_nodes()
            if record.gang is not gang and state.table.nodes[record.slot] is not None
        ]

    def by_run_times(self, ends: Mapping[PodUID, float]) -> StartEstimate | None:
        """Return the earliest instant at which the gang fits, by the ends that are known."""
        now = self._state.records.now
        leaving: dict[float, list[PodRecord]] = {now: []}
        for record in self._others:
            end = ends.get(record.uid)
            if end is not None:
                leaving.setdefault(max(end, now), []).append(record)
        instants = sorted(leaving)
        number, found = self._first([leaving[instant] for instant in instants])
        if found is None:
            return None
        gone = {r for instant in instants[: number + 1] for r in leaving[instant]}
        return StartEstimate(instants[number], self._to_reserve(found, gone), tuple(found))

    def by_draining(self) -> StartEstimate | None:
        """Return the fewest nodes that the gang fits on once they are empty."""
        state = self._state
        on: dict[int, list[Lifted]] = {}
        for record in self._others:
            on.setdefault(record.slot, []).append(record)
        # a node is empty only when its nominated pods have come and gone, too
        for nomination in state.nominations:
            for hold in nomination.holds:
                if state.table.nodes[hold.slot] is not None:
                    on.setdefault(hold.slot, []).append(hold)
        names = state.table.names
        in_order = sorted(on, key=lambda slot: (len(on[slot]), names[slot]))
        number, found = self._first([[], *(on[slot] for slot in in_order)])
        if found is None:
            return None
        drained = {
            each.uid
            for slot in in_order[:number]
            for each in on[slot]
            if isinstance(each, PodRecord)
        }
        return StartEstimate(
            math.inf, self._to_reserve(found, set()), tuple(found), frozenset(drained)
        )

    def _first(self, parts: _Parts) -> tuple[int, Places | None]:
        """Return the number of the part after which the gang fits first, and where it goes.

        What leaves is counted until enough fits by itself; that alone says that it does not fit
        before. Then the steps double until there is a placement, and the last step is halved.
        """
        with Trial(self._state.records) as trial:
            trial.lift(hold for hold in self._reserved if not hold.is_lent)
            lifted, number = 0, -1
            for number, part in enumerate(parts):
                trial.lift(part)
                lifted = number
                if self._demand.could_fit():
                    break
            else:
                return number, None

            def move(to: int) -> None:
                nonlocal lifted
                while lifted < to:
                    lifted += 1
                    trial.lift(parts[lifted])
                while lifted > to:
                    trial.land(parts[lifted])
                    lifted -= 1

            failed, step, last = number - 1, 1, len(parts) - 1
            found: Places | None = None
            while number <= last:
                move(number)
                found = self._places(trial)
                if found is not None:
                    break
                failed = number
                number = last if number < last < number + step else number + step
                step *= 2
            while found is not None and number - failed > 1:
                middle = (number + failed) // 2
                move(middle)
                earlier = self._places(trial)
                if earlier is None:
                    failed = middle
                else:
                    number, found = middle, earlier
            return number, found

    def _places(self, trial: Trial) -> Places | None:
        return places(
            self._state, self._gang, self.members, self._needed, trial, budget=self._budget
        )

    def _to_reserve(self, found: Places, gone: set[PodRecord]) -> dict[int, Reserved]:
        reserved: dict[int, Reserved] = {}
        for record, slot in found:
            entry = reserved.get(slot)
            if entry is None:
                on_node = self._state.records.holders(slot)
                returning = dict.fromkeys(each for each in on_node if each in gone)
                hold = Hold(slot, (), self._gang.name)
                entry = reserved[slot] = Reserved(slot, {}, returning, hold)
            entry.add(record.needs)
        return reserved
