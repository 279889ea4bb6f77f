"""An observer that checks what must hold of restarts, whatever happens.

Rules:
  R1  a member is bound only if no pod of its group is on a node that was there at the last restart;
  R2  the restarts of a group are counted by one, and never beyond its limit;
  R3  no member is bound before the backoff of the restart is over.
"""

from __future__ import annotations

from typing import TypeVar

from gangsched import (
    Bind,
    ClusterState,
    Effect,
    Event,
    GroupKey,
    GroupRestarted,
    PodUID,
    membership,
)

__all__ = ["RestartLaw"]

T = TypeVar("T")


class RestartLaw:
    """Sees every effect of a scheduler on a cluster, and keeps it with its instant."""

    def __init__(self) -> None:
        self.cluster: ClusterState | None = None
        self.seen: list[tuple[float, Effect]] = []
        self._old: dict[GroupKey, set[PodUID]] = {}
        self._last: dict[GroupKey, GroupRestarted] = {}

    def of(self, kind: type[T]) -> list[tuple[float, T]]:
        return [(at, effect) for at, effect in self.seen if isinstance(effect, kind)]

    def event(self, event: Event, now: float) -> None:
        pass

    def settled(self, now: float) -> None:
        pass

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        self.seen += [(now, effect) for effect in effects]
        for effect in effects:
            if isinstance(effect, GroupRestarted):
                self._restarted(effect)
            elif isinstance(effect, Bind):
                self._bind(effect, now)

    def _restarted(self, notice: GroupRestarted) -> None:
        last = self._last.get(notice.group)
        assert notice.restarts == (1 if last is None else last.restarts + 1)
        assert notice.restarts <= notice.limit
        self._last[notice.group] = notice
        self._old[notice.group] = self._on_nodes(notice.group)

    def _bind(self, bind: Bind, now: float) -> None:
        assert self.cluster is not None
        pod = self.cluster.pod(bind.uid)
        claim = None if pod is None else membership(pod)
        if claim is None or claim.group not in self._last:
            return
        assert now >= self._last[claim.group].until, "a restart backs off"
        left = self._old[claim.group] & self._on_nodes(claim.group)
        assert not left, f"{bind.uid} is placed beside {left}, which are to go"

    def _on_nodes(self, key: GroupKey) -> set[PodUID]:
        assert self.cluster is not None
        found = set[PodUID]()
        for pod in self.cluster.pods():
            claim = membership(pod)
            is_member = claim is not None and claim.group == key
            if is_member and pod.node_name is not None and not pod.is_finished:
                found.add(pod.uid)
        return found
