"""Claims for storage, disks and limits of drivers: where pods with volumes may go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Disk,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectChanged,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
    Scheduler,
    VolumeChoice,
    VolumeClaim,
    presets,
)
from gangsched.cluster_objects import (
    ClusterObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from support.fingerprint import fingerprint

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)
FAST = StorageClass(name="fast", provisioner="csi.example.com", waits=True)
NOW = StorageClass(name="now", provisioner="csi.example.com")
ONCE = ("ReadWriteOnce",)


class Host:
    """A cluster of nodes a, b, c in the zones 1, 2 and 2; every bind is performed at once."""

    def __init__(self, *objects: ClusterObject, unit: str = "pod", binds: bool = True) -> None:
        self.cluster, self.now, self.binds = InMemoryCluster(), 0.0, binds
        self.scheduler: Scheduler = (
            presets.gang(self.cluster) if unit == "group" else presets.coscheduling(self.cluster)
        )
        for name, zone in (("a", "1"), ("b", "2"), ("c", "2")):
            self.tell(
                NodeAdded(
                    Node(
                        name=NodeName(name),
                        allocatable={"cpu": 8},
                        labels={HOST: name, ZONE: zone},
                    )
                )
            )
        for one in objects:
            self.tell(ObjectChanged(one))

    def tell(self, *events: Any) -> list[Any]:
        effects: list[Any] = []
        for event in events:
            effects += self.scheduler.handle(self.cluster.apply(event), now=self.now)
            effects += self.run()
        return effects

    def run(self) -> list[Any]:
        effects: list[Any] = []
        while (more := self.scheduler.schedule_one(now=self.now)) is not None:
            for effect in more:
                effects.append(effect)
                if isinstance(effect, Bind) and self.binds:
                    bound = Bound(effect.uid, effect.node, effect.attempt)
                    effects += self.scheduler.handle(self.cluster.apply(bound), now=self.now)
        self.scheduler._check()
        return effects

    def wait(self, seconds: float = 60.0) -> list[Any]:
        self.now += seconds
        return [*self.scheduler.advance(now=self.now), *self.run()]


def nodes_of(effects: list[Any]) -> dict[str, str]:
    return {effect.uid: effect.node for effect in effects if isinstance(effect, Bind)}


def reason(effects: list[Any]) -> str:
    return next(effect.reason for effect in effects if isinstance(effect, PodUnschedulable))


def pod(name: str, *claims: str, **fields: Any) -> Pod:
    return Pod(name=name, volume_claims=tuple(map(VolumeClaim, claims)), **fields)


def claim(name: str, **fields: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        name=name, **{"access_modes": ONCE, "requests": {"storage": "1Gi"}, **fields}
    )


def volume(name: str, node: str = "", **fields: Any) -> PersistentVolume:
    terms = [NodeSelectorTerm((NodeSelectorRequirement(HOST, "In", (node,)),))] if node else None
    given = {"access_modes": ONCE, "capacity": {"storage": "1Gi"}, "storage_class": "local"}
    return PersistentVolume(name=name, node_affinity=terms, **{**given, **fields})


BOUND = claim("data", volume="v", bound=True)


def in_zone(zone: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((NodeSelectorRequirement(ZONE, "In", (zone,)),))


def attached(name: str) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    source = VolumeSource("csi.example.com", f"handle-{name}")
    return claim(name, volume=f"v-{name}", bound=True), volume(f"v-{name}", source=source)


def capacity(zone: str, size: str) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        name=f"zone-{zone}",
        storage_class="fast",
        nodes=LabelSelector({ZONE: zone}),
        largest_volume={"storage": size},
    )


NO_NODE = "0/3 nodes are available: "
BETA = "failure-domain.beta.kubernetes.io/zone"
TRACKED = CSIDriver(name="csi.example.com", tracks_capacity=True)
LARGE = claim("data", storage_class="fast", requests={"storage": "10Gi"})
PLACES: dict[str, tuple[tuple[ClusterObject, ...], str]] = {
    "where its volume is reached": ((BOUND, volume("v", "b")), "b"),
    "where no node reaches its volume": (
        (BOUND, volume("v", "elsewhere")),
        "3 node(s) didn't match PersistentVolume's node affinity.",
    ),
    "whose volume is gone": ((BOUND,), 'persistentvolume "v" not found.'),
    "in the zone of its volume": ((BOUND, volume("v", labels={ZONE: "1__3"})), "a"),
    "in no zone": (
        (BOUND, volume("v", labels={BETA: "9"})),
        "3 node(s) had no available volume zone.",
    ),
    "whose node is selected": ((FAST, claim("data", storage_class="fast", selected_node="c")), "c"),
    "whose driver must be installed": (
        (
            CSIDriver(name="csi.example.com", required_on_node=True),
            CSINode(name="c", drivers=["csi.example.com"]),
            *attached("data"),
        ),
        "c",
    ),
    "whose volume is reserved for its claim": (
        (
            LOCAL,
            claim("data", storage_class="local"),
            volume("mine", "c", claim="default/data", available=False),
            volume("another", "c", claim="default/other"),
        ),
        "c",
    ),
    "provisioned in a zone": (
        (evolve(FAST, allowed_topologies=[in_zone("1")]), claim("data", storage_class="fast")),
        "a",
    ),
    "with too little storage": (
        (FAST, TRACKED, LARGE, capacity("1", "9Gi")),
        "3 node(s) did not have enough free storage.",
    ),
    "with enough storage": ((FAST, TRACKED, LARGE, capacity("1", "10Gi")), "a"),
}


@pytest.mark.parametrize("case", PLACES)
def test_pod_with_a_claim_goes_where_its_volume_may_be_or_is_told_why(case: str) -> None:
    objects, expected = PLACES[case]
    effects = Host(*objects).tell(PodAdded(pod("p", "data")))
    if len(expected) == 1:
        assert nodes_of(effects) == {"default/p": expected}
    else:
        assert reason(effects) == NO_NODE + expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (
            evolve(BOUND, lost=True),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
        ),
        (evolve(BOUND, terminating=True), 'persistentvolumeclaim "data" is being deleted'),
        (
            claim("data", storage_class="now"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            claim("data", storage_class="fast", volume="v"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_claim_that_cannot_be_used_holds_the_pod_until_an_event(
    given: PersistentVolumeClaim | None, problem: str
) -> None:
    host = Host(NOW, FAST, volume("v"), *([] if given is None else [given]))
    effects = host.tell(PodAdded(pod("p", "data")))
    assert reason(effects) == f"0/3 nodes are available: {problem}."
    host.wait()
    assert host.scheduler.next_deadline() is None
    assert "default/p" in nodes_of(host.tell(ObjectChanged(BOUND)) + host.wait())


def test_claim_of_an_ephemeral_volume_must_be_owned_by_the_pod() -> None:
    ephemeral = Pod(name="p", uid="1", volume_claims=[VolumeClaim("data", ephemeral=True)])
    host = Host(volume("v", "b"))
    effects = host.tell(PodAdded(ephemeral))
    assert "waiting for ephemeral volume controller to create" in reason(effects)
    stranger = evolve(BOUND, name="p-data", owner="2")
    effects = host.tell(ObjectChanged(stranger)) + host.wait()
    assert "was not created for pod default/p" in reason(effects)
    effects = host.tell(ObjectChanged(evolve(stranger, owner="1"))) + host.wait()
    assert nodes_of(effects) == {"1": "b"}


# Claims that wait for their first consumer ------------------------------------------------------


def test_unbound_claim_takes_the_smallest_volume_that_fits_or_is_provisioned() -> None:
    host = Host(
        LOCAL,
        claim("data", storage_class="local"),
        volume("large", "b", capacity={"storage": "9Gi"}),
        volume("small", "b", capacity={"storage": "512Mi"}),
        volume("fits", "b", capacity={"storage": "2Gi"}),
        volume("taken", "b", claim="default/other"),
        volume("bound", "b", available=False),
    )
    (bind,) = [e for e in host.tell(PodAdded(pod("p", "data"))) if isinstance(e, Bind)]
    assert bind.volumes == (VolumeChoice("default/data", NodeName("b"), "fits"),)
    host = Host(FAST, claim("data", storage_class="fast"))
    (bind,) = [e for e in host.tell(PodAdded(pod("p", "data"))) if isinstance(e, Bind)]
    assert bind.volumes == (VolumeChoice("default/data", NodeName("a"), ""),)


@pytest.mark.parametrize(
    "unlike",
    [
        {"access_modes": ("ReadOnlyMany",)},
        {"volume_mode": "Block"},
        {"storage_class": "other"},
        {"terminating": True},
        {"attributes_class": "gold"},
        {"labels": {"disk": "hdd"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_unlike_volume_does_not_meet_a_claim(unlike: dict[str, Any]) -> None:
    wanted = claim("data", storage_class="local", selector=LabelSelector({"disk": "ssd"}))
    like = volume("v", "b", labels={"disk": "ssd"})
    host = Host(LOCAL, wanted, evolve(like, **unlike))
    effects = host.tell(PodAdded(pod("p", "data")))
    assert "3 node(s) didn't find available persistent volumes to bind" in reason(effects)
    effects = host.tell(ObjectChanged(like)) + host.wait()
    assert nodes_of(effects) == {"default/p": "b"}


def test_two_pods_never_take_one_volume_which_is_free_again_when_one_is_deleted() -> None:
    claims = (claim(name, storage_class="local") for name in "xy")
    host = Host(LOCAL, *claims, volume("v", "b"), binds=False)
    effects = host.tell(PodAdded(pod("p", "x")), PodAdded(pod("q", "y")))
    assert nodes_of(effects) == {"default/p": "b"}
    assert "3 node(s) didn't find available persistent volumes to bind" in reason(effects)
    assert nodes_of(host.tell(PodDeleted("default/p")) + host.wait()) == {"default/q": "b"}


@pytest.mark.parametrize("unit", ["pod", "group"])
def test_gang_starts_when_each_member_has_a_volume_of_its_own(unit: str) -> None:
    claims = (claim(name, storage_class="local") for name in "xyz")
    host = Host(LOCAL, *claims, volume("v1", "c"), volume("v2", "a"), unit=unit)
    effects = host.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    for name, its in (("p", "x"), ("q", "y"), ("r", "z")):
        effects += host.tell(PodAdded(pod(name, its, labels=GROUP)))
    assert nodes_of(effects) == {}
    effects = host.tell(ObjectChanged(volume("v3", "c"))) + host.wait(600)
    chosen = [c for e in effects if isinstance(e, Bind) for c in e.volumes]
    assert sorted(choice.volume for choice in chosen) == ["v1", "v2", "v3"]
    assert all(("a" if c.volume == "v2" else "c") == c.node for c in chosen)


def test_pods_that_share_an_unbound_claim_go_to_one_node() -> None:
    host = Host(FAST, claim("data", storage_class="fast"), binds=False)
    effects = host.tell(*(PodAdded(pod(name, "data")) for name in "pqr"))
    assert len(nodes_of(effects)) == 3
    assert len(set(nodes_of(effects).values())) == 1


# Pods that exclude each other -------------------------------------------------------------------


def test_claim_for_one_pod_is_used_by_one_pod() -> None:
    host = Host(evolve(BOUND, access_modes=("ReadWriteOncePod",)), volume("v"))
    assert len(nodes_of(host.tell(PodAdded(pod("p", "data"))))) == 1
    effects = host.tell(PodAdded(pod("q", "data")))
    assert "ReadWriteOncePod access mode already in-use by another pod" in reason(effects)
    assert nodes_of(host.tell(PodDeleted("default/p")) + host.wait()).keys() == {"default/q"}


@pytest.mark.parametrize("unit", ["pod", "group"])
def test_gang_whose_members_share_a_claim_for_one_pod_does_not_start(unit: str) -> None:
    host = Host(evolve(BOUND, access_modes=("ReadWriteOncePod",)), volume("v"), unit=unit)
    effects = host.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    effects += host.tell(*(PodAdded(pod(name, "data", labels=GROUP)) for name in "pq"))
    assert nodes_of(effects) == {}


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (Disk("gcePersistentDisk", "d"), Disk("gcePersistentDisk", "d"), False),
        (Disk("gcePersistentDisk", "d", True), Disk("gcePersistentDisk", "d", True), True),
        (Disk("gcePersistentDisk", "d"), Disk("gcePersistentDisk", "e"), True),
        (Disk("awsElasticBlockStore", "d", True), Disk("awsElasticBlockStore", "d", True), False),
        (Disk("iscsi", "iqn"), Disk("iscsi", "iqn", True), False),
        (Disk("rbd", "p/i", False, ["m"]), Disk("rbd", "p/i", False, ["m", "n"]), False),
        (Disk("rbd", "p/i", False, ["m"]), Disk("rbd", "p/i", False, ["n"]), True),
        (Disk("cinder", "d"), Disk("cinder", "d"), True),
    ],
)
def test_disks_that_conflict_are_on_different_nodes(one: Disk, other: Disk, together: bool) -> None:
    host = Host()
    first = Pod(name="p", disks=[one], node_selector={HOST: "a"})
    second = Pod(name="q", disks=[other], node_selector={HOST: "a"})
    effects = host.tell(PodAdded(first), PodAdded(second))
    assert ("default/q" in nodes_of(effects)) is together
    if not together:
        assert "1 node(s) had no available disk" in reason(effects)


# Limits -----------------------------------------------------------------------------------------


def limits(count: int) -> list[CSINode]:
    return [
        CSINode(name=name, drivers=["csi.example.com"], limits={"csi.example.com": count})
        for name in "abc"
    ]


def test_node_takes_no_more_volumes_than_its_driver_allows() -> None:
    objects = [one for name in "wxyz" for one in attached(name)]
    host = Host(*limits(1), *objects)
    effects = host.tell(*(PodAdded(pod(f"p-{name}", name)) for name in "wxyz"))
    assert sorted(nodes_of(effects).values()) == ["a", "b", "c"]
    text = "0/3 nodes are available: 3 node(s) exceed max volume count."
    assert reason(effects) == text


def test_volume_counts_once_for_all_pods_that_use_it() -> None:
    host = Host(*limits(1), *attached("x"))
    effects = host.tell(*(PodAdded(pod(name, "x", node_selector={HOST: "a"})) for name in "pqr"))
    assert len(nodes_of(effects)) == 3


def test_attached_volume_that_no_pod_uses_counts() -> None:
    host = Host(
        *limits(1),
        *(one for name in "xy" for one in attached(name)),
        VolumeAttachment(name="t", node="a", attacher="csi.example.com", volume="v-x"),
    )
    effects = host.tell(PodAdded(pod("p", "y", node_selector={HOST: "a"})))
    assert "1 node(s) exceed max volume count" in reason(effects)


def test_volume_of_a_migrated_plugin_counts_for_its_driver() -> None:
    source = VolumeSource("kubernetes.io/aws-ebs", "vol-1", in_tree=True)
    ebs = CSINode(name="a", limits={"ebs.csi.aws.com": 1})
    host = Host(ebs, BOUND, volume("v", source=source))
    first = Pod(name="p", disks=[Disk("awsElasticBlockStore", "vol-2")], node_selector={HOST: "a"})
    effects = host.tell(PodAdded(first), PodAdded(pod("q", "data", node_selector={HOST: "a"})))
    assert nodes_of(effects) == {"default/p": "a"}
    assert "1 node(s) exceed max volume count" in reason(effects)


@pytest.mark.parametrize("unit", ["pod", "group"])
def test_members_of_a_gang_keep_the_limit_together(unit: str) -> None:
    objects = [one for name in "xyz" for one in attached(name)]
    host = Host(*limits(1), *objects, unit=unit)
    effects = host.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    effects += host.tell(*(PodAdded(pod(f"p-{name}", name, labels=GROUP)) for name in "xyz"))
    assert sorted(nodes_of(effects).values()) == ["a", "b", "c"]


def test_plugins_remember_no_volume_once_the_pods_are_bound_or_gone() -> None:
    host = Host(FAST, *(claim(n, storage_class="fast") for n in "xy"), binds=False)
    plugins = host.scheduler._state.settings.profile.plugins
    before = fingerprint(plugins)
    effects = host.tell(PodAdded(pod("p", "x")), PodAdded(pod("q", "y")))
    (first, second) = [effect for effect in effects if isinstance(effect, Bind)]
    assert fingerprint(plugins) != before
    host.tell(Bound(first.uid, first.node, first.attempt))
    host.tell(BindFailed(second.uid, second.attempt, "no answer"), PodDeleted("default/q"))
    assert fingerprint(plugins) == before


def test_snapshot_keeps_the_volumes_that_are_taken() -> None:
    claims = [claim(n, storage_class="local") for n in "xy"]
    host = Host(LOCAL, *claims, volume("v", "b"), binds=False)
    host.tell(PodAdded(pod("p", "x")))
    restored = presets.coscheduling(host.cluster)
    restored.restore(json.loads(json.dumps(host.scheduler.snapshot())))
    host.scheduler = restored
    effects = host.tell(PodAdded(pod("q", "y")))
    assert nodes_of(effects) == {"default/p": "b"}, "the bind is repeated, and q finds no volume"
    (repeated,) = [effect for effect in effects if isinstance(effect, Bind)]
    assert [choice.volume for choice in repeated.volumes] == ["v"]


def test_question_does_not_take_volumes() -> None:
    claims = [claim(n, storage_class="local") for n in "xy"]
    host = Host(LOCAL, *claims, volume("v", "b"))
    answer = host.scheduler.what_if(PodAdded(pod("p", "x")))
    assert nodes_of([effect for _at, effect in answer.timed]) == {"default/p": "b"}
    assert nodes_of(host.tell(PodAdded(pod("q", "y")))) == {"default/q": "b"}
