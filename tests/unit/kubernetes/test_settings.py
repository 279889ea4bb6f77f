"""The configuration file: what it means, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched import (
    Bind,
    InvalidValueError,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    Taint,
    TaintEffect,
)
from gangsched.cli import main
from gangsched.configuration import make_scheduler
from gangsched.kubernetes import Settings, read_settings
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._cluster_settings import check_cluster_settings
from support.memory_api import MemoryApi
from support.running import on_a_loop, running


def test_empty_file_gives_the_defaults() -> None:
    assert read_settings(None) == read_settings({}) == Settings()


def test_file_of_kube_scheduler_is_read() -> None:
    found = read_settings(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False, "leaseDuration": "1m30s"},
            "clientConnection": {"kubeconfig": "/k"},
            "podInitialBackoffSeconds": 2,
            "podMaxBackoffSeconds": 20,
            "profiles": [
                {
                    "schedulerName": "mine",
                    "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}]}},
                    "pluginConfig": [{"name": "Coscheduling", "args": {"placement": "packed"}}],
                }
            ],
        }
    )
    assert not found.leader_election.leader_elect
    assert found.leader_election.lease_duration == 90.0
    assert found.client.kubeconfig == "/k"
    assert (found.initial_backoff, found.maximum_backoff) == (2.0, 20.0)
    assert found.profile.scheduler_names == ("mine",)
    assert found.profile.weights == {"NodeResourcesFit": 3}
    assert found.profile.args == {"Coscheduling": {"placement": "packed"}}


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("1h", 3600.0), ("1m0.5s", 60.5), ("500ms", 0.5), (3, 3.0)]
)
def test_duration_is_read(text: object, seconds: float) -> None:
    assert read_settings({"drainSeconds": text}).drain == seconds


def profile(**fields: Any) -> dict[str, Any]:
    return {"profiles": [fields]}


def disabled(**named: str) -> dict[str, Any]:
    return profile(plugins={"filter": {"disabled": [named]}})


@pytest.mark.parametrize(
    ("document", "field", "value"),
    [
        ([], "configuration", []),
        ({"kind": "Pod"}, "kind", "Pod"),
        ({"parallelism": 16}, "parallelism", 16),
        ({"leaderElection": {"leaseDuration": "soon"}}, "leaderElection.leaseDuration", "soon"),
        ({"leaderElection": {"retryPeriod": "20s"}}, "leaderElection.retryPeriod", "20s"),
        ({"leaderElection": {"leaderElect": "yes"}}, "leaderElection.leaderElect", "yes"),
        ({"clientConnection": {"qps": 50}}, "clientConnection.qps", 50),
        ({"clientConnection": {"bindConnections": 0}}, "clientConnection.bindConnections", 0),
        ({"clientConnection": {"transport": "ftp"}}, "clientConnection.transport", "ftp"),
        ({"profiles": [{}, {}]}, "profiles", "2 profiles"),
        ({"profiles": {}}, "profiles", {}),
        (profile(schedulerName="A b"), "profiles[0].schedulerName", "A b"),
        (disabled(nom="x"), "profiles[0].plugins.filter.disabled[0].nom", "x"),
        (disabled(), "profiles[0].plugins.filter.disabled[0].name", ""),
        ({"podMaxBackoffSeconds": 0.5}, "podMaxBackoffSeconds", 0.5),
    ],
)
def test_bad_input_is_named_by_field_and_value(document: Any, field: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_settings(document)
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.parametrize(
    ("plugin", "args", "field", "value"),
    [
        ("Coscheduling", {"placement": "cozy"}, "placement", "cozy"),
        ("Coscheduling", {"searchBudget": -1}, "searchBudget", -1),
        ("Coscheduling", {"speed": 1}, "speed", 1),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "X"}}, "scoringStrategy.type", "X"),
        ("DefaultPreemption", {"graceSeconds": "long"}, "graceSeconds", "long"),
        ("Backfill", {"leastMembers": 0}, "leastMembers", 0),
    ],
)
def test_bad_argument_of_a_plugin_is_named(
    plugin: str, args: dict[str, Any], field: str, value: object
) -> None:
    settings = read_settings(profile(pluginConfig=[{"name": plugin, "args": args}]))
    with pytest.raises(InvalidValueError) as caught:
        make_scheduler(settings, Cache(["x"]).cluster)
    assert caught.value.field == f"profiles[0].pluginConfig[{plugin}].args.{field}"
    assert caught.value.value == value


@pytest.mark.parametrize(
    "document", [profile(pluginConfig=[{"name": "Volcano", "args": {}}]), disabled(name="Volcano")]
)
def test_unknown_plugins_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="Volcano"):
        make_scheduler(read_settings(document), Cache(["x"]).cluster)


@pytest.mark.parametrize("is_disabled", [True, False])
def test_disabled_plugin_does_not_run(is_disabled: bool) -> None:
    document = disabled(name="TaintToleration") if is_disabled else {}
    cache = Cache(["x"])
    scheduler = make_scheduler(read_settings(document), cache.cluster)
    tainted = Node(name="n", taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),))
    for event in (NodeAdded(tainted), PodAdded(Pod(name="p"))):
        scheduler.handle(cache.cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert any(isinstance(effect, Bind) for effect in effects) == is_disabled


# Quotas limit what pods on Kubernetes can request ------------------------------------------------


def quota(resource: str) -> dict[str, object]:
    return {"quotas": [{"name": "q", "namespaces": ["a"], "hard": {resource: 1}}]}


@pytest.mark.parametrize(
    "resource",
    ["cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi", "nvidia.com/gpu"],
)
def test_resource_of_pods_is_accepted_in_a_quota(resource: str) -> None:
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
def test_resource_that_no_pod_can_request_is_refused_in_a_quota(resource: str, hint: str) -> None:
    with pytest.raises(InvalidValueError) as raised:
        check_cluster_settings(read_settings(quota(resource)))
    assert (raised.value.field, raised.value.value) == ("quotas[0].hard", resource)
    assert f"nvidia.com/gpu{hint}, got" in str(raised.value)


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
    with pytest.raises(InvalidValueError, match=r"quotas\[0\]\.hard"):
        async with running(api, settings):
            await asyncio.sleep(0.2)
    assert api.requests == []
