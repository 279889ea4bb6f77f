"""All of a configuration that needs no cluster is checked before a replica is ready."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli import main
from gangsched.configuration import ProfileSettings, Settings, read_settings
from gangsched.errors import GangschedError, InvalidValueError, ProfileError
from gangsched.kubernetes import run
from gangsched.kubernetes.extender import run_extender
from support.memory_api import MemoryApi
from support.patience import HANG
from support.running import on_a_loop

LEASES = "/apis/coordination.k8s.io/v1/leases"

WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"pluginConfig": [{"name": "Backfill", "args": {"afterAttempt": 1}}]},
        "profiles[0].pluginConfig[Backfill].args.afterAttempt must be absent:"
        " it is not an argument here (did you mean afterAttempts?), got 1",
    ),
    (
        {"pluginConfig": [{"name": "DefaultPreemption", "args": {"graceSeconds": "1m"}}]},
        "profiles[0].pluginConfig[DefaultPreemption].args.graceSeconds must be a number of seconds",
    ),
    (
        {"pluginConfig": [{"name": "DefaultPremption"}]},
        "profiles[0].pluginConfig[0].name must be one of Backfill, Coscheduling, DefaultPreemption",
    ),
    (
        {"pluginConfig": [{"name": "Backfill", "args": {"leastMembers": 0}}]},
        "profiles[0].pluginConfig[Backfill].args.leastMembers must be a whole number >= 1, got 0",
    ),
    (
        {"plugins": {"multiPoint": {"disabled": [{"name": "NodePort"}]}}},
        "profiles[0].plugins.multiPoint.disabled[0].name must be one of",
    ),
]


def with_a_holder() -> MemoryApi:
    """Return an API server where another replica leads."""
    api = MemoryApi()
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 15}
    metadata = {"namespace": "kube-system", "name": "gangsched"}
    api.put(LEASES, {"kind": "Lease", "metadata": metadata, "spec": spec})
    return api


def is_served(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@pytest.mark.parametrize(("profile", "problem"), WRONG)
@pytest.mark.parametrize("command", ["run", "extender"])
@on_a_loop
async def test_standby_with_a_wrong_argument_ends_before_it_serves_or_asks_for_the_lease(
    command: str, profile: dict[str, Any], problem: str
) -> None:
    api, settings = with_a_holder(), read_settings({"profiles": [profile]})
    address = ("127.0.0.1", free_port())
    work = (
        run(settings, api=api, serve=address)
        if command == "run"
        else run_extender(settings, api=api, listen=("127.0.0.1", 0), serve=address)
    )
    with pytest.raises(InvalidValueError) as raised:
        async with asyncio.timeout(HANG):
            await work
    assert str(raised.value).startswith(problem)
    assert api.requests == []
    assert not is_served(address[1])


class Picky:
    """A plugin that refuses a value."""

    name = "Picky"

    def __init__(self, level: int = 0) -> None:
        if level < 0:
            raise ValueError(f"level {level} is negative")


@on_a_loop
async def test_value_that_a_plugin_refuses_is_named_before_the_lease() -> None:
    api = with_a_holder()
    profile = ProfileSettings(enabled=("Picky",), args={"Picky": {"level": -1}})
    with pytest.raises(InvalidValueError, match=r"pluginConfig\[Picky\].args .*level -1 is neg"):
        await run(Settings(profile=profile), api=api, factories={"Picky": Picky})
    assert api.requests == []


@on_a_loop
async def test_profile_that_cannot_work_ends_before_the_lease() -> None:
    api = with_a_holder()
    profile = ProfileSettings(weights={"NodePorts": 3})
    with pytest.raises((ProfileError, InvalidValueError)):
        await run(Settings(profile=profile), api=api)
    assert api.requests == []


@on_a_loop
async def test_wrong_argument_is_told_rather_than_absent_credentials() -> None:
    profile = ProfileSettings(args={"Backfill": {"afterAttempt": 1}})
    with pytest.raises(GangschedError, match="afterAttempt must be absent"):
        await run(Settings(profile=profile))


def said_by(
    arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    code = main([*arguments, "--config", str(file)])
    said = capsys.readouterr()
    return code, said.out.replace(str(file), "F"), said.err.replace(str(file), "F")


@pytest.mark.parametrize("command", ["run", "extender"])
def test_check_says_what_is_wrong_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "profiles: [{pluginConfig: [{name: Backfill, args: {afterAttempt: 1}}]}]"
    code, out, err = said_by([command, "--check"], text, tmp_path, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("gangsched: F: profiles[0].pluginConfig[Backfill].args.afterAttempt must")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "extender"])
def test_check_accepts_what_would_run_without_a_cluster(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "profiles: [{pluginConfig: [{name: Backfill, args: {afterAttempts: 1}}]}]"
    said = said_by([command, "--check", "--kubeconfig", "/nowhere"], text, tmp_path, capsys)
    assert said == (0, "F: valid\n", "")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"quotas": [{"name": "q", "namespace": ["a"], "hard": {"cpu": 1}}]},
            "quotas[0].namespace must be absent, because no setting has this name here"
            " (did you mean namespaces?), got ['a']",
        ),
        (
            {"quotas": [{"name": "q", "hard": {"cpu": 1}}]},
            "quotas[0].namespaces must be a list of at least one non-empty string, got None",
        ),
        (
            {"profiles": [{"pluginConfig": [{"nam": "Backfill"}]}]},
            "profiles[0].pluginConfig[0].nam must be absent, because no setting has this name here"
            " (did you mean name?), got 'Backfill'",
        ),
        (
            {"leaderElection": {"leaseDurations": "15s"}},
            "leaderElection.leaseDurations must be absent, because no setting has this name here"
            " (did you mean leaseDuration?), got '15s'",
        ),
        ({"xyz": 1}, "xyz must be absent, because no setting has this name here, got 1"),
    ],
)
def test_unknown_field_is_named_with_the_field_that_was_meant(
    document: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidValueError) as raised:
        read_settings(document)
    assert str(raised.value) == problem
