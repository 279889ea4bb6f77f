"""An object that cannot be read is counted and reported: on itself, and on the pods of a group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.cli import _kubectl
from gangsched.errors import ManifestError
from gangsched.kubernetes import _effects
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._unreadable import UnreadableObjects
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import MemoryApi
from support.memory_cluster import (
    all_bound,
    change,
    cluster,
    condition,
    notes,
    put_gang,
    scheduled,
)
from support.running import ALONE, on_a_loop, running, until

BAD: dict[str, Any] = {"disruptionMode": {"gradual": {}}}
PROBLEM = "spec.disruptionMode: expected exactly one of single and all"
PREFIX = "pod-group.scheduling.sigs.k8s.io"


def bad_gang() -> MemoryApi:
    api = cluster()
    put_gang(api, size=2, grouped=False)
    api.put(GROUPS, group_json("g", 2, **BAD))
    return api


def of_group(api: MemoryApi) -> dict[str, Any]:
    return condition(api, GROUPS, "g", "PodGroupInitiallyScheduled")


def said(api: MemoryApi) -> list[str]:
    """Return what is said by the group and its first pods, in conditions and events."""
    found = [of_group(api), *(scheduled(api, f"g-{n}") for n in range(2))]
    texts = [each.get("message", "") for each in found]
    return [*texts, *("".join(notes(api, name)) for name in ("g", "g-0", "g-1"))]


@pytest.mark.parametrize(
    ("is_first", "group", "problem"),
    [
        (True, group_json("g", 2, **BAD), PROBLEM),
        (
            False,
            group_json("g", 0),
            "spec.schedulingPolicy.gang.minCount: expected an int >= 1, got 0",
        ),
    ],
    ids=["group first", "pods first"],
)
@on_a_loop
async def test_group_that_cannot_be_read_is_reported_on_it_and_on_its_pods(
    is_first: bool, group: dict[str, Any], problem: str
) -> None:
    api = cluster()
    put_gang(api, size=2, grouped=False)
    if is_first:
        api.put(GROUPS, group)
    async with running(api):
        if not is_first:
            await asyncio.sleep(0.1)
            api.put(GROUPS, group)
        await until(lambda: all(problem in text for text in said(api)))
    assert (of_group(api)["status"], of_group(api)["reason"]) == ("False", "SchedulerError")
    assert not any(api.pods().values())


@on_a_loop
async def test_group_with_another_problem_is_reported_anew_and_starts_once_it_can_be_read() -> None:
    api = bad_gang()
    async with running(api):
        await until(lambda: PROBLEM in scheduled(api, "g-1").get("message", ""))
        change(api, GROUPS, "default/g", spec={"disruptionMode": "Never"})
        await until(lambda: "got 'Never'" in of_group(api)["message"])
        await until(lambda: "got 'Never'" in scheduled(api, "g-1")["message"])
        change(api, GROUPS, "default/g", spec={"disruptionMode": {"single": {}}})
        await until(lambda: all_bound(api) and of_group(api)["status"] == "True")


@on_a_loop
async def test_deleted_group_that_could_not_be_read_holds_no_pod() -> None:
    """The labels say what the group needs, so its pods start without the object."""
    api = cluster()
    for number in range(2):
        pod = pod_json(f"g-{number}")
        pod["metadata"]["labels"] = {f"{PREFIX}/name": "g", f"{PREFIX}/min-available": "2"}
        api.put(PODS, pod)
    api.put(GROUPS, group_json("g", 2, **BAD))
    async with running(api):
        await until(lambda: PROBLEM in scheduled(api, "g-0").get("message", ""))
        assert not any(api.pods().values())
        api.remove(GROUPS, "default/g")
        await until(lambda: all_bound(api))


@on_a_loop
async def test_condition_of_1_36_has_the_name_of_1_36() -> None:
    api = cluster()
    put_gang(api, size=2, grouped=False)
    version = "scheduling.k8s.io/v1alpha2"
    api.served, older = {version}, f"/apis/{version}/podgroups"
    api.put(older, {**group_json("g", 2), "apiVersion": version})
    async with running(api):
        await until(lambda: all_bound(api) and condition(api, older, "g", "PodGroupScheduled"))
    assert not condition(api, older, "g", "PodGroupInitiallyScheduled")


@pytest.mark.parametrize(
    ("group", "claims", "problem"),
    [
        (group_json("g", 3, resourceClaims=[{"name": "gpu"}]), [], "spec.resourceClaims"),
        (group_json("g", 3), [{"name": "gpu", "resourceClaimName": "c"}], "spec.resourceClaims"),
    ],
    ids=["of the group", "of one pod"],
)
@on_a_loop
async def test_constraint_that_holds_a_gang_is_said_on_the_group_and_its_pods(
    group: dict[str, Any], claims: list[Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_effects, "_INCOMPLETE_AFTER", 0.05)
    api = cluster()
    put_gang(api, grouped=False)
    change(api, PODS, "default/g-0", spec={"resourceClaims": claims})
    api.put(GROUPS, group)
    async with running(api):
        await until(lambda: all(problem in text for text in said(api)[:3]))
        await asyncio.sleep(0.2)  # what is said of an incomplete group would come by now
    assert all(problem in text for text in said(api)[:3])
    assert not any(api.pods().values())


@on_a_loop
async def test_extender_reports_the_group() -> None:
    api = bad_gang()
    async with extending(api, ALONE):
        await until(lambda: PROBLEM in of_group(api).get("message", ""))


def test_kubectl_gang_why_names_the_field_and_what_would_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad_gang().be_connected_to(monkeypatch)
    assert _kubectl.main(["why", "g", "--request-timeout", "5s"]) == 0
    found = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert f"its PodGroup cannot be read: {PROBLEM}" in found["why"]
    assert found["what would help"] == f"correct the PodGroup g: {PROBLEM}"


# Any object -------------------------------------------------------------------------------------

MALFORMED = [{"key": "gpu", "operator": "Perhaps"}]
FIELD = "spec.tolerations[0].operator"


class Counts(dict[str, int]):
    """The numbers that were reported last, by kind."""

    def __call__(self, kind: str, count: int) -> None:
        self[kind] = count


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    monkeypatch.setattr(Measures, "unreadable", lambda _self, kind, count: found(kind, count))
    return found


@on_a_loop
async def test_pod_that_cannot_be_read_says_which_field_and_value_until_it_can(
    counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    api = cluster()
    api.put(PODS, pod_json("good"))
    api.put(PODS, pod_json("bad", tolerations=MALFORMED))
    api.put(PODS, pod_json("foreign", scheduler="other", tolerations=MALFORMED))
    async with running(api):
        await until(lambda: scheduled(api, "bad") and notes(api, "bad"))
        await until(lambda: api.pods()["default/good"])
        assert counts["Pod"] == 2
        found = scheduled(api, "bad")
        assert (found["status"], found["reason"]) == ("False", "SchedulerError")
        for text in (found["message"], *notes(api, "bad")):
            assert FIELD in text
            assert "Perhaps" in text
        assert api.pods()["default/bad"] is None
        await asyncio.sleep(0.2)  # the condition is a change of the pod, and no news
        assert sum(method == "PATCH" for method, _path in api.requests) == 1
        change(api, PODS, "default/bad", spec={"tolerations": []})
        await until(lambda: api.pods()["default/bad"])
        assert counts["Pod"] == 1
    assert not scheduled(api, "foreign")
    assert not notes(api, "foreign")
    says = f"Pod default/bad cannot be read and is ignored: {FIELD}: "
    assert any(text.startswith(says) for text in caplog.messages)


@on_a_loop
async def test_each_kind_is_counted_from_its_listing_on(counts: Counts) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n", taints=[{"key": "k", "effect": "Perhaps"}]))
    api.put(GROUPS, group_json("g", 0))
    async with running(api):
        await until(lambda: counts.get("Node") == counts.get("PodGroup") == 1 and "Pod" in counts)
        assert {kind for kind, count in counts.items() if count} == {"Node", "PodGroup"}
        assert {"Namespace", "PodDisruptionBudget", "PriorityClass"} <= set(counts)
        api.remove(NODES, "n")
        await until(lambda: counts["Node"] == 0)
        assert counts["PodGroup"] == 1
    assert not any(counts.values())  # this replica does not lead any more


@on_a_loop
async def test_extender_records_an_event_and_writes_no_condition(counts: Counts) -> None:
    api = cluster()
    async with extending(api, ALONE):
        api.put(PODS, pod_json("bad", group="g", tolerations=MALFORMED))
        await until(lambda: notes(api, "bad"))
        assert counts["Pod"] == 1
    assert FIELD in notes(api, "bad")[0]
    assert not scheduled(api, "bad")


def test_metric_has_a_series_for_each_kind() -> None:
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    measures = Measures(ALONE)
    unreadable = UnreadableObjects(None, measures.unreadable)

    def series() -> str:
        lines = measures.pages(list)["/metrics"]().body.decode().splitlines()
        (found,) = (each for each in lines if each.startswith("gangsched_kubernetes_unreadable"))
        return found.removeprefix("gangsched_kubernetes_unreadable_objects")

    def refuse(dialect: str) -> None:
        error = ManifestError("watch", 1, "spec.x", "expected a string, got 3")
        delta: Delta[Any] = Delta("refused", Identity("team/g", "u", "1"), error=error)
        unreadable.note("PodGroup", delta, dialect)

    unreadable.note("PodGroup", Delta("synced"))
    assert series() == '{kind="PodGroup"} 0.0'
    for dialect in ("a.example.com", "b.example.com", "a.example.com"):
        refuse(dialect)
    assert series() == '{kind="PodGroup"} 2.0'
    unreadable.note("PodGroup", Delta("deleted", Identity("team/g", "u", "2")), "a.example.com")
    unreadable._check()
    assert series() == '{kind="PodGroup"} 1.0'
