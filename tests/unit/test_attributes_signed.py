"""A plugin is not asked for the signature of a pod that sets nothing which the plugin signs."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any, Final

import pytest
from attrs import evolve, field, frozen

import gangsched.plugins
from gangsched import (
    Disk,
    HostPort,
    InMemoryCluster,
    LabelSelector,
    NodeAdded,
    Pod,
    PodAdded,
    PodAffinityTerm,
    Profile,
    Scheduler,
    Toleration,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
    presets,
)
from gangsched.errors import ProfileError
from gangsched.framework.runtime import signatures
from gangsched.outcomes import SUCCESS, Outcome
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    PrioritySort,
    ScoringPodTopologySpread,
    TaintToleration,
)
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import check_plugin, make_node, make_pod

PLAIN: Final = make_pod("plain")
LABELS: Final = LabelSelector({"app": "a"})
AFFINE: Final = PodAffinityTerm(topology_key="zone", label_selector=LABELS)
SPREAD: Final = TopologySpreadConstraint(max_skew=1, topology_key="zone", label_selector=LABELS)
SET: Final[dict[str, Any]] = {
    "node_selector": {"zone": "a"},
    "tolerations": (Toleration("dedicated", "Exists"),),
    "pod_affinity": (AFFINE,),
    "pod_anti_affinity": (AFFINE,),
    "preferred_pod_affinity": (WeightedPodAffinityTerm(weight=1, pod_affinity_term=AFFINE),),
    "preferred_pod_anti_affinity": (WeightedPodAffinityTerm(weight=1, pod_affinity_term=AFFINE),),
    "topology_spread_constraints": (SPREAD,),
    "host_ports": (HostPort(80),),
    "required_features": ("x",),
    "volume_claims": (VolumeClaim("c"),),
    "disks": (Disk("gcePersistentDisk", "d"),),
}
"""For each constraint a value that is not the default."""


def ours() -> list[Any]:
    kinds = [getattr(gangsched.plugins, name) for name in gangsched.plugins.__all__]
    found = [kind for kind in kinds if hasattr(kind, "attributes_signed")]
    return [kind() for kind in found]


@frozen
class Audience:
    """Signs the priority, and counts how often it is asked."""

    asked: list[str] = field(factory=list[str])
    attributes_signed: Any = ("priority",)

    @property
    def name(self) -> str:
        return "Audience"

    def pod_signature(self, pod: Pod) -> Hashable:
        self.asked.append(pod.name)
        return pod.priority or None

    def node_signature(self, node: NodeView) -> Hashable:
        return None

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


def profile_of(*plugins: object) -> Profile:
    return Profile(PrioritySort(), *plugins, NodeResources(), DefaultBinder())


def parts(profile: Profile, pod: Pod) -> tuple[Hashable, ...]:
    return signatures._parts(profile.signing, pod)


@pytest.mark.parametrize("plugin", ours(), ids=lambda plugin: type(plugin).__name__)
def test_plugin_signs_none_for_a_pod_without_the_attributes_that_it_names(plugin: Any) -> None:
    declared = plugin.attributes_signed
    assert declared
    others = {name: value for name, value in SET.items() if name not in declared}
    for name, value in others.items():
        assert plugin.pod_signature(evolve(PLAIN, **{name: value})) is None, name
    assert plugin.pod_signature(evolve(PLAIN, labels={"app": "a"}, **others)) is None
    check_plugin(plugin)


@pytest.mark.parametrize("name", SET)
def test_signature_of_a_pod_with_one_constraint_is_that_of_all_plugins(name: str) -> None:
    profile = presets.gang(InMemoryCluster())._state.settings.profile
    pod = evolve(PLAIN, labels={"app": "a"}, **{name: SET[name]})
    assert parts(profile, pod) == tuple(each.pod_signature(pod) for each in profile.signers)
    preferred = name.startswith("preferred")  # read by the plugins that score
    assert (parts(profile, pod) == parts(profile, PLAIN)) is preferred


def test_plugin_is_asked_only_about_pods_that_set_what_it_signs() -> None:
    audience = Audience()
    profile = profile_of(audience)
    assert parts(profile, PLAIN) == (None, PLAIN.requests)
    assert audience.asked == []
    assert parts(profile, evolve(PLAIN, priority=3)) == (3, PLAIN.requests)
    assert audience.asked == ["plain"]


def test_plugin_that_names_no_attributes_is_asked_about_every_pod() -> None:
    audience = Audience(attributes_signed=None)
    assert parts(profile_of(audience), PLAIN) == (None, PLAIN.requests)
    assert audience.asked == ["plain"]


class OnlyTheSignature(TaintToleration):
    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.priority


class Both(TaintToleration):
    @property
    def attributes_signed(self) -> Collection[str]:
        return ("priority",)

    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.priority or None


@pytest.mark.parametrize("kind", [OnlyTheSignature, Both])
def test_subclass_with_another_signature_is_asked(kind: type[Any]) -> None:
    profile = profile_of(kind())
    urgent = evolve(PLAIN, priority=3)
    assert parts(profile, urgent) == (3, PLAIN.requests)
    assert parts(profile, evolve(PLAIN, tolerations=SET["tolerations"]))[0] == kind().pod_signature(
        PLAIN
    )


def test_plugin_with_default_constraints_is_asked_about_pods_without_constraints() -> None:
    plugin = ScoringPodTopologySpread(
        default_constraints=(evolve(SPREAD, when_unsatisfiable="ScheduleAnyway"),),
        default_selector=lambda pod: LabelSelector({"app": pod.labels.get("app", "")}),
    )
    assert plugin.attributes_signed is None
    assert plugin.pod_signature(evolve(PLAIN, labels={"app": "a"})) is not None


def test_scoring_spread_signs_hard_constraints_too() -> None:
    hard = evolve(PLAIN, topology_spread_constraints=(SPREAD,))
    assert ScoringPodTopologySpread().pod_signature(hard) is not None


@pytest.mark.parametrize("given", ["priority", ("height",), ("name",), ("uid",), 7, ([],)])
def test_malformed_attributes_are_refused_by_name_and_value(given: Any) -> None:
    with pytest.raises(ProfileError, match="attributes_signed: 'Audience' has ") as caught:
        profile_of(Audience(attributes_signed=given))
    assert repr(given) in str(caught.value)


def test_check_plugin_finds_a_signature_of_what_is_not_named() -> None:
    class Careless(TaintToleration):
        @property
        def attributes_signed(self) -> Collection[str]:
            return ("priority",)

        def pod_signature(self, pod: Pod) -> Hashable:
            return (pod.priority, pod.tolerations)

    with pytest.raises(AssertionError, match=r"pod_signature: is \(0, \(\)\) for .* sets none of"):
        check_plugin(Careless())


@frozen
class Counted(NodeAffinity):
    """Counts how often it is asked what it reads of a pod."""

    asked: list[str] = field(factory=list[str])

    def labels_read(self, pod: Pod) -> Collection[str]:
        self.asked.append(pod.name)
        return tuple(super().labels_read(pod))


def arrive(scheduler: Scheduler, cluster: InMemoryCluster, *pods: Pod) -> None:
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)


def test_plugins_are_asked_once_what_they_read_of_pods_of_one_class() -> None:
    counted, cluster = Counted(), InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=9)))
    scheduler = Scheduler(cluster, profile_of(counted))
    pods = [make_pod(f"p{n}", cpu=1) for n in range(5)]
    arrive(scheduler, cluster, *pods)
    assert counted.asked == ["p0"]
    arrive(scheduler, cluster, make_pod("other", cpu=2))
    assert counted.asked == ["p0", "other"]
