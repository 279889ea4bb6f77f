"""Gangs whose lost members are replaced while the others stay (``RestartPolicy.repair``)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    CopyBound,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupKey,
    GroupRestarted,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    PodUpdated,
    Preemption,
    Quota,
    RestartLimitReached,
    RestartPolicy,
    Role,
    Scheduler,
    Topology,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

LEVELS = ["block", "rack", "kubernetes.io/hostname"]
RACKS_OF_FOUR = Topology("block", slices={"rack": 4})
KEY = GroupKey("default/g")
REPAIR = RestartPolicy(repair=True, backoff=5.0)


class Cluster(ImmediateHost):
    """Nodes by block and rack, such as ``b1/r2/n``; lost and evicted pods are created again."""

    def __init__(self, **nodes: int) -> None:
        super().__init__()
        self.options: dict[str, Any] = {}
        self.scheduler = self.fresh()
        for name, cpu in nodes.items():
            self.add_node(name, cpu)

    def fresh(self, **options: Any) -> Scheduler:
        """Return a scheduler that knows nothing yet."""
        self.options |= options
        return presets.gang(self.cluster, levels=LEVELS, can_evict=True, **self.options)

    def add_node(self, name: str, cpu: int) -> None:
        """Add a node: ``b1_r2_x``."""
        block, rack, _node = name.split("_")
        node = make_node(name, cpu=cpu, labels={"block": block, "rack": rack})
        self.tell(NodeAdded(node))

    def start(self, pods: int, topology: Topology | None = None, **more: Any) -> None:
        """Start a gang of pods of one CPU that is repaired."""
        more = {"restart": REPAIR, "min_available": pods, "topology": topology, **more}
        self.tell(PodGroupAdded(PodGroup(name="g", **more)))
        self.tell(*[PodAdded(make_pod(f"g-{n}", group="g", cpu=1)) for n in range(pods)])
        assert len(self.decide()) == pods
        self.effects.clear()

    def lose_node(self, name: str) -> list[str]:
        """Lose a node; its pods are created again. Return the pods that are released then."""
        lost = [pod for pod in self.cluster.pods() if pod.node_name == name]
        self.tell(NodeDeleted(NodeName(name)))
        for pod in lost:
            self.replace(pod)
        return self.decide()

    def replace(self, pod: Pod) -> None:
        """Delete a pod, and create another one like it."""
        self.tell(PodDeleted(pod.uid))
        self.tell(PodAdded(evolve(pod, uid=PodUID(f"{pod.uid}'"), node_name=None)))

    def evict(self) -> list[str]:
        """Carry out the evictions; return the names of the pods."""
        pods = {pod.uid: pod for pod in self.cluster.pods()}
        evicted = [pods[each.uid] for each in self.of(Evict)]
        self.effects[:] = [each for each in self.effects if not isinstance(each, Evict)]
        for pod in evicted:
            self.replace(pod)
        return sorted(pod.name for pod in evicted)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the effects of a kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def racks(self) -> list[str | None]:
        """Return where each member is: ``b1/r2``, in the order of their numbers."""
        pods = sorted(self.cluster.pods(), key=lambda pod: pod.name)
        mine = [pod.node_name for pod in pods if pod.name.startswith("g-")]
        return [name and "/".join(name.split("_")[:2]) for name in mine]


def test_pod_is_replaced_in_its_rack_and_nobody_moves() -> None:
    cluster = Cluster(b1_r1_x=2, b1_r1_y=2, b1_r1_z=2, b1_r2_x=4)
    cluster.start(8, RACKS_OF_FOUR)
    assert len(cluster.lose_node("b1_r1_x")) == 2
    assert cluster.of(Evict) == cluster.of(GroupRestarted) == []
    assert sorted(map(str, cluster.racks())) == ["b1/r1"] * 4 + ["b1/r2"] * 4


def test_slice_moves_if_its_rack_has_no_node_for_a_lost_pod_and_others_stay() -> None:
    cluster = Cluster(b1_r1_x=2, b1_r1_y=2, b1_r2_x=4, b1_r3_x=3, b1_r3_y=1)
    cluster.start(8, RACKS_OF_FOUR)
    before = cluster.racks()
    first = 0 if before[0] == "b1/r1" else 4
    assert "b1/r1" in before
    assert cluster.lose_node("b1_r1_x") == []
    path = f"slice-{first // 4}"
    assert cluster.of(GroupBelowMinimum)[0].scheduled == 7  # told as they go, one by one
    assert cluster.of(GroupRestarted) == [GroupRestarted(KEY, 1, 6, 5.0, path)]
    why = f"{path} of pod group default/g is restarted: lost members fit nowhere beside the others"
    assert {each.reason for each in cluster.of(Evict)} == {why}
    mine = [f"g-{n}" for n in range(first, first + 4)]
    assert set(cluster.evict()) < set(mine)
    assert cluster.decide() == []
    assert "is being restarted" in str(cluster.scheduler.why("default/g"))
    assert sorted(cluster.at(5.0)) == [f"{name}'" for name in mine]
    assert cluster.of(CopyBound) == [CopyBound(KEY, path, 4)]
    assert cluster.racks()[first : first + 4] == ["b1/r3"] * 4
    assert cluster.racks()[4 - first : 8 - first] == before[4 - first : 8 - first]


def test_gang_in_one_rack_moves_as_a_whole() -> None:
    cluster = Cluster(b1_r1_x=2, b1_r1_y=2, b2_r1_x=4)
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=4), node_name=NodeName("b2_r1_x"))))
    cluster.start(4, Topology("rack"))
    cluster.end("o")
    cluster.lose_node("b1_r1_x")
    assert [each.path for each in cluster.of(GroupRestarted)] == [""]
    assert len(cluster.evict()) == 2
    cluster.decide()
    assert len(cluster.at(5.0)) == 4
    assert cluster.racks() == ["b2/r1"] * 4
    assert [each.bound for each in cluster.of(GroupBound)] == [4]


def test_nothing_moves_if_that_does_not_help_until_it_does() -> None:
    cluster = Cluster(b1_r1_x=2, b1_r1_y=2, b1_r2_x=4, b1_r3_x=3)
    cluster.start(8, RACKS_OF_FOUR)
    assert cluster.lose_node("b1_r1_x") == []
    assert cluster.of(Evict) == []
    assert "not within rack=b1/r1" in str(cluster.scheduler.why("default/g"))
    cluster.add_node("b1_r3_y", 1)
    cluster.decide()
    assert len(cluster.evict()) == 2


def test_smaller_part_of_the_gang_moves_away_for_a_lost_pod() -> None:
    # the rack of the lost pod is full with the short last slice, which fits elsewhere
    cluster = Cluster(b1_r1_x=5)
    cluster.start(5, RACKS_OF_FOUR)
    cluster.add_node("b1_r2_x", 1)
    cluster.replace(next(pod for pod in cluster.cluster.pods() if pod.name == "g-0"))
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=1), node_name=NodeName("b1_r1_x"))))
    cluster.decide()
    assert [each.path for each in cluster.of(GroupRestarted)] == ["slice-1"]
    assert cluster.evict() == ["g-4"]
    cluster.decide()
    assert cluster.racks() == ["b1/r1"] * 4 + [None]
    cluster.at(5.0)
    assert cluster.racks() == ["b1/r1"] * 4 + ["b1/r2"]


def test_pods_that_terminate_are_waited_for() -> None:
    cluster = Cluster(b1_r1_x=4, b1_r2_x=4)
    cluster.start(4, Topology("rack"))
    pod = next(pod for pod in cluster.cluster.pods() if pod.name == "g-0")
    cluster.tell(PodUpdated(evolve(pod, deleted_at=1.0)))
    cluster.tell(PodAdded(evolve(pod, uid=PodUID("default/again"), node_name=None)))
    assert cluster.decide() == []
    assert cluster.of(Evict) == []
    cluster.tell(PodDeleted(pod.uid))
    assert cluster.decide() == ["again"]
    assert len(set(cluster.racks())) == 1


def test_victims_of_lower_priority_go_before_anybody_moves() -> None:
    cluster = Cluster(b1_r1_x=2, b1_r1_y=2, b1_r2_x=4)
    cluster.scheduler = cluster.fresh(preemption=Preemption())
    cluster.tell(*[NodeAdded(node) for node in cluster.cluster.nodes()])
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=4), node_name=NodeName("b1_r2_x"))))
    cluster.start(2, Topology("rack"), priority=10)
    name = next(str(pod.node_name) for pod in cluster.cluster.pods() if pod.name == "g-0")
    other = "b1_r1_y" if name == "b1_r1_x" else "b1_r1_x"
    cluster.tell(PodAdded(evolve(make_pod("low", cpu=2), node_name=NodeName(other))))
    cluster.end("o")
    cluster.lose_node(name)
    assert {each.uid for each in cluster.of(Evict)} <= {"default/low"}
    assert cluster.of(GroupRestarted) == []


def test_each_part_is_restarted_as_often_as_the_policy_allows() -> None:
    cluster = Cluster(**{f"b1_r{rack}_{name}": 1 for rack in (1, 2, 3) for name in "xy"})
    policy = RestartPolicy(repair=True, max_restarts=1, backoff=5.0)
    cluster.start(2, Topology("rack"), restart=policy)
    for now in (100.0, 200.0):
        cluster.now = now
        node = next(str(p.node_name) for p in cluster.cluster.pods() if p.node_name)
        cluster.lose_node(node)
        cluster.evict()
        cluster.decide()
        cluster.at(now + 10.0)
    assert [each.restarts for each in cluster.of(GroupRestarted)] == [1]
    assert [each.restarts for each in cluster.of(RestartLimitReached)] == [1]
    assert cluster.of(Evict) == []


def test_slice_of_which_no_pod_runs_starts_as_a_whole() -> None:
    # rack r2 has room for one pod: the first one that comes back must not go there alone
    cluster = Cluster(b1_r1_x=4, b1_r2_x=1, b1_r3_x=4, b1_r4_x=4)
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=4), node_name=NodeName("b1_r4_x"))))
    cluster.start(8, RACKS_OF_FOUR, restart=None)
    lost = [pod for pod in cluster.cluster.pods() if pod.node_name == "b1_r1_x"]
    cluster.end("o")
    cluster.tell(NodeDeleted(NodeName("b1_r1_x")))
    for pod in lost:
        cluster.tell(PodDeleted(pod.uid))
    for pod in lost[:-1]:
        cluster.tell(PodAdded(evolve(pod, uid=PodUID(f"{pod.uid}'"), node_name=None)))
        assert cluster.decide() == []
    number = int(lost[0].name[2:]) // 4
    expected = f"waiting for 1 more slice-{number}: 3 of 4 exist"
    assert expected in str(cluster.scheduler.why("default/g"))
    cluster.tell(PodAdded(evolve(lost[-1], uid=PodUID("last"), node_name=None)))
    assert len(cluster.decide()) == 4
    assert cluster.racks().count("b1/r4") == 4


@pytest.mark.parametrize("way", ["snapshot", "rebuild"])
def test_move_goes_on_with_another_scheduler(way: str) -> None:
    cluster = Cluster(b1_r1_x=2, b1_r1_y=2, b1_r2_x=4, b1_r3_x=4)
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=4), node_name=NodeName("b1_r3_x"))))
    cluster.start(8, RACKS_OF_FOUR)
    cluster.end("o")
    cluster.lose_node("b1_r1_x")
    (notice,) = cluster.of(GroupRestarted)
    group = cluster.cluster.pod_group(notice.group)
    assert group is not None
    if way == "snapshot":
        snapshot = cluster.scheduler.snapshot()
        cluster.scheduler = cluster.fresh()
        cluster.scheduler.restore(snapshot)
    else:
        cluster.cluster.apply(PodGroupAdded(notice.noted_in(group)))
        cluster.scheduler = cluster.fresh()
        cluster.effects.clear()
        cluster._take(cluster.scheduler.rebuild(now=0.0))
    assert len(cluster.evict()) == 2
    cluster.decide()
    assert len(cluster.at(5.0)) == 4
    assert cluster.racks().count("b1/r3") == 4


def test_copy_of_a_role_moves_to_another_rack() -> None:
    cluster = Cluster(b1_r1_x=1, b1_r1_y=1, b1_r2_x=2, b1_r3_x=2)
    role = Role(2, roles={"w": 2}, topology=Topology("rack"), restart=REPAIR)
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=2), node_name=NodeName("b1_r3_x"))))
    cluster.tell(PodGroupAdded(PodGroup(name="g", roles={"r": role})))
    pods = [make_pod(f"g-{c}-{n}", group="g", cpu=1, role=f"r/{c}/w") for c in "01" for n in "01"]
    cluster.tell(*map(PodAdded, pods))
    assert len(cluster.decide()) == 4
    cluster.effects.clear()
    cluster.end("o")
    cluster.lose_node("b1_r1_x")
    (notice,) = cluster.of(GroupRestarted)
    assert notice.path in ("r/0", "r/1")
    assert len(cluster.evict()) == 1
    cluster.decide()
    assert len(cluster.at(5.0)) == 2
    assert sorted(map(str, cluster.racks())) == ["b1/r2"] * 2 + ["b1/r3"] * 2


def test_repair_is_a_bool() -> None:
    # what a caller without a type checker passes
    with pytest.raises(InvalidValueError, match="repair must be a bool, got 1"):
        RestartPolicy(repair=1)  # type: ignore[arg-type]


def test_two_slices_move_if_both_have_lost_a_pod_and_the_third_stays() -> None:
    # the third one is short, so it would be the first to move
    cluster = Cluster(b1_r1_x=1, b1_r1_y=2, b1_r2_x=1, b1_r2_y=2, b1_r3_x=1, b1_r4_x=6)
    names = ("b1_r1_x", *["b1_r1_y"] * 2, "b1_r2_x", *["b1_r2_y"] * 2, "b1_r3_x")
    where = {f"g-{n}": name for n, name in enumerate(names)}
    topology = Topology(slices={"rack": 3})
    running(cluster, where, min_available=7, topology=topology, restart=REPAIR)
    lost = [p for p in cluster.cluster.pods() if p.node_name in ("b1_r1_x", "b1_r2_x")]
    for name in ("b1_r1_x", "b1_r2_x"):
        cluster.tell(NodeDeleted(NodeName(name)))
    for pod in lost:
        cluster.replace(pod)
    cluster.decide()
    assert {each.path for each in cluster.of(GroupRestarted)} == {"slice-0", "slice-1"}
    assert cluster.evict() == ["g-1", "g-2", "g-4", "g-5"]
    cluster.decide()
    cluster.at(5.0)
    assert cluster.racks() == ["b1/r4"] * 6 + ["b1/r3"]


def test_role_that_moves_starts_as_a_whole() -> None:
    # the first pod alone would go to y, where the other one finds no room
    cluster = Cluster(b1_r1_x=3, b1_r9_x=1)
    role = Role(2, topology=Topology("kubernetes.io/hostname"))
    cluster.tell(PodGroupAdded(PodGroup(name="g", roles={"r": role, "q": 1}, restart=REPAIR)))
    pods = [make_pod(f"g-{n}", group="g", cpu=n + 1, role="r") for n in range(2)]
    cluster.tell(*map(PodAdded, [*pods, make_pod("g-q", group="g", cpu=1, role="q")]))
    assert len(cluster.decide()) == 3
    cluster.effects.clear()
    cluster.tell(PodAdded(make_pod("o", cpu=1)))
    cluster.replace(next(pod for pod in cluster.cluster.pods() if pod.name == "g-0"))
    cluster.decide()
    assert cluster.of(GroupRestarted) == []
    cluster.add_node("b1_r2_y", 2)
    cluster.add_node("b1_r2_z", 3)
    cluster.decide()
    assert [each.path for each in cluster.of(GroupRestarted)] == ["r"]
    (other,) = [pod for pod in cluster.cluster.pods() if pod.name == "g-1"]
    cluster.tell(PodDeleted(other.uid))
    assert cluster.at(5.0) == []
    cluster.tell(PodAdded(evolve(other, uid=PodUID("default/again"), node_name=None)))
    assert len(cluster.decide()) == 2
    nodes = {pod.node_name for pod in cluster.cluster.pods() if pod.name in ("g-0", "g-1")}
    assert nodes == {"b1_r2_z"}


def test_pod_that_comes_back_goes_before_a_slice_that_starts() -> None:
    # both racks have room for one, and the slice of one pod would take the first
    cluster = Cluster(b1_r1_x=4, b1_r2_x=1)
    where = {**{f"g-{n}": "b1_r1_x" for n in range(4)}, "g-4": "b1_r2_x"}
    running(cluster, where, min_available=5, topology=RACKS_OF_FOUR)
    lost = [pod for pod in cluster.cluster.pods() if pod.name in ("g-0", "g-4")]
    for pod in lost:
        cluster.replace(pod)
    assert len(cluster.decide()) == 2
    assert cluster.racks() == ["b1/r1"] * 4 + ["b1/r2"]


def test_pods_beyond_the_minimum_move_though_not_all_find_a_node_then() -> None:
    cluster = Cluster(**{f"b1_r1_{name}": 1 for name in "wxyz"})
    where = {f"g-{n}": f"b1_r1_{name}" for n, name in enumerate("wxyz")}
    topology = Topology(slices={"rack": 2, "kubernetes.io/hostname": 1})
    running(cluster, where, min_available=2, topology=topology, restart=REPAIR)
    cluster.lose_node("b1_r1_w")
    assert [each.path for each in cluster.of(GroupRestarted)] == [""]


# What is no loss, and what is not in the way ------------------------------------------------------


def running(cluster: Cluster, where: dict[str, str], **spec: Any) -> None:
    """Add a gang whose pods run already: ``g-0`` by name, or ``r/0/w`` before a colon."""
    cluster.tell(PodGroupAdded(PodGroup(name="g", **spec)))
    for text, node in where.items():
        role, _colon, name = text.rpartition(":")
        pod = make_pod(name, group="g", cpu=1, role=role or None)
        cluster.tell(PodAdded(evolve(pod, node_name=NodeName(node))))
    cluster.decide()
    cluster.effects.clear()


def test_raised_minimum_and_more_copies_move_nobody() -> None:
    cluster = Cluster(b1_r1_x=2, b2_r1_x=3)
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=3), node_name=NodeName("b2_r1_x"))))
    cluster.start(2, Topology("rack"))
    cluster.end("o")
    spec = PodGroup(name="g", min_available=3, topology=Topology("rack"), restart=REPAIR)
    cluster.tell(PodGroupUpdated(spec), PodAdded(make_pod("g-2", group="g", cpu=1)))
    assert cluster.decide() == []
    assert cluster.of(Evict) == []


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("minimum", [1, 2, 3])
@pytest.mark.parametrize("has_room", [True, False])
def test_copy_that_lost_a_pod_moves_and_no_other_one(
    lost: int, minimum: int, has_room: bool
) -> None:
    # without room, a whole copy on the rack could leave it to the lost pod, and find no other one
    cluster = Cluster(b1_r1_x=1, b1_r1_y=3, b1_r2_x=2, b1_r3_x=2 if has_room else 1)
    first, second = [copy for copy in (0, 1, 2) if copy != lost]
    nodes = {lost: ("b1_r1_x", "b1_r1_y"), first: ("b1_r1_y",) * 2, second: ("b1_r2_x",) * 2}
    where = {f"r/{c}/w:g-{c}-{n}": nodes[c][n] for c in sorted(nodes) for n in (0, 1)}
    role = Role(3, minimum=minimum, roles={"w": 2}, topology=Topology("rack"), restart=REPAIR)
    running(cluster, where, roles={"r": role})
    cluster.lose_node("b1_r1_x")
    expected = [f"r/{lost}"] if has_room else []
    assert [each.path for each in cluster.of(GroupRestarted)] == expected
    assert cluster.evict() == [f"g-{lost}-1"][: len(expected)]


@pytest.mark.parametrize("is_gone", [True, False])
def test_pod_of_another_slice_that_does_not_exist_is_not_waited_for(is_gone: bool) -> None:
    cluster = Cluster(b1_r1_x=1, b1_r1_y=1, b1_r2_x=1, b1_r2_y=1, b1_r3_x=2)
    names = ("b1_r1_x", "b1_r1_y", "b1_r2_x", "b1_r2_y")
    where = {f"g-{n}": name for n, name in enumerate(names)}
    topology = Topology(slices={"rack": 2})
    running(cluster, where, min_available=4, topology=topology, restart=REPAIR)
    if is_gone:
        cluster.end("g-3")
    cluster.lose_node("b1_r1_x")
    assert [each.path for each in cluster.of(GroupRestarted)] == ["slice-0"]


def test_gang_keeps_its_quota_while_all_of_its_slices_move() -> None:
    cluster = Cluster(b1_r1_x=1, b1_r1_y=1, b1_r2_x=1, b1_r2_y=1, b2_r1_x=5)
    quota = Quota(name="q", namespaces=["default"], hard={"cpu": 4})
    cluster.scheduler = cluster.fresh(quotas=[quota])
    cluster.tell(*[NodeAdded(node) for node in cluster.cluster.nodes()])
    names = ("b1_r1_x", "b1_r1_y", "b1_r2_x", "b1_r2_y")
    where = {f"g-{n}": name for n, name in enumerate(names)}
    topology = Topology(slices={"rack": 2})
    running(cluster, where, min_available=4, topology=topology, restart=REPAIR)
    cluster.tell(PodGroupAdded(PodGroup(name="h", min_available=1)))
    cluster.tell(PodAdded(make_pod("h", group="h", cpu=1)))
    lost = [p for p in cluster.cluster.pods() if p.node_name in ("b1_r1_x", "b1_r2_x")]
    for name in ("b1_r1_x", "b1_r2_x"):
        cluster.tell(NodeDeleted(NodeName(name)))
    for pod in lost:
        cluster.replace(pod)
    cluster.decide()
    assert len(cluster.evict()) == 2
    cluster.decide()
    cluster.at(5.0)
    assert cluster.racks() == ["b2/r1"] * 4


def test_pod_is_replaced_at_once_though_the_limit_is_reached() -> None:
    cluster = Cluster(b1_r1_x=1, b1_r1_y=1, b1_r2_x=1, b1_r2_y=1, b1_r2_z=1)
    cluster.tell(PodAdded(evolve(make_pod("o", cpu=1), node_name=NodeName("b1_r2_z"))))
    policy = RestartPolicy(repair=True, max_restarts=1, backoff=5.0)
    where = {"g-0": "b1_r1_x", "g-1": "b1_r1_y"}
    running(cluster, where, min_available=2, topology=Topology("rack"), restart=policy)
    cluster.lose_node("b1_r1_x")
    cluster.evict()
    cluster.decide()
    assert len(cluster.at(5.0)) == 2
    cluster.end("o")
    node = next(str(pod.node_name) for pod in cluster.cluster.pods() if pod.name == "g-0")
    assert len(cluster.lose_node(node)) == 1
