"""The quotas: what a gang may take beside those that hold nodes.

Theory of operation. A quota counts what pods hold on nodes, elastic members included; the mover
tells ``Charges`` of it. A group with a member on a node is charged what its minimum needs if that
is more, and fits: its other members will follow. A gang is asked when it is settled, and once more
when its turn comes: another one may have taken what was left. It fits if what its minimum needs
fits beside all others. A regular pod is asked about as a gang of one.

Rules:
  R1  groups that start together are asked together;
  R2  a minimum needs its ``min_resources``, or if that is more, what members hold, and what the
      largest pending ones request in place of those that it lacks. So any of them may start. Once
      it is met, it needs what the largest members on nodes request: the others start one by one
      (R3). That stays charged if it falls below its minimum, or members succeed, so replacements
      find what the old ones held. Larger replacements are asked about as the others;
  R3  a member beyond the minimum is placed only if that fits, too, whenever it came, beside what
      the minima reserve that start with it (``Allowance``). Others are tried in its stead;
  R4  a group that is being restarted is charged as if it ran, until it is tried again; after its
      backoff only if its minimum exists;
  R5  a gang that is not admitted for another reason does not wait for a quota.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from copy import copy
from operator import attrgetter
from typing import TypeAlias, final

from gangsched.core.admission import restarts
from gangsched.core.admission.lacking import lacking
from gangsched.core.admission.largest import most
from gangsched.core.admission.reclaim import owners_of
from gangsched.core.records.gang import GangRecord, PodRecord
from gangsched.core.state import State
from gangsched.model import GroupKey, PreemptionPolicy, Resources
from gangsched.primitives import quorum
from gangsched.primitives.counters import MemberState
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING, PodGroupInfo
from gangsched.primitives.quorum import MatchPolicy
from gangsched.primitives.standing import by_key, least_needed, unmet
from gangsched.resources import NOTHING

__all__ = [
    "Allowance",
    "charge",
    "claims",
    "denial",
    "kept_out",
    "line_up",
    "note_kept_out",
    "note_left",
    "over_quota",
    "place",
    "problem",
    "stop_waiting",
    "targets",
]

_Request: TypeAlias = tuple[str | None, Resources]
"""The role of a member, and what it requests."""


def problem(state: State, gang: GangRecord) -> str:
    """Return why a gang cannot be in the queue that it names; ``""`` if it can. O(members)."""
    tree = state.records.quotas.tree
    if not tree.has_queues:
        return ""
    queues = [_queue_of(gang, info) for info in gang.infos.values()] or [gang.pod.queue]
    problems = [tree.problem(queue) for queue in queues]
    return next((each for each in problems if each), "")


def place(state: State, gang: GangRecord) -> None:
    """Charge the owners of a gang to the accounts that they belong to. O(members)."""
    quotas = state.records.quotas
    for info in gang.infos.values():
        quotas.place(info.key, info.namespace, _queue_of(gang, info))
    for record in gang.members.values() if not gang.infos else ():
        quotas.place(record.owner, record.pod.namespace, record.pod.queue)


def _queue_of(gang: GangRecord, info: PodGroupInfo) -> str | None:
    """Return the queue that the root states, else the group, else the first that a member names."""
    for spec in (info.root, info.spec):
        if spec is not None and spec.queue is not None:
            return spec.queue
    named = (record.pod.queue for record in _members(gang, info))
    return min((queue for queue in named if queue is not None), default=None)


def denial(state: State, gang: GangRecord) -> tuple[PodGroupInfo | None, str] | None:
    """Return the group that must wait for a quota, and why; None if none must. O(members).

    Once a root has what it wants, its other groups go by themselves: one may wait, another not.
    """
    ledger = state.records.quotas
    pending = {record.owner: record.info for record in gang.in_order()}
    apart = gang.is_tree and _has_its_minimum(state, gang)
    found: list[tuple[PodGroupInfo | None, str]] = []
    for owner, info in pending.items():
        if not ledger.covers(owner):
            continue
        why, alike = over_quota(state, gang, owner, info)
        if why:
            if not found:
                state.queue.note_turn(gang)
            ledger.wait(owner, why, gang, alike)
            found.append((info, why))
            if not apart:
                break
        else:
            ledger.stop_waiting(owner)
    return found[0] if found and (not apart or len(found) == len(pending)) else None


def over_quota(
    state: State, gang: GangRecord, owner: str, info: PodGroupInfo | None
) -> tuple[str, Hashable]:
    """Return why an owner must wait, ``""`` if it need not; and what is equal for those alike.

    Of a group that has started, and of groups that start together, none is like another.
    """
    if info is not None and info.was_scheduled:
        return _exceeded_again(state, gang, info), owner
    ledger, wanted = state.records.quotas, claims(state, gang, info)
    if len(wanted) > 1:
        return ledger.exceeded(wanted), owner
    claimant, amounts = wanted[0]
    alike = ledger.alike(claimant, amounts, preempts=_preempts(gang, info))
    return ledger.exceeded(wanted), alike


def _preempts(gang: GangRecord, info: PodGroupInfo | None) -> bool:
    specs = () if info is None else (info.root, info.spec)
    stated = [spec.preemption_policy for spec in specs if spec and spec.preemption_policy]
    return (stated or [gang.pod.preemption_policy])[0] is not PreemptionPolicy.NEVER


def line_up(state: State, gang: GangRecord) -> None:
    """Put what waits of a gang that is not admitted where it belongs in the order. O(groups)."""
    state.queue.note_turn(gang)
    for owner in owners_of(gang):
        state.records.quotas.line_up(owner, gang)


def targets(
    state: State, gang: GangRecord, members: Iterable[PodRecord], *, is_whole: bool
) -> list[tuple[str, Resources]]:
    """Return what owners are charged once members start. O(members).

    Args:
        state: The state.
        gang: The gang.
        members: The members.
        is_whole: Whether they are what the gang needs to start.
    """
    ledger = state.records.quotas
    found: dict[str, Resources] = {}
    starting = [info for info in gang.infos.values() if is_whole and not info.was_scheduled]
    for info in starting:
        found |= {key: ledger.target_of(key, each) for key, each in claims(state, gang, info)}
    more: dict[str, Resources] = {}
    for record in members:
        if record.info is None or record.info not in starting:
            more[record.owner] = more.get(record.owner, NOTHING) + record.pod.requests
    return [*found.items(), *((key, ledger.target(key, each)) for key, each in more.items())]


def charge(state: State, gang: GangRecord) -> None:
    """Charge the groups that have members on nodes, or are being restarted; release the others."""
    ledger = state.records.quotas
    place(state, gang)
    if not gang.pending:
        stop_waiting(state, gang)
    if gang in state.nominations.known:
        return  # what its victims are about to give back is kept for it
    if not gang.infos:
        ledger.unreserve(gang.key)
    for info in gang.infos.values():
        if not ledger.covers(info.key):
            continue
        if not info.unscheduled:
            ledger.stop_waiting(info.key)
        if _on_nodes(gang, info):
            minimum = _Minimum(gang, info)
            runs = info.was_scheduled and minimum.is_met
            starts = info.scheduled > 0 and not info.was_scheduled
            # what members held that have succeeded is charged until the last one has
            if (runs and not info.succeeded) or starts or not ledger.has_reserved(info.key):
                needs = minimum.while_it_runs() if runs else minimum.to_start(state)
                ledger.reserve(info.key, needs)
        elif not _is_restarted(state, info) and not _returns(state, info):
            ledger.unreserve(info.key)


def _is_restarted(state: State, info: PodGroupInfo) -> bool:
    """Return whether a group, or a part of it, is being restarted, or may be."""
    return restarts.is_under_way(state, info) or bool(restarts.held_copies(state, info))


def _returns(state: State, info: PodGroupInfo) -> bool:
    return info.is_complete and restarts.returns(state, info)


def stop_waiting(state: State, gang: GangRecord) -> None:
    """Note that a gang is not admitted for another reason, so it would take no quota. O(groups)."""
    for key in gang.infos or [gang.key]:
        state.records.quotas.stop_waiting(key)


def kept_out(state: State, gang: GangRecord, members: Iterable[PodRecord]) -> dict[PodRecord, str]:
    """Return the members of a tree that a quota keeps out by themselves, and why. O(members).

    They are left out of what the tree asks of nodes, and try again once the quota has room.
    """
    quotas = state.records.quotas
    if not quotas.is_used or not (gang.is_tree or gang.tree.has_parts):
        return {}
    found: dict[PodRecord, str] = {}
    known: dict[tuple[GroupKey, Resources], str] = {}
    for record in members:
        if record.info is not None:
            asked = record.info.key, record.pod.requests
            if asked not in known:
                known[asked] = quotas.exceeded_by(dict((asked,)))
            if known[asked]:
                found[record] = known[asked]
    return found


def note_kept_out(state: State, gang: GangRecord, members: Iterable[PodRecord]) -> None:
    """Note which groups of a gang that waits for nodes wait for a quota, too. O(members)."""
    stop_waiting(state, gang)
    for record, why in kept_out(state, gang, members).items():
        state.records.quotas.wait(record.owner, why, gang, record.owner)


def note_left(state: State, gang: GangRecord) -> None:
    """Note that a gang left the queue: without a node it does not use what it was admitted for."""
    quotas = state.records.quotas
    for info in gang.infos.values():
        if not info.scheduled:
            quotas.note_left(info.key)
    if not gang.infos and not gang.on_nodes:
        quotas.note_left(gang.key)


@final
class Allowance:
    """What members of a gang may take of quotas beyond the minima that start with them.

    Args:
        state: The state.
        gang: The gang.
        starts: Whether the groups of the gang that have not started do so; they reserve what their
            minima need.
    """

    def __init__(self, state: State, gang: GangRecord, *, starts: bool) -> None:
        self._ledger = state.records.quotas
        infos = gang.infos.values() if starts else ()
        self._least: dict[str, Resources] = dict(
            _claim(state, gang, i) for i in infos if not i.was_scheduled
        )
        self._more: dict[str, Resources] = {}
        self._known: dict[tuple[str, Resources], bool] = {}

    def copy(self) -> Allowance:
        """Return another one of which as much was taken. O(groups)."""
        made = copy(self)
        made._more, made._known = dict(self._more), dict(self._known)
        return made

    def allows(self, record: PodRecord) -> bool:
        """Return whether a member may start, too. O(groups x quotas) for each other request."""
        if record.info is None:
            return True
        asked = (record.info.key, record.pod.requests)
        found = self._known.get(asked)
        if found is None:
            more = {**self._more, asked[0]: self._more.get(asked[0], NOTHING) + asked[1]}
            found = self._known[asked] = not self._ledger.exceeded_by(more, self._least)
        return found

    def takes(self, record: PodRecord) -> bool:
        """Count a member that starts if it is allowed; return whether it is."""
        found = self.allows(record)
        if found:
            self.take(record)
        return found

    def take(self, record: PodRecord) -> None:
        """Count a member that starts, whether it is allowed or not. O(1)."""
        if record.info is not None:
            key = record.info.key
            self._more[key] = self._more.get(key, NOTHING) + record.pod.requests
            self._known.clear()


# Inside -----------------------------------------------------------------------------------------


def _members(gang: GangRecord, info: PodGroupInfo) -> Iterable[PodRecord]:
    return (record for record in gang.members.values() if record.info is info)


def claims(
    state: State, gang: GangRecord, info: PodGroupInfo | None
) -> list[tuple[str, Resources]]:
    """Return what a group, and those that start with it, need; or a regular pod. O(members)."""
    if info is None:
        ledger, pods = state.records.quotas, gang.pending.values()
        return [(r.owner, ledger.target(r.owner, r.pod.requests)) for r in pods]
    if _claims_as_one(state, gang):  # always the same group claims it, or it would be kept twice
        return [_family_claim(state, gang, gang.infos[min(gang.infos)])]
    if gang.is_tree and len({each.namespace for each in gang.infos.values()}) == 1:
        return [_claim(state, gang, info)]  # the root has what it wants: the group goes by itself
    others = [i for i in gang.infos.values() if i is not info and not i.was_scheduled]
    return [_claim(state, gang, each) for each in (info, *others)]


def _has_its_minimum(state: State, gang: GangRecord) -> bool:
    return least_needed(gang.tree, by_key(lacking(state, gang))) <= 0


def _claims_as_one(state: State, gang: GangRecord) -> bool:
    """Return whether what a root wants is claimed by one of its groups for all."""
    if not gang.is_tree or len({each.namespace for each in gang.infos.values()}) != 1:
        return False
    return not _has_its_minimum(state, gang)


def _family_claim(state: State, gang: GangRecord, info: PodGroupInfo) -> tuple[GroupKey, Resources]:
    """Return what the largest groups need that a root wants, as one claim."""
    needed = lacking(state, gang)
    pending = [(record.leaf, record.pod.requests) for record in gang.pending.values()]
    held = [r.pod.requests for r in _members(gang, info) if r.state in HOLDING]
    wanted = most(gang.tree, pending, needed, attrgetter("key"))
    leaving = [_leaving(gang, each) for each in gang.infos.values()]
    return info.key, sum([wanted, *held, *leaving], NOTHING)


def _claim(state: State, gang: GangRecord, info: PodGroupInfo) -> tuple[GroupKey, Resources]:
    return info.key, _Minimum(gang, info).to_start(state) + _leaving(gang, info)


def _leaving(gang: GangRecord, info: PodGroupInfo) -> Resources:
    """Return what old members still hold on nodes, beside those that start. O(members)."""
    if not info.members.count(MemberState.TERMINATING):
        return NOTHING
    left = [r for r in _members(gang, info) if r.state is MemberState.TERMINATING and r.slot >= 0]
    return sum((record.pod.requests for record in left), NOTHING)


def _exceeded_again(state: State, gang: GangRecord, info: PodGroupInfo) -> str:
    """Return why no pending members of a started group may start; empty if some may. O(members)."""
    lacks = state.points.roles_needed(info)
    pending = [(r.role, r.pod.requests) for r in gang.pending.values() if r.info is info]
    parts: list[SubGroup] = []
    if lacks.get("", 0) <= len(pending):
        parts = list(unmet(info.tree, by_key(lacks)))
    asked = [most(part, pending, lacks) for part in parts]
    if info.tree not in parts:
        together = {leaf.role for part in parts for leaf in part.leaves}
        asked += dict.fromkeys(each for role, each in pending if role not in together)
    problems = [state.records.quotas.exceeded_by({info.key: each}) for each in asked]
    return problems[0] if problems and all(problems) else ""


def _on_nodes(gang: GangRecord, info: PodGroupInfo) -> bool:
    """Return whether a member holds a node. O(1), O(members) if some are terminating."""
    if info.scheduled > 0:
        return True
    return info.members.count(MemberState.TERMINATING) > 0 and any(
        record.slot >= 0 for record in _members(gang, info)
    )


@final
class _Minimum:
    """What the minimum of a group needs. Every method is O(members)."""

    def __init__(self, gang: GangRecord, info: PodGroupInfo) -> None:
        self._info, self._pending, self._held = info, list[_Request](), list[_Request]()
        for record in _members(gang, info):
            if record.state in HOLDING:
                self._held.append((record.role, record.pod.requests))
            elif record.state is MemberState.UNSCHEDULED:
                self._pending.append((record.role, record.pod.requests))

    @property
    def is_met(self) -> bool:
        """Whether enough members hold nodes."""
        return not quorum.lacks_members(self._info)

    def while_it_runs(self) -> Resources:
        """Return what the largest members on nodes request that meet it."""
        tree = self._info.tree
        minima = {sub.key: sub.least for sub in tree.sub_groups()}
        minima[""] = max(minima[""] - self._info.succeeded, 1)
        return self._with_stated(most(tree, self._held, minima))

    def to_start(self, state: State) -> Resources:
        """Return what members on nodes, and the largest pending ones that it lacks, request."""
        info = self._info
        told = state.points.roles_needed(info)  # by its policy it may lack more
        found = quorum.stands(info, MatchPolicy.WAITING_AND_RUNNING).lacking
        lacks = {key: max(found.get(key, 0), told.get(key, 0)) for key in {*found, *told}}
        # an attempt places one member at least, also if enough have succeeded
        lacks[""] = max(lacks.get("", 0), 0 if self._held else 1)
        held = sum((requests for _role, requests in self._held), NOTHING)
        return self._with_stated(held + most(info.tree, self._pending, lacks))

    def _with_stated(self, found: Resources) -> Resources:
        return _larger(self._info.min_resources, found)


def _larger(one: Resources, other: Resources) -> Resources:
    if not one or not other:
        return one or other
    return Resources.from_milli({n: max(one.get(n, 0), other.get(n, 0)) for n in {*one, *other}})
