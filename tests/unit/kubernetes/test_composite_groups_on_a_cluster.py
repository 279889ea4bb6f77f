"""Composite pod groups on an API server in memory: starts, conditions, absence and clashes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.cli import _kubectl
from gangsched.kubernetes import read_settings
from support.cluster_objects import (
    COMPOSITES,
    GROUPS,
    NODES,
    PODS,
    composite_json,
    node_json,
    pod_json,
)
from support.cluster_objects import put_gang as put_group
from support.extender_client import extending
from support.memory_api import Fault, MemoryApi, refused
from support.memory_cluster import change, cluster, condition, events, reasons, scheduled
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

WRITTEN = "CompositePodGroupInitiallyScheduled"


def tree(nodes: int = 1, *, gpu: int = 4, composites: bool = True) -> MemoryApi:
    """Return a cluster that serves groups of groups, with nodes of some GPUs."""
    api = cluster(nodes, gpu=gpu)
    api.composites = composites
    return api


def placed(api: MemoryApi) -> set[str]:
    """Return the groups of which each pod has a node."""
    groups: dict[str, set[bool]] = {}
    for key, node in api.pods().items():
        name = key.partition("/")[2].rpartition("-")[0]
        groups.setdefault(name, set()).add(node is not None)
    return {name for name, on_nodes in groups.items() if on_nodes == {True}}


def of_tree(api: MemoryApi, name: str) -> tuple[str, str]:
    """Return status and message of the condition of a group of groups."""
    found = condition(api, COMPOSITES, name, WRITTEN)
    return found.get("status", ""), found.get("message", "")


def is_written(api: MemoryApi, name: str) -> bool:
    """Return whether a group of groups says that it was scheduled."""
    return of_tree(api, name)[0] == "True"


def why(api: MemoryApi, pod: str) -> str:
    text: str = scheduled(api, pod).get("message", "")
    return text


def bind(api: MemoryApi, *names: str, **notes: str) -> None:
    """Place pods on the first node, as an earlier leader did."""
    for name in names:
        found: Any = api.get(PODS, f"default/{name}")
        found["spec"]["nodeName"] = "n0"
        found["metadata"]["annotations"] = notes
        api.put(PODS, found)


@on_a_loop
async def test_k_of_n_groups_start_and_another_one_starts_when_room_comes() -> None:
    api = tree(gpu=4)
    api.put(COMPOSITES, composite_json("serve", 2))
    for name in ("a", "b", "c"):
        put_group(api, name, 2, parent="serve")
    async with running(api):
        await until(lambda: placed(api) == {"a", "b"})
        await until(lambda: is_written(api, "serve"))
        assert of_tree(api, "serve")[1] == "4 members are assigned to nodes"
        await until(lambda: "at most 2 of 3 children" in why(api, "c-0"))
        waits = condition(api, GROUPS, "c", "PodGroupInitiallyScheduled")
        assert (waits["status"], waits["message"]) == ("False", why(api, "c-0"))
        await until(lambda: reasons(api, "c") == ["FailedScheduling"])
        api.put(NODES, node_json("more", gpu=2))
        await until(lambda: placed(api) == {"a", "b", "c"})
    assert is_written(api, "serve")  # a child that waited did not take it back


@on_a_loop
async def test_parents_and_children_say_what_the_tree_lacks_until_it_starts() -> None:
    api = tree(gpu=1)
    api.put(COMPOSITES, composite_json("serve", 2))
    api.put(COMPOSITES, composite_json("decode", 1, parent="serve"))
    put_group(api, "d", 2, parent="decode")
    async with running(api):
        lacks = "waiting for pod groups whose parent is default/serve: 1 of 2 can start"
        await until(lambda: lacks in why(api, "d-0"))
        await until(lambda: lacks in of_tree(api, "serve")[1])
        put_group(api, "p", 1, parent="serve")
        await until(lambda: "not all of 2 children" in of_tree(api, "serve")[1])
        assert of_tree(api, "serve")[0] == "False"
        await until(lambda: "FailedScheduling" in reasons(api, "serve"))
        (regarding,) = {tuple(sorted(each["regarding"].items())) for each in events(api, "serve")}
        assert dict(regarding)["kind"] == "CompositePodGroup"
        api.put(NODES, node_json("more", gpu=2))
        await until(lambda: placed(api) == {"d", "p"})
        for name in ("serve", "decode"):
            await until(partial(is_written, api, name))


@on_a_loop
async def test_parent_below_another_one_is_placed_by_itself() -> None:
    """What an earlier leader has bound is enough for the inner parent, and not for the root."""
    api = tree(gpu=2)
    api.put(COMPOSITES, composite_json("serve", 2))
    api.put(COMPOSITES, composite_json("decode", 1, parent="serve"))
    put_group(api, "d", 2, parent="decode")
    put_group(api, "p", 1, parent="serve")
    bind(api, "d-0", "d-1")
    async with running(api):
        await until(lambda: of_tree(api, "serve")[0] == "False")
        await until(lambda: is_written(api, "decode"))
    assert reasons(api, "decode") == []


@on_a_loop
async def test_parent_that_comes_later_than_its_children_starts_them() -> None:
    api = tree()
    put_group(api, "a", 2, parent="serve")
    async with running(api):
        absent = "waiting for pod group default/serve, a parent: it does not exist"
        await until(lambda: why(api, "a-0") == absent)
        api.put(COMPOSITES, composite_json("serve", 1))
        await until(lambda: placed(api) == {"a"})


@on_a_loop
async def test_deleted_child_makes_way_and_a_deleted_parent_leaves_what_runs() -> None:
    api = tree(gpu=2)
    api.put(COMPOSITES, composite_json("serve", 1))
    put_group(api, "a", 2, parent="serve")
    put_group(api, "b", 2, parent="serve")
    async with running(api):
        await until(lambda: placed(api) == {"a"})
        api.remove(GROUPS, "default/a")
        for name in ("a-0", "a-1"):
            api.remove(PODS, f"default/{name}")
        await until(lambda: placed(api) == {"b"})
        api.remove(COMPOSITES, "default/serve")
        put_group(api, "alone", 1, gpu=0)
        await until(lambda: placed(api) == {"alone", "b"})


@on_a_loop
async def test_child_is_held_while_its_kind_is_not_served_and_starts_once_it_is() -> None:
    api = tree(composites=False)
    put_group(api, "a", 1, parent="serve")
    put_group(api, "free", 1)
    async with running(api):
        await until(lambda: placed(api) == {"free"})
        await until(lambda: "the API server serves no CompositePodGroups" in why(api, "a-0"))
        assert "feature gate CompositePodGroup" in why(api, "a-0")
    api.composites = True
    api.put(COMPOSITES, composite_json("serve", 1))
    async with running(api):  # it looks at once
        await until(lambda: placed(api) == {"a", "free"})


@on_a_loop
async def test_missing_right_on_composite_groups_holds_their_children_alone() -> None:
    def fault(_method: str, path: str) -> Fault | None:
        return refused(403, "no right") if "/compositepodgroups" in path else None

    api = tree()
    api.put(COMPOSITES, composite_json("serve", 1))
    put_group(api, "a", 1, parent="serve")
    put_group(api, "free", 1)
    api.fault = fault
    async with running(api):
        await until(lambda: placed(api) == {"free"})
        unread = "CompositePodGroup.v1alpha3.scheduling.k8s.io objects: they cannot be read"
        await until(lambda: unread in why(api, "a-0"))
        api.fault = lambda _method, _path: None
        await until(lambda: placed(api) == {"a", "free"})


@on_a_loop
async def test_composite_group_that_cannot_be_read_holds_its_children_with_its_field() -> None:
    api = tree()
    api.put(COMPOSITES, composite_json("serve", 0))
    put_group(api, "a", 1, parent="serve")
    async with running(api):
        problem = "its CompositePodGroup cannot be read: spec.schedulingPolicy.gang.minGroupCount"
        await until(lambda: problem in why(api, "a-0"))
        await until(lambda: problem in of_tree(api, "serve")[1])
        found = condition(api, COMPOSITES, "serve", WRITTEN)
        assert (found["status"], found["reason"]) == ("False", "SchedulerError")
        await until(lambda: "FailedScheduling" in reasons(api, "serve"))
        change(api, COMPOSITES, "default/serve", spec=composite_json("serve", 1)["spec"])
        await until(lambda: placed(api) == {"a"})


@on_a_loop
async def test_group_of_pods_and_composite_group_of_one_name_are_both_held() -> None:
    api = tree()
    api.put(COMPOSITES, composite_json("x", 1))
    put_group(api, "x", 1)
    put_group(api, "child", 1, parent="x")
    put_group(api, "free", 1)
    async with running(api):
        await until(lambda: placed(api) == {"free"})
        await until(lambda: "a CompositePodGroup of the same name" in why(api, "x-0"))
        renames = "a PodGroup and a CompositePodGroup are called x: rename one of them"
        await until(lambda: renames in why(api, "child-0"))
        kinds = {"PodGroup", "CompositePodGroup"}
        await until(lambda: {each["regarding"]["kind"] for each in events(api, "x")} >= kinds)
        api.remove(GROUPS, "default/x")
        api.remove(PODS, "default/x-0")
        await until(lambda: placed(api) == {"free", "child"})


@on_a_loop
async def test_next_leader_finishes_a_start_and_writes_what_the_first_did_not() -> None:
    """The first leader is stopped with one child on nodes, and before it wrote a condition."""
    api = tree()
    api.put(COMPOSITES, composite_json("serve", 2))
    for name in ("a", "b"):
        put_group(api, name, 2, parent="serve")
    bind(api, "a-0", "a-1")
    async with running(api):
        await until(lambda: placed(api) == {"a", "b"})
        await until(lambda: is_written(api, "serve"))


@on_a_loop
async def test_order_of_listing_does_not_start_children_without_their_parent() -> None:
    """The parents are listed last; children are not tried as groups of their own before that."""
    api = tree(gpu=2)
    api.put(COMPOSITES, composite_json("serve", 2))
    put_group(api, "a", 2, parent="serve")
    put_group(api, "b", 2, parent="serve")
    put_group(api, "free", 1, gpu=0)
    async with running(api):
        await until(lambda: placed(api) == {"free"})
        await until(lambda: of_tree(api, "serve")[0] == "False")
    assert placed(api) == {"free"}


# Restarts ---------------------------------------------------------------------------------------

RESTART = {
    "gangsched.io/restart-policy": "BelowMinimum",
    "gangsched.io/restart-backoff-seconds": "1",
}


def notes_of_parent(api: MemoryApi) -> dict[str, str]:
    found: Any = api.get(COMPOSITES, "default/serve")
    notes: dict[str, str] = found["metadata"].get("annotations", {})
    return notes


@on_a_loop
async def test_parent_with_a_restart_policy_is_restarted_and_counts_on_its_object() -> None:
    """The API server refuses the first write, so that the evictions could overtake it."""
    at_deletion: list[str] = []
    refusals = [refused(503, **{"Retry-After": "1"})]

    def fault(method: str, path: str) -> Fault | None:
        if method == "DELETE":
            at_deletion.append(notes_of_parent(api).get("gangsched.io/restarts", ""))
        is_count = method == "PATCH" and path.endswith("/compositepodgroups/serve")
        return refusals.pop() if is_count and refusals else None

    api = tree(gpu=4)
    parent = composite_json("serve", 2)
    parent["metadata"]["annotations"] = dict(RESTART)
    api.put(COMPOSITES, parent)
    for name in ("a", "b"):
        put_group(api, name, 2, parent="serve")
    api.fault = fault
    async with running(api):
        await until(lambda: placed(api) == {"a", "b"})
        await until(lambda: is_written(api, "serve"))
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, "default/a-0")
        await until(lambda: not api.pods())
        assert at_deletion == ["1"] * 3
        assert "gangsched.io/restarting-until" in notes_of_parent(api)
        await until(lambda: {*reasons(api, "serve")} >= {"BelowMinimum", "Restarted"})
        for name in ("a", "b"):
            for n in range(2):
                api.put(PODS, pod_json(f"{name}-{n}", group=name))
        await until(lambda: placed(api) == {"a", "b"})
        await until(lambda: "gangsched.io/restarting-until" not in notes_of_parent(api))


@on_a_loop
async def test_restart_of_a_parent_that_is_under_way_is_not_taken_back_by_the_next_leader() -> None:
    api = tree(gpu=4)
    parent = composite_json("serve", 1)
    later = {"gangsched.io/restarts": "1", "gangsched.io/restarting-until": "99999999999"}
    parent["metadata"]["annotations"] = {**RESTART, **later}
    api.put(COMPOSITES, parent)
    put_group(api, "a", 2, parent="serve")
    put_group(api, "free", 1)
    async with running(api):
        await until(lambda: placed(api) == {"free"})
        await asyncio.sleep(1.0)
    assert notes_of_parent(api) == {**RESTART, **later}
    assert placed(api) == {"free"}


@on_a_loop
async def test_parent_that_falls_without_a_restart_policy_says_so() -> None:
    api = tree(gpu=4)
    api.put(COMPOSITES, composite_json("serve", 2))
    for name in ("a", "b"):
        put_group(api, name, 2, parent="serve")
    async with running(api):
        await until(lambda: placed(api) == {"a", "b"})
        await until(lambda: is_written(api, "serve"))
        await asyncio.sleep(0.3)  # the reports of the binds
        api.remove(PODS, "default/a-0")
        await until(lambda: "BelowMinimum" in reasons(api, "serve"))
    assert is_written(api, "serve")


# Others that read the cluster ---------------------------------------------------------------------


@on_a_loop
async def test_extender_binds_nothing_before_each_pod_of_the_tree_has_arrived() -> None:
    api = tree(gpu=4)
    api.put(COMPOSITES, composite_json("serve", 2))
    names = [*put_group(api, "a", 2, parent="serve"), *put_group(api, "b", 2, parent="serve")]
    async with extending(api, ALONE) as asking:
        for name in names:
            assert await asking.decided(name, ["n0"]) == "n0"
        first = [asyncio.ensure_future(asking.bind(name, "n0")) for name in names[:3]]
        await asyncio.sleep(0.3)
        assert not any(api.pods().values())
        assert await asking.bind(names[3], "n0") == ""
        assert await asyncio.gather(*first) == ["", "", ""]
        await until(lambda: is_written(api, "serve"))


def test_kubectl_gang_lists_parents_and_says_what_a_child_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = tree(gpu=4)
    api.put(COMPOSITES, composite_json("serve", 2))
    put_group(api, "a", 2, parent="serve")
    api.be_connected_to(monkeypatch)
    assert _kubectl.main(["get", "--request-timeout", "5s"]) == 0
    rows = {line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows >= {"a", "serve"}
    lacks = "waiting for pod groups whose parent is default/serve: 1 of 2 can start"
    for name in ("a", "serve"):
        assert _kubectl.main(["why", name, "--request-timeout", "5s"]) == 0
        assert asked(capsys.readouterr().out).count(lacks) == 1


def test_kubectl_gang_says_that_the_kind_of_a_parent_is_not_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = tree(composites=False)
    put_group(api, "a", 2, parent="serve")
    api.be_connected_to(monkeypatch)
    assert _kubectl.main(["why", "a", "--request-timeout", "5s"]) == 0
    out = asked(capsys.readouterr().out)
    assert out.count("the API server serves no CompositePodGroups") == 1
    assert out.count("default/serve, a parent: it does not exist") == 1


def asked(out: str) -> str:
    """Return the line with the reason."""
    (found,) = [line for line in out.splitlines() if line.startswith("why: ")]
    return found


# A start that is broken off ----------------------------------------------------------------------

STARTED = "gangsched.io/bound-in-start"
WHOLE = "gangsched.io/gang-was-whole"
PARTIAL = read_settings({"partialGangSeconds": 1})


def half_started(**notes: str) -> MemoryApi:
    """Return a tree of two groups, of which only the first one fits, and runs."""
    api = tree(gpu=2)
    api.put(COMPOSITES, composite_json("serve", 2))
    put_group(api, "a", 2, parent="serve")
    put_group(api, "b", 2, parent="serve")
    bind(api, "a-0", "a-1", **notes)
    return api


@on_a_loop
async def test_whole_child_of_a_tree_whose_start_was_broken_off_is_released() -> None:
    api = half_started(**{STARTED: "true"})
    async with running(api, PARTIAL):
        await until(lambda: len(api.pods()) == 2)
        await until(lambda: "GangReleased" in reasons(api, "a-0"))
    assert set(api.pods()) == {"default/b-0", "default/b-1"}
    note = "1 of 2 groups below pod group default/serve are on nodes, as an earlier scheduler"
    assert any(note in each["note"] for each in events(api, "serve"))


@pytest.mark.parametrize("marks", [{}, {STARTED: "true", WHOLE: "true"}])
@on_a_loop
async def test_tree_that_ran_keeps_what_is_left_of_it(marks: dict[str, str]) -> None:
    """Kube-scheduler has started it, or a pod says that it was whole."""
    api = half_started(**marks)
    stays = "they are not evicted, because neither"
    async with running(api, PARTIAL):
        if marks:
            await asyncio.sleep(3.0)
        else:
            await until(lambda: any(stays in each["note"] for each in events(api, "serve")))
    assert len(api.pods()) == 4


@on_a_loop
async def test_tree_that_was_whole_keeps_its_groups_when_its_parent_is_made_again() -> None:
    api = tree(gpu=4)
    api.put(COMPOSITES, composite_json("serve", 2))
    put_group(api, "a", 2, parent="serve")
    put_group(api, "b", 2, parent="serve")
    async with running(api, PARTIAL):
        await until(lambda: placed(api) == {"a", "b"})
        await until(lambda: sum(WHOLE in notes_on(api, key) for key in api.pods()) == 2)
        assert all(STARTED in notes_on(api, key) for key in api.pods())
        await until(lambda: is_written(api, "serve"))
        await asyncio.sleep(0.6)  # what follows from the echo of the condition
        saying = [key for key in api.pods() if WHOLE in notes_on(api, key)]
        api.remove(PODS, saying[0])  # another one says it instead
        await until(lambda: sum(WHOLE in notes_on(api, key) for key in api.pods()) == 2)
        name = saying[0].partition("/")[2]
        api.put(PODS, pod_json(name, group=name[0]))
        await until(lambda: placed(api) == {"a", "b"})
        api.remove(COMPOSITES, "default/serve")
    api.put(COMPOSITES, composite_json("serve", 3))
    async with running(api, PARTIAL):
        await asyncio.sleep(3.0)
    assert placed(api) == {"a", "b"}


@on_a_loop
async def test_start_of_this_process_is_not_reported_as_that_of_an_earlier_one() -> None:
    def fault(method: str, path: str) -> Fault | None:
        return refused(503) if method == "POST" and "/pods/b-" in path else None

    api = tree(gpu=4)
    api.fault = fault
    api.put(COMPOSITES, composite_json("serve", 2))
    put_group(api, "a", 2, parent="serve")
    put_group(api, "b", 2, parent="serve")
    async with running(api, PARTIAL):
        await until(lambda: placed(api) == {"a"})
        await asyncio.sleep(1.5)
        api.fault = lambda _method, _path: None
        await until(lambda: placed(api) == {"a", "b"})
    assert not any("earlier" in each["note"] for each in events(api, "serve"))


def notes_on(api: MemoryApi, pod: str) -> dict[str, str]:
    found: Any = api.get(PODS, pod)
    notes: dict[str, str] = found["metadata"].get("annotations", {})
    return notes
