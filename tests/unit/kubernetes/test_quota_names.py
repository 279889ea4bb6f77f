"""A quota in a configuration limits a resource that pods on Kubernetes can request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.cli import main
from gangsched.errors import InvalidValueError
from gangsched.kubernetes import read_settings
from gangsched.kubernetes._cluster_settings import check_cluster_settings
from support.memory_api import MemoryApi
from support.running import ALONE, on_a_loop, running


def quota(resource: str) -> dict[str, object]:
    return {"quotas": [{"name": "q", "namespaces": ["a"], "hard": {resource: 1}}]}


@pytest.mark.parametrize(
    "resource",
    ["cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi", "nvidia.com/gpu"],
)
def test_resource_of_pods_is_accepted(resource: str) -> None:
    check_cluster_settings(read_settings(quota(resource)))


@pytest.mark.parametrize(
    ("resource", "hint"),
    [
        ("cpus", " (did you mean cpu?)"),
        ("requests.cpu", " (did you mean cpu?)"),
        ("requests.nvidia.com/gpu", " (did you mean nvidia.com/gpu?)"),
        ("limits.memory", " (did you mean memory?)"),
        ("gpu", ""),
    ],
)
def test_resource_that_no_pod_can_request_is_refused(resource: str, hint: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        check_cluster_settings(read_settings(quota(resource)))
    said = str(raised.value)
    assert (raised.value.field, raised.value.value) == ("quotas[0].hard", resource)
    assert f"nvidia.com/gpu{hint}, got" in said


@pytest.mark.parametrize("command", ["run", "extender"])
def test_check_names_the_quota(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("quotas: [{name: q, namespaces: [a], hard: {cpus: 1}}]\n", encoding="utf-8")
    assert main([command, "--check", "--config", str(file)]) == 2
    assert "quotas[0].hard must be a resource that pods can request" in capsys.readouterr().err


@on_a_loop
async def test_quota_is_refused_before_the_first_request() -> None:
    api = MemoryApi()
    settings = read_settings({**quota("cpus"), "leaderElection": {"leaderElect": False}})
    assert not ALONE.quotas
    with pytest.raises(InvalidValueError, match=r"quotas\[0\]\.hard"):
        async with running(api, settings):
            await asyncio.sleep(5.0)
    assert api.requests == []
