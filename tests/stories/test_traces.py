"""Traces of jobs on a simulated cluster: where pods go, what is counted, and what files may say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    Node,
    NodeAdded,
    NodeName,
    Order,
    PlacementStrategy,
    Scheduler,
    presets,
)
from gangsched.cli import main
from gangsched.simulation import (
    Arrival,
    Simulator,
    Workload,
    load_trace,
    parse_nodes_shape,
    report,
)
from gangsched.testing import make_pod
from support.story import Story, Way, each_way

GPU = "nvidia.com/gpu"
COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command on the lines of a trace; return its JSON, or its error if it fails."""

    def run(name: str, lines: Sequence[str], *words: str, nodes: str = "2x4") -> Any:
        (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        code = main((name, "--trace", "t.csv", "--nodes", nodes, "--output", "json", *words))
        captured = capsys.readouterr()
        return json.loads(captured.out) if code == 0 else captured.err

    return run


# Where single pods go -----------------------------------------------------------------------


def gang_scheduler(placement: PlacementStrategy) -> Callable[[ClusterState], Scheduler]:
    return lambda cluster: presets.gang(cluster, placement=placement)


@each_way
@pytest.mark.parametrize("placement", [PlacementStrategy.AUTO, PlacementStrategy.PACK])
def test_single_pod_is_packed_as_a_gang_of_one(way: Way, placement: PlacementStrategy) -> None:
    def where(*, of_one: bool) -> dict[str, str]:
        story = Story(gang_scheduler(placement), way)
        for name, gpus in (("large", 8), ("small", 2), ("medium", 4)):
            story.tell(NodeAdded(Node(name=NodeName(name), allocatable={GPU: gpus})))
        for name, gpus in (("a", 1), ("b", 2), ("c", 1), ("d", 8)):
            group = name if of_one else None
            story.add(make_pod(name, gpu=gpus, group=group, min_available=1 if of_one else None))
            story.decide()
            story.interrupt()
        return story.bound

    packed = {"a": "small", "b": "medium", "c": "small", "d": "large"}
    assert where(of_one=False) == packed
    assert where(of_one=True) == packed


def test_single_pods_leave_whole_nodes_to_large_ones() -> None:
    """At 85 % of the capacity, jobs of a whole node wait only where pods are spread."""
    draw = random.Random(0)
    rows, at = [COLUMNS], 0.0
    for number in range(2_000):
        at += draw.expovariate(0.038)
        gpus = draw.choice([1, 1, 1, 1, 2, 2, 4, 8])
        rows.append(f"j{number},{at:.0f},1,{gpus},{60 + draw.expovariate(1 / 3600):.0f}")
    nodes = Workload([Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("50x8")])

    def waiting(placement: PlacementStrategy) -> int:
        run = Simulator(nodes + load_trace(rows, file="t.csv"), gang_scheduler(placement))
        run.run(until=at)
        return sum(pod.node_name is None for pod in run.cluster.pods())

    assert waiting(PlacementStrategy.SCORE) > 10
    assert waiting(PlacementStrategy.AUTO) <= 2


# What is counted ----------------------------------------------------------------------------


def test_utilisation_is_counted_to_the_last_arrival_too(command: Command) -> None:
    """A long job at the end makes the share of the whole run small, whatever the policy does."""
    rows = [COLUMNS, "a,0,2,1,100", "b,100,2,1,100", "long,150,1,1,1000"]
    summary = command("simulate", rows, nodes="1x2")["summary"]
    assert summary["last_arrival"] == 150.0
    assert summary["utilisation_to_last_arrival"] == {GPU: 1.0}
    assert summary["utilisation"] == {GPU: pytest.approx((2 * 200 + 1000) / (2 * 1200))}


def test_pod_that_replaces_a_preempted_one_is_no_arrival(command: Command) -> None:
    header = f"{COLUMNS},priority"
    rows = [header, "low,0,1,2,100,0", "high,50,1,2,100,9"]
    summary = command("simulate", rows, "--preempt", nodes="1x2")["summary"]
    assert (summary["preempted"], summary["last_arrival"]) == (1, 50.0)


def test_jobs_that_arrive_together_have_no_window(folder: Path, command: Command) -> None:
    rows = [COLUMNS, "a,0,2,1,100", "b,0,2,1,100"]
    assert command("simulate", rows)["summary"]["utilisation_to_last_arrival"] == {}


def test_log_has_the_window_of_its_run(folder: Path, command: Command) -> None:
    rows = [COLUMNS, "a,0,2,1,100", "b,40,2,1,100"]
    summary = command("simulate", rows, "--log", "run.log")["summary"]
    with Path("run.log").open(encoding="utf-8") as lines:
        run = Simulator.from_log(lines)
        run.run()
    assert run.utilisation_to_last_arrival == summary["utilisation_to_last_arrival"]


# Policies to compare with ---------------------------------------------------------------------


def starts(found: Any) -> dict[str, float | None]:
    return {job["key"].partition("/")[2]: job["started_at"] for job in found["jobs"]}


def test_fifo_starts_no_job_before_an_earlier_one(command: Command) -> None:
    rows = [COLUMNS, "a,0,4,1,100", "wide,10,8,1,60", "c,20,1,1,30", "d,30,2,1,30"]
    fifo = starts(command("simulate", rows, "--policy", "fifo"))
    assert fifo == {"a": 0.0, "wide": 100.0, "c": 160.0, "d": 160.0}
    gang = starts(command("simulate", rows, "--policy", "gang"))
    assert (gang["c"], gang["d"]) == (20.0, 30.0)


def test_fifo_passes_over_a_job_that_does_not_fit_on_the_empty_cluster(command: Command) -> None:
    rows = [COLUMNS, "a,0,1,1,100", "huge,10,9,1,60", "c,20,1,1,30"]
    found = starts(command("simulate", rows, "--policy", "fifo"))
    assert found == {"a": 0.0, "huge": None, "c": 100.0}


def test_fifo_starts_a_higher_priority_first(command: Command) -> None:
    rows = ["a,0,4,1,100,0", "wide,10,8,1,60,0", "urgent,20,1,1,200,5", "late,30,1,1,30,0"]
    found = starts(command("simulate", [f"{COLUMNS},priority", *rows], "--policy", "fifo"))
    assert found == {"a": 0.0, "urgent": 20.0, "wide": 220.0, "late": 280.0}


_JOBS = st.tuples(st.integers(0, 40), st.integers(1, 6), st.integers(1, 2), st.integers(1, 90))


@settings(max_examples=30)
@given(st.lists(_JOBS, max_size=12))
def test_fifo_starts_jobs_in_the_order_of_their_arrival(
    jobs: list[tuple[int, int, int, int]],
) -> None:
    rows = [f"j{n},{at},{w},{g},{d}" for n, (at, w, g, d) in enumerate(sorted(jobs))]
    nodes = Workload([Arrival(0.0, NodeAdded(node)) for node in parse_nodes_shape("2x4")])
    run = Simulator(
        nodes + load_trace([COLUMNS, *rows], file="t.csv"),
        lambda cluster: presets.gang(cluster, order=Order.CREATION),
        strict_order=True,
    )
    run.run()
    fitting = {f"default/j{n}" for n, (_at, w, g, _d) in enumerate(sorted(jobs)) if w * g <= 8}
    begun = {row.key: row for row in report(run).jobs if row.started_at is not None}
    assert begun.keys() == fitting
    # of one instant, single pods are queued before gangs
    in_order = sorted(begun.values(), key=lambda row: (row.submitted_at, row.is_gang))
    starts = [row.started_at or 0.0 for row in in_order]
    assert starts == sorted(starts)


def test_sjf_starts_the_shortest_job_first(command: Command) -> None:
    rows = [COLUMNS, "a,0,8,1,100", "long,10,8,1,60", "short,20,8,1,30", "middle,30,8,1,40"]
    found = starts(command("simulate", rows, "--policy", "sjf"))
    assert found == {"a": 0.0, "short": 100.0, "middle": 130.0, "long": 170.0}


def test_baselines_are_among_the_policies_that_are_compared(command: Command) -> None:
    runs = command("compare", [COLUMNS, "a,0,1,1,60"])["runs"]
    assert [run["policy"] for run in runs][:2] == ["fifo", "sjf"]


def test_policies_with_the_same_starts_are_named(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [COLUMNS, "a,0,4,1,100", "wide,10,8,1,60", "c,20,1,1,30"]
    policies = ("--policy", "gang", "--policy", "fifo", "--policy", "gang,backfill")
    runs = command("compare", rows, *policies)["runs"]
    assert [run["same_starts_as"] for run in runs] == [None, None, "gang"]
    assert main(("compare", "--trace", "t.csv", "--nodes", "2x4", *policies)) == 0
    said = "gang and gang,backfill have the same starts: each job started at the same time"
    assert said in capsys.readouterr().out


def test_explain_says_why_it_does_not_know_fifo(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("explain", "a", "--policy", "fifo")) == 2
    assert "fifo keeps its order outside of the scheduler" in capsys.readouterr().err


# What files may say --------------------------------------------------------------------------


def test_columns_units_and_dates_of_a_file_are_taken_as_they_are(command: Command) -> None:
    """A table as batch systems and spreadsheets write it, with dates, and minutes as run times."""
    rows = [
        "JobID,Submit,NNodes,GPUs,Elapsed (min),MemGiB,Limit,Account,priority",
        "7,2017-10-07T01:12:09,2.0,0.5,1.5,4,0-00:02:00,red,high",
        "8,2017-10-07 03:12:19+02:00,1,,2,NaN,,,low",
        "9,1507338749,1,1,0.25,,1m30s,blue,",
    ]
    names = ("job=JobID", "submit_s=Submit", "workers=NNodes", "gpus_per_worker=GPUs")
    more = ("duration_s=Elapsed (min):min", "memory_per_worker=MemGiB:Gi", "tenant=Account")
    last = ("time_limit_s=Limit", "priority=")
    words = [word for name in (*names, *more, *last) for word in ("--column", name)]
    (Path("nodes.csv")).write_text("node,memory,gpus\nn,64Gi,4\n")
    found = command("simulate", rows, *words, "--detail", "summary", nodes="nodes.csv")

    jobs = {job["key"]: job for job in found["jobs"]}
    assert {key: job["submitted_at"] for key, job in jobs.items()} == {
        "red/7": 0.0,
        "default/8": 10.0,
        "blue/9": 20.0,
    }
    took = {key: job["finished_at"] - job["started_at"] for key, job in jobs.items()}
    assert took == {"red/7": 90.0, "default/8": 120.0, "blue/9": 15.0}
    gpu_seconds = 2 * 0.5 * 90 + 15
    assert found["summary"]["utilisation"][GPU] == pytest.approx(gpu_seconds / (4 * 130))
    assert found["summary"]["utilisation"]["memory"] == pytest.approx(2 * 4 * 90 / (64 * 130))
    assert found["skipped"] == [
        "t.csv: the column priority (of the file) was not taken over",
        "t.csv: 1 job requests a share of a GPU; shares are added up by node, not by device",
        "t.csv: dates count from the first submission, 2017-10-07 01:12:09 UTC, which is t=0",
    ]


def test_all_faults_of_a_file_are_named_at_once(command: Command) -> None:
    rows = [COLUMNS, "a,0,1,1,60", "b,x,0,1,60", "c,0,1,1", "a,9,1,1,60", "d,0,1,1,soon"]
    assert command("simulate", rows).splitlines() == [
        "gangsched: t.csv: line 3: submit_s: expected a number >= 0 such as 90 or 0.5, or a date"
        " such as 2017-10-07T01:12:09Z, got 'x'",
        "gangsched: t.csv: line 3: workers: expected an int from 1 to 150000, got '0'",
        "gangsched: t.csv: line 4: expected 5 fields, got 4",
        "gangsched: t.csv: line 5: job: expected a unique name (line 2 has the same), got 'a'",
        "gangsched: t.csv: line 6: duration_s: expected a duration > 0 such as 90, 0.5, 1h30m or"
        " 1-02:03:04, got 'soon'",
    ]


def test_faults_beyond_the_first_twenty_are_counted(command: Command) -> None:
    rows = [COLUMNS, *(f"{n},0,1,1,soon" for n in range(30))]
    *shown, last = command("simulate", rows).splitlines()
    assert len(shown) == 20
    assert last == "gangsched: t.csv: and 10 more faults"


def test_faulty_rows_can_be_left_out_and_are_counted(command: Command) -> None:
    rows = [COLUMNS, "a,0,1,1,60", "b,x,0,1,60", "c,0,1,1", "a,9,1,1,60", "d,5,1,1,60"]
    found = command("simulate", rows, "--skip-faulty")
    assert [job["key"] for job in found["jobs"]] == ["default/a", "default/d"]
    (said,) = found["skipped"]
    assert said.startswith("t.csv: 3 malformed rows were left out; the first fault: line 3: submit")


def test_fault_names_the_column_as_the_file_does(command: Command) -> None:
    rows = [COLUMNS.replace("duration_s", "Elapsed"), "a,0,1,1,never"]
    said = command("simulate", rows, "--column", "duration_s=Elapsed:min")
    assert said.startswith("gangsched: t.csv: line 2: Elapsed: expected a duration > 0")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("duration_s=Runtime", "t.csv: line 1: Runtime: expected a column for duration_s among "),
        ("duration_s=job:weeks", "job:weeks: expected one of the units us, ms, s, min, h, d for "),
        ("workers=job:min", "job:min: expected no unit for workers, got 'min'"),
        ("runtime=job", "columns must be one of job, submit_s, workers, "),
        ("runtime", "--column: expected each column once, as in job=JobID"),
    ],
)
def test_column_that_is_not_there_is_named(command: Command, given: str, said: str) -> None:
    assert said in command("simulate", [COLUMNS, "a,0,1,1,60"], "--column", given)


