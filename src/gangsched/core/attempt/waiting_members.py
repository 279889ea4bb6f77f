"""Members that wait on permit are asked about again, and released once enough of them may go.

A plugin that answers for a whole group is asked about one member of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve

from gangsched.core.attempt.release import Prepared, is_quorum_without, prepare, release
from gangsched.core.records.gang import GangRecord, PodRecord, by_group, by_seq
from gangsched.core.state import State
from gangsched.errors import GangschedError
from gangsched.outcomes import Unschedulable
from gangsched.profile.calls import name_of

__all__ = ["allow", "recheck", "waiting_siblings"]


def recheck(state: State, gang: GangRecord) -> None:
    """Ask the pending permit plugins of waiting members again, and release those that may go."""
    members = sorted(gang.waiting.values(), key=by_seq)
    again = _AskedAgain(state)
    prepared: Prepared | str | None = None
    try:
        for some in by_group(members):
            again.ask(some)
        ready = [r for r in members if not again.left.get(r.seq) and r.seq not in again.refused]
        kept = [r for r in members if r not in ready]
        if not again.is_blocked and ready and (not kept or is_quorum_without(state, ready, kept)):
            prepared = prepare(state, ready, kept)
    except GangschedError as error:
        state.call.errors.append(error)
        return
    for record in members:
        if record.seq in again.refused:
            state.call.refused[record.uid] = again.refused[record.seq]
    if isinstance(prepared, tuple):
        release(state, ready, *prepared)
        return
    quorum = state.settings.profile.quorum
    more = [] if quorum is None else [name_of(quorum)]
    for record in members:
        left = again.left.get(record.seq, _pending(state, record))
        _note_pending(state, record, [*left, *more])


class _AskedAgain:
    """What pending permit plugins say now of members that wait.

    Attributes:
        left: The plugins that are pending still, by the number of a member.
        refused: Why members are refused, by number.
        is_blocked: Whether a plugin that answers for a whole group lets it wait, or refuses it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._profile = state.settings.profile
        self.left: dict[int, list[str]] = {}
        self.refused: dict[int, str] = {}
        self.is_blocked = False

    def ask(self, members: Sequence[PodRecord]) -> None:
        """Ask about the waiting members of one group."""
        state, profile, first = self._state, self._profile, members[0]
        wide, each = profile.group_wide["permit"]
        pending = {name for record in members for name in _pending(state, record)}
        asked = tuple(p for p in wide if p is profile.quorum or name_of(p) in pending)
        answer = state.points.permit(first, state.records.now, asked)
        if isinstance(answer, Unschedulable):
            self.refused[first.seq] = answer.reason
            self.is_blocked = True
            return
        self.is_blocked |= bool(answer)
        done = {name_of(plugin) for plugin in wide} - {name for name, _timeout in answer}
        for record in members:
            names = [name for name in _pending(state, record) if name not in done]
            own = tuple(p for p in each if name_of(p) in names)
            self.left[record.seq] = self._ask_own(record, names, own) if own else names

    def _ask_own(self, record: PodRecord, names: list[str], own: Iterable[Any]) -> list[str]:
        """Return which plugins are pending of a member after its own were asked."""
        found = self._state.points.permit(record, self._state.records.now, tuple(own))
        if isinstance(found, Unschedulable):
            self.refused[record.seq] = found.reason
            return names
        waits = {name for name, _timeout in found}
        mine = {name_of(plugin) for plugin in own}
        return [name for name in names if name in waits or name not in mine]


def allow(state: State, record: PodRecord, plugin: str) -> None:
    """Note that a permit plugin allows a waiting pod."""
    _note_pending(state, record, [name for name in _pending(state, record) if name != plugin])


def waiting_siblings(
    state: State, gang: GangRecord, members: Sequence[PodRecord]
) -> tuple[list[PodRecord], list[PodRecord]]:
    """Return which members that waited before may go with others by now, and which may not.

    What holds for the whole group was just asked.
    """
    before = sorted((r for r in gang.waiting.values() if r not in members), key=by_seq)
    _wide, each = state.settings.profile.group_wide["permit"]
    kept: list[PodRecord] = []
    for sibling in before if each else ():
        names = _pending(state, sibling)
        own = tuple(plugin for plugin in each if name_of(plugin) in names)
        answer = state.points.permit(sibling, state.records.now, own) if own else ()
        if isinstance(answer, Unschedulable):
            state.call.refused[sibling.uid] = answer.reason
        if answer:
            kept.append(sibling)
    return [sibling for sibling in before if sibling not in kept], kept


def _pending(state: State, record: PodRecord) -> tuple[str, ...]:
    entry = state.records.waiting.get(record.uid)
    return () if entry is None else entry.pending_plugins


def _note_pending(state: State, record: PodRecord, names: Sequence[str]) -> None:
    entry = state.records.waiting.get(record.uid)
    if entry is not None:
        pending = tuple([name for name in entry.pending_plugins if name in names])
        if pending != entry.pending_plugins:
            state.records.waiting.replace(evolve(entry, pending_plugins=pending))
