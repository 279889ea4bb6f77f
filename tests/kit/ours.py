"""Our own scheduler in the ways in which it is held to the laws, with what it promises in each."""

from __future__ import annotations

from functools import partial
from typing import Final

from attrs import frozen

from gangsched import (
    ClusterState,
    Coscheduling,
    Profile,
    Scheduler,
    SchedulingUnit,
    WhenBlocked,
    presets,
)
from gangsched.model import NodeName, Pod
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.plugins import DefaultBinder, NodeResources, TaintToleration
from gangsched.protocols import CycleView
from gangsched.testing import Terms

__all__ = ["WAYS", "Way", "picky"]


@frozen
class Way:
    """A way to make it, and what it promises then."""

    make: partial[Scheduler]
    terms: Terms


class Picky:
    """Turns down every third pod that is about to be bound, the first time."""

    name = "Picky"

    def __init__(self) -> None:
        self.asked = 0
        self.refused: set[str] = set()

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Turn it down, or not."""
        self.asked += 1
        if self.asked % 3 or pod.uid in self.refused:
            return SUCCESS
        self.refused.add(pod.uid)
        return Unschedulable("not at first")


def picky(cluster: ClusterState, unit: SchedulingUnit) -> Scheduler:
    """Return a scheduler with a plugin that turns down members when all seems settled."""
    profile = Profile(Coscheduling(), TaintToleration(), NodeResources(), Picky(), DefaultBinder())
    return Scheduler(cluster, profile, unit=unit)


_RESTS: Final = Terms(rest_at_least=1.0)
_NEVER_HOLDS: Final = Terms(rest_at_least=1.0, hold_timeout=0.0)
_POD: Final = partial(presets.coscheduling, unit=SchedulingUnit.POD)
_UNLIKE: Final = Terms(rest_at_least=1.0, unlike=True, resources=("cpu", "gpu"))

WAYS: Final = {
    "pod": Way(_POD, _RESTS),
    "group": Way(partial(presets.coscheduling, unit=SchedulingUnit.GROUP), _NEVER_HOLDS),
    "pod, until timeout": Way(partial(_POD, when_blocked=WhenBlocked.UNTIL_TIMEOUT), _RESTS),
    "pod, at once": Way(partial(_POD, when_blocked=WhenBlocked.AT_ONCE), _RESTS),
    "pod, unlike members": Way(_POD, _UNLIKE),
    "group, unlike members": Way(partial(presets.coscheduling, unit=SchedulingUnit.GROUP), _UNLIKE),
    "pod, some turned down": Way(partial(picky, unit=SchedulingUnit.POD), _RESTS),
    "group, some turned down": Way(partial(picky, unit=SchedulingUnit.GROUP), _RESTS),
}
