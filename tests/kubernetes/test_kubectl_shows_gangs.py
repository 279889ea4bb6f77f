"""What the real ``kubectl`` applies, and what it shows of the scheduler's events and conditions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from gangsched.kubernetes._client import connect
from support.chart import CHART, NAMESPACE, Helm
from support.cluster_objects import group_json, node_json, pod_json
from support.control_plane import Account, ControlPlane
from support.control_plane.fixtures import need_control_plane
from support.kubectl_program import Kubectl, plugin_folder
from support.patience import HANG, eventually, saw, until
from support.running import ALONE, on_a_loop, running
from support.scheduled_cluster import documented_rights

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

Object = dict[str, Any]

CRDS: Final = CHART / "crds"
NATIVE: Final = "podgroups.scheduling.k8s.io"
OLDER: Final = "podgroups.scheduling.x-k8s.io"
LABEL: Final = "scheduling.x-k8s.io/pod-group"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own, since definitions stay installed."""
    need_control_plane("kubectl", "helm")
    with ControlPlane(tmp_path_factory.mktemp("shown")) as started:
        yield started


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    plugins = plugin_folder(tmp_path_factory.mktemp("tools") / "bin")
    kubectl = Kubectl(plane.kubeconfig("person"), plugins)
    kubectl("apply", "--server-side", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", f"crd/{OLDER}", f"--timeout={HANG:g}s")
    # kubectl knows the kind from another document of the API server, which is written later
    until(lambda: kubectl.run("get", OLDER).code == 0)
    return kubectl


@pytest.fixture
def cluster(plane: ControlPlane, kubectl: Kubectl) -> Iterator[Kubectl]:
    """One node of four GPUs; pods, groups and events are deleted afterwards.

    A native group stays, since no controller takes its finalizer off. So no test has a group with
    the name of another test's.
    """
    plane.admin.create("/api/v1/nodes", node_json("gpu-0", gpu=4))
    yield kubectl
    plane.admin.delete("/api/v1/nodes/gpu-0")
    for kind in ("pods", NATIVE, OLDER, "events"):
        kubectl("delete", kind, "--all", "--force", "--grace-period=0", "--wait=false")


def manifest(*objects: Object) -> str:
    """Return objects as the text of a file."""
    for each in objects:
        each.pop("status", None)
    text: str = yaml.safe_dump_all(objects)
    return text


def gang(name: str, size: int, **pod: Any) -> list[Object]:
    """Return a native group and its pods."""
    return [
        group_json(name, size),
        *(pod_json(f"{name}-{n}", group=name, **pod) for n in range(size)),
    ]


def older_gang(name: str, size: int) -> list[Object]:
    """Return a group of scheduling.x-k8s.io and its pods."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": size},
    }
    pods = [pod_json(f"{name}-{n}") for n in range(size)]
    for pod in pods:
        pod["metadata"]["labels"] = {LABEL: name}
    return [group, *pods]


@asynccontextmanager
async def scheduling(plane: ControlPlane) -> AsyncGenerator[None, None]:
    account = Account.create(plane.admin, "documented", documented_rights())
    api = await connect(kubeconfig=str(plane.kubeconfig("scheduler", account.token)))
    try:
        async with running(api, ALONE):
            yield
    finally:
        await api.aclose()


async def shown(kubectl: Kubectl, true: Callable[[str], object], *arguments: str) -> str:
    """Return what a command prints, once that is so."""
    texts: list[str] = []

    def is_so() -> bool:
        texts.append(kubectl(*arguments))
        saw(f"kubectl {' '.join(arguments)} prints:\n{texts[-1]}")
        return bool(true(texts[-1]))

    await eventually(is_so, step=0.2)
    return texts[-1]


async def apply(kubectl: Kubectl, *objects: Object) -> str:
    return await asyncio.to_thread(lambda: kubectl("apply", "-f", "-", stdin=manifest(*objects)))


def table(text: str) -> list[Object]:
    """Return the rows of a table by the names of their columns."""
    head, *lines = text.splitlines()
    starts = [(found.group(), found.start()) for found in re.finditer(r"\S+( \S+)*", head)]
    ends = [start for _name, start in starts[1:]] + [None]
    return [
        {name: line[start:end].strip() for (name, start), end in zip(starts, ends, strict=True)}
        for line in lines
    ]


def events_of(text: str) -> list[str]:
    """Return the events that ``kubectl describe`` shows, with one space between columns."""
    _, _, events = text.partition("\nEvents:")
    return [" ".join(line.split()) for line in events.splitlines()[3:] if line.strip()]


def all_of(*words: str) -> Callable[[str], bool]:
    return lambda text: all(word in text for word in words)


# describe ---------------------------------------------------------------------------------------


@on_a_loop
async def test_describe_pod_says_in_the_words_of_kube_scheduler_why_it_waits(
    plane: ControlPlane, cluster: Kubectl
) -> None:
    await apply(cluster, pod_json("alone", gpu=8))
    async with scheduling(plane):
        seen = all_of("FailedScheduling", "PodScheduled")
        text = await shown(cluster, seen, "describe", "pod", "alone")
        path = (
            "jsonpath={.status.conditions[?(@.type=='PodScheduled')]['status','reason','message']}"
        )
        condition = await asyncio.to_thread(cluster, "get", "pod", "alone", "-o", path)
    why = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert re.search(r"^Conditions:\n.*\n  PodScheduled +False", text, re.MULTILINE)
    (event,) = events_of(text)
    assert re.fullmatch(rf"Warning FailedScheduling \S+ gangsched {re.escape(why)}", event)
    assert condition == f"False Unschedulable {why}"


@on_a_loop
async def test_describe_pod_and_group_of_a_gang_that_starts(
    plane: ControlPlane, cluster: Kubectl
) -> None:
    await apply(cluster, *gang("fits", 2))
    async with scheduling(plane):
        # kubectl reads the pod before its events, and may have read it before it was bound
        seen = all_of("Successfully assigned", "PodScheduled")
        pod = await shown(cluster, seen, "describe", "pod", "fits-0")
        seen = all_of("members are assigned", "PodGroupInitiallyScheduled", "are being bound")
        group = await shown(cluster, seen, "describe", NATIVE, "fits")
    (event,) = events_of(pod)
    assert re.fullmatch(
        r"Normal Scheduled \S+ gangsched Successfully assigned default/fits-0 to gpu-0", event
    )
    assert re.search(r"^  PodScheduled +True", pod, re.MULTILINE)
    assert [line.split(" gangsched ")[1] for line in events_of(group)] == [
        "2 members have nodes, and are being bound"
    ]
    assert re.search(r"Status: +True\n +Type: +PodGroupInitiallyScheduled", group)


@on_a_loop
async def test_describe_group_says_why_a_gang_waits(plane: ControlPlane, cluster: Kubectl) -> None:
    await apply(cluster, *gang("large", 5))
    async with scheduling(plane):
        group = await shown(
            cluster,
            all_of("FailedScheduling", "PodGroupInitiallyScheduled"),
            "describe",
            NATIVE,
            "large",
        )
        rows = table(await asyncio.to_thread(cluster, "get", NATIVE, "large"))
    why = "at most 4 of 5 members fit: nvidia.com/gpu is short"
    assert [line.split(" gangsched ")[1] for line in events_of(group)] == [why]
    assert re.search(rf"Message: +{re.escape(why)}\n +Reason: +Unschedulable\n", group)
    assert [(row["NAME"], row["STATUS"]) for row in rows] == [("large", "Unschedulable")]


@on_a_loop
async def test_repeated_event_is_one_line_with_a_count(
    plane: ControlPlane, cluster: Kubectl
) -> None:
    """A pod that changes is tried again."""
    await apply(cluster, pod_json("first", nodeName="gpu-0"), pod_json("whole", gpu=4))
    path = "/api/v1/namespaces/default/pods/whole"
    async with scheduling(plane):
        await shown(cluster, all_of("FailedScheduling"), "describe", "pod", "whole")
        for n in range(3):
            more = {"key": f"tried-{n}", "operator": "Exists"}
            tolerations = [*plane.admin.get(path)["spec"]["tolerations"], more]
            plane.admin.patch(path, {"spec": {"tolerations": tolerations}})
            await asyncio.sleep(2.5)  # longer than the backoff
        text = await shown(cluster, all_of("(x"), "describe", "pod", "whole")
        listed = await asyncio.to_thread(
            cluster, "get", "events", "--field-selector=involvedObject.name=whole"
        )
    (event,) = events_of(text)
    assert re.search(r"\(x[2-9] over \S+\) gangsched 0/1 nodes are available: 1 Insuff", event)
    assert [row["REASON"] for row in table(listed)] == ["FailedScheduling"]


# get --------------------------------------------------------------------------------------------


@on_a_loop
async def test_get_podgroups_shows_the_columns_of_the_definition(
    plane: ControlPlane, cluster: Kubectl
) -> None:
    await apply(cluster, *older_gang("older", 2), *older_gang("older-large", 5))
    async with scheduling(plane):
        await shown(cluster, all_of("Scheduled", "Scheduling"), "get", OLDER)
        plane.admin.patch("/api/v1/namespaces/default/pods/older-0/status", _RUNS)
        plane.admin.patch("/api/v1/namespaces/default/pods/older-1/status", _RUNS)
        text = await shown(cluster, all_of("Running  "), "get", OLDER)
        wide = await asyncio.to_thread(cluster, "get", OLDER, "-o", "wide")
    rows = {row.pop("NAME"): row for row in table(text)}
    assert list(rows["older"]) == ["PHASE", "MINMEMBER", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
    assert {**rows["older"], "AGE": ""} == {
        "PHASE": "Running",
        "MINMEMBER": "2",
        "RUNNING": "2",
        "SUCCEEDED": "",
        "FAILED": "",
        "AGE": "",
    }
    assert rows["older-large"]["PHASE"] == "Scheduling"
    assert "OWNER" in wide.splitlines()[0].split()


_RUNS: Final = {"status": {"phase": "Running"}}


# apply ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [(), ("--server-side",)])
def test_output_of_the_chart_can_be_applied_twice(
    how: tuple[str, ...], plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    name = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl("apply", "-f", "-", stdin=manifest(name))
    text = Helm(tmp_path).text()
    objects = [each for each in yaml.safe_load_all(text) if each]
    try:
        first = kubectl("apply", *how, "-f", "-", stdin=text).splitlines()
        again = kubectl("apply", *how, "-f", "-", stdin=text).splitlines()
        assert len(first) == len(again) == len(objects)
        done = "serverside-applied" if how else "unchanged"
        # kubectl replaces the selector of a PodDisruptionBudget each time, with the same one
        budget = "poddisruptionbudget.policy/gangsched configured"
        assert [line for line in again if not line.endswith(done) and line != budget] == []
        assert kubectl("diff", *how, "-f", "-", stdin=text) == ""
    finally:
        kubectl("delete", "-f", "-", "--wait=false", stdin=text)


@pytest.mark.parametrize("how", [(), ("--server-side",)])
@pytest.mark.parametrize("make", [gang, older_gang])
def test_group_is_applied_again_without_a_conflict_after_its_status_was_written(
    make: Callable[[str, int], list[Object]],
    how: tuple[str, ...],
    plane: ControlPlane,
    cluster: Kubectl,
) -> None:
    @on_a_loop
    async def run() -> None:
        kind = OLDER if make is older_gang else NATIVE
        name = f"again-{make.__name__}-{len(how)}".replace("_", "-")
        group, *pods = make(name, 2)
        text = manifest(group)
        await asyncio.to_thread(lambda: cluster("apply", *how, "-f", "-", stdin=text))
        await apply(cluster, *pods)
        async with scheduling(plane):
            await shown(cluster, all_of("Scheduled"), "get", kind, name)
            said = await asyncio.to_thread(lambda: cluster("apply", *how, "-f", "-", stdin=text))
            after = table(await asyncio.to_thread(cluster, "get", kind, name))
        assert said.rstrip().endswith("serverside-applied" if how else "unchanged")
        assert "Scheduled" in after[0].values()

    run()
