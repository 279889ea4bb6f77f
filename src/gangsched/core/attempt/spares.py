"""Room for members that may be lost: ``PodGroup.spares``.

A group that runs has room for some more pods like its own, within the domain that it requires. So
a member that replaces a lost one finds a node there at once. The room is wanted, not needed: a
gang starts without it, and it is looked for whenever the gang is settled.

Rules:
  R1  the pods are like those of the role with the most members on nodes. Room is best where slices
      of the gang are, and on nodes without its members;
  R2  a gang sees its own room as free. A member that takes it uses it up, and it is looked for anew
      once no member of the gang waits;
  R3  the room is charged to the quotas of the group, as far as they allow it, while no member of
      the gang waits: the one that takes it is charged instead;
  R4  without preemption the room is held from everybody else. With it, only from gangs of the same
      priority: those of a lower one give it back when it is needed, by being preempted, and those
      of a higher one could take it in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from gangsched.core.admission.accounts import Allowance
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.hold import Hold
from gangsched.core.placement.apart import Apart
from gangsched.core.placement.late import ordered_slots
from gangsched.core.placement.pinned import pinned_to
from gangsched.core.records.gang import GangRecord, PodRecord, by_seq
from gangsched.core.state import State
from gangsched.core.state.spares import Spare
from gangsched.model import GroupKey
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING
from gangsched.resources import Resources

__all__ = ["Shown", "drop_lost", "keep_again", "review", "show", "withhold"]


def review(state: State, gang: GangRecord) -> None:
    """Keep as much room as a gang wants, if there is any. O(members), and O(nodes) if it lacks."""
    for key, info in gang.infos.items():
        wanted = 0 if info.spec is None else info.spec.spares
        if not (wanted or key in state.spares.known):
            continue
        members = [r for r in gang.members.values() if r.info is info and r.state in HOLDING]
        if not (members and info.was_scheduled):
            wanted = 0
        like = _like_most(members) if wanted else None
        _drop_unfit(state, key, like, wanted)
        _charge(state, gang, key)
        if like is not None and not gang.pending:
            _look_for(state, gang, key, like, wanted)
            _charge(state, gang, key)


def _drop_unfit(state: State, key: GroupKey, like: PodRecord | None, wanted: int) -> None:
    """Keep no room that is gone, for pods of another kind, or beyond what is wanted."""
    for spare in [*state.spares.known.get(key, ())]:
        if like is None or spare.requests != like.pod.requests or _is_gone(state, spare):
            _drop(state, key, spare)
    for spare in state.spares.known.get(key, [])[wanted:]:
        _drop(state, key, spare)


def _look_for(state: State, gang: GangRecord, key: GroupKey, like: PodRecord, wanted: int) -> None:
    """Keep room for as many pods like a member as are wanted, as far as quotas allow it."""
    lacking = wanted - len(state.spares.known.get(key, ()))
    if lacking > 0:
        allowance = Allowance(state, gang, starts=False)
        for slot in _room(state, gang, like, lacking):
            if allowance.takes(like):
                _keep(state, gang, key, slot, like.pod.requests)


def _is_gone(state: State, spare: Spare) -> bool:
    """Return whether a node is gone, or others have taken the room, such as another scheduler."""
    slot, hold = spare.hold.slot, spare.hold
    if state.table.nodes[slot] is None:
        return True
    free = state.table.state_of[slot].free
    return not hold.is_lent and any(free[number] < 0 for number, _amount in hold.needs)


def drop_lost(state: State) -> None:
    """Keep no more room for groups that are in no gang any more. O(groups with room)."""
    known = state.spares.known
    for key in [key for key in known if key not in state.records.gang_of]:
        for spare in [*known[key]]:
            _drop(state, key, spare)


def keep_again(state: State, key: GroupKey, slot: int, requests: Resources, since: int) -> None:
    """Keep the room again that a group had."""
    gang = state.records.gang_of.get(key)
    if gang is not None:
        _keep(state, gang, key, slot, requests).hold.since = since
        _charge(state, gang, key)


def _keep(state: State, gang: GangRecord, key: GroupKey, slot: int, requests: Resources) -> Spare:
    """Keep room for a group; it is shown as free between calls if it is lent."""
    asks = None
    if gang.tree.exclusive_leaves:  # nobody else is to come to the domain
        asks = state.records.tenancy.asks(next(iter(gang.members.values())))
    hold = Hold(slot, state.table.needs(requests), gang.name, asks)
    hold.is_lendable = state.settings.preemption is not None
    state.records.hold(hold)
    if hold.is_lendable:
        state.records.lend(hold)
    spare = Spare(hold, requests)
    state.spares.known.setdefault(key, []).append(spare)
    return spare


def _drop(state: State, key: GroupKey, spare: Spare) -> None:
    """Keep some room no longer."""
    spares = state.spares.known[key]
    spares.remove(spare)
    if not spares:
        del state.spares.known[key]
    state.records.drop(spare.hold)
    if spare.is_charged:
        state.records.quotas.hold(key, spare.requests, -1)


def _charge(state: State, gang: GangRecord, key: GroupKey) -> None:
    """Charge the quotas of a group for its room, or no longer; see R3."""
    quotas = state.records.quotas
    for spare in state.spares.known.get(key, ()):
        if spare.is_charged and gang.pending:
            quotas.hold(key, spare.requests, -1)
        elif not spare.is_charged and not gang.pending:
            quotas.hold(key, spare.requests, 1)
        spare.is_charged = not gang.pending


@frozen
class Shown:
    """The room that is shown otherwise to a gang that is tried, and its members on nodes then."""

    turned: list[Hold]
    on_nodes: frozenset[PodRecord]


def show(state: State, gang: GangRecord) -> Shown:
    """Show a gang its own room as free, and that of others as it is for it. O(spares + members)."""
    turned: list[Hold] = []
    for key, spares in state.spares.known.items():
        owner = state.records.gang_of.get(key)
        for hold in [spare.hold for spare in spares]:
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
    for key in gang.infos if came else ():
        for spare in [*state.spares.known.get(key, ())]:
            if came[spare.hold.slot] > 0:
                came[spare.hold.slot] -= 1
                _drop(state, key, spare)


def _like_most(members: list[PodRecord]) -> PodRecord:
    roles = Counter(record.role for record in members)
    most = max(roles.values())
    return min([r for r in members if roles[r.role] == most], key=by_seq)


def _room(state: State, gang: GangRecord, record: PodRecord, number: int) -> list[int]:
    """Return nodes for some more pods like a member, as many as there are. O(nodes)."""
    pod_class, own = state.class_of(record), {r.slot for r in gang.members.values()}
    path = next(path for leaf, path in gang.tree.paths() if leaf.key == record.leaf)
    near = {s for d in _slices(state, gang, path) for s in state.table.domains.slots(d)}
    slots = [s for d in _domains(state, gang, path) for s in ordered_slots(pod_class, d)]
    found: list[int] = []
    # a node that fails takes along its member, and the room there
    for slot in sorted(slots, key=lambda slot: (slot not in near, slot in own)):
        found += [slot] * min(pod_class.memo.within(slot), number - len(found))
    return found


def _slices(state: State, gang: GangRecord, path: Sequence[SubGroup]) -> list[Domain]:
    """Return the domains of the slices that a leaf is beside, or part of; none without slices."""
    cuts = next((sub.cuts for sub in path if sub.slices), ())
    return [d for cut in cuts for d in pinned_to(gang, cut, state.table) or ()]


def _domains(state: State, gang: GangRecord, path: Sequence[SubGroup]) -> list[Domain]:
    """Return where a member may be: the outermost domain that it is bound to, and its slices not.

    Members that are apart leave out the domains that others have.
    """
    found: list[Domain] = [EVERYWHERE]
    cuts = {cut.key for sub in path for cut in sub.cuts}
    for tree in path:
        within = tree.within
        if within is not None and within.required and tree.key not in cuts:
            found = list(pinned_to(gang, tree, state.table) or ())
            break
    leaf = path[-1]
    if leaf.apart is None:
        return found
    apart = Apart(gang, state.table, ())
    return [each for under in found for each in apart.unowned(leaf, under)]
