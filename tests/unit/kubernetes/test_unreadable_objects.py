"""An object that cannot be read is counted by its kind; a pod of ours says which field it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.errors import ManifestError
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._unreadable import UnreadableObjects
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import ALONE, on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"
MALFORMED = [{"key": "gpu", "operator": "Perhaps"}]
FIELD = "spec.tolerations[0].operator"


def notes(api: MemoryApi) -> dict[str, str]:
    """Return the notes of the failures of pods, by the name of the pod."""
    events = api.objects.get(EVENTS, {}).values()
    return {
        each["regarding"]["name"]: each["note"]
        for each in events
        if each["reason"] == "FailedScheduling" and each["regarding"]["kind"] == "Pod"
    }


def condition(api: MemoryApi, name: str) -> dict[str, Any]:
    """Return the condition ``PodScheduled`` of a pod; empty if it has none."""
    pod = api.get(PODS, f"default/{name}") or {}
    conditions = pod.get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


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
async def test_pod_that_cannot_be_read_says_which_field_and_value(
    counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("good"))
    api.put(PODS, pod_json("bad", tolerations=MALFORMED))
    api.put(PODS, pod_json("foreign", scheduler="other", tolerations=MALFORMED))
    async with asyncio.timeout(HANG), running(api):
        await until(lambda: condition(api, "bad"))
        await until(lambda: notes(api))
        await until(lambda: api.pods()["default/good"])
        assert counts["Pod"] == 2
    found = condition(api, "bad")
    assert found["status"] == "False"
    assert found["reason"] == "SchedulerError"
    for text in (found["message"], notes(api)["bad"]):
        assert FIELD in text
        assert "Perhaps" in text
    assert set(notes(api)) == {"bad"}
    assert not condition(api, "foreign")
    assert api.pods()["default/bad"] is None
    logged = [text for text in caplog.messages if "cannot be read" in text]
    assert any(
        text.startswith(f"Pod default/bad cannot be read and is ignored: {FIELD}: ")
        for text in logged
    )


@on_a_loop
async def test_pod_that_can_be_read_again_is_placed_and_not_counted(counts: Counts) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    bad = api.put(PODS, pod_json("bad", tolerations=MALFORMED))
    async with asyncio.timeout(HANG), running(api):
        await until(lambda: condition(api, "bad"))
        await asyncio.sleep(0.2)  # the condition is a change of the pod, and no news
        patches = sum(method == "PATCH" for method, _path in api.requests)
        mended = api.get(PODS, "default/bad") or bad
        mended["spec"]["tolerations"] = []
        api.put(PODS, mended)
        await until(lambda: api.pods()["default/bad"])
        assert counts["Pod"] == 0
    assert patches == 1


@on_a_loop
async def test_each_kind_is_counted_from_its_listing_on(counts: Counts) -> None:
    api = MemoryApi()
    node = node_json("n")
    node["spec"]["taints"] = [{"key": "k", "effect": "Perhaps"}]
    api.put(NODES, node)
    api.put(GROUPS, group_json("g", 0))
    async with asyncio.timeout(HANG), running(api):
        await until(lambda: counts.get("Node") == 1 and counts.get("PodGroup") == 1)
        await until(lambda: "Pod" in counts)
        assert {kind for kind, count in counts.items() if count} == {"Node", "PodGroup"}
        assert {"Namespace", "PodDisruptionBudget", "PriorityClass"} <= set(counts)
        api.remove(NODES, "n")
        await until(lambda: counts["Node"] == 0)
        assert counts["PodGroup"] == 1
    assert not any(counts.values())  # this replica does not lead any more


@on_a_loop
async def test_extender_records_an_event_and_writes_no_condition(counts: Counts) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    async with asyncio.timeout(HANG), extending(api, ALONE):
        api.put(PODS, pod_json("bad", group="g", tolerations=MALFORMED))
        await until(lambda: notes(api))
        assert counts["Pod"] == 1
    assert FIELD in notes(api)["bad"]
    assert not condition(api, "bad")


def test_metric_has_a_series_for_each_kind() -> None:
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    measures = Measures(ALONE)
    unreadable = UnreadableObjects(None, measures.unreadable)

    def series() -> list[str]:
        lines = measures.pages(list)["/metrics"]().body.decode().splitlines()
        return [each for each in lines if each.startswith("gangsched_kubernetes_unreadable")]

    def refuse(key: str, dialect: str) -> None:
        error = ManifestError("watch", 1, "spec.x", "expected a string, got 3")
        delta: Delta[Any] = Delta("refused", Identity(key, "u", "1"), error=error)
        unreadable.note("PodGroup", delta, dialect)

    unreadable.note("PodGroup", Delta("synced"))
    assert series() == ['gangsched_kubernetes_unreadable_objects{kind="PodGroup"} 0.0']
    refuse("team/g", "a.example.com")
    refuse("team/g", "b.example.com")
    refuse("team/g", "a.example.com")
    assert series() == ['gangsched_kubernetes_unreadable_objects{kind="PodGroup"} 2.0']
    unreadable.note("PodGroup", Delta("deleted", Identity("team/g", "u", "2")), "a.example.com")
    unreadable._check()
    assert series() == ['gangsched_kubernetes_unreadable_objects{kind="PodGroup"} 1.0']
