"""What queues use over a run: shares, means, fairness, and where they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from gangsched import NodeAdded, NodeDeleted, PodAdded, Quota, presets
from gangsched.events import Event
from gangsched.protocols import ClusterState
from gangsched.scheduler import Scheduler
from gangsched.simulation import Arrival, FaultPlan, SchedulerRestarts, Simulator, Workload, report
from gangsched.simulation.pictures import DrawnRun, picture
from gangsched.simulation.queue_usage import QueueFigures, fairness_of
from gangsched.simulation.report import Report
from gangsched.simulation.timeline import Timeline
from gangsched.simulation.workload import RUN_SECONDS
from gangsched.testing import make_node, make_pod
from support.documents import printed_by

ORG = Quota(name="org", hard={"cpu": 100})
LAB = Quota(name="lab", parent="org", nominal={"cpu": 4})
DESK = Quota(name="desk", parent="org", nominal={"cpu": 4}, weight=2)
CAP = Quota(name="cap", namespaces=["default"], hard={"cpu": 100})
QUEUES = (ORG, LAB, DESK, CAP)


def pod(name: str, queue: str | None, seconds: float, *, cpu: int = 1, gpu: int = 0) -> PodAdded:
    made = make_pod(name, cpu=cpu, gpu=gpu)
    return PodAdded(evolve(made, queue=queue, annotations={RUN_SECONDS: str(seconds)}))


def node(name: str = "n", *, cpu: int = 8, gpu: int = 4) -> NodeAdded:
    return NodeAdded(make_node(name, cpu=cpu, gpu=gpu))


def run(
    *timed: tuple[float, Event],
    quotas: tuple[Quota, ...] = QUEUES,
    until: float = 100.0,
    make: Callable[[ClusterState], Scheduler] | None = None,
    **options: Any,
) -> tuple[Timeline, Report]:
    """Run events on a node of 8 CPUs and 4 GPUs; return what was seen, and the report."""
    timeline = Timeline()
    work = Workload([Arrival(0.0, node()), *(Arrival(at, event) for at, event in timed)])
    simulator = Simulator(
        work,
        make or (lambda cluster: presets.gang(cluster, quotas=quotas)),
        observers=(timeline,),
        **options,
    )
    timeline.watch(simulator)
    simulator.run(until=until)
    return timeline, report(simulator, timeline=timeline)


def shares(timeline: Timeline, queue: str) -> list[tuple[float, float]]:
    return [(p.at, row.share) for p in timeline.points for row in p.queues if row.queue == queue]


def figures(share: float, *, weight: float = 1.0, **more: Any) -> QueueFigures:
    return QueueFigures(
        **{"parent": None, "weight": weight, "had_demand": True, **more}, share=share
    )


# Definitions ------------------------------------------------------------------------------------


def test_dominant_share_is_that_of_the_scarcest_resource_that_a_queue_uses() -> None:
    timeline, _result = run(
        (0.0, pod("a", "lab", 50, cpu=1, gpu=2)), (10.0, pod("b", "desk", 20, cpu=6))
    )
    assert shares(timeline, "lab") == [(0.0, 0.5), (10.0, 0.5), (30.0, 0.5), (50.0, 0.0)]
    assert shares(timeline, "desk") == [(0.0, 0.0), (10.0, 0.75), (30.0, 0.0), (50.0, 0.0)]
    assert shares(timeline, "org") == [(0.0, 0.5), (10.0, 0.875), (30.0, 0.5), (50.0, 0.0)]


def test_dominant_share_follows_the_capacity_of_the_cluster() -> None:
    timeline, result = run(
        (0.0, pod("a", "lab", 100, cpu=4)), (50.0, node("m")), (75.0, NodeDeleted("m"))
    )
    assert shares(timeline, "lab")[:3] == [(0.0, 0.5), (50.0, 0.25), (75.0, 0.5)]
    assert result.summary.queues["lab"].share == pytest.approx(0.4375)


def test_means_are_over_time_from_the_first_pod_to_the_end() -> None:
    _timeline, result = run(
        (100.0, pod("a", "lab", 50, cpu=2, gpu=2)), (100.0, pod("b", "desk", 100)), until=200.0
    )
    found = result.summary.queues
    assert list(found) == ["org", "lab", "desk"], "a cap is no queue"
    gpu = "nvidia.com/gpu"
    assert found["lab"] == figures(0.25, parent="org", used={"cpu": 1.0, gpu: 1.0})
    assert found["desk"] == figures(0.125, parent="org", weight=2.0, used={"cpu": 1.0})
    assert found["org"].used == {"cpu": 2.0, gpu: 1.0}


def test_figures_go_on_after_a_report_in_the_middle_of_a_run() -> None:
    timeline = Timeline()
    work = Workload([Arrival(0.0, node()), Arrival(0.0, pod("a", "lab", 60, cpu=4))])
    simulator = Simulator(
        work, lambda cluster: presets.gang(cluster, quotas=QUEUES), observers=(timeline,)
    )
    timeline.watch(simulator)
    for until, share in ((30.0, 0.5), (50.0, 0.5), (100.0, 0.3)):
        simulator.run(until=until)
        for _again in range(2):
            found = report(simulator, timeline=timeline).summary.queues
            assert found["lab"].share == pytest.approx(share)


def test_new_scheduler_is_asked_after_a_restart() -> None:
    made: list[object] = []

    def make(cluster: ClusterState) -> Scheduler:
        made.append(cluster)
        return presets.gang(cluster, quotas=QUEUES)

    jobs = (0.0, pod("a", "lab", 100, cpu=4)), (20.0, pod("b", "desk", 80, cpu=4))
    timeline, result = run(*jobs, make=make, faults=FaultPlan((SchedulerRestarts(call=5),)))
    assert len(made) == 2
    assert shares(timeline, "desk")[-2:] == [(20.0, 0.5), (100.0, 0.0)]
    assert result.summary.queues["lab"].share == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("queues", "fairness"),
    [
        ({}, None),
        ({"a": figures(0.0)}, None),
        ({"a": figures(0.3), "b": figures(0.3)}, 1.0),
        ({"a": figures(0.2), "b": figures(0.4, weight=2.0)}, 1.0),
        ({"a": figures(0.2), "b": figures(0.0)}, 0.5),
        ({"a": figures(0.2), "b": figures(0.0, had_demand=False)}, 1.0),
        ({"a": figures(0.2), "b": figures(0.9, weight=0.0)}, 1.0),
        ({"a": figures(0.9), "b": figures(0.3, parent="a"), "c": figures(0.1, parent="a")}, 0.8),
    ],
)
def test_fairness_is_the_index_of_jain(queues: dict[str, QueueFigures], fairness: float) -> None:
    assert fairness_of(queues) == (fairness if fairness is None else pytest.approx(fairness))


def test_queue_whose_pods_never_start_has_demand() -> None:
    jobs = (0.0, pod("a", "lab", 100, cpu=4)), (0.0, pod("b", "desk", 100, cpu=9))
    _timeline, result = run(*jobs)
    assert [result.summary.queues[name].had_demand for name in ("org", "lab", "desk")] == [True] * 3
    assert result.summary.fairness == pytest.approx(0.5)
    _timeline, result = run(jobs[0])
    assert not result.summary.queues["desk"].had_demand
    assert result.summary.fairness == 1.0


@pytest.mark.parametrize("quotas", [(), (CAP,)], ids=["no quotas", "a cap"])
def test_run_without_queues_has_no_figures_of_them(quotas: tuple[Quota, ...]) -> None:
    timeline, result = run((0.0, pod("a", None, 50)), quotas=quotas)
    assert (result.summary.queues, result.summary.fairness) == ({}, None)
    assert not any(point.queues for point in timeline.points)


def test_run_that_was_not_watched_and_one_without_pods_have_no_fairness() -> None:
    simulator = Simulator(
        Workload([Arrival(0.0, node())]), lambda cluster: presets.gang(cluster, quotas=QUEUES)
    )
    simulator.run()
    assert report(simulator).summary.queues == {}
    _timeline, result = run()
    assert result.summary.queues["lab"] == figures(0.0, parent="org", had_demand=False)
    assert result.summary.fairness is None


# Where they are shown ---------------------------------------------------------------------------

COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s,tenant\n"
CONFIG = """
quotas:
- {name: org}
- {name: lab, parent: org, namespaces: [red], nominal: {nvidia.com/gpu: 2}}
- {name: desk, parent: org, namespaces: [blue], nominal: {nvidia.com/gpu: 2}, weight: 2}
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Return the words that run a trace of two tenants with a configuration."""
    pytest.importorskip("yaml")
    pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(f"{COLUMNS}a,0,2,1,100,red\nb,0,1,1,50,blue\n")
    Path("config.yaml").write_text(CONFIG)
    return ("--trace", "t.csv", "--nodes", "1x4", "--config", "config.yaml")


def test_report_as_json_has_the_changes_of_each_queue(words: tuple[str, ...]) -> None:
    found = json.loads(printed_by("simulate", *words, "--output", "json"))
    gpu = "nvidia.com/gpu"
    rows = [(each["at"], each["queues"]) for each in found["timeline"] if each["queues"]]
    assert [at for at, _queues in rows] == [0.0, 50.0, 100.0]
    assert rows[0][1] == [
        {"queue": "org", "used": {gpu: 3.0}, "share": 0.75},
        {"queue": "lab", "used": {gpu: 2.0}, "share": 0.5},
        {"queue": "desk", "used": {gpu: 1.0}, "share": 0.25},
    ]
    assert rows[1][1][2] == {"queue": "desk", "used": {}, "share": 0.0}
    summary = found["summary"]
    assert summary["queues"]["desk"] == {
        "parent": "org",
        "weight": 2.0,
        "had_demand": True,
        "used": {gpu: 0.5},
        "share": 0.125,
    }
    assert summary["fairness"] == pytest.approx((0.5 + 0.0625) ** 2 / 2 / (0.25 + 0.0625**2))


@pytest.mark.parametrize("detail", ["all", "summary"])
def test_report_as_text_has_a_row_for_each_queue(words: tuple[str, ...], detail: str) -> None:
    printed = printed_by("simulate", *words, "--detail", detail)
    rows = [line.split(maxsplit=2) for line in printed.splitlines() if line.startswith("queue ")]
    assert rows == [
        ["queue", "org", "mean dominant share 62.5%"],
        ["queue", "lab", "mean dominant share 50.0%"],
        ["queue", "desk", "mean dominant share 12.5%, weight 2"],
    ]
    assert "\nfairness of queues    0.62\n" in printed
    assert "fairness" not in printed_by("simulate", *words[:4])


def test_many_queues_are_counted_in_the_text(words: tuple[str, ...]) -> None:
    more = "".join(f"- {{name: q{n}, parent: org}}\n" for n in range(9))
    Path("config.yaml").write_text(CONFIG + more)
    printed = printed_by("simulate", *words)
    assert "queues                12; --output json has the figures of each\n" in printed
    assert "\nqueue " not in printed


def test_comparison_has_a_row_of_fairness_and_columns_of_queues(words: tuple[str, ...]) -> None:
    printed = printed_by("compare", *words, "--policy", "gang")
    (row,) = (line.split() for line in printed.splitlines() if line.startswith("fairness"))
    assert row == ["fairness", "of", "queues", "-", "0.62"]
    header, *_rows = printed_by("compare", *words, "--output", "csv").splitlines()
    assert {"fairness", "queues.lab.share", "queues.lab.used.nvidia.com/gpu"} <= set(
        header.split(",")
    )
    assert "fairness" not in printed_by("compare", *words[:4], "--policy", "gang")


def test_picture_of_one_run_has_a_line_for_each_queue_without_others_below() -> None:
    pytest.importorskip("matplotlib")
    timeline, result = run((0.0, pod("a", "lab", 50, cpu=4)))
    drawn = DrawnRun("gang", result, timeline)
    title = b"Dominant share of each queue"
    one = picture([drawn], ending=".svg")
    assert one.count(title) == 1
    for name, is_drawn in ((b"lab", True), (b"desk", True), (b"org", False), (b"cap", False)):
        assert (b">" + name + b"<" in one) is is_drawn, name
    assert title not in picture([drawn, drawn], ending=".svg")
    many = tuple(Quota(name=f"q{n}", parent="org") for n in range(9))
    timeline, result = run((0.0, pod("a", "q3", 50)), quotas=(ORG, *many))
    one = picture([DrawnRun("gang", result, timeline)], ending=".svg")
    assert title + b", the largest 8 of 9" in one
    assert b">q3<" in one
    timeline, result = run((0.0, pod("a", "q8", 50)), quotas=(ORG, *many))
    assert b">q8<" in picture([DrawnRun("gang", result, timeline)], ending=".svg")
