"""Constraints that are not modelled: a configuration or an option may say that they are ignored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.cli import main
from gangsched.errors import InvalidValueError
from gangsched.kubernetes import Settings, read_settings
from gangsched.kubernetes._cluster_settings import check_cluster_settings
from gangsched.kubernetes._decode import GroupDecoder, PodDecoder
from gangsched.kubernetes._facts import Dialect
from support.api_objects import pod, raw
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import ALONE, on_a_loop, running, until

CLAIMS = "spec.resourceClaims"
CLAIMING: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
CORE = Dialect("scheduling.k8s.io", "v1beta1", "/apis/scheduling.k8s.io/v1beta1/podgroups")


@pytest.mark.parametrize("ignored", [(), (CLAIMS,)], ids=["held", "ignored"])
@on_a_loop
async def test_pod_with_an_ignored_constraint_is_placed(ignored: tuple[str, ...]) -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(PODS, pod_json("claiming", **CLAIMING))
    api.put(PODS, pod_json("plain"))
    async with asyncio.timeout(HANG), running(api, evolve(ALONE, ignored=ignored)):
        await until(lambda: api.pods()["default/plain"])
        if ignored:
            await until(lambda: api.pods()["default/claiming"])
            return
        await until(lambda: "conditions" in api.objects[PODS]["default/claiming"]["status"])
    assert api.pods()["default/claiming"] is None


def test_decoders_ignore_the_constraints_of_pods_and_of_groups() -> None:
    claiming = pod(**CLAIMING)
    assert PodDecoder()(raw(claiming)).pod.unmodelled == (CLAIMS,)
    facts = PodDecoder([CLAIMS])(raw(claiming))
    assert facts.pod.unmodelled == ()
    assert facts.notes == (f"{CLAIMS} is not modelled and was ignored",)
    group = group_json("g", 2, **CLAIMING)
    assert GroupDecoder(CORE)(raw(group)).group.unmodelled == (CLAIMS,)
    assert GroupDecoder(CORE, [CLAIMS])(raw(group)).group.unmodelled == ()


def test_ignored_constraints_are_read_each_once() -> None:
    paths = [CLAIMS, "yunikorn.apache.org/task-groups", CLAIMS]
    assert read_settings({"ignoredConstraints": paths}).ignored == tuple(paths[:2])
    empty: tuple[object, ...] = (None, [])
    for nothing in empty:
        assert read_settings({"ignoredConstraints": nothing}) == Settings()


@pytest.mark.parametrize(
    "path", ["resourceClaims", "spec", "spec.", "spec.containers[0].x", "metadata.annotations", ""]
)
def test_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_settings({"ignoredConstraints": [CLAIMS, path]})
    assert caught.value.field.startswith("ignoredConstraints")
    if path:
        assert (caught.value.field, caught.value.value) == ("ignoredConstraints[1]", path)


@pytest.mark.parametrize("command", ["run", "extender"])
def test_option_adds_to_the_configuration(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("ignoredConstraints: [spec.workloadRef]\n", encoding="utf-8")
    given = [command, "--config", str(file), "--check"]
    assert main([*given, "--ignore", CLAIMS]) == 0
    assert main([*given, "--ignore", "unknown:spec.fieldOfALaterVersion"]) == 0
    for path, why in (
        ("spec.fieldOfALaterVersion", "must be one of spec.containers.resources.claims, "),
        ("unknown:spec.nodeSelector", "this field is honoured, and cannot be ignored"),
        ("nodes.k8s.io/typo", "yunikorn.apache.org/task-groups"),
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


def test_options_and_configuration_are_put_together(tmp_path: Path) -> None:
    from gangsched.cli import _parser
    from gangsched.cli._cluster import settings_of

    file = tmp_path / "scheduler.yaml"
    file.write_text("ignoredConstraints: [spec.workloadRef]\n", encoding="utf-8")
    given = ["run", "--config", str(file), "--ignore", CLAIMS, "--ignore", "spec.workloadRef"]
    settings, _made = settings_of(_parser("run").parse_args(given))
    assert settings.ignored == ("spec.workloadRef", CLAIMS)


@on_a_loop
async def test_field_that_is_honoured_is_refused_before_the_first_request() -> None:
    api = MemoryApi()
    with pytest.raises(InvalidValueError, match="ignoredConstraints"):
        async with running(api, evolve(ALONE, ignored=("spec.affinity",))):
            await asyncio.sleep(5.0)
    assert api.requests == []


@on_a_loop
async def test_gang_with_an_ignored_constraint_is_decided_by_the_extender() -> None:
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    api.put(GROUPS, group_json("g", 2))
    names = ["g-0", "g-1"]
    for name in names:
        api.put(PODS, pod_json(name, group="g", **CLAIMING))
    async with asyncio.timeout(HANG), extending(api, evolve(ALONE, ignored=(CLAIMS,))) as asking:
        nodes = [await asking.decided(name, ["n"]) for name in names]
        said = await asyncio.gather(*map(asking.bind, names, nodes))
    assert said == ["", ""]
    assert set(api.pods().values()) == {"n"}


@on_a_loop
async def test_extender_refuses_a_field_that_is_honoured() -> None:
    with pytest.raises(InvalidValueError, match="ignoredConstraints"):
        async with extending(MemoryApi(), evolve(ALONE, ignored=("spec.affinity",))):
            pass


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("spec.resourceClaim", "spec.resourceClaims"),
        ("spec.resource", None),
        ("spec.containers.resources.claim", "spec.containers.resources.claims"),
        ("spec.networkTopologies", "spec.networkTopology"),
        ("yunikorn.apache.org/task-group", "yunikorn.apache.org/task-groups"),
        ("metadata.annotations.example.com/any", None),
        ("spec.resourceClaims.name", "spec.resourceClaims"),
    ],
)
def test_constraint_that_is_not_known_is_refused_with_those_that_are(
    path: str, near: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_cluster_settings(read_settings({"ignoredConstraints": [CLAIMS, path]}))
    assert (caught.value.field, caught.value.value) == ("ignoredConstraints", path)
    for known in (CLAIMS, "spec.workloadRef", "spec.queue", "yunikorn.apache.org/task-groups"):
        assert known in caught.value.expected
    assert near is None or f"(did you mean {near}?)" in caught.value.expected
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"ignoredConstraints: [{path}]\n", encoding="utf-8")
    assert main(["run", "--config", str(file), "--check"]) == 2
    assert (
        "ignoredConstraints must be one of spec.containers.resources.claims, "
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "path",
    [
        *(CLAIMS, "spec.parentCompositePodGroupName", "spec.initContainers.resources.claims"),
        *("gang.scheduling.koordinator.sh/mode", "unknown:spec.fieldOfALaterVersion"),
        *("metadata.annotations.yunikorn.apache.org/task-groups", "unknown:spec.affinity.later"),
    ],
)
def test_constraint_that_is_known_or_of_a_later_version_is_ignored(path: str) -> None:
    settings = read_settings({"ignoredConstraints": [path]})
    check_cluster_settings(settings)
    assert settings.ignored == (path.removeprefix("unknown:"),)


def test_field_of_a_later_version_that_is_ignored_holds_no_pod() -> None:
    held = pod(fieldOfALaterVersion={"zone": "a"})
    path = "spec.fieldOfALaterVersion"
    assert PodDecoder()(raw(held)).pod.unmodelled == (path,)
    ignored = read_settings({"ignoredConstraints": [f"unknown:{path}"]}).ignored
    assert PodDecoder(ignored)(raw(held)).pod.unmodelled == ()
