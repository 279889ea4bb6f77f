"""A held pod says what holds it now, also after another constraint has taken the place of one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched import (
    ClusterState,
    Coscheduling,
    Pod,
    PodNotAdmitted,
    PodRefused,
    Scheduler,
    presets,
)
from support.story import Story, Way, each_way

Preset = Callable[[ClusterState], Scheduler]


def kube_default(cluster: ClusterState) -> Scheduler:
    return presets.kube_default(cluster, policy=Coscheduling())


every_preset = pytest.mark.parametrize(
    "preset",
    [presets.gang, presets.coscheduling, kube_default],
    ids=["gang", "coscheduling", "kube_default"],
)


@each_way
@every_preset
def test_held_pod_is_told_when_another_constraint_holds_it(preset: Preset, way: Way) -> None:
    story = Story(preset, way)
    story.add(Pod(name="p", unmodelled=("spec.one",)))
    story.decide()
    story.interrupt()
    story.update("p", unmodelled=("spec.two",))
    assert "spec.two" in story.of(PodNotAdmitted)[-1].reason
    assert "spec.two" in str(story.scheduler.why("default/p"))
    count = len(story.of(PodNotAdmitted))
    story.update("p", labels={"a": "b"})
    assert len(story.of(PodNotAdmitted)) == count


@each_way
@every_preset
def test_refused_pod_is_told_when_it_is_refused_for_something_else(
    preset: Preset, way: Way
) -> None:
    label = "pod-group.scheduling.sigs.k8s.io/min-available"
    name = "pod-group.scheduling.sigs.k8s.io/name"
    story = Story(preset, way)
    story.add(Pod(name="p", labels={name: "g", label: "two"}))
    story.decide()
    story.interrupt()
    story.update("p", labels={name: "g", label: "three"})
    assert "three" in story.of(PodRefused)[-1].reason
    count = len(story.of(PodRefused))
    story.update("p", annotations={"a": "b"})
    assert len(story.of(PodRefused)) == count
