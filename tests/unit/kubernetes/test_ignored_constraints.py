"""Constraints that are not modelled: a configuration or an option may say that they are ignored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.cli import _parser, main
from gangsched.cli._cluster import settings_of
from gangsched.errors import InvalidValueError
from gangsched.kubernetes import Settings, read_settings
from gangsched.kubernetes._cluster_settings import check_cluster_settings
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running, until

CLAIMS = "spec.resourceClaims"
CLAIMING: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
TASKS = "yunikorn.apache.org/task-groups"


@pytest.mark.parametrize("ignored", [(), (CLAIMS,)], ids=["held", "ignored"])
@on_a_loop
async def test_pod_with_an_ignored_constraint_is_placed(ignored: tuple[str, ...]) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("claiming", **CLAIMING))
    api.put(PODS, pod_json("plain"))

    def is_told() -> bool:
        pod = api.objects[PODS]["default/claiming"]
        return "nodeName" in pod["spec"] or "conditions" in pod["status"]

    async with running(api, evolve(ALONE, ignored=ignored)):
        await until(lambda: api.pods()["default/plain"])
        await until(is_told)
    assert bool(api.pods()["default/claiming"]) is bool(ignored)


@on_a_loop
async def test_gang_with_an_ignored_constraint_is_decided_by_the_extender() -> None:
    api, names = MemoryApi(), ["g-0", "g-1"]
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", 2))
    for name in names:
        api.put(PODS, pod_json(name, group="g", **CLAIMING))
    async with extending(api, evolve(ALONE, ignored=(CLAIMS,))) as asking:
        nodes = [await asking.decided(name, ["n"]) for name in names]
        assert await asyncio.gather(*map(asking.bind, names, nodes)) == ["", ""]
    assert set(api.pods().values()) == {"n"}


@pytest.mark.parametrize("run", [running, extending])
@on_a_loop
async def test_field_that_is_honoured_is_refused_before_the_first_request(
    run: Callable[..., Any],
) -> None:
    api = MemoryApi()
    with pytest.raises(InvalidValueError, match="ignoredConstraints"):
        async with run(api, evolve(ALONE, ignored=("spec.affinity",))):
            await asyncio.sleep(0.2)
    assert api.requests == []


def test_ignored_constraints_are_read_each_once() -> None:
    paths = [CLAIMS, TASKS, CLAIMS]
    assert read_settings({"ignoredConstraints": paths}).ignored == (CLAIMS, TASKS)
    empty: tuple[object, ...] = (None, [])
    for nothing in empty:
        assert read_settings({"ignoredConstraints": nothing}) == Settings()


@pytest.mark.parametrize(
    "path", ["resourceClaims", "spec", "spec.", "spec.containers[0].x", "metadata.annotations"]
)
def test_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_settings({"ignoredConstraints": [CLAIMS, path]})
    assert (caught.value.field, caught.value.value) == ("ignoredConstraints[1]", path)
    with pytest.raises(InvalidValueError, match=r"^ignoredConstraints"):
        read_settings({"ignoredConstraints": [CLAIMS, ""]})


@pytest.fixture
def file(tmp_path: Path) -> str:
    found = tmp_path / "scheduler.yaml"
    found.write_text("ignoredConstraints: [spec.workloadRef]\n", encoding="utf-8")
    return str(found)


@pytest.mark.parametrize("command", ["run", "extender"])
def test_option_adds_to_the_configuration(
    command: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [command, "--config", file, "--check"]
    assert main([*given, "--ignore", CLAIMS]) == 0
    assert main([*given, "--ignore", "unknown:spec.fieldOfALaterVersion"]) == 0
    for path, why in (
        ("spec.fieldOfALaterVersion", "must be one of spec.containers.resources.claims, "),
        ("unknown:spec.nodeSelector", "this field is honoured, and cannot be ignored"),
        ("nodes.k8s.io/typo", TASKS),
        ("spec.nodeSelector", "this field is honoured, and cannot be ignored"),
        ("spec.hostname", "this field restricts no node"),
        ("nodeSelector", "a path without indices"),
        ("spec.resourceClaim", "(did you mean spec.resourceClaims?)"),
    ):
        capsys.readouterr()
        assert main([*given, "--ignore", path]) == 2
        said = capsys.readouterr().err
        assert said.startswith("gangsched: --ignore must be ")
        assert why in said
        assert path.removeprefix("unknown:") in said


def test_options_and_configuration_are_put_together(file: str) -> None:
    given = ["run", "--config", file, "--ignore", CLAIMS, "--ignore", "spec.workloadRef"]
    settings, _made = settings_of(_parser("run").parse_args(given))
    assert settings.ignored == ("spec.workloadRef", CLAIMS)


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("spec.resourceClaim", "spec.resourceClaims"),
        ("spec.resource", None),
        ("spec.containers.resources.claim", "spec.containers.resources.claims"),
        ("spec.networkTopologies", "spec.networkTopology"),
        ("yunikorn.apache.org/task-group", TASKS),
        ("metadata.annotations.example.com/any", None),
        ("spec.resourceClaims.name", "spec.resourceClaims"),
    ],
)
def test_constraint_that_is_not_known_is_refused_with_those_that_are(
    path: str, near: str | None
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_cluster_settings(read_settings({"ignoredConstraints": [CLAIMS, path]}))
    assert (caught.value.field, caught.value.value) == ("ignoredConstraints", path)
    for known in (CLAIMS, "spec.workloadRef", "spec.queue", TASKS):
        assert known in caught.value.expected
    assert near is None or f"(did you mean {near}?)" in caught.value.expected


@pytest.mark.parametrize(
    "path",
    [
        *(CLAIMS, "spec.subGroupPolicy", "spec.initContainers.resources.claims"),
        *("gang.scheduling.koordinator.sh/mode", "unknown:spec.fieldOfALaterVersion"),
        *(f"metadata.annotations.{TASKS}", "unknown:spec.affinity.later"),
    ],
)
def test_constraint_that_is_known_or_of_a_later_version_is_ignored(path: str) -> None:
    settings = read_settings({"ignoredConstraints": [path]})
    check_cluster_settings(settings)
    assert settings.ignored == (path.removeprefix("unknown:"),)
