"""The variants of gangsched schedulers that the kit checks, each with its spec."""

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
from gangsched.testing import SchedulerSpec

__all__ = ["VARIANTS", "Variant", "refusing"]


@frozen
class Variant:
    """A factory of schedulers, and their spec."""

    make: partial[Scheduler]
    spec: SchedulerSpec


class RefusingPlugin:
    """Refuses the first ``pre_bind`` of every third pod."""

    name = "RefusingPlugin"

    def __init__(self) -> None:
        self.asked = 0
        self.refused: set[str] = set()

    def pre_bind(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Refuse the pod, or not."""
        self.asked += 1
        if self.asked % 3 or pod.uid in self.refused:
            return SUCCESS
        self.refused.add(pod.uid)
        return Unschedulable("not at first")


def refusing(cluster: ClusterState, unit: SchedulingUnit) -> Scheduler:
    """Return a scheduler with a plugin that refuses some released members."""
    profile = Profile(
        Coscheduling(), TaintToleration(), NodeResources(), RefusingPlugin(), DefaultBinder()
    )
    return Scheduler(cluster, profile, unit=unit)


_WITH_BACKOFF: Final = SchedulerSpec(min_backoff=1.0)
_NO_WAITING: Final = SchedulerSpec(min_backoff=1.0, permit_timeout=0.0)
_POD: Final = partial(presets.coscheduling, unit=SchedulingUnit.POD)
_MIXED: Final = SchedulerSpec(min_backoff=1.0, mixed_requests=True, resources=("cpu", "gpu"))

VARIANTS: Final = {
    "pod": Variant(_POD, _WITH_BACKOFF),
    "group": Variant(partial(presets.coscheduling, unit=SchedulingUnit.GROUP), _NO_WAITING),
    "pod, until timeout": Variant(
        partial(_POD, when_blocked=WhenBlocked.UNTIL_TIMEOUT), _WITH_BACKOFF
    ),
    "pod, at once": Variant(partial(_POD, when_blocked=WhenBlocked.AT_ONCE), _WITH_BACKOFF),
    "pod, mixed requests": Variant(_POD, _MIXED),
    "group, mixed requests": Variant(
        partial(presets.coscheduling, unit=SchedulingUnit.GROUP), _MIXED
    ),
    "pod, some refused": Variant(partial(refusing, unit=SchedulingUnit.POD), _WITH_BACKOFF),
    "group, some refused": Variant(partial(refusing, unit=SchedulingUnit.GROUP), _WITH_BACKOFF),
}
