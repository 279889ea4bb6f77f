"""Like members of a gang are evaluated once for each placement, even if scores are normalized."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Coscheduling,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    presets,
)
from gangsched.framework.runtime import filter_and_score, signatures
from gangsched.plugins import ImageLocality
from gangsched.testing import make_node, make_pod


def gang(members: int, nodes: int, *plugins: object, images: Sequence[str] = ("a:1",)) -> Scheduler:
    """Return a scheduler of the kube-scheduler profile with a gang on nodes that are unlike."""
    cluster = InMemoryCluster()
    for n in range(nodes):
        cluster.apply(NodeAdded(make_node(f"n{n}", allocatable={"cpu": f"{8_000 + n}m"})))
    for m in range(members):
        pod = make_pod(f"w-{m}", group="g", min_available=members, cpu=2)
        cluster.apply(PodAdded(evolve(pod, images=(images[m % len(images)],))))
    profile = presets.kube_default_profile(Coscheduling(), plugins=plugins)
    return Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the members for which the nodes are evaluated."""
    found: list[str] = []
    original = filter_and_score.evaluate_nodes

    def counted(settings: Any, nodes: Any, cycle: Any, member: Any, now: float) -> Any:
        found.append(member.pod.name)
        return original(settings, nodes, cycle, member, now)

    monkeypatch.setattr(filter_and_score, "evaluate_nodes", counted)
    return found


def test_like_members_are_evaluated_once_though_scores_are_normalized(
    evaluations: list[str],
) -> None:
    scheduler = gang(30, 20)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert sum(isinstance(effect, Bind) for effect in effects) == 30
    assert evaluations == ["w-0"]


def test_members_with_other_images_are_evaluated_by_themselves(evaluations: list[str]) -> None:
    scheduler = gang(30, 20, images=("a:1", "b:1", "c:1"))
    scheduler.schedule_one(now=0.0)
    assert evaluations == ["w-0", "w-1", "w-2"]


class Unsigned:
    """A filter that says nothing of what it reads."""

    name = "Unsigned"

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return Success() if pod.name != "w-2" else Unschedulable("not this one")


def test_members_are_evaluated_one_by_one_with_a_plugin_that_signs_nothing(
    evaluations: list[str],
) -> None:
    scheduler = gang(3, 4, Unsigned())
    effects = scheduler.schedule_one(now=0.0) or ()
    assert not any(isinstance(effect, Bind) for effect in effects)
    assert evaluations == ["w-0", "w-1", "w-2"]


class Prepares:
    """A ``pre_score`` that reads the name of a pod, and does not say so."""

    name = "Prepares"

    def pre_score(self, state: Any, pod: Any, nodes: Any, *, now: float) -> Any:
        return Success()


def test_plugin_that_only_prepares_scores_has_to_sign_too(evaluations: list[str]) -> None:
    gang(3, 4, Prepares()).schedule_one(now=0.0)
    assert evaluations == ["w-0", "w-1", "w-2"]


class Refuses(Prepares):
    """Refuses all members when scores are prepared."""

    def pod_signature(self, pod: Any) -> Hashable:
        return None

    def pre_score(self, state: Any, pod: Any, nodes: Any, *, now: float) -> Any:
        return Unschedulable("not yet")


def test_members_like_one_that_is_refused_before_scoring_are_refused_with_it(
    evaluations: list[str],
) -> None:
    effects = gang(30, 4, Refuses()).schedule_one(now=0.0) or ()
    assert not any(isinstance(effect, Bind) for effect in effects)
    assert evaluations == ["w-0"]


def test_signature_that_raises_or_cannot_be_hashed_stands_for_one_pod_alone() -> None:
    # final for users; here all else of it is needed
    class Broken(ImageLocality):  # type: ignore[misc]
        def signature_in_cycle(self, pod: Any) -> Any:
            return [] if pod.name == "w-0" else 1 / 0

    pods = [make_pod("w-0"), make_pod("w-1")]
    profile = Profile(*presets.default_profile().plugins, Broken())
    scheduler = Scheduler(InMemoryCluster(), profile)
    settings = scheduler._state.settings
    assert [signatures.within_cycle(settings, pod) for pod in pods] == [pod.uid for pod in pods]
