"""Room for members that may be lost: ``PodGroup.spares``.

A group that runs has room for some more pods like its own, within the domain that it requires. So
a member that replaces a lost one finds a node there at once. The room is wanted, not needed: a
gang starts without it, and it is looked for whenever the gang is settled.

Rules:
  R1  the pods are like those of the role with the most members on nodes; nodes without members
      are better than those with some;
  R2  a gang sees its own room as free. A member that takes it uses it up, and it is looked for anew
      once no member of the gang waits;
  R3  the room is charged to the quotas of the group, as far as they allow it;
  R4  without preemption the room is held from everybody else. With it, only from gangs of the same
      priority: those of a lower one give it back when it is needed, by being preempted, and those
      of a higher one could take it in any case.
"""

from __future__ import annotations

from collections import Counter

from attrs import frozen

from gangsched.core.admission.accounts import Allowance
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.hold import Hold
from gangsched.core.placement.late import ordered_slots
from gangsched.core.placement.pinned import pinned_to
from gangsched.core.records.gang import GangRecord, PodRecord, by_seq
from gangsched.core.state import State
from gangsched.model import GroupKey
from gangsched.primitives.group_info import HOLDING, PodGroupInfo
from gangsched.resources import NOTHING

__all__ = ["Shown", "hold_like", "review", "show", "withhold"]


def review(state: State, gang: GangRecord) -> None:
    """Keep as much room as a gang wants, if there is any. O(members), and a placement if not."""
    for key, info in gang.infos.items():
        wanted = 0 if info.spec is None else info.spec.spares
        if not (wanted or key in state.spares.known):
            continue
        members = _on_nodes(gang, info)
        if not (members and info.was_scheduled):
            wanted = 0
        holds = [*state.spares.known.get(key, ())]
        gone = [hold for hold in holds if state.table.nodes[hold.slot] is None]
        for hold in [*gone, *[each for each in holds if each not in gone][wanted:]]:
            _drop(state, key, hold)
        lacking = wanted - len(state.spares.known.get(key, ()))
        if lacking > 0 and not gang.pending:
            record, allowance = _like_most(members), Allowance(state, gang, starts=False)
            for slot in _room(state, gang, record, lacking):
                if allowance.takes(record):
                    _hold(state, key, Hold(slot, record.needs, gang.name), record)


def hold_like(state: State, key: GroupKey, slot: int, since: int) -> None:
    """Keep the room again that a group had; none if no member of it has a node."""
    gang = state.records.gang_of.get(key)
    members = [] if gang is None else _on_nodes(gang, gang.infos[key])
    if gang is not None and members:
        record = _like_most(members)
        hold = Hold(slot, record.needs, gang.name)
        _hold(state, key, hold, record)
        hold.since = since


def _on_nodes(gang: GangRecord, info: PodGroupInfo) -> list[PodRecord]:
    return [r for r in gang.members.values() if r.info is info and r.state in HOLDING]


def _hold(state: State, key: GroupKey, hold: Hold, like: PodRecord) -> None:
    """Keep room for a group; it is shown as free between calls if it is lent."""
    requests = like.pod.requests
    hold.is_lendable = state.settings.preemption is not None
    state.records.hold(hold)
    state.records.quotas.hold(key, NOTHING, requests)
    state.spares.known.setdefault(key, {})[hold] = requests
    if hold.is_lendable:
        state.records.lend(hold)


def _drop(state: State, key: GroupKey, hold: Hold) -> None:
    """Keep some room no longer."""
    holds = state.spares.known[key]
    requests = holds.pop(hold)
    if not holds:
        del state.spares.known[key]
    state.records.drop(hold)
    state.records.quotas.hold(key, requests, NOTHING)


@frozen
class Shown:
    """The room that is shown otherwise to a gang that is tried, and its members on nodes then."""

    turned: list[Hold]
    on_nodes: frozenset[PodRecord]


def show(state: State, gang: GangRecord) -> Shown:
    """Show a gang its own room as free, and that of others as it is for it. O(spares + members)."""
    turned: list[Hold] = []
    for key, holds in state.spares.known.items():
        owner = state.records.gang_of.get(key)
        for hold in holds:
            if owner is gang and not hold.is_lent:
                state.records.lend(hold)
                turned.append(hold)
            elif owner is not gang and hold.is_lent and _withholds(owner, gang):
                state.records.keep(hold)
                turned.append(hold)
    return Shown(turned, frozenset(r for r in gang.members.values() if r.slot >= 0))


def _withholds(owner: GangRecord | None, gang: GangRecord) -> bool:
    return owner is not None and owner.priority == gang.priority


def withhold(state: State, gang: GangRecord, shown: Shown) -> None:
    """End ``show``; the room that members took who have come since is used up."""
    for hold in shown.turned:
        (state.records.keep if hold.is_lent else state.records.lend)(hold)
    members = gang.members.values()
    came = Counter(r.slot for r in members if r.slot >= 0 and r not in shown.on_nodes)
    for key in gang.infos:
        for hold in [*state.spares.known.get(key, ())]:
            if came[hold.slot] > 0:
                came[hold.slot] -= 1
                _drop(state, key, hold)


def _like_most(members: list[PodRecord]) -> PodRecord:
    numbers = Counter(record.leaf for record in members)
    most = max(numbers.values())
    return min([r for r in members if numbers[r.leaf] == most], key=by_seq)


def _room(state: State, gang: GangRecord, record: PodRecord, number: int) -> list[int]:
    """Return nodes for some more pods like a member, as many as there are."""
    pod_class, own = state.class_of(record), {r.slot for r in gang.members.values()}
    assert record.info is not None
    slots = [s for d in _domains(state, gang, record.info) for s in ordered_slots(pod_class, d)]
    found: list[int] = []
    # a node that fails takes along its member, and the room there
    for slot in sorted(slots, key=lambda slot: slot in own):
        found += [slot] * min(pod_class.memo.within(slot), number - len(found))
    return found


def _domains(state: State, gang: GangRecord, info: PodGroupInfo) -> list[Domain]:
    """Return where a group may be: the outermost domain that it is bound to."""
    for tree in gang.tree.constrained:
        within = tree.within
        is_its = any(leaf.group == info.key for leaf in tree.leaves)
        if is_its and within is not None and within.required:
            return pinned_to(gang, tree, state.table) or []
    return [EVERYWHERE]
