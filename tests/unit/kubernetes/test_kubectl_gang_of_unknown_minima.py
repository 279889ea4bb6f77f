"""``kubectl gang why`` says why the minimum of a group is unknown, and what to do about it."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from gangsched.cli import _kubectl
from gangsched.kubernetes import _client
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.control_plane.processes import free_ports
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import on_a_loop, running

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

PREFIX = "pod-group.scheduling.sigs.k8s.io"
NAME, MINIMUM = f"{PREFIX}/name", f"{PREFIX}/min-available"
UNKNOWN = "its minimum is unknown; "


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a"))
    return found


def add(api: MemoryApi, metadata: dict[str, dict[str, str]], count: int = 2) -> None:
    for n in range(count):
        pod = pod_json(f"g-{n}")
        pod["metadata"] |= metadata
        api.put(PODS, pod)


def why(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the lines of an answer, by what is before the colon."""
    assert _kubectl.main(["why", "g", "--request-timeout", "5s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = dict(line.split(": ", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def test_misspelt_label_of_the_minimum_is_named(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, {"labels": {NAME: "g", f"{PREFIX}/min-availabe": "2"}})
    lines = why(capsys)
    read = f"the label {PREFIX}/min-availabe of its pods is not read"
    assert lines["why"].endswith(f"{UNKNOWN}{read} (did you mean {MINIMUM}?)")
    assert lines["what would help"] == f"label its pods with {MINIMUM}, or create a PodGroup g"


def test_members_of_an_unknown_minimum_are_counted_alone(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, {"labels": {NAME: "g"}}, count=1)
    assert _kubectl.main(["why", "g", "--request-timeout", "5s"]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    counts = "1 member is there; the minimum is unknown, 0 hold a node, 0 run"
    assert head == f"pod group default/g: Pending: {counts}"


def test_group_without_label_and_podgroup_is_given_either(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, {"labels": {NAME: "g"}})
    lines = why(capsys)
    assert lines["why"].endswith(
        f"{UNKNOWN}its pods have no label {MINIMUM}, and there is no PodGroup g"
    )
    assert lines["what would help"] == f"label its pods with {MINIMUM}, or create a PodGroup g"


def test_other_projects_are_told_their_own_key(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, {"labels": {"pod-group/name": "g"}})
    help_ = "label its pods with pod-group/min-available, or create a PodGroup g"
    assert why(capsys)["what would help"] == help_


COSCHEDULING = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
VOLCANO = {"annotations": {"scheduling.volcano.sh/group-name": "g"}}


@pytest.mark.parametrize(
    ("pods", "group"),
    [
        (COSCHEDULING, "scheduling.x-k8s.io"),
        (VOLCANO, "scheduling.volcano.sh"),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "scheduling.volcano.sh"),
        ({"labels": {PREFIX: "g"}}, "scheduling.sigs.k8s.io"),
    ],
)
def test_podgroup_api_that_is_not_served_is_named(
    pods: dict[str, dict[str, str]],
    group: str,
    api: Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add(api, pods)
    lines = why(capsys)
    assert lines["why"].endswith(
        f"{UNKNOWN}the cluster does not serve {group}, the API of its PodGroup"
    )
    assert lines["what would help"].startswith(
        f"install the CRD of {group} and create the PodGroup g, or label its pods with {NAME}"
    )


@pytest.mark.parametrize(
    ("pods", "version"),
    [(COSCHEDULING, "scheduling.x-k8s.io/v1alpha1"), (VOLCANO, "scheduling.volcano.sh/v1beta1")],
)
def test_podgroup_that_is_missing_is_to_be_created_in_the_api_of_the_spelling(
    pods: dict[str, dict[str, str]],
    version: str,
    api: Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.served.add(version)
    group = version.partition("/")[0]
    add(api, pods)
    lines = why(capsys)
    assert lines["why"].endswith(f"{UNKNOWN}there is no PodGroup g of {group}")
    assert lines["what would help"].startswith(f"create a PodGroup g of {group}, or label")


def test_native_podgroup_that_is_missing_is_named(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(2):
        api.put(PODS, pod_json(f"g-{n}", group="g"))
    assert why(capsys)["why"].endswith(f"{UNKNOWN}there is no PodGroup g of scheduling.k8s.io")


@on_a_loop
async def test_running_scheduler_says_what_to_do_about_an_unknown_minimum() -> None:
    api = MemoryApi()
    (port,) = free_ports(1)
    api.put(NODES, node_json("a"))
    add(api, COSCHEDULING)
    item: dict[str, Any] = {}

    def look() -> None:
        nonlocal item
        try:
            url = f"http://127.0.0.1:{port}/why?group=default/g"
            with urllib.request.urlopen(url, timeout=HANG) as page:
                (item,) = json.load(page)["items"]
        except urllib.error.URLError:  # it does not listen, or has not listed the cluster
            pass

    async with running(api, serve=("127.0.0.1", port)), asyncio.timeout(HANG):
        while not item:
            await asyncio.sleep(0.02)
            await asyncio.to_thread(look)
    assert "the cluster does not serve scheduling.x-k8s.io" in item["reason"]
    assert item["helps"].startswith("install the CRD of scheduling.x-k8s.io")


def test_listing_without_a_configuration_says_that_it_is_the_default_one(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    add(api, {"labels": {NAME: "g"}})
    assert _kubectl.main(["get", "--request-timeout", "5s"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(
        "by listing and the default configuration; the running scheduler was not asked: "
    )
