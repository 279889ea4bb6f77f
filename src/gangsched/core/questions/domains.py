"""The answer of ``Scheduler.domains``: what each domain takes of a gang, and what it lacks.

Rules:
  R1  a question changes nothing. Pods that terminate still hold their nodes;
  R2  of the parts of a gang that require one level, the first one is asked about that lacks
      members and has some that are pending. Where members of it run, only those domains are listed;
  R3  each class of members is counted as if it were alone, in whole slices if all are alike. So a
      domain of unlike members, or of parts that are apart, may take fewer than is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gangsched.core.admission.lacking import short_of
from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import Domain
from gangsched.core.nodes.node_table import NodeState
from gangsched.core.placement.fill import capacity
from gangsched.core.placement.task import Task
from gangsched.core.records.gang import GangRecord
from gangsched.core.state import State
from gangsched.listings import DomainRow, Listing
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import least_needed
from gangsched.resources import Resources

__all__ = ["domains_of"]

_PIECES = "what is free is in pieces that are too small"
_REFUSED = "its nodes refuse the pods"


def domains_of(state: State, gang: GangRecord) -> Listing[DomainRow]:
    """Return what each domain takes of the pending members of a gang. O(domains x classes)."""
    pending = gang.in_order()
    for record in pending if not state.has_classes(gang) else ():
        record.pod_class = state.class_of(record)
    short = short_of(gang, gang.infos.values())
    needed = {sub.key: max(short(sub), 0) for sub in gang.tree.sub_groups()}
    task = Task(gang, pending, state.records, state.cycle, needed)
    parts: dict[str, SubGroup] = {}
    for sub in gang.tree.constrained:
        within = sub.within
        if within is None or not within.required or within.level in parts:
            continue
        if _needs(task, sub) > 0 and any(task.left(leaf.key) for leaf in sub.leaves):
            parts[within.level] = sub
    rows = [row for level, sub in parts.items() for row in _rows(task, level, sub)]
    return Listing(rows)


def _needs(task: Task, sub: SubGroup) -> int:
    return max(task.lacking(sub), least_needed(sub, task.lacking))


def _rows(task: Task, level: str, sub: SubGroup) -> list[DomainRow]:
    """Return a row for each domain of a level, those that take most members first."""
    classes = task.classes(sub)
    needed, rows = _needs(task, sub), list[DomainRow]()
    for domain in task.domains(sub):
        fits = _fits(task, sub, domain)
        why = "" if fits >= needed else _why(task, classes, needed, domain)
        path = task.gang.path_of(sub)
        rows.append(DomainRow(path, level, task.name(domain), fits, needed, why))
    return sorted(rows, key=lambda row: (-row.fits, row.domain))


def _fits(task: Task, sub: SubGroup, domain: Domain) -> int:
    """Return how many pending members of a part a domain takes, in whole slices where it is cut."""
    classes = task.classes(sub)
    fits = sum(min(n, capacity(c, domain, ())) for c, n in classes.items())
    if sub.slices and len(classes) == 1:
        return min(fits, *(capacity(c, domain, sub.slices) for c in classes))
    # of what is cut into unlike slices, each is counted by itself already
    parts = () if sub.slices else sub.children
    return min(fits, sum(_fits(task, part, domain) for part in parts)) if parts else fits


def _why(task: Task, classes: Mapping[PodClass, int], needed: int, domain: Domain) -> str:
    """Return what a domain lacks for as many members as are needed."""
    table, slots = task.table, task.table.domains.slots(domain)
    asks = [task.records.tenancy.asks(record) for record in task.unplaced()[:1]]
    refused = {asks[0].refused(table.marks_of(slot)) for slot in slots} if asks else {""}
    if len(refused) == 1 and "" not in refused:
        return refused.pop().removeprefix("node(s) ")
    states = [table.state_of[slot] for slot in slots]
    short = dict(_short(classes, needed, states))
    if short:
        names = {number: name for name, number in table.resources.items()}
        lacks = Resources.from_milli({names[number]: lack for number, lack in short.items()})
        return "short by " + " and ".join(f"{lacks.quantity(name)} {name}" for name in lacks)
    accepted = any(c.memo.accepts(each) for c in classes for each in states)
    return _PIECES if accepted else _REFUSED


def _short(
    classes: Mapping[PodClass, int], needed: int, states: list[NodeState]
) -> Iterator[tuple[int, int]]:
    """Yield the resources of which nodes that accept the members have too little in total."""
    wanted: dict[int, int] = {}
    for pod_class, number in classes.items():
        for resource, amount in pod_class.compared:
            most = needed if len(classes) == 1 else number
            wanted[resource] = wanted.get(resource, 0) + amount * most
    able = [each for each in states if any(c.memo.accepts(each) for c in classes)]
    for resource, amount in wanted.items() if able else ():
        lack = amount - sum(max(each.free[resource], 0) for each in able)
        if lack > 0:
            yield resource, lack
