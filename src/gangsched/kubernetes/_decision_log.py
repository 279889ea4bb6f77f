"""A log record of each decision: what was decided about which pod or group, and how long it took.

The records carry fields, and not only text: ``JsonFormatter`` writes them as keys of their own, so
that a store of logs can be asked for all decisions about one gang.

- ``pod assigned``: ``pod``, ``group``, ``node``, ``attempt``, ``seconds``.
- ``pod waits on permit``: ``pod``, ``group``, ``node``, ``attempt``, ``seconds``.
- ``pod is unschedulable``: ``pod``, ``group``, ``reason``, ``seconds``.
- ``gang scheduled``: ``group``, ``attempt``, ``members``, ``seconds``.
- ``gang rejected``: ``group``, ``attempt``, ``reason``, ``seconds``.
- ``gang waits``: ``group``, ``reason``; of one that is not tried, by ``Effects``.

Rules:
  R1  ``seconds`` is the duration of the decision, which is one for all members of a gang;
  R2  effects are returned as they are; nothing is decided here;
  R3  the records are of the level INFO, of a logger of their own. If that is not enabled when the
      scheduler begins, no decision is looked at.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, final

from gangsched.drivers._contract import DrivenScheduler
from gangsched.events import (
    Bind,
    Effect,
    GroupRejected,
    GroupScheduled,
    PodUnschedulable,
    PodWaiting,
)
from gangsched.kubernetes._forwarded import ForwardedCalls
from gangsched.model import GroupKey, Pod, PodUID
from gangsched.protocols import ClusterState

__all__ = ["LOGGER", "LoggedDecisions", "logged"]


LOGGER: Final = "gangsched.kubernetes.decisions"
_log = logging.getLogger(LOGGER)


def logged(
    driven: DrivenScheduler,
    cluster: ClusterState,
    group: Callable[[Pod], GroupKey | None],
) -> DrivenScheduler:
    """Return a scheduler whose decisions are logged; *driven* itself if the logger is silent."""
    if not _log.isEnabledFor(logging.INFO):
        return driven
    return LoggedDecisions(driven, cluster, group)


@final
class LoggedDecisions(ForwardedCalls):
    """The calls of a scheduler, with a record of each decision.

    Args:
        driven: The scheduler, or a wrapper of it.
        cluster: The cluster state that it reads.
        group: Returns the group of a pod; None for a pod without one.
        clock: Seconds, to measure the duration of a decision.
    """

    __slots__ = ("_clock", "_cluster", "_group")

    def __init__(
        self,
        driven: DrivenScheduler,
        cluster: ClusterState,
        group: Callable[[Pod], GroupKey | None],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(driven)
        self._cluster = cluster
        self._group = group
        self._clock = clock

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """See ``Scheduler.schedule_one``."""
        began = self._clock()
        effects = self._driven.schedule_one(now=now)
        if effects:
            seconds = round(self._clock() - began, 6)
            for effect in effects:
                self._record(effect, seconds)
        return effects

    def _record(self, effect: Effect, seconds: float) -> None:
        match effect:
            case Bind(uid, node, attempt):
                more = {"node": node, "attempt": attempt, "seconds": seconds}
                _log.info("pod assigned", extra=self._pod(uid) | more)
            case PodWaiting(uid, node):
                more = {"node": node, "attempt": effect.attempt, "seconds": seconds}
                _log.info("pod waits on permit", extra=self._pod(uid) | more)
            case PodUnschedulable(uid, reason):
                more = {"reason": reason, "seconds": seconds}
                _log.info("pod is unschedulable", extra=self._pod(uid) | more)
            case GroupScheduled(group, attempt, scheduled):
                named = {"group": group, "attempt": attempt, "members": scheduled}
                _log.info("gang scheduled", extra={**named, "seconds": seconds})
            case GroupRejected(group, attempt, reason):
                named = {"group": group, "attempt": attempt, "reason": reason}
                _log.info("gang rejected", extra={**named, "seconds": seconds})
            case _:
                pass

    def _pod(self, uid: PodUID) -> dict[str, object]:
        """Return the fields that name a pod: its key, or its UID if it is gone."""
        pod = self._cluster.pod(uid)
        if pod is None:
            return {"pod": uid}
        group = self._group(pod)
        return {"pod": pod.key} if group is None else {"pod": pod.key, "group": group}
