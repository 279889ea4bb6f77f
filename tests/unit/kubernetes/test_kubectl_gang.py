"""``kubectl gang`` on an API server in memory: what it prints of gangs, and what would help."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gangsched.cli import _kubectl
from gangsched.cli._tables import age_of, table
from gangsched.kubernetes import _client
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi, refused

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

Kubectl = Callable[..., str]


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    return found


@pytest.fixture
def kubectl(api: Server, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    def run(*arguments: str) -> str:
        code = _kubectl.main([*arguments, "--request-timeout", "5s"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


@pytest.fixture
def fails(api: Server, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    def run(*arguments: str) -> str:
        assert _kubectl.main([*arguments, "--request-timeout", "2s"]) == 2
        return capsys.readouterr().err

    return run


def gang(api: MemoryApi, name: str, size: int, minimum: int | None = None, **pod: Any) -> None:
    namespace = pod.get("namespace", "default")
    api.put(GROUPS, group_json(name, size if minimum is None else minimum, namespace=namespace))
    for n in range(size):
        api.put(PODS, pod_json(f"{name}-{n}", group=name, **pod))


def columns(text: str) -> list[list[str]]:
    """Return the cells of a table, by three blanks between columns."""
    return [
        [cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.splitlines()
    ]


# get --------------------------------------------------------------------------------------------


def test_get_says_what_each_gang_needs_has_and_lacks(api: Server, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("a", gpu=4))
    gang(api, "large", 5, gpu=2)
    gang(api, "waits", 2, minimum=3)
    for n in range(2):
        pod = pod_json(f"runs-{n}", group="runs", nodeName="a")
        pod["status"]["phase"] = "Running"
        api.put(PODS, pod)
    api.put(GROUPS, group_json("runs", 2))
    header, *rows = columns(kubectl("get"))
    assert header[1:8] == ["NAME", "PHASE", "NEEDED", "HAVE", "HELD", "RUNNING", "AGE"]
    by_name = {row[1]: row for row in rows}
    assert by_name["large"][2:7] == ["Scheduling", "5", "5", "0", "0"]
    assert "nvidia.com/gpu" in by_name["large"][-1]
    assert by_name["waits"][2:7] == ["Pending", "3", "2", "0", "0"]
    assert by_name["waits"][-1].endswith("2 of 3 exist")
    assert by_name["runs"][2:7] == ["Running", "2", "2", "2", "2"]
    assert by_name["runs"][-1] == "-"


def test_get_says_that_a_gang_fits_when_no_scheduler_has_placed_it(
    api: Server, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("a"))
    gang(api, "g", 2)
    assert "fits now" in kubectl("get")
    assert api.pods() == {"default/g-0": None, "default/g-1": None}


def test_get_shows_one_namespace_or_all(api: Server, kubectl: Kubectl) -> None:
    gang(api, "here", 1)
    gang(api, "there", 1, namespace="ml")
    assert [row[1] for row in columns(kubectl("get"))[1:]] == ["here"]
    assert [row[1] for row in columns(kubectl("get", "-n", "ml"))[1:]] == ["there"]
    assert [row[1] for row in columns(kubectl("get", "-A"))[1:]] == ["here", "there"]
    assert kubectl("get", "-n", "none") == "there are no gangs in namespace none\n"


def test_json_and_yaml_have_the_same_rows(api: Server, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("a"))
    gang(api, "g", 2)
    as_json = json.loads(kubectl("get", "-o", "json"))
    as_yaml = yaml.safe_load(kubectl("get", "-o", "yaml"))
    for found in (as_json, as_yaml):
        (item,) = found["items"]
        assert {key: item[key] for key in ("name", "needed", "have", "held", "running")} == {
            "name": "g",
            "needed": 2,
            "have": 2,
            "held": 0,
            "running": 0,
        }
        item.pop("age")
    assert as_json == as_yaml


def test_wide_shows_what_the_running_scheduler_wrote(api: Server, kubectl: Kubectl) -> None:
    gang(api, "g", 2)
    group = api.get(GROUPS, "default/g")
    assert group is not None
    said = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": "as it was told"}
    group["status"] = {"conditions": [said]}
    api.put(GROUPS, group)
    assert "as it was told" in kubectl("get", "-o", "wide")
    assert "as it was told" not in kubectl("get")


def test_control_sequences_in_messages_are_escaped(api: Server, kubectl: Kubectl) -> None:
    gang(api, "g", 1)
    pod = api.get(PODS, "default/g-0")
    assert pod is not None
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod["status"]["conditions"] = [{**said, "message": "\x1b[2Jforged\nline"}]
    api.put(PODS, pod)
    for command in (("get", "-o", "wide"), ("why", "g"), ("pods",)):
        text = kubectl(*command)
        assert "\x1b" not in text
        assert "\\x1b[2Jforged\\nline" in text


def test_get_needs_no_object_of_the_group(api: Server, kubectl: Kubectl) -> None:
    pod = pod_json("p")
    pod["metadata"]["labels"] = {
        "pod-group.scheduling.sigs.k8s.io/name": "light",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    api.put(PODS, pod)
    (row,) = columns(kubectl("get"))[1:]
    assert row[1] == "light"
    assert row[3:5] == ["2", "1"]


# why and what-if --------------------------------------------------------------------------------


def test_why_names_the_cause_and_the_nodes_that_would_help(api: Server, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("gpu-node-0", gpu=4))
    gang(api, "another", 1, minimum=2)
    gang(api, "train", 4, gpu=2)
    text = kubectl("why", "train")
    assert "4 of 4 members are there, 0 hold a node" in text
    assert "at most 2 of 4 members fit: nvidia.com/gpu is short" in text
    assert "1 more node of" in text
    (item,) = json.loads(kubectl("why", "default/train", "-o", "json"))["items"]
    assert item["smallest_changes"][0]["nodes"] == 1


def test_what_if_says_what_starts_only_with_more_nodes(api: Server, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("gpu-node-0", gpu=2))
    gang(api, "small", 2)
    gang(api, "train", 4, gpu=2)
    arguments = ("what-if", "--like", "gpu-node-0", "--add-nodes")
    assert "pod group default/train would wait: pod default/train-2 does not fit" in kubectl(
        *arguments, "2"
    )
    text = kubectl(*arguments, "4", "-o", "wide")
    assert "pod group default/small would start in any case\n" in text
    assert "pod group default/train would start\n" in text
    assert "gpu-node-0-more-4" in text


def test_added_node_is_no_twin_of_the_host_of_its_model(api: Server, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("n", gpu=1))
    selector = {"kubernetes.io/hostname": "n"}
    gang(api, "pinned", 2, nodeSelector=selector)
    text = kubectl("what-if", "--add-nodes", "3", "--like", "n")
    assert "no pod group would start" in text


# queue, pods, demand ----------------------------------------------------------------------------


def test_queue_is_in_the_order_of_the_scheduler(api: Server, kubectl: Kubectl) -> None:
    gang(api, "low", 2)
    api.put(PODS, pod_json("alone", priority=5))
    gang(api, "high", 2, priority=10)
    rows = columns(kubectl("queue"))[1:]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("0", "default/high", "gang"),
        ("1", "default/alone", "pod"),
        ("2", "default/low", "gang"),
    ]


def test_priority_of_a_group_is_its_own_and_not_that_of_its_pods(
    api: Server, kubectl: Kubectl
) -> None:
    """The API server of 1.37 fills in 0 for a group that names no class."""
    api.put(GROUPS, group_json("g", 2, priority=0))
    for number in range(2):
        api.put(PODS, pod_json(f"g-{number}", group="g", priority=10))
    (item,) = json.loads(kubectl("get", "-o", "json"))["items"]
    assert item["priority"] == 0


def test_pods_show_group_node_and_phase(api: Server, kubectl: Kubectl) -> None:
    api.put(PODS, pod_json("a", group="g", nodeName="n"))
    api.put(PODS, pod_json("alone"))
    (row,) = columns(kubectl("pods"))[1:]
    assert row[1:3] == ["g", "a"]
    assert row[5] == "n"


def test_demand_is_met_by_the_nodes_that_it_names(api: Server, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("small", gpu=1))
    api.put(NODES, node_json("large", gpu=4))
    gang(api, "a", 8, gpu=1)
    gang(api, "b", 4, gpu=4)
    gang(api, "lacks", 2, minimum=3)
    (item,) = json.loads(kubectl("demand", "-o", "json"))["items"]
    assert item["like"] == "large"
    assert item["groups"] == ["default/a", "default/b"]
    for n in range(item["nodes"]):
        api.put(NODES, node_json(f"added-{n}", gpu=4))
    assert json.loads(kubectl("demand", "-o", "json"))["items"] == []
    assert "no number of nodes" in kubectl("demand")


# Errors -----------------------------------------------------------------------------------------


def test_errors_name_what_is_wrong_and_what_is_known(api: Server, fails: Kubectl) -> None:
    api.put(NODES, node_json("n"))
    gang(api, "g", 1)
    assert "no pod group default/h; known: default/g" in fails("why", "h")
    more = ("what-if", "--add-nodes", "1", "--like")
    assert "--like: no node 'm'; known: n" in fails(*more, "m")
    for count in ("-1", "100001"):
        assert "--add-nodes" in fails("what-if", "--add-nodes", count, "--like", "n")


def test_right_that_is_missing_is_named(
    api: Server, fails: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.served.discard("scheduling.k8s.io/v1beta1")

    def forbid(_method: str, path: str) -> Any:
        return refused(403, "cannot list pods") if path.startswith("/api/v1/pods") else None

    api.fault = forbid
    monkeypatch.setattr(api, "watch", refuse_the_watch_of_pods(api))
    said = fails("get")
    assert "not listed: Pod" in said
    assert "cannot list pods" in said


def refuse_the_watch_of_pods(api: MemoryApi) -> Any:
    from gangsched.kubernetes._api import Response, WatchRefused

    below = api.watch
    body = json.dumps({"kind": "Status", "code": 403, "message": "cannot list pods"}).encode()

    async def watch(path: str, *, timeout: float) -> Any:
        if path.startswith("/api/v1/pods"):
            raise WatchRefused(path, Response(403, body=body))
        async for lines in below(path, timeout=timeout):
            yield lines

    return watch


# Tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (2 * 86400, "2d"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
        (800 * 86400, "2y70d"),
        (-5, "0s"),
    ],
)
def test_age_is_as_kubectl_prints_it(seconds: float, text: str) -> None:
    assert age_of(seconds) == text


def test_table_pads_every_column_but_the_last() -> None:
    assert table(("A", "BB"), [("xyz", ""), ("", "q")]) == "A     BB\nxyz   -\n-     q"
