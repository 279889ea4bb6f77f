"""The running scheduler on an API server in memory."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from pathlib import Path

import pytest

from gangsched.cli import main
from gangsched.kubernetes import LeaderElection, ProfileSettings, Settings
from gangsched.kubernetes._cache import Cache
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import Fault, MemoryApi, lost_after, refused
from support.memory_cluster import (
    all_bound,
    change,
    cluster,
    condition,
    put_gang,
    reasons,
    scheduled,
    striking,
)
from support.running import ALONE, on_a_loop, running, until
from support.scraping import fetch, sample

QUICK = Settings(leader_election=ALONE.leader_election, partial_bound=0.2)


def of_group(api: MemoryApi) -> tuple[str, str]:
    found = condition(api, GROUPS, "g", "PodGroupInitiallyScheduled")
    return found.get("status", ""), found.get("reason", "")


@on_a_loop
async def test_gang_is_bound_when_its_group_comes_after_its_pods() -> None:
    api = cluster()
    put_gang(api, grouped=False)
    async with running(api):
        await asyncio.sleep(0.1)
        assert not any(api.pods().values())
        api.put(GROUPS, group_json("g", 3))
        await until(lambda: all_bound(api))
    assert of_group(api) == ("True", "Scheduled")
    assert reasons(api, "g-0") == reasons(api, "g") == ["Scheduled"]


@on_a_loop
async def test_pods_of_another_scheduler_are_not_placed_and_count_while_they_run() -> None:
    api = cluster(gpu=2)
    for name, node in (("theirs", None), ("running", "n0"), ("done", "n0")):
        api.put(PODS, pod_json(name, scheduler="other", nodeName=node))
    change(api, PODS, "default/done", status={"phase": "Succeeded"})
    put_gang(api, size=2)
    async with running(api):
        await until(lambda: reasons(api, "g"))
        assert not api.pods()["default/g-0"]
        api.remove(PODS, "default/running")
        await until(lambda: api.pods()["default/g-0"] and api.pods()["default/g-1"])
    assert api.pods()["default/theirs"] is None


@on_a_loop
async def test_every_pending_member_gets_the_condition_once_when_its_gang_does_not_fit() -> None:
    api = cluster(gpu=2)
    put_gang(api)
    settings = Settings(
        leader_election=ALONE.leader_election, initial_backoff=0.01, maximum_backoff=0.01
    )
    async with running(api, settings):
        await until(lambda: all(scheduled(api, f"g-{n}") for n in range(3)))
        for n in range(5):  # each wakes the gang: it is tried again, and fails alike
            api.put(NODES, node_json(f"extra-{n}", gpu=0))
            await asyncio.sleep(0.03)
    found = scheduled(api, "g-1")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "nvidia.com/gpu" in found["message"]
    assert of_group(api) == ("False", "Unschedulable")
    assert "FailedScheduling" in reasons(api, "g")
    assert sum(method == "PATCH" and "/pods/" in path for method, path in api.requests) == 3


# Binds; what becomes of one is in test_bind.py ----------------------------------------------------


@on_a_loop
async def test_bind_whose_answer_is_lost_is_looked_at_and_not_repeated() -> None:
    api = cluster()
    put_gang(api)
    api.fault = striking(lost_after())
    async with running(api):
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.3)
    assert sum(method == "POST" and "/binding" in path for method, path in api.requests) == 3
    assert sum(method == "GET" and "/pods/g-" in path for method, path in api.requests) == 1


@on_a_loop
async def test_gang_stays_when_another_scheduler_binds_a_member_first() -> None:
    api = cluster(4)
    put_gang(api)

    def rival(_method: str, path: str) -> Fault | None:
        if path.endswith("/pods/g-1/binding") and not api.pods()["default/g-1"]:
            change(api, PODS, "default/g-1", spec={"nodeName": "n3"})
        return None

    api.fault = rival
    async with running(api):
        await until(lambda: all_bound(api))
        await asyncio.sleep(0.2)
    assert api.pods()["default/g-1"] == "n3"
    assert not any(method == "DELETE" for method, _path in api.requests)


@pytest.mark.parametrize("respect", [False, True])
@on_a_loop
async def test_rest_of_a_gang_is_evicted_when_a_bind_fails_for_good(respect: bool) -> None:
    """With a budget that is asked for, the eviction is repeated until the budget allows it."""
    api = cluster()
    put_gang(api)
    budget = [refused(429, "the disruption budget needs 2", retry_after="0.05") for _ in range(2)]

    def fault(_method: str, path: str) -> Fault | None:
        if path.endswith("/pods/g-2/binding"):
            return refused(422, "invalid")
        return budget.pop() if path.endswith("/eviction") and budget else None

    api.fault = fault
    settings = Settings(leader_election=ALONE.leader_election, respect_budgets=respect)
    async with running(api, settings):
        await until(lambda: api.pods() == {"default/g-2": None})
        await until(lambda: "GangReleased" in reasons(api, "g-0"))
    evictions = sum(path.endswith("/eviction") for _method, path in api.requests)
    deletions = sum(method == "DELETE" for method, _path in api.requests)
    assert (evictions, deletions) == ((4, 0) if respect else (0, 2))
    patched = [path for method, path in api.requests if method == "PATCH" and "/g-0/" in path]
    assert patched == ["/api/v1/namespaces/default/pods/g-0/status"]


@on_a_loop
async def test_lost_lease_ends_all_writes_and_a_new_term_goes_on() -> None:
    api = cluster()
    election = LeaderElection(lease_duration=0.6, renew_deadline=0.4, retry_period=0.05)
    leases = "/apis/coordination.k8s.io/v1/leases"
    async with running(api, Settings(leader_election=election)):
        await until(lambda: api.watchers.get(PODS))
        change(api, leases, "kube-system/gangsched", spec={"holderIdentity": "another"})
        await until(lambda: not api.watchers.get(PODS))
        put_gang(api)
        await asyncio.sleep(0.2)
        assert not any(api.pods().values())
        await until(lambda: all_bound(api))  # the other one does not renew, so its lease expires


@on_a_loop
async def test_replica_that_has_led_keeps_and_shows_nothing_of_the_cluster() -> None:
    """Otherwise it would need the memory of a leader, and its alerts would never resolve."""
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    api, (port,), ends = cluster(gpu=1), free_ports(1), list[str]()
    put_gang(api)
    leases = "/apis/coordination.k8s.io/v1/leases"
    named = {"serve": ("127.0.0.1", port), "term_ended": lambda: ends.append("ended")}

    async def waiting() -> float:
        shown = await asyncio.to_thread(fetch, port, "/metrics")
        return sample(shown, "gangsched_groups", 'state="pending"')

    async with running(api, Settings(leader_election=LeaderElection()), **named):
        await until(lambda: scheduled(api, "g-0"))
        assert await waiting() == 1
        assert "default" in await asyncio.to_thread(fetch, port, "/gangs")  # kept for a second
        known = weakref.ref(next(each for each in gc.get_objects() if isinstance(each, Cache)))
        change(api, leases, "kube-system/gangsched", spec={"holderIdentity": "another"})
        await until(lambda: ends)
        assert await waiting() == 0
        gc.collect()
        assert known() is None


@on_a_loop
async def test_recreated_pod_is_not_bound_in_place_of_the_old_one() -> None:
    api = cluster()
    put_gang(api, size=2)
    old = api.get(PODS, "default/g-0") or {}
    recreated: list[dict[str, object]] = []

    def recreate(_method: str, path: str) -> Fault | None:
        if path.endswith("/pods/g-0/binding") and not recreated:
            api.remove(PODS, "default/g-0")
            recreated.append(api.put(PODS, pod_json("g-0", group="g")))
        return None

    api.fault = recreate
    async with running(api):
        await until(lambda: all_bound(api) and len(api.pods()) == 2)
    fresh = api.get(PODS, "default/g-0") or {}
    assert fresh["metadata"]["uid"] != old["metadata"]["uid"]


# Gangs that are partly on nodes; their bound is in test_partial_gangs.py --------------------------


@pytest.mark.parametrize(
    ("nodes", "was_whole", "left"),
    [(1, "False", [None, None]), (3, "False", ["n0", "n1", "n2"]), (1, "True", ["n0", None, None])],
    ids=["the rest does not fit", "the rest fits", "it was whole"],
)
@on_a_loop
async def test_gang_that_is_partly_bound_is_completed_or_released(
    nodes: int, was_whole: str, left: list[str | None]
) -> None:
    api = cluster(nodes, gpu=2)
    group = group_json("g", 3)
    group["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": was_whole}]}
    api.put(GROUPS, group)
    api.put(PODS, pod_json("g-0", group="g", gpu=2, nodeName="n0"))
    for n in (1, 2):
        api.put(PODS, pod_json(f"g-{n}", group="g", gpu=2))
    async with running(api, QUICK):
        await asyncio.sleep(0.4)
        await until(lambda: sorted(api.pods().values(), key=str) == sorted(left, key=str))
        if len(left) == 2:
            await until(lambda: reasons(api, "g-0") == ["GangReleased"])


@on_a_loop
async def test_gang_with_a_bind_under_way_is_not_released_and_not_called_scheduled() -> None:
    api = cluster()
    put_gang(api)
    done = asyncio.Event()

    def hold(_method: str, path: str) -> Fault | None:
        waits = path.endswith("/pods/g-2/binding") and not done.is_set()
        return refused(429, retry_after="0.05") if waits else None

    api.fault = hold
    async with running(api, QUICK):
        await until(lambda: sum(map(bool, api.pods().values())) == 2)
        await asyncio.sleep(0.5)
        assert of_group(api) == ("", "")
        done.set()
        await until(lambda: of_group(api) == ("True", "Scheduled"))
    assert all_bound(api)
    assert not any(method == "DELETE" for method, _path in api.requests)


@on_a_loop
async def test_nothing_is_bound_to_a_node_that_is_gone_and_nothing_deleted() -> None:
    api = cluster()
    put_gang(api)

    def vanish(_method: str, path: str) -> Fault | None:
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
    assert not any(method == "DELETE" for method, _path in api.requests)


# Watches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_bound", [False, True])
@on_a_loop
async def test_scheduler_goes_on_after_its_watches_were_compacted(is_bound: bool) -> None:
    api = cluster()
    async with running(api):
        await asyncio.sleep(0.05)
        put_gang(api)
        if not is_bound:
            api.compact()
        await until(lambda: all_bound(api))
        if is_bound:
            api.compact()
            api.put(PODS, pod_json("plain"))
            for n in range(50):  # what is read late: the log is as long as before by then
                api.put(NODES, node_json(f"late-{n}"))
            await until(lambda: all_bound(api))
    binds = sum(method == "POST" and "/binding" in path for method, path in api.requests)
    assert binds == len(api.pods())


@on_a_loop
async def test_groups_of_an_api_that_is_installed_later_are_watched() -> None:
    api = cluster()
    api.served.clear()
    put_gang(api)
    async with running(api):
        await asyncio.sleep(0.05)
        assert not any(api.pods().values())
    api.served.add("scheduling.k8s.io/v1beta1")
    async with running(api):
        await until(lambda: all_bound(api))


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("kind", ["/csidrivers", "/poddisruptionbudgets"])
@on_a_loop
async def test_pods_are_bound_after_a_refused_watch_of_a_listed_kind(
    kind: str, status: int
) -> None:
    """As while an API server starts. Without WatchList (400), the kind is listed in pages."""
    api = cluster()
    api.put(PODS, pod_json("p"))
    answers: list[Fault | None] = [refused(400), refused(status)]
    accepted, nodes_are_listed = asyncio.Event(), asyncio.Event()

    def fault(method: str, path: str) -> Fault | None:
        if path.startswith(NODES) and not nodes_are_listed.is_set():
            return refused(503)
        if method == "WATCH" and kind in path:
            if answers:
                return answers.pop(0)
            accepted.set()
        return None

    api.fault = fault
    async with running(api):
        await accepted.wait()
        assert not api.pods()["default/p"]
        nodes_are_listed.set()
        await until(lambda: api.pods()["default/p"])


# Preemption, and the command ----------------------------------------------------------------------


@on_a_loop
async def test_victims_get_a_condition_before_they_are_deleted() -> None:
    api = cluster(gpu=2)
    for n in range(2):
        api.put(PODS, pod_json(f"low-{n}", scheduler="other", nodeName="n0"))
    put_gang(api, size=2, priority=10)
    profile = ProfileSettings(args={"DefaultPreemption": {}})
    async with running(api, Settings(leader_election=ALONE.leader_election, profile=profile)):
        await until(lambda: api.pods().get("default/g-0") and api.pods().get("default/g-1"))
    path = "/api/v1/namespaces/default/pods/low-0"
    written = [each for each in api.requests if "/low-0" in each[1]]
    assert written == [("PATCH", f"{path}/status"), ("DELETE", path)]
    assert reasons(api, "low-0") == ["Preempted"]


@on_a_loop
async def test_first_settled_is_called_once_when_all_is_decided() -> None:
    api, calls = cluster(2), list[str]()
    for name in ("one", "two"):
        api.put(PODS, pod_json(name))
    async with running(api, first_settled=lambda: calls.append("settled")):
        await until(lambda: all_bound(api))
        api.put(PODS, pod_json("three"))
        await until(lambda: all_bound(api) and calls)
    assert calls == ["settled"]


def test_command_says_that_its_address_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        """{apiVersion: v1, kind: Config, current-context: x,
        clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
        contexts: [{name: x, context: {cluster: c}}]}""",
        encoding="utf-8",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["run", "--kubeconfig", str(kubeconfig), "--serve", address]) == 2
    said = capsys.readouterr().err
    assert "in use" in said
    assert "standard output" not in said
