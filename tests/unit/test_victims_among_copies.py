"""Preemption among copies of roles: a copy goes as a whole or not at all, and preempts as one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    NodeAdded,
    NodeName,
    Nominated,
    NominationLapsed,
    Pod,
    PodGroupAdded,
    Preemption,
    Role,
    Topology,
    gang,
    presets,
)
from gangsched.model import FrozenMap
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way

HOST = "kubernetes.io/hostname"
ON_ONE_NODE = Topology(HOST)


def story(*cpus: int, way: Way = Way.LIVE, elastic: bool = False, **more: Any) -> Story:
    """A cluster of nodes ``n0``, ``n1`` and so on."""
    preemption = Preemption(elastic_members=elastic)
    made = Story(partial(presets.gang, preemption=preemption), way, **more)
    for number, cpu in enumerate(cpus):
        name = f"n{number}"
        made.tell(NodeAdded(make_node(name, cpu=cpu, labels={HOST: name})))
    return made


def add_job(to: Story, name: str = "serve", *, priority: int = 0, **spec: Any) -> None:
    """Add a job whose pods request 1 CPU."""
    to.tell(*gang(name, priority=priority, cpu=1, **spec).events())
    to.decide()


def decode(count: int = 4, minimum: int = 2, **more: Any) -> dict[str, int | Role]:
    """Copies of a leader and a worker, each on one node."""
    roles = more.pop("roles", {"leader": 1, "worker": 1})
    return {"decode": Role(count, minimum, roles=roles, topology=ON_ONE_NODE, **more)}


def pod(name: str, cpu: int, priority: int = 0, node: str | None = None) -> Pod:
    """Return a regular pod, which one node only can take if it is given."""
    made = make_pod(name, cpu=cpu, priority=priority)
    return made if node is None else evolve(made, node_selector=FrozenMap({HOST: node}))


def running(of: Story, prefix: str = "serve-") -> dict[str, int]:
    """Return how many pods of each copy hold nodes, by the path of the copy."""
    found: dict[str, int] = {}
    for pod in of.cluster.pods():
        if pod.node_name and pod.role and pod.name.startswith(prefix):
            path = pod.role.rpartition("/")[0] or pod.role
            found[path] = found.get(path, 0) + 1
    return found


def copies(*sizes: int) -> dict[str, int]:
    """Return what ``running`` does for copies of these sizes."""
    return {f"decode/{number}": size for number, size in enumerate(sizes) if size}


def pods_of(of: Story, path: str) -> list[Pod]:
    """Return the pods of a copy, or of a leaf."""
    found = (pod for pod in of.cluster.pods() if pod.role)
    return [pod for pod in found if f"{pod.role}/".startswith(f"{path}/")]


# Victims ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "left"),
    [(1, (2, 2, 2, 0)), (2, (2, 2, 0, 0)), (3, ()), (4, ())],
)
@each_way
def test_surplus_copies_go_whole_the_last_first_and_then_the_gang(
    way: Way, nodes: int, left: tuple[int, ...]
) -> None:
    made = story(2, 2, 2, 2, way=way)
    add_job(made, roles=decode())
    assert running(made) == copies(2, 2, 2, 2)
    made.interrupt()
    made.gang("u", nodes, cpu=2, priority=9)
    made.decide()
    assert running(made) == copies(*left)
    assert len([name for name in made.bound if name.startswith("u-")]) == nodes


def test_member_above_the_minimum_of_a_leaf_goes_before_a_copy() -> None:
    made = story(3, 3, 3)
    add_job(made, roles=decode(3, 2, roles={"leader": 1, "worker": Role(2, 1)}))
    made.add(pod("u", 1, 9))
    made.decide()
    assert running(made) == copies(3, 3, 2)


def test_copy_takes_along_the_members_above_its_minima() -> None:
    made = story(3, 3, 3)
    add_job(made, roles=decode(3, 2, roles={"leader": 1, "worker": Role(2, 1)}))
    made.add(pod("u", 3, 9))
    made.decide()
    assert running(made) == copies(3, 3, 0)


def test_copy_on_the_only_node_that_helps_goes_whole() -> None:
    made = story(2, 2, 2, 2)
    add_job(made, roles=decode())
    (node,) = {pod.node_name for pod in pods_of(made, "decode/0")}
    made.add(pod("u", 1, 9, node))
    made.decide()
    assert running(made) == {f"decode/{number}": 2 for number in (1, 2, 3)}


def test_copy_that_spans_nodes_goes_from_all_of_them() -> None:
    made = story(1, 1, 1, 1, 1, 1)
    add_job(made, roles={"decode": Role(3, 2, roles={"leader": 1, "worker": 1})})
    made.add(pod("u", 1, 9))
    made.decide()
    assert running(made) == copies(2, 2, 0)


def bind_job(to: Story, **spec: Any) -> None:
    """Add a job that runs: each copy on the node of its number, other pods on ``n3``."""
    job = gang("serve", cpu=1, **spec)
    to.tell(PodGroupAdded(job.group))
    for each in job.pods:
        assert each.role is not None
        number = each.role.split("/")[1] if "/" in each.role else "3"
        to.add(evolve(each, node_name=NodeName(f"n{number}")))
    to.decide()


@pytest.mark.parametrize(
    ("minimum", "left"), [(4, (2, 2, 0, 0)), (5, (0, 0, 0, 0)), (6, (0, 0, 0, 0))]
)
def test_minimum_of_the_root_keeps_surplus_copies(minimum: int, left: tuple[int, ...]) -> None:
    made = story(2, 2, 2, 2)
    bind_job(made, roles=decode(), min_available=minimum)
    assert running(made) == copies(2, 2, 2, 2)
    made.gang("u", 2, cpu=2, priority=9)
    made.decide()
    assert running(made) == copies(*left)


@pytest.mark.parametrize(("minimum", "cpu"), [(10, 4), (11, 4), (12, 1), (13, 1)])
def test_members_and_copies_together_leave_the_minimum_of_the_root(minimum: int, cpu: int) -> None:
    """Of 14 pods, four of a copy and one of two routers can be spared."""
    made = story(4, 4, 4, 2)
    roles = decode(3, 2, roles={"leader": 1, "worker": 3}) | {"router": Role(2, 1)}
    bind_job(made, roles=roles, min_available=minimum)
    made.gang("u", 2, cpu=1, priority=9)
    made.add(pod("v", cpu, 9))
    made.decide()
    left = sum(running(made).values())
    assert left == 0 or left >= minimum
    assert all(size == 4 for path, size in running(made).items() if path != "router")


def test_copy_that_has_lost_a_member_goes_before_those_that_stand() -> None:
    made = story(2, 2, 2, 2)
    add_job(made, roles=decode())
    made.delete(pods_of(made, "decode/1")[0].name)
    made.add(pod("u", 2, 9))
    made.decide()
    assert running(made) == {f"decode/{number}": 2 for number in (0, 2, 3)}


def test_member_of_a_copy_that_has_lost_one_does_not_go_alone() -> None:
    made = story(3, 3, 3)
    add_job(made, roles=decode(3, 2, roles={"leader": 1, "worker": Role(2, 1)}))
    lost = pods_of(made, "decode/2/leader")[0]
    node = lost.node_name
    made.delete(lost.name)
    made.add(pod("u", 2, 9, node))
    made.decide()
    assert running(made) == copies(3, 3, 0)


@pytest.mark.parametrize("whole", [False, True])
def test_copy_that_is_evicted_whole_gives_up_no_member(whole: bool) -> None:
    made = story(3, 3, 3)
    roles = {"leader": 1, "worker": Role(2, 1)}
    add_job(made, roles=decode(3, 2, roles=roles, evicted_whole=whole))
    made.add(pod("u", 1, 9))
    made.decide()
    assert running(made) == copies(3, 3, 0 if whole else 2)


@pytest.mark.parametrize("whole", [False, True])
def test_role_that_is_evicted_whole_gives_up_no_pod(whole: bool) -> None:
    made = story(4)
    roles = {"worker": Role(2, 1, evicted_whole=whole), "router": Role(2, 1)}
    add_job(made, roles=roles)
    made.gang("u", 1, priority=9)
    made.decide()
    assert running(made) == {"worker": 2, "router": 1}
    made.gang("v", 1, priority=9)
    made.decide()
    assert running(made) == ({} if whole else {"worker": 1, "router": 1})


def test_group_that_is_evicted_whole_keeps_no_copy() -> None:
    made = story(2, 2, 2, 2)
    add_job(made, roles=decode(), evicted_whole=True)
    made.add(pod("u", 1, 9))
    made.decide()
    assert running(made) == {}


def test_surplus_copy_within_a_copy_goes_before_that_one() -> None:
    inner = Role(3, 1, roles={"a": 1, "b": 1})
    made = story(6, 6)
    add_job(made, roles=decode(2, 1, roles={"replica": inner}))
    made.add(pod("u", 3, 9))
    made.decide()
    left = running(made)
    assert left == {"decode/0/replica/0": 2, "decode/0/replica/1": 2, "decode/0/replica/2": 2} | {
        "decode/1/replica/0": 2
    }
    made.add(pod("v", 3, 9))
    made.decide()
    assert running(made) == {f"decode/0/replica/{number}": 2 for number in range(3)}


# Preemptors ---------------------------------------------------------------------------------------


def busy(cpus: int, nodes: int, **more: Any) -> Story:
    """A cluster whose nodes are full with regular pods of 1 CPU."""
    made = story(*(cpus,) * nodes, **more)
    made.add(
        *(pod(f"r-{node}-{n}", 1, node=f"n{node}") for node in range(nodes) for n in range(cpus))
    )
    made.decide()
    return made


def delete_victims(of: Story) -> None:
    """Let all terminating pods be gone."""
    for each in list(of.cluster.pods()):
        if each.deleted_at is not None:
            of.delete(each.name)
    of.decide()


@each_way
def test_gang_preempts_for_as_many_copies_as_it_needs(way: Way) -> None:
    made = busy(2, 4, way=way, holds_evictions=True)
    add_job(made, priority=9, roles=decode())
    assert len(made.evicted) == 4
    (nominated,) = made.of(Nominated)
    places = {(str(uid).removeprefix("default/"), node) for uid, node in nominated.places}
    assert len(places) == 4
    assert len({str(made.pod(name).role).rpartition("/")[0] for name, _node in places}) == 2
    made.interrupt()
    made.tell(NodeAdded(make_node("a", cpu=2, labels={HOST: "a"})))
    made.decide()
    delete_victims(made)
    if way is not Way.REBUILT:  # which forgets the nomination
        assert places <= made.bound.items()
    assert sorted(running(made).values()) == [2, 2, 2]
    assert not made.of(NominationLapsed)


def test_copy_that_is_not_nominated_takes_no_node_by_half() -> None:
    made = busy(5, 1, holds_evictions=True)
    add_job(made, priority=9, roles=decode(3), topology=ON_ONE_NODE)
    assert len(made.evicted) == 4
    made.delete(next(name for name in made.bound if name not in made.evicted))
    delete_victims(made)
    assert sorted(running(made).values()) == [2, 2]


@pytest.mark.parametrize("elastic", [False, True])
@each_way
def test_surplus_copy_preempts_as_a_whole_if_elastic_members_may(way: Way, elastic: bool) -> None:
    made = busy(2, 1, way=way, elastic=elastic, holds_evictions=True)
    for number in (1, 2):
        name = f"n{number}"
        made.tell(NodeAdded(make_node(name, cpu=2, labels={HOST: name})))
    add_job(made, priority=9, roles=decode(3, 2))
    assert sorted(running(made).values()) == [2, 2]
    made.interrupt()
    made.run(until=made.now + 1)
    assert len(made.evicted) == (2 if elastic else 0)
    for name in made.evicted:
        made.delete(name)
    made.decide()
    assert sorted(running(made).values()) == ([2, 2, 2] if elastic else [2, 2])
    assert not made.of(NominationLapsed)


def test_surplus_copy_that_cannot_start_evicts_nothing() -> None:
    made = busy(1, 1, elastic=True)
    for number in (1, 2):
        name = f"n{number}"
        made.tell(NodeAdded(make_node(name, cpu=2, labels={HOST: name})))
    add_job(made, priority=9, roles=decode(3, 2))
    made.run(until=made.now + 100)
    assert sorted(running(made).values()) == [2, 2]
    assert not made.evicted


def test_member_above_the_minimum_of_a_running_copy_preempts_alone() -> None:
    made = busy(1, 1, elastic=True)
    for number in (1, 2):
        name = f"n{number}"
        made.tell(NodeAdded(make_node(name, cpu=2, labels={HOST: name})))
    roles: Mapping[str, int | Role] = {"leader": 1, "worker": Role(2, 1)}
    add_job(made, priority=9, roles={"decode": Role(2, roles=roles)})
    made.run(until=made.now + 100)
    assert sorted(running(made).values()) == [2, 3]
    assert made.evicted == ["r-0-0"]
