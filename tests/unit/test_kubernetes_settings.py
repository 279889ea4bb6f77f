"""The configuration file: what it means, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

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
from gangsched.configuration import make_scheduler
from gangsched.kubernetes import Settings, read_settings
from gangsched.kubernetes._cache import Cache


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
        ({"profiles": [{"schedulerName": "A b"}]}, "profiles[0].schedulerName", "A b"),
        (
            {"profiles": [{"plugins": {"filter": {"disabled": [{"nom": "x"}]}}}]},
            "profiles[0].plugins.filter.disabled[0].nom",
            "x",
        ),
        (
            {"profiles": [{"plugins": {"filter": {"disabled": [{}]}}}]},
            "profiles[0].plugins.filter.disabled[0].name",
            "",
        ),
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
    profile = {"pluginConfig": [{"name": plugin, "args": args}]}
    settings = read_settings({"profiles": [profile]})
    with pytest.raises(InvalidValueError) as caught:
        make_scheduler(settings, Cache(["x"]).cluster)
    assert caught.value.field == f"profiles[0].pluginConfig[{plugin}].args.{field}"
    assert caught.value.value == value


def test_unknown_plugins_are_refused() -> None:
    for profile in (
        {"pluginConfig": [{"name": "Volcano", "args": {}}]},
        {"plugins": {"multiPoint": {"disabled": [{"name": "Volcano"}]}}},
    ):
        settings = read_settings({"profiles": [profile]})
        with pytest.raises(InvalidValueError, match="Volcano"):
            make_scheduler(settings, Cache(["x"]).cluster)


@pytest.mark.parametrize("disabled", [True, False])
def test_disabled_plugin_does_not_run(disabled: bool) -> None:
    plugins = {"filter": {"disabled": [{"name": "TaintToleration"}]}} if disabled else {}
    cache = Cache(["x"])
    scheduler = make_scheduler(read_settings({"profiles": [{"plugins": plugins}]}), cache.cluster)
    tainted = Node(name="n", taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),))
    for event in (NodeAdded(tainted), PodAdded(Pod(name="p"))):
        scheduler.handle(cache.cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert any(isinstance(effect, Bind) for effect in effects) == disabled
