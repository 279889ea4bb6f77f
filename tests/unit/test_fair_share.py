"""The policy ``fair`` of a simulation, and how even the shares of tenants are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched import (
    Bound,
    Event,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
)
from gangsched.events import NodeDeleted
from gangsched.simulation import Arrival, fair_quotas
from gangsched.simulation.tenant_shares import TenantTracker, even_parts
from gangsched.testing import make_node
from support.documents import printed_by, refuses

HEADER = "job,submit_s,workers,gpus_per_worker,duration_s,tenant\n"
# red comes first with more than the cluster has, then blue with one job
BUSY = HEADER + "".join(f"r{n},0,1,1,100,red\n" for n in range(8)) + "b0,10,1,1,100,blue\n"


def pod(name: str, namespace: str, cpu: int = 1, **more: Any) -> Pod:
    return Pod(name=name, namespace=namespace, requests={"cpu": cpu}, **more)


# The quotas


def test_each_user_is_a_queue_below_a_root_that_limits_nothing() -> None:
    events: list[Event] = [
        NodeAdded(make_node("n", cpu=4, gpu=2)),
        PodAdded(pod("a", "red")),
        PodAdded(pod("b", "blue", queue="lab")),
        PodAdded(pod("c", "everyone")),
        PodGroupAdded(PodGroup(name="g", namespace="blue", min_available=1, queue="red")),
    ]
    root, *users = fair_quotas([Arrival(0.0, event) for event in events])
    assert root.name == "everyone-"
    assert root.nominal is not None
    assert {name: root.nominal.quantity(name) for name in root.nominal if name != "memory"} == {
        "cpu": "4000",
        "nvidia.com/gpu": "2000",
    }
    assert [(each.name, each.namespaces, each.parent, each.weight) for each in users] == [
        ("everyone", ("everyone",), "everyone-", 1.0),
        ("lab", (), "everyone-", 1.0),
        ("red", ("red",), "everyone-", 1.0),
    ]


# The index


@pytest.mark.parametrize(
    ("total", "asked", "parts"),
    [
        (1.0, [1.0, 1.0], [0.5, 0.5]),
        (1.0, [0.2, 1.0], [0.2, 0.8]),
        (0.9, [1.0, 0.1, 0.3], [0.5, 0.1, 0.3]),
        (0.0, [1.0, 1.0], [0.0, 0.0]),
        (1.0, [], []),
    ],
)
def test_even_parts_are_equal_where_no_less_is_asked_for(
    total: float, asked: list[float], parts: list[float]
) -> None:
    assert even_parts(total, asked) == pytest.approx(parts)


def tracked(*events: tuple[float, Event]) -> TenantTracker:
    tracker = TenantTracker()
    tracker.event(NodeAdded(make_node("n", cpu=4)), 0.0)
    for at, event in events:
        tracker.event(event, at)
    return tracker


def bound(at: float, name: str, namespace: str, cpu: int) -> list[tuple[float, Event]]:
    given = pod(name, namespace, cpu)
    return [(at, PodAdded(given)), (at, Bound(given.uid, NodeName("n"), 1))]


def test_tenant_that_has_what_another_one_waits_for_lowers_the_index() -> None:
    waits = (0.0, PodAdded(pod("w", "blue", 4)))
    assert tracked(*bound(0.0, "r", "red", 4), waits).fairness(now=10.0) == pytest.approx(0.5)
    halves = [*bound(0.0, "r", "red", 2), *bound(0.0, "b", "blue", 2), waits]
    assert tracked(*halves).fairness(now=10.0) == pytest.approx(1.0)
    # over time, what one had first, the other one has later
    turns = [*bound(0.0, "r", "red", 4), waits, (10.0, PodDeleted(pod("r", "red").uid))]
    more = [*bound(10.0, "b", "blue", 4), (10.0, PodAdded(pod("r2", "red", 4)))]
    assert tracked(*turns, *more).fairness(now=20.0) == pytest.approx(1.0)


def test_uneven_use_is_fair_while_no_tenant_waits_for_another() -> None:
    uneven = [*bound(0.0, "r", "red", 3), *bound(0.0, "b", "blue", 1)]
    assert tracked(*uneven).fairness(now=10.0) is None
    alone = [*bound(0.0, "r", "red", 4), (0.0, PodAdded(pod("w", "red", 4)))]
    assert tracked(*alone).fairness(now=10.0) is None
    # what has ended asks for nothing, and a tenant that asks for less has no larger part
    less = [*uneven, (5.0, PodAdded(pod("w", "red", 2)))]
    assert tracked(*less).fairness(now=10.0) == pytest.approx(1.0)
    gone = [*less, (5.0, PodDeleted(pod("w", "red").uid))]
    assert tracked(*gone).fairness(now=10.0) is None


def test_events_that_are_delivered_twice_count_once() -> None:
    waits = (0.0, PodAdded(pod("w", "blue", 4)))
    events = [*bound(0.0, "r", "red", 4), waits, waits, *bound(1.0, "r", "red", 4)]
    assert tracked(*events).fairness(now=10.0) == pytest.approx(0.5)
    assert tracked(*events, (0.0, NodeDeleted(NodeName("n")))).fairness(now=10.0) is None


# The command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    Path("busy.csv").write_text(BUSY)


SOURCE = ("--trace", "busy.csv", "--nodes", "1x2")


def summary(*words: str) -> dict[str, Any]:
    document = json.loads(printed_by("simulate", *SOURCE, *words, "--output", "json"))
    found: dict[str, Any] = document["summary"]
    return found


def test_user_that_uses_least_is_next() -> None:
    assert summary("--policy", "gang")["tenants"]["blue"]["waiting"]["max"] == 390.0
    found = summary("--policy", "fair")
    assert found["tenants"]["blue"]["waiting"]["max"] == 90.0
    assert found["fairness_of_tenants"] > summary("--policy", "gang")["fairness_of_tenants"]
    assert set(found["queues"]) == {"everyone", "red", "blue"}
    assert found["jobs"]["waiting"]["count"] == 9  # nothing is limited


def test_usage_of_the_past_counts_with_a_half_life() -> None:
    Path("busy.csv").write_text(
        f"{HEADER}r0,0,1,2,100,red\nr1,10,1,2,10,red\nb0,20,1,2,10,blue\nk0,90,1,2,10,black\n",
    )
    # red has nothing when its first job has ended, and is the oldest
    assert summary("--policy", "fair")["tenants"]["red"]["waiting"]["max"] == 90.0
    found = summary("--policy", "fair", "--half-life", "1h")["tenants"]
    assert {name: each["waiting"]["max"] for name, each in found.items()} == {
        "red": 110.0,
        "blue": 80.0,
        "black": 20.0,
    }


def test_comparison_says_how_even_the_shares_of_tenants_are_for_each_policy() -> None:
    policies = ("--policy", "gang", "--policy", "fair", "--policy", "fair,half_life=1h")
    printed = printed_by("compare", *SOURCE, *policies)
    assert printed.splitlines()[0].split() == ["gang", "fair", "fair,half_life=1h"]
    (row,) = [each.split() for each in printed.splitlines() if "fairness of tenants" in each]
    gang, fair, _past = map(float, row[3:])
    assert gang < fair <= 1.0
    Path("busy.csv").write_text(f"{HEADER}r0,0,1,2,100,red\n")
    assert "fairness of tenants" not in printed_by("compare", *SOURCE, *policies)


def test_log_of_a_run_can_be_replayed_without_naming_the_policy() -> None:
    printed_by("simulate", *SOURCE, "--policy", "fair", "--half-life", "1h", "--log", "run.log")
    assert printed_by("replay", "run.log") == "run.log: no divergence\n"
    said = "--policy: fair has queues for the users of a workload"
    assert said in refuses("replay", "run.log", "--policy", "fair")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--half-life", "1h"), "--half-life has no meaning with --policy gang"),
        (
            ("--policy", "fair", "--half-life", "0"),
            "--half-life: expected a duration above 0, got '0'",
        ),
        (("--policy", "fair", "--order", "creation"), "--order has no meaning with --policy fair"),
    ],
)
def test_options_without_a_meaning_are_refused(words: tuple[str, ...], said: str) -> None:
    assert said in refuses("simulate", *SOURCE, *words)
