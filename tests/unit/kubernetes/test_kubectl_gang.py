"""``kubectl gang`` by listing, on an API server in memory: what it prints of gangs, and as what."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangsched.cli import _gang_get, _kubectl
from gangsched.cli._tables import age_of, table
from gangsched.kubernetes import _client
from gangsched.kubernetes._api import Response, WatchRefused
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json, put_gang
from support.memory_api import MemoryApi, refused

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

Kubectl = Callable[..., str]
Metadata = dict[str, dict[str, str]]

PREFIX = "pod-group.scheduling.sigs.k8s.io"
NAME, MINIMUM = f"{PREFIX}/name", f"{PREFIX}/min-available"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> MemoryApi:
    found = MemoryApi()
    found.be_connected_to(monkeypatch)
    return found


@pytest.fixture
def kubectl(api: MemoryApi, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    """Run a command that must succeed; return its output."""

    def run(*arguments: str) -> str:
        code = _kubectl.main([*arguments, "--request-timeout", "5s"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


@pytest.fixture
def fails(api: MemoryApi, capsys: pytest.CaptureFixture[str]) -> Kubectl:
    """Run a command that must fail; return its output and its errors."""

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit, match="2"):
            raise SystemExit(_kubectl.main([*arguments, "--request-timeout", "2s"]))
        return "".join(capsys.readouterr())

    return run


def pods(
    api: MemoryApi, name: str, metadata: Metadata, count: int = 2, first: int = 0, **pod: Any
) -> None:
    """Add pods whose group is in their metadata alone."""
    for n in range(first, first + count):
        made = pod_json(f"{name}-{n}", **pod)
        made["metadata"] |= metadata
        api.put(PODS, made)


def labels(name: str, minimum: object) -> Metadata:
    return {"labels": {NAME: name, MINIMUM: str(minimum)}}


def columns(text: str) -> list[list[str]]:
    """Return the cells of a table, by three blanks between columns."""
    return [
        [cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.splitlines()
    ]


def items(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


# get --------------------------------------------------------------------------------------------


def test_get_says_what_each_gang_needs_has_and_lacks(api: MemoryApi, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("a", gpu=4))
    put_gang(api, "large", 5, gpu=2)
    put_gang(api, "waits", 2, minimum=3)
    put_gang(api, "runs", 2, nodeName="a")
    pods(api, "whole", labels("whole", 2), nodeName="a")
    for pod in list(api.objects[PODS].values())[-4:]:
        pod["status"]["phase"] = "Running"
    pods(api, "light", labels("light", 2), count=1)
    header, *rows = columns(kubectl("get"))
    assert header[1:8] == ["NAME", "PHASE", "NEEDED", "HAVE", "HELD", "RUNNING", "AGE"]
    by_name = {row[1]: row for row in rows}
    assert by_name["large"][2:7] == ["Scheduling", "5", "5", "0", "0"]
    assert "nvidia.com/gpu" in by_name["large"][-1]
    assert by_name["waits"][2:7] == ["Pending", "3", "2", "0", "0"]
    assert by_name["waits"][-1].endswith("2 of 3 exist")
    assert by_name["runs"][2:7] == ["Running", "2", "2", "2", "2"]
    assert by_name["runs"][-1] == "-"
    assert by_name["light"][2:5] == ["Pending", "2", "1"]
    assert by_name["whole"][2:7] == ["Running", "2", "2", "2", "2"]


def test_get_says_that_a_gang_fits_when_no_scheduler_has_placed_it(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("a"))
    put_gang(api, "g", 2)
    assert "fits now" in kubectl("get")
    assert api.pods() == {"default/g-0": None, "default/g-1": None}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("", ["default/one", "default/two"]),
        ("-n ml", ["ml/one"]),
        ("-A", ["default/one", "default/two", "ml/one"]),
        ("two", ["default/two"]),
        ("two one", ["default/one", "default/two"]),
        ("one ml/one", ["default/one", "ml/one"]),
        ("-n ml one", ["ml/one"]),
        ("-A ml/one", ["ml/one"]),
    ],
)
def test_get_shows_gangs_by_namespace_and_name(
    api: MemoryApi, kubectl: Kubectl, arguments: str, shown: list[str]
) -> None:
    for namespace, name in (("default", "one"), ("default", "two"), ("ml", "one")):
        put_gang(api, name, 1, namespace=namespace)
    found = items(kubectl("get", *arguments.split(), "-o", "json"))
    assert [f"{each['namespace']}/{each['name']}" for each in found] == shown


def test_gang_that_is_not_there_is_an_error_after_the_others(
    api: MemoryApi, kubectl: Kubectl, fails: Kubectl
) -> None:
    put_gang(api, "two", 1)
    said = fails("get", "two", "three", "four")
    assert said.startswith("NAMESPACE")
    assert "no pod group default/three, default/four" in said
    assert "NAMESPACE " not in fails("get", "three")
    assert "one: expected NAMESPACE/NAME with --all-namespaces" in fails("get", "-A", "one")
    assert kubectl("get", "-n", "none") == "there are no gangs in namespace none\n"


def test_wide_shows_what_the_running_scheduler_wrote(api: MemoryApi, kubectl: Kubectl) -> None:
    for name, restarts in (("never", None), ("restarted", "3")):
        put_gang(api, name, 1)
        group = api.objects[GROUPS][f"default/{name}"]
        group["metadata"]["annotations"] = {"gangsched.io/restarts": restarts} if restarts else {}
        said = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": "was told"}
        group["status"] = {"conditions": [said]}
    pods(api, "labelled", labels("labelled", 1), count=1)
    header, *lines = kubectl("get", "-o", "wide").splitlines()
    place = header.index("RESTARTS")
    shown = {line.split()[1]: line[place:].split()[0] for line in lines}
    assert shown == {"restarted": "3", "never": "0", "labelled": "0"}
    assert sum("was told" in line for line in lines) == 2
    plain = kubectl("get")
    assert "RESTARTS" not in plain
    assert "was told" not in plain
    found = {each["name"]: each["restarts"] for each in items(kubectl("get", "-o", "json"))}
    assert found == {"restarted": 3, "never": 0, "labelled": 0}


def test_control_sequences_in_messages_are_escaped(api: MemoryApi, kubectl: Kubectl) -> None:
    put_gang(api, "g", 1)
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    conditions = [{**said, "message": "\x1b[2Jforged\nline"}]
    api.objects[PODS]["default/g-0"]["status"]["conditions"] = conditions
    for command in (("get", "-o", "wide"), ("why", "g"), ("pods",)):
        text = kubectl(*command)
        assert "\x1b" not in text
        assert "\\x1b[2Jforged\\nline" in text


def test_priority_of_a_group_is_its_own_and_not_that_of_its_pods(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    """The API server of 1.37 fills in 0 for a group that names no class."""
    put_gang(api, "g", 2, priority=10)
    api.put(GROUPS, group_json("g", 2, priority=0))
    (item,) = items(kubectl("get", "-o", "json"))
    assert item["priority"] == 0


# Forms of output --------------------------------------------------------------------------------


def two_gangs(api: MemoryApi) -> None:
    """Add a gang that fits, and one that lacks nodes."""
    api.put(NODES, node_json("a", gpu=2))
    put_gang(api, "small", 2)
    put_gang(api, "large", 4)


@pytest.mark.parametrize(
    "command",
    ["get", "why large", "what-if --add-nodes 2 --like a", "queue", "pods", "demand"],
)
def test_each_command_has_a_table_a_wide_one_and_documents(
    command: str, api: MemoryApi, kubectl: Kubectl, fails: Kubectl
) -> None:
    two_gangs(api)
    plain, wide, as_json, as_yaml = (
        kubectl(*command.split(), *form) for form in ((), ("-o", "wide"), ("-ojson",), ("-oyaml",))
    )
    assert "large" in plain
    words = {word for word in plain.split() if not word[:1].isdigit()}  # ages go on
    assert words <= set(wide.split())
    document = json.loads(as_json)
    assert document["apiVersion"] == "gangsched.kubectl/v1"
    assert document["kind"].endswith("List")
    assert document["items"]
    assert "large" in as_json
    assert without_ages(document) == without_ages(yaml.safe_load(as_yaml))
    assert "name" in fails(*command.split(), "-o", "name")


def without_ages(value: Any) -> Any:
    match value:
        case dict():
            ages = ("age", "waiting", "at")
            return {k: without_ages(v) for k, v in value.items() if k not in ages}
        case list():
            return [without_ages(each) for each in value]
        case _:
            return value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (2 * 86400, "2d"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
        (800 * 86400, "2y70d"),
    ],
)
def test_age_is_as_kubectl_prints_it(seconds: float, text: str) -> None:
    assert age_of(seconds) == text


def test_table_pads_every_column_but_the_last() -> None:
    assert table(("A", "BB"), [("xyz", ""), ("", "q")]) == "A     BB\nxyz   -\n-     q"


# get --watch ------------------------------------------------------------------------------------


@pytest.fixture
def watched(
    api: MemoryApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., list[str]]]:
    """Return a function that watches gangs, makes one change after the other, and interrupts."""

    def run(output: str, *changes: Callable[[], None]) -> list[str]:
        looks, printed, tasks = 0, list[str](), list[asyncio.Task[None]]()
        rows: Any = _gang_get.gangs_named

        def counted(*arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return rows(*arguments)

        async def script() -> None:
            try:
                for change in (*changes, None):
                    seen = looks
                    while looks < seen + 3:  # the last of them began after the change before
                        await asyncio.sleep(0.005)
                    printed.append(capsys.readouterr().out)
                    if change is not None:
                        change()
            finally:
                signal.raise_signal(signal.SIGINT)

        async def connect_client(**_named: Any) -> MemoryApi:
            tasks.append(asyncio.create_task(script()))
            return api

        monkeypatch.setattr(_gang_get, "gangs_named", counted)
        monkeypatch.setattr(_gang_get, "_LOOK", 0.02)
        monkeypatch.setattr(_client, "connect_client", connect_client)
        assert _kubectl.main(["get", "-w", "-o", output, "--request-timeout", "5s"]) == 130
        return printed

    # the workers that run tests at once ignore SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield run
    signal.signal(signal.SIGINT, before)


def test_watch_prints_what_has_changed_until_it_is_interrupted(
    api: MemoryApi, watched: Callable[..., list[str]]
) -> None:
    api.put(NODES, node_json("a"))
    for name in ("g", "h"):
        put_gang(api, name, 1)

    def bind() -> None:
        api.put(PODS, pod_json("g-0", group="g", nodeName="a"))

    def remove() -> None:
        api.remove(PODS, "default/h-0")
        api.remove(GROUPS, "default/h")

    first, second, third, last = watched("table", bind, remove, lambda: None)
    assert [line.split()[:2] for line in first.splitlines()] == [
        ["NAMESPACE", "NAME"],
        ["default", "g"],
        ["default", "h"],
    ]
    assert [line.split()[1] for line in second.splitlines()] == ["g"], "only what has changed"
    assert third == "default/h is gone\n"
    assert last == ""


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_watch_prints_a_document_for_each_change(
    output: str, api: MemoryApi, watched: Callable[..., list[str]]
) -> None:
    two_gangs(api)

    def remove() -> None:
        for key in ("small-0", "small-1"):
            api.remove(PODS, f"default/{key}")
        api.remove(GROUPS, "default/small")

    first, later = watched(output, remove)
    found = json.loads(first) if output == "json" else yaml.safe_load(first.strip().strip("-"))
    assert found["kind"] == "GangList"
    assert [item["name"] for item in found["items"]] == ["large", "small"]
    assert found["gone"] == []
    documents = (
        [each for each in yaml.safe_load_all(later) if each]
        if output == "yaml"
        else json.loads("[" + later.strip().replace("}\n{", "},{") + "]")
    )
    assert documents[-1]["gone"] == ["default/small"]
    assert all(
        item["have"] < 2 for e in documents for item in e["items"] if item["name"] == "small"
    )


# why and what-if --------------------------------------------------------------------------------


def test_why_names_the_cause_and_the_nodes_that_would_help(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("gpu-node-0", gpu=4))
    put_gang(api, "another", 1, minimum=2)
    put_gang(api, "train", 4, gpu=2)
    text = kubectl("why", "train")
    assert "4 of 4 members are there, 0 hold a node" in text
    assert "at most 2 of 4 members fit: nvidia.com/gpu is short" in text
    assert "1 more node of" in text
    (item,) = items(kubectl("why", "default/train", "-o", "json"))
    assert item["smallest_changes"][0]["nodes"] == 1
    put_gang(api, "huge", 2, gpu=8)
    text = kubectl("why", "huge")
    assert "would start pod group default/huge by 20" in text, "instants are dates"
    assert "t=" not in text


def test_why_of_an_elastic_gang_says_that_it_runs_and_why_a_member_waits(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("a", gpu=2))
    put_gang(api, "train", 3, minimum=2)
    for n in range(2):
        pod = pod_json(f"train-{n}", group="train", nodeName="a")
        pod["status"]["phase"] = "Running"
        api.put(PODS, pod)
    first, why = kubectl("why", "train").splitlines()
    assert first == (
        "pod group default/train: Running: 3 members are there, it needs 2, 2 hold a node, 2 run"
    )
    runs = "runs: 2 of 3 members hold nodes, and its minimum of 2 is met; 1 waits: "
    assert why.startswith(f"why: {runs}pod default/train-2 does not fit: ")
    assert runs in kubectl("get")


@pytest.mark.parametrize(
    ("gpu", "lines"),
    [
        (
            4,
            [
                "why: fits now; its pods name the scheduler typo-sched, which is not gangsched\n",
                "what would help: pods with the schedulerName gangsched",
            ],
        ),
        (
            1,
            [
                "nvidia.com/gpu is short\n",
                "scheduler: its pods name the scheduler typo-sched, which is not gangsched\n",
                "what would help: 1 more node",
            ],
        ),
    ],
)
def test_scheduler_that_the_pods_name_is_printed_where_it_differs(
    gpu: int, lines: list[str], api: MemoryApi, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("a", gpu=gpu))
    pods(api, "typo", labels("typo", 2), scheduler="typo-sched")
    pods(api, "right", labels("right", 2))
    text = kubectl("why", "typo")
    assert all(line in text for line in lines)
    assert "starts now" not in text
    assert "pods name" not in kubectl("why", "right")
    assert ("typo-sched" in kubectl("get")) is (gpu == 4)


def test_what_if_says_what_starts_only_with_more_nodes(api: MemoryApi, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("gpu-node-0", gpu=2))
    put_gang(api, "small", 2)
    put_gang(api, "train", 4, gpu=2)
    arguments = ("what-if", "--like", "gpu-node-0", "--add-nodes")
    waits = "pod group default/train would wait: pod default/train-2 does not fit"
    assert waits in kubectl(*arguments, "2")
    text = kubectl(*arguments, "4", "-o", "wide")
    assert "pod group default/small would start in any case\n" in text
    assert "pod group default/train would start\n" in text
    assert "gpu-node-0-more-4" in text


def test_what_if_takes_other_quotas(
    api: MemoryApi, kubectl: Kubectl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "quotas: [{name: red, namespaces: [default], nominal: {nvidia.com/gpu: 2}}]\n",
        encoding="utf-8",
    )
    api.put(NODES, node_json("n", gpu=8))
    put_gang(api, "train", 3)
    asked = ("what-if", "--config", str(config), "--quota", "red", "nominal")
    assert kubectl(*asked, "nvidia.com/gpu=3") == "pod group default/train would start\n"
    assert "would wait: not admitted: exceeded quota red" in kubectl(*asked, "cpu=3")
    for given in (["what-if"], ["what-if", "--add-nodes", "1"], ["what-if", "--like", "n"]):
        with pytest.raises(SystemExit, match="2"):
            raise SystemExit(_kubectl.main(given))
        assert "expected --add-nodes with --like, or --quota" in capsys.readouterr().err


def test_added_node_is_no_twin_of_the_host_of_its_model(api: MemoryApi, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("n", gpu=1))
    put_gang(api, "pinned", 2, nodeSelector={"kubernetes.io/hostname": "n"})
    assert "no pod group would start" in kubectl("what-if", "--add-nodes", "3", "--like", "n")


GATE = "kueue.x-k8s.io/admission"


def test_why_of_a_gated_gang_names_the_gate_and_no_number_of_nodes(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("a", gpu=4))
    metadata = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "kq"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    pods(api, "kq", metadata, schedulingGates=[{"name": GATE}])
    said = kubectl("why", "kq")
    assert "pod group default/kq: Gated: 2 of 2 members are there" in said
    assert f"why: 2 of 2 members are gated: {GATE}\n" in said
    assert "what would help: pod group default/kq is tried once the gate of its members" in said
    assert "no number of nodes" not in said
    assert "more members" not in said
    said = kubectl("get")
    assert "Gated" in said
    assert f"2 of 2 members are gated: {GATE}" in said


# queue, pods, demand ----------------------------------------------------------------------------


def test_queue_is_in_the_order_of_each_scheduler(api: MemoryApi, kubectl: Kubectl) -> None:
    put_gang(api, "low", 2)
    api.put(PODS, pod_json("alone", priority=5))
    api.put(PODS, pod_json("other", scheduler="default-scheduler", priority=9))
    put_gang(api, "high", 2, priority=10)
    rows = {row[1]: (row[0], row[2], row[-1]) for row in columns(kubectl("queue"))[1:]}
    assert rows == {
        "default/high": ("0", "gang", "queued, 0 ahead"),
        "default/alone": ("1", "pod", "queued, 1 ahead"),
        "default/low": ("2", "gang", "queued, 2 ahead"),
        "default/other": ("0", "pod", "queued, 0 ahead"),
    }


def test_pods_show_group_node_and_phase(api: MemoryApi, kubectl: Kubectl) -> None:
    api.put(PODS, pod_json("a", group="g", nodeName="n"))
    api.put(PODS, pod_json("alone"))
    (row,) = columns(kubectl("pods"))[1:]
    assert row[1:3] == ["g", "a"]
    assert row[5] == "n"


def test_demand_is_met_by_the_nodes_that_it_names(api: MemoryApi, kubectl: Kubectl) -> None:
    api.put(NODES, node_json("small", gpu=1))
    api.put(NODES, node_json("large", gpu=4))
    put_gang(api, "a", 8, gpu=1)
    put_gang(api, "b", 4, gpu=4)
    put_gang(api, "lacks", 2, minimum=3)
    (item,) = items(kubectl("demand", "-o", "json"))
    assert item["like"] == "large"
    assert item["groups"] == ["default/a", "default/b"]
    for n in range(item["nodes"]):
        api.put(NODES, node_json(f"added-{n}", gpu=4))
    assert items(kubectl("demand", "-o", "json")) == []
    assert "no number of nodes" in kubectl("demand")


# Malformed labels -------------------------------------------------------------------------------

SENTENCE = f"refused: pod default/zero-0: {MINIMUM} must be an int >= 1, got '0'"


def test_group_with_a_malformed_minimum_is_shown_with_label_and_value(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    api.put(NODES, node_json("a"))
    pods(api, "zero", labels("zero", 0))
    _header, row = kubectl("get").splitlines()
    assert row.split()[:5] == ["default", "zero", "Refused", "-", "2"]
    assert f"{SENTENCE}; and 1 more" in row
    assert [row.split()[1:3] for row in kubectl("pods").splitlines()[1:]] == [
        ["zero", "zero-0"],
        ["zero", "zero-1"],
    ]
    text = kubectl("why", "zero")
    assert "pod group default/zero: Refused: 2 members are there; the minimum is unknown" in text
    assert f"why: {SENTENCE}" in text
    assert f"what would help: pods whose {MINIMUM} is an int >= 1\n" in text
    api.put(GROUPS, group_json("zero", 2))
    text = kubectl("why", "zero")
    assert "Refused" in text
    assert f"0 of 2 exist; {SENTENCE}" in text


def test_group_with_one_malformed_pod_says_so_beside_its_reason(
    api: MemoryApi, kubectl: Kubectl
) -> None:
    pods(api, "zero", labels("zero", 0), count=1)
    pods(api, "zero", labels("zero", 2), count=1, first=1)
    text = kubectl("why", "zero")
    assert "pod group default/zero: Pending: 2 of 2 members are there" in text
    assert f"1 more member: 1 of 2 exist; {SENTENCE}" in text


# Unknown minima ---------------------------------------------------------------------------------

LABELLED = {"labels": {NAME: "g"}}
COSCHEDULING = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
VOLCANO = {"annotations": {"scheduling.volcano.sh/group-name": "g"}}
EITHER = f"label its pods with {MINIMUM}, or create a PodGroup g"


def not_served(group: str) -> tuple[str, str]:
    return (
        f"{group}, the API of its PodGroup, was not found; if it was installed since, it is found"
        " within 30 s",
        f"install the CRD of {group} and create the PodGroup g, or label its pods with {NAME}",
    )


def absent(group: str) -> tuple[str, str]:
    return f"there is no PodGroup g of {group}", f"create a PodGroup g of {group}, or label"


@pytest.mark.parametrize(
    ("metadata", "served", "expected"),
    [
        (
            {"labels": {NAME: "g", f"{PREFIX}/min-availabe": "2"}},
            "",
            (
                f"the label {PREFIX}/min-availabe of its pods is not read"
                f" (did you mean {MINIMUM}?)",
                EITHER,
            ),
        ),
        (LABELLED, "", (f"its pods have no label {MINIMUM}, and there is no PodGroup g", EITHER)),
        (
            {"labels": {"pod-group/name": "g"}},
            "",
            ("there is no PodGroup g", EITHER.replace(MINIMUM, "pod-group/min-available")),
        ),
        (COSCHEDULING, "", not_served("scheduling.x-k8s.io")),
        (VOLCANO, "", not_served("scheduling.volcano.sh")),
        (
            {"annotations": {"scheduling.k8s.io/group-name": "g"}},
            "",
            not_served("scheduling.volcano.sh"),
        ),
        ({"labels": {PREFIX: "g"}}, "", not_served("scheduling.sigs.k8s.io")),
        (COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", absent("scheduling.x-k8s.io")),
        (VOLCANO, "scheduling.volcano.sh/v1beta1", absent("scheduling.volcano.sh")),
    ],
)
def test_why_says_why_a_minimum_is_unknown_and_what_would_help(
    metadata: Metadata, served: str, expected: tuple[str, str], api: MemoryApi, kubectl: Kubectl
) -> None:
    api.served.add(served)
    pods(api, "g", metadata)
    head, why, helps = kubectl("why", "g").splitlines()
    assert head == (
        "pod group default/g: Pending: 2 members are there; the minimum is unknown, 0 hold a node, "
        "0 run"
    )
    assert "its minimum is unknown; " in why
    assert why.endswith(expected[0])
    assert helps.startswith(f"what would help: {expected[1]}")


def test_native_podgroup_that_is_missing_is_named(api: MemoryApi, kubectl: Kubectl) -> None:
    api.put(PODS, pod_json("g-0", group="g"))
    assert "unknown; there is no PodGroup g of scheduling.k8s.io\n" in kubectl("why", "g")


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("why h", "no pod group default/h; known: default/g"),
        ("what-if --add-nodes 1 --like m", "--like: no node 'm'; known: n"),
        ("what-if --add-nodes -1 --like n", "--add-nodes"),
        ("what-if --add-nodes 100001 --like n", "--add-nodes"),
        ("get --request-timeout 0", "--request-timeout: expected more than 0 s"),
        (
            "demand --scheduler-url http://127.0.0.1:1",
            "; --scheduler-url is an option of get, why, queue, quotas (see",
        ),
        ("get --scheduler-ur1 x", "did you mean --scheduler-url?"),
    ],
)
def test_error_names_what_is_wrong_and_what_is_known(
    arguments: str, said: str, api: MemoryApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.put(NODES, node_json("n"))
    put_gang(api, "g", 1)
    with pytest.raises(SystemExit, match="2"):
        raise SystemExit(_kubectl.main(arguments.split()))
    assert said in capsys.readouterr().err


def test_unknown_group_is_answered_with_up_to_twenty_names(api: MemoryApi, fails: Kubectl) -> None:
    for n in range(21):
        put_gang(api, f"g{n:02}", 1)
    error = fails("why", "absent")
    assert "default/g00, default/g01" in error
    assert "default/g19, ..." in error
    assert "default/g20" not in error


def test_right_that_is_missing_is_named(
    api: MemoryApi, fails: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.served.discard("scheduling.k8s.io/v1beta1")
    below = api.watch

    async def watch(path: str, *, timeout: float) -> Any:
        if path.startswith(PODS):
            body = json.dumps({"kind": "Status", "code": 403, "message": "cannot list pods"})
            raise WatchRefused(path, Response(403, body=body.encode()))
        async for lines in below(path, timeout=timeout):
            yield lines

    monkeypatch.setattr(MemoryApi, "watch", staticmethod(watch))
    api.fault = lambda _method, path: refused(403, "no list") if path.startswith(PODS) else None
    said = fails("get")
    assert "not listed: Pod" in said
    assert "cannot list pods" in said or "no list" in said


def test_quotas_of_another_project_that_may_not_be_read_are_named(
    api: MemoryApi, fails: Kubectl, tmp_path: Path
) -> None:
    api.served |= {"scheduling.run.ai/v2"}
    path = "/apis/scheduling.run.ai/v2/queues"
    api.fault = lambda _method, asked: refused(403, "no right") if asked == path else None
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(f"{head}quotas: {{from: kai}}\n", "utf-8")
    said = fails("quotas", "--config", str(config))
    assert f"the quotas of kai are not read: GET {path}: status 403: no right" in said


def test_what_helps_a_gang_in_a_wrong_queue_is_no_number_of_nodes(
    api: MemoryApi, kubectl: Kubectl, tmp_path: Path
) -> None:
    api.put(NODES, node_json("a"))
    put_gang(api, "lost", 1)
    pod = api.objects[PODS]["default/lost-0"]
    pod["metadata"]["labels"] = {"gangsched.io/queue": "lab"}
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(f"{head}quotas: [{{name: team, nominal: {{cpu: 4}}}}]\n", "utf-8")
    said = kubectl("why", "lost", "--config", str(config))
    assert "why: not admitted: queue lab does not exist\n" in said
    helps = "a queue lab is made, or the pods name one that exists"
    assert f"what would help: {helps}\n" in said
