"""The running scheduler on a real API server, with the rights that the documentation names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.kubernetes import LeaderElection
from support.control_plane import Account
from support.control_plane.processes import free_ports
from support.memory_api import Fault, lost_after, lost_before, refused
from support.priority_class import urgent_class
from support.running import on_a_loop, until
from support.scheduled_cluster import (
    GROUPS,
    Cluster,
    cluster,
    documented_rights,
    eventually,
    scheduling,
)
from support.scraping import fetch, sample

__all__ = ["cluster"]

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")


def binding(fault: Callable[[], Fault], *, times: int = 1, ends: str = "/binding") -> Any:
    left = [fault() for _ in range(times)]

    def decide(method: str, path: str) -> Fault | None:
        return left.pop() if method == "POST" and path.endswith(ends) and left else None

    return decide


# Whole gangs ------------------------------------------------------------------------------------


@on_a_loop
async def test_gang_is_bound_with_events_and_conditions(cluster: Cluster) -> None:
    def conditions_of_group() -> dict[str, str]:
        path = f"{GROUPS}/namespaces/{cluster.namespace}/podgroups/g"
        found = cluster.plane.admin.get(path).get("status", {}).get("conditions", ())
        return {each["type"]: each["status"] for each in found}

    cluster.add_nodes(2)
    cluster.add_gang("g", 4, grouped=False)
    async with scheduling(cluster):
        await asyncio.sleep(0.5)
        assert not any(cluster.placed().values())
        cluster.add_group("g", 4)
        await eventually(lambda: cluster.all_bound(4))
        await eventually(lambda: cluster.reasons("g-3") == ["Scheduled"])
        await eventually(lambda: cluster.reasons("g") == ["Scheduled"])
        await eventually(lambda: conditions_of_group() == {"PodGroupInitiallyScheduled": "True"})


@on_a_loop
async def test_gang_that_does_not_fit_is_reported_and_starts_with_a_node(cluster: Cluster) -> None:
    cluster.add_nodes(1, gpu=2)
    cluster.add_gang("g", 3)
    async with scheduling(cluster):
        await eventually(lambda: cluster.condition("g-2", "PodScheduled"))
        assert not any(cluster.placed().values())
        cluster.add_nodes(1, gpu=2)
        await eventually(lambda: cluster.all_bound(3))


@on_a_loop
async def test_binds_without_the_right_are_shown_and_go_on_when_it_is_given(
    cluster: Cluster,
) -> None:
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    (port,) = free_ports(1)

    def refused_binds() -> tuple[float, float]:
        shown = fetch(port, "/metrics")
        binding = sample(shown, "gangsched_groups", 'state="binding"')
        return binding, sample(shown, "gangsched_kubernetes_refused_binds")

    cluster.add_nodes(1)
    async with scheduling(cluster, without="pods/binding", serve=("127.0.0.1", port)):
        cluster.add_gang("g", 2)
        await eventually(lambda: refused_binds() == (1, 2))
        why = await eventually(lambda: fetch(port, f"/why?group={cluster.namespace}/g"))
        assert "2 members are being bound; the API server says: pods" in why
        assert "cannot create resource" in why
        await eventually(lambda: cluster.reasons("g-1") == ["FailedScheduling"])
        Account.create(cluster.plane.admin, "without-pods-binding", documented_rights())
        await eventually(lambda: cluster.all_bound(2))
        await eventually(lambda: refused_binds() == (0, 0))


@on_a_loop
async def test_only_our_pods_are_placed_and_others_count(cluster: Cluster) -> None:
    cluster.add_nodes(1, gpu=2)
    cluster.add_pod("pending", scheduler="other")
    cluster.add_pod("running", scheduler="other", nodeName=cluster.nodes[0])
    cluster.add_gang("g", 2)
    async with scheduling(cluster):
        await eventually(lambda: cluster.reasons("g"))
        assert not cluster.placed()["g-0"]
        cluster.plane.admin.delete(cluster.path("running"), gracePeriodSeconds=0)
        await eventually(lambda: cluster.placed()["g-0"] and cluster.placed()["g-1"])
    assert cluster.placed()["pending"] is None


@on_a_loop
async def test_tainted_and_cordoned_nodes_take_no_gang(cluster: Cluster) -> None:
    cluster.add_nodes(1, unschedulable=True)
    cluster.add_nodes(1, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    cluster.add_gang("g", 2)
    async with scheduling(cluster):
        await eventually(lambda: cluster.reasons("g"))
        assert not any(cluster.placed().values())
        ready = cluster.nodes[1]
        cluster.plane.admin.patch(f"/api/v1/nodes/{ready}", {"spec": {"taints": None}})
        await eventually(lambda: cluster.all_bound(2))
    assert set(cluster.placed().values()) == {ready}


@on_a_loop
async def test_pod_with_a_constraint_that_is_not_modelled_is_held(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}
    cluster.add_pod("held", volumes=[claim])
    async with scheduling(cluster):
        await eventually(lambda: cluster.reasons("held"))
        await eventually(lambda: cluster.condition("held", "PodScheduled"))
        found = cluster.condition("held", "PodScheduled")
    assert cluster.placed() == {"held": None}
    assert found is not None
    assert found["reason"] == "Unschedulable"


@on_a_loop
async def test_group_name_of_200_kilobytes_is_told_in_few_words(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    name = {"scheduling.k8s.io/group-name": "g" * 200_000}
    cluster.add_pod("long", annotations=name)
    async with scheduling(cluster):
        await eventually(lambda: cluster.reasons("long"))
        await eventually(lambda: cluster.condition("long", "PodScheduled"))
        cluster.add_gang("g", 2)
        await eventually(lambda: cluster.placed()["g-0"] and cluster.placed()["g-1"])
    assert cluster.placed()["long"] is None
    condition = cluster.condition("long", "PodScheduled")
    assert condition is not None
    assert "at most 253 characters" in condition["message"]
    assert len(condition["message"].encode()) <= 1024


# Binds ------------------------------------------------------------------------------------------


FAULTS: dict[str, Callable[[], Fault]] = {
    "answer lost": lost_after,
    "request lost": lost_before,
    "429": lambda: refused(429, retry_after="0"),
    "500": lambda: refused(500),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
@on_a_loop
async def test_gang_is_whole_after_answers_were_lost(cluster: Cluster, name: str) -> None:
    cluster.add_nodes(2)
    cluster.add_gang("g", 4)
    async with scheduling(cluster) as (api, _stop):
        api.fault = binding(FAULTS[name], times=3)
        await eventually(lambda: cluster.all_bound(4))
        await eventually(lambda: all(cluster.reasons(f"g-{n}") == ["Scheduled"] for n in range(4)))
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_gang_stays_whole_when_another_scheduler_binds_members(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    async with scheduling(cluster) as (api, _stop):
        api.held.clear()
        cluster.add_gang("g", 4)
        await until(lambda: sum(path.endswith("/binding") for _m, path in api.requests) == 4)
        for n in range(2):
            cluster.bind(f"g-{n}", cluster.nodes[1])
        api.held.set()
        await eventually(lambda: cluster.all_bound(4))
        await asyncio.sleep(0.3)
    assert [cluster.placed()[f"g-{n}"] for n in range(2)] == [cluster.nodes[1]] * 2
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_recreated_member_is_placed_and_not_bound_in_place_of_the_old(
    cluster: Cluster,
) -> None:
    cluster.add_nodes(2)
    async with scheduling(cluster) as (api, _stop):
        api.held.clear()
        cluster.add_gang("g", 3)
        await until(lambda: sum(path.endswith("/binding") for _m, path in api.requests) == 3)
        cluster.plane.admin.delete(cluster.path("g-1"), gracePeriodSeconds=0)
        cluster.add_pod("g-1", group="g")
        api.held.set()
        await eventually(lambda: cluster.all_bound(3))


@on_a_loop
async def test_rest_is_evicted_when_a_bind_fails_for_good(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.add_gang("g", 3, terminationGracePeriodSeconds=0)
    async with scheduling(cluster) as (api, _stop):
        api.fault = binding(lambda: refused(422, "invalid"), ends="/g-2/binding")
        await eventually(lambda: list(cluster.placed()) == ["g-2"])
        await eventually(lambda: "GangReleased" in cluster.reasons("g-0"))


@on_a_loop
async def test_nothing_is_bound_to_a_node_that_has_vanished(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    async with scheduling(cluster) as (api, _stop):
        api.held.clear()
        cluster.add_gang("g", 2)
        await until(lambda: sum(path.endswith("/binding") for _m, path in api.requests) == 2)
        # refused until the scheduler has seen that the node is gone, and says so
        api.fault = lambda _method, path: (
            refused(503, retry_after="0") if path.endswith("/binding") else None
        )
        cluster.plane.admin.delete(f"/api/v1/nodes/{cluster.nodes[0]}")
        api.held.set()
        await eventually(lambda: cluster.condition("g-0", "PodScheduled"))
        api.fault = lambda _method, _path: None
        await asyncio.sleep(0.5)
        assert not any(cluster.placed().values())
        cluster.add_nodes(1)
        await eventually(lambda: cluster.all_bound(2))


# Restarts ---------------------------------------------------------------------------------------


@on_a_loop
async def test_gangs_are_bound_after_the_api_server_was_killed(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.add_gang("before", 2)
    async with scheduling(cluster):
        await eventually(lambda: cluster.all_bound(2))
        cluster.plane.apiserver.kill()
        await asyncio.sleep(0.5)
        await asyncio.to_thread(cluster.plane.start_apiserver)
        cluster.plane.admin.close()
        cluster.add_gang("after", 3)
        await eventually(lambda: cluster.all_bound(5))


@on_a_loop
async def test_gang_is_whole_after_its_scheduler_was_stopped_half_way(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    async with scheduling(cluster, cluster.settings(drain=0.0)) as (api, stop):
        late = ("/g-2/binding", "/g-3/binding")
        api.fault = lambda _method, path: (
            refused(503, retry_after="1") if path.endswith(late) else None
        )
        cluster.add_gang("g", 4)
        await eventually(lambda: sum(map(bool, cluster.placed().values())) == 2)
        stop.set()
    assert not cluster.all_bound(4)
    async with scheduling(cluster):
        await eventually(lambda: cluster.all_bound(4))


@on_a_loop
async def test_replica_takes_over_at_once_after_a_graceful_stop(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    # a Lease that is not given up keeps the next replica waiting for longer than any wait here
    election = LeaderElection(
        resource_name=cluster.name, lease_duration=3600.0, renew_deadline=60.0
    )
    settings = cluster.settings(leader_election=election)
    async with scheduling(cluster, settings) as (_first, stop):
        cluster.add_gang("g", 2)
        await eventually(lambda: cluster.all_bound(2))
        async with scheduling(cluster, settings) as (second, _stop):
            await eventually(lambda: any("/leases" in path for _m, path in second.requests))
            cluster.add_gang("h", 3, grouped=False)
            stop.set()
            cluster.add_group("h", 3)
            await eventually(lambda: cluster.all_bound(5))
            bound = [path for _m, path in second.requests if path.endswith("/binding")]
            assert len(bound) <= 3


# Preemption -------------------------------------------------------------------------------------


@on_a_loop
async def test_victims_get_a_condition_and_preemptors_a_nominated_node(cluster: Cluster) -> None:
    cluster.add_nodes(1, gpu=2)
    for n in range(2):
        cluster.add_pod(f"low-{n}", scheduler="other", nodeName=cluster.nodes[0])
    cluster.add_gang("g", 2, priorityClassName=urgent_class(cluster.plane.admin))
    settings = cluster.settings(profile={"args": {"DefaultPreemption": {}}})
    async with scheduling(cluster, settings):
        await eventually(
            lambda: cluster.plane.admin.get(cluster.path("low-0"))["metadata"].get(
                "deletionTimestamp"
            )
        )
        assert cluster.condition("low-0", "DisruptionTarget") is not None
        await eventually(
            lambda: cluster.plane.admin.get(cluster.path("g-0"))["status"].get("nominatedNodeName")
        )
        for n in range(2):  # as the kubelet does when the grace period is over
            cluster.plane.admin.delete(cluster.path(f"low-{n}"), gracePeriodSeconds=0)
        await eventually(lambda: cluster.all_bound(2))
