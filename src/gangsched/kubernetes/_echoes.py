"""A scheduler that is told of a bind once, although it is reported twice.

The end of our own bind comes by two ways: the answer to the request, and the watch. Whichever comes
first confirms the bind. The other one would make the scheduler read the pod and its node again, for
nothing: that is a fifth of the work for a pod.

Rules:
  R1  a call is left out only if reading the pod again changes nothing: the cluster state shows the
      very object that it showed when the scheduler confirmed the bind;
  R2  what is remembered is bounded. What is forgotten is read again.
"""

from __future__ import annotations

from typing import Final, final

from gangsched.drivers._contract import DrivenScheduler
from gangsched.events import Bound, Effect, Event, PodDeleted, PodScheduled, PodUpdated
from gangsched.kubernetes._forwarded import ForwardedCalls
from gangsched.model import Pod, PodUID
from gangsched.protocols import ClusterState

__all__ = ["WithoutEchoes"]


_MOST: Final = 4096


@final
class WithoutEchoes(ForwardedCalls):
    """The calls of a scheduler, without those that change nothing after a bind.

    Args:
        driven: The scheduler, or a wrapper of it.
        cluster: The cluster state that it reads.

    Attributes:
        left_out: How many calls were left out.
    """

    __slots__ = ("_cluster", "_confirmed", "left_out")

    def __init__(self, driven: DrivenScheduler, cluster: ClusterState) -> None:
        super().__init__(driven)
        self._cluster = cluster
        self._confirmed: dict[PodUID, Pod] = {}
        self.left_out = 0

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.handle``."""
        news = events
        if self._confirmed:
            news = tuple([event for event in events if not self._is_echo(event)])
            self.left_out += len(events) - len(news)
            if not news:
                return ()
        return self._seen(self._driven.handle(*news, now=now))

    def _is_echo(self, event: Event) -> bool:
        """Return whether the pod of an event is what it was when its bind was confirmed."""
        match event:
            case PodUpdated(pod):
                uid = pod.uid
            case Bound(uid) | PodDeleted(uid):
                pass
            case _:
                return False
        confirmed = self._confirmed.pop(uid, None)
        return confirmed is not None and confirmed is self._cluster.pod(uid)

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.advance``."""
        return self._seen(self._driven.advance(now=now))

    def _seen(self, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
        for effect in effects:
            if isinstance(effect, PodScheduled):
                pod = self._cluster.pod(effect.uid)
                if pod is not None:
                    self._confirmed[effect.uid] = pod
                    if len(self._confirmed) > _MOST:
                        del self._confirmed[next(iter(self._confirmed))]
        return effects