@pytest.mark.parametrize("first", ["1507338729", "1507338729.5", "2017-10-07T01:12:09Z"])
def test_trace_whose_first_submission_is_a_date_starts_at_zero(first: str) -> None:
    rows = [COLUMNS, "late,1507338739.5,1,1,60", f"early,{first},1,1,60"]
    workload = load_trace(rows, file="t.csv")
    begun = 1507338729.5 if first.endswith(".5") else 1507338729.0
    assert [each.at for each in workload.arrivals] == [0.0, 1507338739.5 - begun]
    assert "t=0" in workload.skipped[-1]


def test_trace_that_begins_late_and_has_no_dates_keeps_its_instants() -> None:
    workload = load_trace([COLUMNS, "a,86400,1,1,60"], file="t.csv")
    assert [each.at for each in workload.arrivals] == [86400.0]
    assert workload.skipped == ()


def test_philly_with_dates_runs_as_philly_from_zero(traces: Path, command: Command) -> None:
    header, *rows = (traces / "philly_gangs.csv").read_text().splitlines()[:300]
    places = header.split(",")
    at = places.index("submit_s")

    def dated(row: str) -> str:
        cells = row.split(",")
        cells[at] = str(int(cells[at]) + 1_507_338_729)
        return ",".join(cells)

    plain = command("simulate", [header, *rows], "--detail", "summary", nodes="30x8")
    later = command("simulate", [header, *map(dated, rows)], "--detail", "summary", nodes="30x8")
    assert later["jobs"] == plain["jobs"]
    assert later["summary"] == plain["summary"]
