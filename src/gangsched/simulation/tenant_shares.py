"""How even the shares of tenants are, whatever the scheduler knows of queues.

Rules:
  R1  a tenant is a namespace. It uses what its pods on nodes request, and asks for what all of its
      pods do that have arrived and not ended; each is the largest share of what the nodes offer;
  R2  while a tenant asks for more than it uses, what all of them use together is divided anew: in
      even parts, of which none is more than its tenant asks for. That is the even share;
  R3  fairness is Jain's index of what each tenant used divided by its even share, both over the
      time while R2 holds. Of n tenants it is 1 if each had its even share, and 1/n at the least.
      So it falls only where one tenant has what another one waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from attrs import define, field

from gangsched.events import (
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodUpdated,
)
from gangsched.model import NodeName, Pod, PodUID
from gangsched.resources import NOTHING, Resources
from gangsched.simulation.metrics import largest_share

__all__ = ["TenantTracker", "even_parts"]

_ROUNDING: float = 1e-9


def even_parts(total: float, asked: Sequence[float]) -> list[float]:
    """Divide an amount in even parts, none of which is more than is asked for. O(n log n)."""
    parts = [0.0] * len(asked)
    for left, place in enumerate(sorted(range(len(asked)), key=asked.__getitem__)):
        parts[place] = min(asked[place], total / (len(asked) - left))
        total -= parts[place]
    return parts


@final
@define(eq=False)
class _Tenant:
    """What a tenant asks for and uses, in thousandths, and its shares over time.

    *shares* are of what it asks for and of what it uses, now; None after a change.
    """

    asked: dict[str, int] = field(factory=dict[str, int])
    used: dict[str, int] = field(factory=dict[str, int])
    shares: tuple[float, float] | None = None
    area: float = 0.0
    even_area: float = 0.0


@final
class TenantTracker:
    """Integrates what tenants use over time, from the events of a run."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, Resources] = {}
        self._capacity: Resources = NOTHING
        self._pods: dict[PodUID, tuple[Pod, bool]] = {}
        self._tenants: dict[str, _Tenant] = {}
        self._at = 0.0

    def event(self, event: Event, now: float) -> None:
        """Take in an event; what holds until then is integrated. O(tenants log tenants)."""
        match event:
            case PodAdded(pod) | PodUpdated(pod):
                holds = self._pods[pod.uid][1] if pod.uid in self._pods else False
                self._set(pod.uid, pod, holds or pod.node_name is not None, now)
            case PodDeleted(uid):
                self._set(uid, None, False, now)
            case Bound(uid) if uid in self._pods:
                self._set(uid, self._pods[uid][0], True, now)
            case NodeAdded(node) | NodeUpdated(node):
                self._offer(node.name, node.allocatable, now)
            case NodeDeleted(name):
                self._offer(name, None, now)
            case _:
                pass

    def fairness(self, *, now: float) -> float | None:
        """Return the index of R3; None if no tenant had to wait for another."""
        self._integrate(now)
        found = [each.area / each.even_area for each in self._tenants.values() if each.even_area]
        squares = sum(ratio * ratio for ratio in found)
        return sum(found) ** 2 / (len(found) * squares) if len(found) > 1 and squares else None

    def _set(self, uid: PodUID, pod: Pod | None, holds: bool, now: float) -> None:
        """Note what became of a pod; one that has ended asks for nothing any more."""
        if pod is not None and pod.is_finished:
            pod, holds = None, False
        before = self._pods.get(uid)
        if before == (pod, holds) or (before is None and pod is None):
            return
        self._integrate(now)
        if before is not None:
            self._count(*before, -1)
        if pod is None:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod, holds
            self._count(pod, holds, 1)

    def _count(self, pod: Pod, holds: bool, sign: int) -> None:
        tenant = self._tenants.get(pod.namespace)
        if tenant is None:
            tenant = self._tenants[pod.namespace] = _Tenant()
        tenant.shares = None
        for amounts in (tenant.asked, tenant.used) if holds else (tenant.asked,):
            for name, amount in pod.requests.items():
                amounts[name] = amounts.get(name, 0) + sign * amount

    def _offer(self, name: NodeName, offered: Resources | None, now: float) -> None:
        if self._nodes.get(name) == offered:
            return
        self._integrate(now)
        self._capacity = self._capacity - self._nodes.pop(name, NOTHING) + (offered or NOTHING)
        for tenant in self._tenants.values():
            tenant.shares = None
        if offered is not None:
            self._nodes[name] = offered

    def _integrate(self, now: float) -> None:
        seconds, self._at = now - self._at, max(now, self._at)
        if seconds <= 0:
            return
        found = [(each, *self._shares(each)) for each in self._tenants.values()]
        found = [row for row in found if row[1] > 0]
        if len(found) < 2 or not any(asked > used + _ROUNDING for _one, asked, used in found):
            return
        total = sum(used for _one, _asked, used in found)
        parts = even_parts(total, [asked for _one, asked, _used in found])
        for (tenant, _asked, used), part in zip(found, parts, strict=True):
            tenant.area += used * seconds
            tenant.even_area += part * seconds

    def _shares(self, tenant: _Tenant) -> tuple[float, float]:
        """Return the shares that a tenant asks for and uses. O(resources), O(1) if known."""
        if tenant.shares is None:
            amounts = (tenant.asked, tenant.used)
            asked, used = (largest_share(each, self._capacity)[0] for each in amounts)
            tenant.shares = asked, used
        return tenant.shares
