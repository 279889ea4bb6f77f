"""Which gangs, bundles and pods must be able to start on the free capacity, each alone.

Rules:
  R1  labels and taints are modelled as resources. A node with label ``zone=a`` offers any amount
      of the resource ``zone=a``, and a node without a taint any amount of "without this taint";
  R2  a gang with roles or copies, and a bundle, count as fitting only if all their pending members
      fit, so that no scheduler is required to choose members well. Once a gang with copies has
      started, each copy of which no member runs counts by itself;
  R3  of a family the minima of all complete children count, and nothing beyond: they go first. What
      is beyond them counts once all minima are met;
  R4  a gang with a topology key counts as fitting if it fits within one value of the key. There
      are few values, and a scheduler with the feature ``topology`` can try each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from gangsched.testing._any_order import fit_in_any_order
from gangsched.testing._families import ancestors, children, stands
from gangsched.testing._gang_start import has_quorum, whole_copies
from gangsched.testing._observer import Observer

__all__ = ["startable"]

_UNLIMITED: Final = 1_000


def startable(observer: Observer) -> list[str]:
    """Return descriptions of the gangs, bundles and pods that fit in any order, each alone."""
    found: list[str] = []
    for name, uids in observer.pending().items():
        group = observer.pods[uids[0]].group
        if group is None:
            if _fit(observer, uids, {}, 1):
                found.append(name)
        elif _gang_fits(observer, group, uids):
            found.append(f"{name} ({', '.join(uids)})")
    return found


def _gang_fits(observer: Observer, group: str, uids: Sequence[str]) -> bool:
    first, members = observer.pods[uids[0]], observer.members(group)
    placed = [uid for uid in members if uid in observer.placed]
    if placed and not observer.spec.late_members_join:
        return False
    if first.parent is not None and (unmet := _unmet(observer, group)):
        needs = _needs(observer, unmet)
        return needs is not None and group in needs and _fits_together(observer, needs)
    gangs, needed, pending = [group], 1, list(uids)
    if not has_quorum(observer, group):
        gangs += [other for other in first.bundle if not has_quorum(observer, other)]
        if not all(_is_complete(observer, other) for other in gangs):
            return False
        needed = max(1, first.min_available - len(placed))
        is_plain = not first.copies and not any(_roles(observer, other) for other in gangs)
        if len(gangs) > 1 or first.bundle or not is_plain:
            pending = [u for other in gangs for u in observer.members(other)]
            pending = [uid for uid in pending if uid not in observer.placed]
            needed = len(pending)
    elif first.copies:
        return any(_fits(observer, [group], uids) for uids in _new_copies(observer, group))
    return _fits(observer, gangs, pending, needed)


def _fits(
    observer: Observer, gangs: Sequence[str], uids: Sequence[str], needed: int | None = None
) -> bool:
    """Return whether members of gangs fit, each gang within one value; all of them by default."""
    least = len(uids) if needed is None else needed
    values = [[(other, value) for value in _values(observer, other)] for other in gangs]
    return any(_fit(observer, uids, dict(chosen), least) for chosen in product(*values))


def _unmet(observer: Observer, group: str) -> str:
    """Return what above a gang does not stand, the topmost first; itself; or ""."""
    above = list(ancestors(observer.parents, observer.pods[observer.members(group)[0]].parent))
    for name in reversed(above):
        if not stands(observer, name, lambda gang: has_quorum(observer, gang)):
            return name
    return "" if has_quorum(observer, group) else group


def _needs(observer: Observer, name: str) -> dict[str, list[str]] | None:
    """Return the pending members with which a gang or parent stands, by gang; None if too few.

    Of a parent, those of all children that are complete, so that no choice is required.
    """
    if name not in observer.parents:
        members = observer.members(name)
        return {name: _minimum(observer, members)} if _is_complete(observer, name) else None
    gangs, parents = children(observer, name)
    known = {gang: {} if has_quorum(observer, gang) else _needs(observer, gang) for gang in gangs}
    for each in parents:
        is_met = stands(observer, each, lambda gang: has_quorum(observer, gang))
        known[each] = {} if is_met else _needs(observer, each)
    able = [each for each in known.values() if each is not None]
    if len(able) < observer.parents[name].min_groups:
        return None
    return {gang: uids for each in able for gang, uids in each.items()}


def _minimum(observer: Observer, members: Sequence[str]) -> list[str]:
    """Return the pending members that a complete gang needs; all of them if they are unlike."""
    pending = [uid for uid in members if uid not in observer.placed]
    first = observer.pods[members[0]]
    is_alike = not (observer.spec.mixed_requests or first.roles or first.copies)
    return pending[: first.min_available - len(members) + len(pending)] if is_alike else pending


def _fits_together(observer: Observer, needs: Mapping[str, Sequence[str]]) -> bool:
    return _fits(observer, list(needs), [uid for uids in needs.values() for uid in uids])


def _new_copies(observer: Observer, group: str) -> Iterator[list[str]]:
    """Yield the members of each copy of a gang that are enough, and of which none is placed."""
    copies: dict[int | None, list[str]] = {}
    for uid in observer.members(group):
        copies.setdefault(observer.pods[uid].copy, []).append(uid)
    for uids in copies.values():
        is_new = not any(uid in observer.placed for uid in uids)
        if is_new and len(uids) >= observer.pods[uids[0]].copy_size:
            yield uids


def _is_complete(observer: Observer, group: str) -> bool:
    members = observer.members(group)
    roles = [observer.pods[uid].role for uid in members]
    enough = all(roles.count(role) >= n for role, n in _roles(observer, group).items())
    if not members or not enough:
        return False
    first, number = observer.pods[members[0]], len(members)
    if first.copies:
        number = whole_copies(observer.pods[uid] for uid in members) * first.copy_size
    return number >= first.min_available


def _roles(observer: Observer, group: str) -> Mapping[str, int]:
    members = observer.members(group)
    return observer.pods[members[0]].roles if members else {}


def _values(observer: Observer, group: str) -> Iterator[str | None]:
    """Yield the values of its topology key that a gang may be placed in; None without a key."""
    members = observer.members(group)
    key = observer.pods[members[0]].topology_key
    if key is None:
        yield None
        return
    nodes = [observer.placed[uid] for uid in members if uid in observer.placed] or observer.nodes
    yield from {observer.labels[name][key]: None for name in nodes if key in observer.labels[name]}


def _fit(
    observer: Observer, uids: Iterable[str], chosen: Mapping[str, str | None], needed: int
) -> bool:
    """Return whether pods fit in any order, each gang within the topology value chosen for it."""
    tainted = dict.fromkeys(taint for taints in observer.taints.values() for taint in taints)
    requests: list[Mapping[str, int]] = []
    for uid in uids:
        pod = observer.pods[uid]
        value = chosen.get(pod.group or "")
        in_value = {} if value is None else {f"{pod.topology_key}={value}": 1}
        untainted = {f"without {taint}": 1 for taint in tainted if taint not in pod.tolerates}
        requests.append({**pod.requests, **in_value, **untainted})
    free = observer.free()
    for name, capacity in free.items():
        labels, taints = observer.labels[name], observer.taints[name]
        capacity.update({f"{k}={value}": _UNLIMITED for k, value in labels.items()})
        capacity.update({f"without {t}": _UNLIMITED for t in tainted if t not in taints})
    return fit_in_any_order(requests, free, needed)
