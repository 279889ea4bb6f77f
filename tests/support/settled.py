"""A scheduler that decides until it has nothing left to decide, with a host that binds at once."""

from __future__ import annotations

from gangsched import Effect, InMemoryCluster, Scheduler
from gangsched.events import Bind, Bound

__all__ = ["settle"]


def settle(
    cluster: InMemoryCluster, scheduler: Scheduler, *, most: int = 100, now: float = 0.0
) -> list[Effect]:
    """Make decisions until there is none to make, and report each bind.

    Raises:
        AssertionError: After *most* decisions there was still one to make.
    """
    seen: list[Effect] = []
    for _ in range(most):
        effects = scheduler.schedule_one(now=now)
        scheduler._check()
        if effects is None:
            return seen
        seen += effects
        for effect in effects:
            if isinstance(effect, Bind):
                event = Bound(effect.uid, effect.node, effect.attempt)
                seen += scheduler.handle(cluster.apply(event), now=now)
    raise AssertionError("the scheduler does not come to an end")
