"""The presets that a story is told for: one scheduler for each, from the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pytest

from gangsched import ClusterState, Coscheduling, Scheduler, SchedulingUnit, presets

__all__ = ["GANG_PRESETS", "PRESETS", "WAITING_PRESETS", "Preset", "each_of"]


Preset: TypeAlias = Callable[..., Scheduler]
"""Creates a scheduler for a cluster; the presets share the arguments that stories give."""


def _scored(cluster: ClusterState, /, **arguments: Any) -> Scheduler:
    return presets.kube_default(cluster, policy=Coscheduling(), **arguments)


def _scored_whole(cluster: ClusterState, /, **arguments: Any) -> Scheduler:
    return _scored(cluster, unit=SchedulingUnit.GROUP, **arguments)


WAITING_PRESETS: Final[Mapping[str, Preset]] = {
    "coscheduling": presets.coscheduling,
    "kube_default with gangs": _scored,
}
"""Members hold nodes while they wait on permit for their siblings."""

GANG_PRESETS: Final[Mapping[str, Preset]] = {
    "gang": presets.gang,
    **WAITING_PRESETS,
    "kube_default with whole gangs": _scored_whole,
}

PRESETS: Final[Mapping[str, Preset]] = {
    **GANG_PRESETS,
    "kube_default": presets.kube_default,
    "pod_by_pod": presets.pod_by_pod,
}


def each_of(made: Mapping[str, Preset]) -> pytest.MarkDecorator:
    """Run a test, which has the argument ``preset``, once for each preset."""
    return pytest.mark.parametrize("preset", made.values(), ids=made)
