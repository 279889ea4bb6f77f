"""Who would surely start, alone on what is free.

Rules:
  R1  labels and taints are rooms, too: a node in zone *a* offers any number of places in zone *a*,
      and one without a taint any number of places without it;
  R2  a gang that needs certain roles, and a bundle, fit when all of their pending members do:
      so nobody is asked to choose well among them;
  R3  a gang within one value of a label fits when it fits in one of them: there are few, and who
      knows of topology can try each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from gangsched.testing._fits import surely_fit
from gangsched.testing._ledger import Ledger
from gangsched.testing._starts import is_settled

__all__ = ["fitting"]

_ANY_NUMBER: Final = 1_000


def fitting(ledger: Ledger) -> list[str]:
    """Return who would surely start, alone on what is free: gangs, bundles and pods, in words."""
    found: list[str] = []
    for name, uids in ledger.pending().items():
        group = ledger.pods[uids[0]].group
        if group is None:
            if _fit(ledger, uids, {}, 1):
                found.append(name)
        elif _gang_fits(ledger, group, uids):
            found.append(f"{name} ({', '.join(uids)})")
    return found


def _gang_fits(ledger: Ledger, group: str, uids: Sequence[str]) -> bool:
    first, members = ledger.pods[uids[0]], ledger.members(group)
    there = [uid for uid in members if uid in ledger.placed]
    if there and not ledger.terms.joins:
        return False
    party, needed, everybody = [group], 1, list(uids)
    if not is_settled(ledger, group):
        party += [other for other in first.bundle if not is_settled(ledger, other)]
        if not all(_is_complete(ledger, other) for other in party):
            return False
        needed = max(1, first.min_available - len(there))
        if len(party) > 1 or first.bundle or any(_roles(ledger, other) for other in party):
            everybody = [u for other in party for u in ledger.members(other)]
            everybody = [uid for uid in everybody if uid not in ledger.placed]
            needed = len(everybody)
    values = [[(other, value) for value in _values(ledger, other)] for other in party]
    return any(_fit(ledger, everybody, dict(chosen), needed) for chosen in product(*values))


def _is_complete(ledger: Ledger, group: str) -> bool:
    members = ledger.members(group)
    roles = [ledger.pods[uid].role for uid in members]
    enough = all(roles.count(role) >= n for role, n in _roles(ledger, group).items())
    return enough and bool(members) and len(members) >= ledger.pods[members[0]].min_available


def _roles(ledger: Ledger, group: str) -> Mapping[str, int]:
    members = ledger.members(group)
    return ledger.pods[members[0]].roles if members else {}


def _values(ledger: Ledger, group: str) -> Iterator[str | None]:
    """Yield the values of its label within which a gang may go; None where it names none."""
    members = ledger.members(group)
    key = ledger.pods[members[0]].within
    if key is None:
        yield None
        return
    nodes = [ledger.placed[uid] for uid in members if uid in ledger.placed] or ledger.nodes
    yield from {ledger.labels[name][key]: None for name in nodes if key in ledger.labels[name]}


def _fit(
    ledger: Ledger, uids: Iterable[str], chosen: Mapping[str, str | None], needed: int
) -> bool:
    """Say whether some pods surely fit, each gang within the value that is chosen for it."""
    tainted = dict.fromkeys(taint for taints in ledger.taints.values() for taint in taints)
    requests: list[Mapping[str, int]] = []
    for uid in uids:
        pod = ledger.pods[uid]
        value = chosen.get(pod.group or "")
        within = {} if value is None else {f"{pod.within}={value}": 1}
        without = {f"without {taint}": 1 for taint in tainted if taint not in pod.tolerates}
        requests.append({**pod.requests, **within, **without})
    free = ledger.free()
    for name, room in free.items():
        room.update({f"{k}={value}": _ANY_NUMBER for k, value in ledger.labels[name].items()})
        room.update({f"without {t}": _ANY_NUMBER for t in tainted if t not in ledger.taints[name]})
    return surely_fit(requests, free, needed)
