"""The running scheduler on an API server in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from gangsched.kubernetes import LeaderElection, ProfileSettings, Settings
from gangsched.kubernetes._api import Response
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import Fault, MemoryApi, lost_after, lost_before, refused
from support.running import ALONE, on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"


def cluster(nodes: int = 4, **node: Any) -> MemoryApi:
    api = MemoryApi()
    for n in range(nodes):
        api.put(NODES, node_json(f"n{n}", **node))
    return api


def gang(
    api: MemoryApi, name: str = "g", size: int = 3, *, grouped: bool = True, **pod: Any
) -> None:
    for n in range(size):
        api.put(PODS, pod_json(f"{name}-{n}", group=name, **pod))
    if grouped:
        api.put(GROUPS, group_json(name, size))


def condition(api: MemoryApi, collection: str, key: str, kind: str) -> dict[str, Any] | None:
    found = api.get(collection, key)
    conditions = [] if found is None else found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), None)


def reasons(api: MemoryApi, name: str) -> list[str]:
    events = api.objects.get(EVENTS, {}).values()
    return [each["reason"] for each in events if each["regarding"]["name"] == name]


def all_bound(api: MemoryApi) -> bool:
    return all(api.pods().values())


def failing(*faults: Fault, ends: str = "/binding", method: str = "POST") -> Any:
    left = list(faults)

    def fault(given: str, path: str) -> Fault | None:
        hit = given == method and path.partition("?")[0].endswith(ends) and left
        return left.pop(0) if hit else None

    return fault


@on_a_loop
async def test_gang_is_bound_when_its_group_comes_after_its_pods() -> None:
    api = cluster()
    gang(api, grouped=False)
    async with running(api):
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        api.put(GROUPS, group_json("g", 3))
        await until(lambda: all_bound(api))
    done = condition(api, GROUPS, "default/g", "PodGroupInitiallyScheduled")
    assert done is not None
    assert (done["status"], done["reason"]) == ("True", "Scheduled")
    assert reasons(api, "g-0") == ["Scheduled"]
    assert reasons(api, "g") == ["Scheduled"]


@on_a_loop
async def test_pod_is_bound_to_a_node_that_comes_later() -> None:
    api = MemoryApi()
    gang(api)
    async with running(api):
        await asyncio.sleep(0.05)
        api.put(NODES, node_json("late"))
        await until(lambda: all_bound(api))
    assert set(api.pods().values()) == {"late"}


@on_a_loop
async def test_pods_of_another_scheduler_are_not_placed_and_count_when_bound() -> None:
    api = cluster(1, gpu=2)
    api.put(PODS, pod_json("theirs", scheduler="other"))
    api.put(PODS, pod_json("running", scheduler="other", nodeName="n0"))
    gang(api, size=2)
    async with running(api):
        await until(lambda: reasons(api, "g"))
        assert api.pods()["default/theirs"] is None
        assert api.pods()["default/g-0"] is None
        api.remove(PODS, "default/running")
        await until(lambda: api.pods()["default/g-0"] and api.pods()["default/g-1"])
    assert api.pods()["default/theirs"] is None


@on_a_loop
async def test_finished_pod_uses_no_capacity() -> None:
    api = cluster(1, gpu=2)
    done = pod_json("done", scheduler="other", nodeName="n0", gpu=2)
    done["status"]["phase"] = "Succeeded"
    api.put(PODS, done)
    gang(api, size=2)
    async with running(api):
        await until(lambda: api.pods()["default/g-0"])


@on_a_loop
async def test_every_pending_member_gets_the_condition_when_its_gang_does_not_fit() -> None:
    api = cluster(1, gpu=2)
    gang(api)
    async with running(api):
        await until(
            lambda: all(condition(api, PODS, f"default/g-{n}", "PodScheduled") for n in range(3))
        )
    found = condition(api, PODS, "default/g-1", "PodScheduled")
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "nvidia.com/gpu" in found["message"]
    group = condition(api, GROUPS, "default/g", "PodGroupInitiallyScheduled")
    assert group is not None
    assert (group["status"], group["reason"]) == ("False", "Unschedulable")
    assert "FailedScheduling" in reasons(api, "g")


@on_a_loop
async def test_condition_is_patched_once_when_its_text_stays() -> None:
    api = cluster(1, gpu=2)
    gang(api)
    settings = Settings(
        leader_election=ALONE.leader_election, initial_backoff=0.01, maximum_backoff=0.01
    )
    async with running(api, settings):
        await until(lambda: condition(api, PODS, "default/g-1", "PodScheduled"))
        for n in range(5):  # each opens the class of the gang: it is tried again, and fails alike
            api.put(NODES, node_json(f"extra-{n}", gpu=0))
            await asyncio.sleep(0.03)
    patched = [path for method, path in api.requests if method == "PATCH" and "/pods/" in path]
    assert len(patched) == 3


# Binds ------------------------------------------------------------------------------------------


@on_a_loop
async def test_bind_is_repeated_when_the_api_server_is_overloaded() -> None:
    api = cluster()
    gang(api)
    api.fault = failing(refused(429, retry_after="0"), refused(503), refused(500), refused(403))
    async with running(api):
        await until(lambda: all_bound(api))


@on_a_loop
async def test_bind_whose_answer_is_lost_is_looked_at_and_not_repeated() -> None:
    api = cluster()
    gang(api)
    api.fault = failing(lost_after())
    async with running(api):
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.3)
    binds = [path for method, path in api.requests if method == "POST" and "/binding" in path]
    assert len(binds) == 3
    assert sum(method == "GET" and "/pods/g-" in path for method, path in api.requests) == 1


@on_a_loop
async def test_bind_that_was_lost_on_its_way_is_repeated_to_the_same_node() -> None:
    api = cluster()
    gang(api)
    api.fault = failing(lost_before(), lost_before())
    async with running(api):
        await until(lambda: all_bound(api))
    assert len(set(api.pods().values())) == 1


@on_a_loop
async def test_answer_500_of_a_bind_that_was_done_is_a_success() -> None:
    api = cluster()
    gang(api)
    api.fault = failing(Fault(Response(500, {}, b""), done=True))
    async with running(api):
        await until(lambda: reasons(api, "g-0") and reasons(api, "g-1") and reasons(api, "g-2"))
    assert all_bound(api)


@on_a_loop
async def test_gang_stays_when_another_scheduler_binds_a_member_first() -> None:
    api = cluster()
    gang(api)

    def rival(method: str, path: str) -> Fault | None:
        if method == "POST" and path.endswith("/pods/g-1/binding"):
            pod = api.get(PODS, "default/g-1")
            assert pod is not None
            if not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = "n3"
                api.put(PODS, pod)
        return None

    api.fault = rival
    async with running(api):
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.2)
    assert api.pods()["default/g-1"] == "n3"
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_rest_of_a_gang_is_evicted_when_a_bind_fails_for_good() -> None:
    api = cluster()
    gang(api)
    api.fault = failing(refused(422, "invalid"), ends="/pods/g-2/binding")
    async with running(api):
        await until(lambda: "default/g-0" not in api.pods() and "default/g-1" not in api.pods())
        assert api.pods() == {"default/g-2": None}
        await until(lambda: "GangReleased" in reasons(api, "g-0"))
    patched = [path for method, path in api.requests if method == "PATCH" and "/g-0/" in path]
    assert patched == ["/api/v1/namespaces/default/pods/g-0/status"]


@on_a_loop
async def test_rest_of_a_gang_is_evicted_by_budget_when_that_is_asked_for() -> None:
    api = cluster()
    gang(api)
    budget = [refused(429, "the disruption budget needs 2", retry_after="0.05") for _ in range(2)]

    def fault(method: str, path: str) -> Fault | None:
        if path.endswith("/pods/g-2/binding"):
            return refused(422, "invalid")
        return budget.pop() if path.endswith("/eviction") and budget else None

    api.fault = fault
    settings = Settings(leader_election=ALONE.leader_election, respect_budgets=True)
    async with running(api, settings):
        await until(lambda: "default/g-0" not in api.pods() and "default/g-1" not in api.pods())
    assert not any(method == "DELETE" for method, _path in api.requests)
    assert sum(path.endswith("/eviction") for _method, path in api.requests) == 4


@on_a_loop
async def test_lost_lease_ends_all_writes_and_a_new_term_goes_on() -> None:
    api = cluster()
    election = LeaderElection(lease_duration=0.6, renew_deadline=0.4, retry_period=0.05)
    leases = "/apis/coordination.k8s.io/v1/leases"
    async with running(api, Settings(leader_election=election)):
        await until(lambda: api.watchers.get(PODS))
        held = api.get(leases, "kube-system/gangsched")
        assert held is not None
        held["spec"]["holderIdentity"] = "another"
        api.put(leases, held)
        await until(lambda: not api.watchers.get(PODS))
        gang(api)
        await asyncio.sleep(0.2)
        assert not any(api.pods().values())
        await until(lambda: all_bound(api))  # the other one does not renew, so its lease expires


@on_a_loop
async def test_recreated_pod_is_not_bound_in_place_of_the_old_one() -> None:
    api = cluster()
    gang(api, size=2)
    seen: list[str] = []

    def recreate(method: str, path: str) -> Fault | None:
        if method == "POST" and path.endswith("/pods/g-0/binding") and not seen:
            old = api.get(PODS, "default/g-0")
            assert old is not None
            seen.append(old["metadata"]["uid"])
            api.remove(PODS, "default/g-0")
            api.put(PODS, pod_json("g-0", group="g"))
        return None

    api.fault = recreate
    async with running(api):
        await until(lambda: all_bound(api) and len(api.pods()) == 2)
    fresh = api.get(PODS, "default/g-0")
    assert fresh is not None
    assert fresh["metadata"]["uid"] not in seen


# Gangs that are partly on nodes -------------------------------------------------------------------


QUICK = Settings(leader_election=ALONE.leader_election, partial_bound=0.2)


def half_bound(api: MemoryApi, *, status: str) -> None:
    """Add a gang of 3 with 1 member on n0, of which the others do not fit."""
    group = group_json("g", 3)
    group["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": status}]}
    api.put(GROUPS, group)
    api.put(PODS, pod_json("g-0", group="g", gpu=2, nodeName="n0"))
    for n in (1, 2):
        api.put(PODS, pod_json(f"g-{n}", group="g", gpu=2))


@on_a_loop
async def test_partial_gang_is_released_when_the_rest_does_not_fit() -> None:
    api = cluster(1, gpu=2)
    half_bound(api, status="False")
    async with running(api, QUICK):
        await until(lambda: "default/g-0" not in api.pods())
        await until(lambda: reasons(api, "g-0"))
    assert reasons(api, "g-0") == ["GangReleased"]
    assert sorted(api.pods()) == ["default/g-1", "default/g-2"]


@on_a_loop
async def test_partial_gang_is_completed_when_the_rest_fits() -> None:
    api = cluster(3, gpu=2)
    half_bound(api, status="False")
    async with running(api, QUICK):
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.4)
    assert len(api.pods()) == 3


@on_a_loop
async def test_gang_with_a_bind_under_way_is_not_released() -> None:
    api = cluster()
    gang(api)
    held = asyncio.Event()

    def hold(_method: str, path: str) -> Fault | None:
        wait = path.endswith("/pods/g-2/binding") and not held.is_set()
        return refused(503, retry_after="0.1") if wait else None

    api.fault = hold
    async with running(api, QUICK):
        await until(lambda: sum(map(bool, api.pods().values())) == 2)
        await asyncio.sleep(0.6)
        held.set()
        await until(lambda: all_bound(api))
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_gang_that_was_whole_keeps_its_members_when_one_is_lost() -> None:
    api = cluster(1, gpu=2)
    half_bound(api, status="True")
    async with running(api, QUICK):
        await asyncio.sleep(0.6)
    assert api.pods()["default/g-0"] == "n0"


@on_a_loop
async def test_gang_is_called_scheduled_when_its_last_bind_is_done() -> None:
    api = cluster()
    gang(api)
    held = asyncio.Event()

    def hold(method: str, path: str) -> Fault | None:
        wait = path.endswith("/pods/g-2/binding") and not held.is_set()
        return refused(429, retry_after="0.05") if wait else None

    api.fault = hold
    async with running(api):
        await until(lambda: sum(map(bool, api.pods().values())) == 2)
        await asyncio.sleep(0.1)
        assert condition(api, GROUPS, "default/g", "PodGroupInitiallyScheduled") is None
        held.set()
        await until(lambda: condition(api, GROUPS, "default/g", "PodGroupInitiallyScheduled"))
    assert all_bound(api)


@on_a_loop
async def test_nothing_is_bound_to_a_node_that_is_gone_and_nothing_deleted() -> None:
    api = cluster(1)
    gang(api)

    def vanish(method: str, path: str) -> Fault | None:
        if path.endswith("/binding") and "n1" not in api.objects[NODES]:
            api.remove(NODES, "n0")
            return refused(429, retry_after="0.1")
        return None

    api.fault = vanish
    async with running(api):
        await until(lambda: api.get(NODES, "n0") is None)
        await asyncio.sleep(0.3)
        assert not any(api.pods().values())
        api.put(NODES, node_json("n1"))
        await until(lambda: all_bound(api))
    assert set(api.pods().values()) == {"n1"}
    assert len(api.pods()) == 3
    assert not any(method == "DELETE" for method, _path in api.requests)


# Watches ----------------------------------------------------------------------------------------


@on_a_loop
async def test_gang_is_bound_after_the_watch_was_compacted() -> None:
    api = cluster()
    async with running(api):
        await asyncio.sleep(0.05)
        gang(api)
        api.compact()
        await until(lambda: all_bound(api))


@on_a_loop
async def test_own_binds_survive_a_relist() -> None:
    api = cluster()
    gang(api)
    async with running(api):
        await until(lambda: all_bound(api))
        api.compact()
        api.put(PODS, pod_json("plain"))
        await until(lambda: all_bound(api))
    binds = [path for method, path in api.requests if method == "POST" and "/binding" in path]
    assert len(binds) == 4


@on_a_loop
async def test_groups_of_an_api_that_is_installed_later_are_watched() -> None:
    api = cluster()
    api.served.clear()
    gang(api)
    async with running(api):
        await asyncio.sleep(0.05)
        assert not any(api.pods().values())
    api.served.add("scheduling.k8s.io/v1beta1")
    async with running(api):
        await until(lambda: all_bound(api))


# Preemption -------------------------------------------------------------------------------------


@on_a_loop
async def test_victims_get_a_condition_before_they_are_deleted() -> None:
    api = cluster(1, gpu=2)
    for n in range(2):
        api.put(PODS, pod_json(f"low-{n}", scheduler="other", nodeName="n0"))
    log: list[tuple[str, Any]] = []

    def note(method: str, path: str) -> Fault | None:
        if "/low-0" in path or method == "PATCH":
            log.append((method, path.rpartition("/pods/")[2]))
        return None

    api.fault = note
    gang(api, size=2, priority=10)
    profile = ProfileSettings(args={"DefaultPreemption": {}})
    settings = Settings(leader_election=ALONE.leader_election, profile=profile)
    async with running(api, settings):
        await until(lambda: api.pods().get("default/g-0") and api.pods().get("default/g-1"))
    assert [each for each in log if each[1].startswith("low-0")] == [
        ("PATCH", "low-0/status"),
        ("DELETE", "low-0"),
    ]
    assert reasons(api, "low-0") == ["Preempted"]


# At the end -------------------------------------------------------------------------------------


@on_a_loop
async def test_stop_waits_for_binds_under_way() -> None:
    api = cluster()
    gang(api, size=3)
    begun = asyncio.Event()

    def slow(method: str, path: str) -> Fault | None:
        if path.endswith("/binding"):
            begun.set()
        return None

    api.fault = slow
    async with running(api) as stop:
        await until(lambda: api.watchers.get(PODS))
        api.delay = 0.2
        await begun.wait()
        stop.set()
    assert all_bound(api)
