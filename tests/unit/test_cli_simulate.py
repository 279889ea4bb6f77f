"""``gangsched simulate``: reports, estimates, faults, quotas, deleted and restarted jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched.simulation import SCHEMA
from support.documents import printed_by, refuses

pytest.importorskip("yaml")

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: gangsched}]
quotas: [{name: research, namespaces: [research], hard: {cpu: 4}}]
"""
NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: NAME}
status: {allocatable: {cpu: "4"}}
"""
GANG = """
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: NAME, namespace: research, annotations: {NOTES}}
spec: {minMember: 2, minResources: {cpu: 3}}
---
apiVersion: v1
kind: List
items: [PODS]
"""
POD = """{apiVersion: v1, kind: Pod, metadata: {name: NAME, namespace: research,
  labels: {scheduling.x-k8s.io/pod-group: GROUP}, annotations: {NOTES}},
  spec: {schedulerName: gangsched, containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}}"""
RUN = 'simulation.gangsched.io/run-seconds: "300"'
FAIL = 'simulation.gangsched.io/fail-after-seconds: "100"'
POLICY = (
    'gangsched.io/restart-policy: BelowMinimum, gangsched.io/restart-backoff-seconds: "20", '
    'gangsched.io/max-restarts: "2"'
)
CLASSES = """
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 5
globalDefault: true
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: heavy}
handler: heavy
overhead: {podFixed: {cpu: 1500m}}
"""
COLUMNS = "job,submit_s,workers,gpus_per_worker,duration_s"
CONFIGURED = ("--config", "config.yaml", "nodes.yaml")


def pod(name: str, group: str, notes: str) -> str:
    return POD.replace("NAME", name).replace("GROUP", group).replace("NOTES", notes)


def gang(name: str, *, notes: str = "", fails_after: bool = False) -> str:
    pods = [
        pod(f"{name}-{n}", name, f"{RUN}, {FAIL}" if fails_after and n == 0 else RUN)
        for n in range(2)
    ]
    return GANG.replace("NAME", name).replace("NOTES", notes).replace("PODS", ", ".join(pods))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "config.yaml": CONFIG,
        "nodes.yaml": NODE.replace("NAME", "a") + NODE.replace("NAME", "b"),
        "first.yaml": gang("first"),
        "second.yaml": gang("second"),
        "failing.yaml": gang("failing", notes=POLICY, fails_after=True),
        "pod.yaml": pod("p", "", RUN).replace("{scheduling.x-k8s.io/pod-group: }", "{}"),
        "jobs.csv": f"{COLUMNS}\na,0,2,1,100\nb,5,2,1,100\n",
    }.items():
        Path(name).write_text(text)


def text_of(*words: str) -> str:
    return printed_by("simulate", *words)


def report(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text_of(*words, "--output", "json"))
    return found


def of_trace(*rows: str, more: str = "", nodes: str = "2x2") -> tuple[str, ...]:
    """Return the words that run a trace with these rows."""
    Path("t.csv").write_text("\n".join((COLUMNS + more, *rows)) + "\n")
    return ("--trace", "t.csv", "--nodes", nodes)


def waited(found: dict[str, Any]) -> dict[str, Any]:
    waits: dict[str, Any] = found["summary"]["gangs"]["waiting"]
    return waits


def events(found: dict[str, Any], reason: str) -> list[tuple[float, str]]:
    return [(e["at"], e["object"]) for e in found["events"] if e["reason"] == reason]


# Reports ----------------------------------------------------------------------------------------


def test_pod_runs_as_long_as_its_annotation_says() -> None:
    found = report("nodes.yaml", "--at", "10", "pod.yaml")
    assert found["schema"] == SCHEMA
    assert [(s["at"], [p["status"] for p in s["pods"]]) for s in found["snapshots"]] == [
        (0.0, []),
        (10.0, ["Running"]),
        (310.0, ["Completed"]),
    ]
    assert found["summary"]["end"] == 310.0


def test_classes_of_a_later_file_count_from_then() -> None:
    Path("classes.yaml").write_text(CLASSES)
    for n, named in enumerate(("", "priorityClassName: high, runtimeClassName: heavy, ")):
        own = Path("pod.yaml").read_text().replace("name: p,", f"name: p{n},")
        Path(f"p{n}.yaml").write_text(own.replace("spec: {", f"spec: {{{named}"))
    later = ("--at", "60", "classes.yaml")
    found = report("nodes.yaml", "p0.yaml", *later, "--at", "60", "p1.yaml")
    assert [job["priority"] for job in found["jobs"]] == [0, 7]
    assert found["summary"]["utilisation"]["cpu"] == pytest.approx(4.5 * 300 / (8 * 360))
    assert report("nodes.yaml", *later, "--at", "61", "p0.yaml")["jobs"][0]["priority"] == 5
    assert "spec.priorityClassName: expected the name of a known PriorityClass, got 'high'" in (
        refuses("simulate", "nodes.yaml", "p1.yaml", *later)
    )
    words = ("explain", "research/p0", "nodes.yaml", "p0.yaml", "classes.yaml", "--apply")
    assert "pod/research/p1" in printed_by(*words, "p1.yaml")


def test_detail_selects_tables_events_or_the_summary() -> None:
    """The tables of thousands of pods take minutes."""
    words = ("--trace", "jobs.csv", "--nodes", "1x2", "--detail")
    whole, only_events, summary = (text_of(*words, each) for each in ("all", "events", "summary"))
    assert only_events.startswith("TIME ")
    assert "Completed" in only_events
    assert whole.startswith("t=0s\n")
    assert whole.endswith(only_events)
    assert "2 submitted, 2 started whole" in summary
    assert "simulated             3m20s" in summary
    assert "NAME" not in summary


def test_job_has_one_key_whatever_its_size() -> None:
    words = of_trace("one,0,1,1,20,3", "four,0,4,1,10,5", more=",priority")
    found = report(*words)["jobs"]
    assert [(job["key"], job["size"], job["priority"], job["finished_at"]) for job in found] == [
        ("default/one", 1, 3, 30.0),
        ("default/four", 4, 5, 10.0),
    ]
    assert [len(job["nodes"]) for job in found] == [1, 2]


def test_report_counts_the_jobs_behind_each_median() -> None:
    words = of_trace("a,0,2,2,100", "b,0,2,2,7200", "c,0,2,3,1")
    text = text_of(*words, "--detail", "summary")
    for line in (
        "waited              mean 50s, median 0s, p95 100s, p99 100s, max 100s, of the 2 that"
        " started; 1 did not",
        "took                mean 1h1m40s, median 100s, p95 2h1m40s, p99 2h1m40s, max 2h1m40s, of"
        " the 2 that finished",
        "slowdown            mean 1.01, median 1.00, p95 1.01, p99 1.01, max 1.01",
    ):
        assert line in text


@pytest.mark.parametrize(("other", "shown"), [("red", True), ("blue", False)])
def test_tables_name_the_namespace_if_there_are_several(other: str, shown: bool) -> None:
    text = text_of(*of_trace("a,0,1,1,10,blue", f"b,0,1,1,10,{other}", more=",tenant"))
    assert ("NAMESPACE   NAME   READY" in text) is shown
    assert ("NAMESPACE" in text) is shown


def test_reason_of_a_pending_job_is_said_to_be_of_its_last_attempt() -> None:
    rows = ("a,0,1,4,100", "b,0,1,4,1000", "c,10,2,4,50")
    words = (*of_trace(*rows, nodes="2x4"), "--until", "200")
    text = text_of(*words, "--detail", "summary")
    assert text.rstrip().endswith("2 Insufficient nvidia.com/gpu. (as of its attempt at t=10s)")
    assert [row["tried_at"] for row in report(*words)["pending"]] == [10.0]


def test_unknown_kind_is_reported_and_skipped() -> None:
    Path("odd.yaml").write_text("apiVersion: v9\nkind: Widget\nmetadata: {name: w}\n")
    assert text_of("odd.yaml", "nodes.yaml").startswith("skipped: odd.yaml")


def test_malformed_minimum_is_reported_as_refused() -> None:
    key = "pod-group.scheduling.sigs.k8s.io"
    labels = f"{{{key}/name: g, {key}/min-available: two}}"
    Path("odd.yaml").write_text(
        Path("pod.yaml").read_text().replace("labels: {}", f"labels: {labels}")
    )
    text = text_of("nodes.yaml", "odd.yaml")
    assert "Refused" in text
    assert "must be an int >= 1, got 'two'" in text
    assert "Pending" in text


def test_estimates_are_the_time_limits_if_asked() -> None:
    rows = ("run,0,1,1,10,100", "wide,1,2,1,10,10", "short,2,1,1,20,20")
    words = of_trace(*rows, more=",time_limit_s", nodes="2x1")
    started = []
    for estimates in ("run_time", "time_limit"):
        found = report(*words, "--backfill", "--estimates", estimates)
        assert found["settings"]["estimates"] == estimates
        started.append({job["key"]: job["started_at"] for job in found["jobs"]})
    # the limit of `run` says that `short` delays nothing; its run time says that it does
    assert [each["default/short"] for each in started] == [20.0, 2.0]
    assert "--estimates" in refuses("simulate", *words, "--estimates", "time_limit")


def test_faults_are_read_or_drawn_and_are_in_the_report() -> None:
    plan = {"faults": [{"kind": "BindFails", "bind": 1}]}
    Path("plan.json").write_text(json.dumps(plan))
    found = report("nodes.yaml", "pod.yaml", "--faults", "plan.json")
    assert found["settings"]["faults"] == {**plan, "ahead": False}
    assert events(found, "FailedBinding")
    first, second = (report("nodes.yaml", "pod.yaml", "--fault-seed", "3") for _ in range(2))
    assert first["events"] == second["events"]
    assert len(first["settings"]["faults"]["faults"]) == 8
    assert report("nodes.yaml", "pod.yaml")["settings"]["faults"] is None


# Quotas, deleted and restarted jobs -------------------------------------------------------------


def test_quota_of_the_configuration_holds_a_gang_until_another_ends_or_is_deleted() -> None:
    words = (*CONFIGURED, "first.yaml", "second.yaml")
    assert waited(report(*words))["max"] == 300.0
    assert waited(report(*words[2:]))["max"] == 0.0, "the nodes take both"
    deleted = report(*words, "--delete", "60", "research/first")
    assert waited(deleted)["max"] == 60.0
    assert deleted["summary"]["end"] == 360.0


def test_failing_job_of_a_manifest_is_restarted_up_to_its_limit() -> None:
    """A pod fails after 100 s of each run. A second later this is a loss; the backoffs follow."""
    found = report(*CONFIGURED, "failing.yaml")
    group = "podgroup/research/failing"
    assert events(found, "Restarted") == [(101.0, group), (222.0, group)]
    assert events(found, "RestartLimitReached") == [(363.0, group)]
    assert [at for at, _group in events(found, "BelowMinimum")] == [101.0, 222.0, 363.0]


def test_restarted_job_keeps_its_quota_until_its_owner_is_deleted() -> None:
    words = (*CONFIGURED, "failing.yaml", "--at", "50", "second.yaml", "--until", "399")
    assert report(*words)["summary"]["gangs"]["pending"] == 1
    freed = report(*words, "--delete", "110", "research/failing")
    assert freed["summary"]["gangs"]["pending"] == 0
    assert waited(freed)["max"] == 60.0
    assert len(events(freed, "Restarted")) == 1


@pytest.mark.parametrize(
    ("options", "end"),
    [
        (("--delete", "40", "default/a"), 140.0),
        (("--delete", "40", "default/a", "default/b"), 40.0),
        (("--delete", "40", "default/a", "--delete", "50", "default/b"), 50.0),
    ],
)
def test_jobs_of_a_trace_are_deleted(options: tuple[str, ...], end: float) -> None:
    found = report("--trace", "jobs.csv", "--nodes", "1x2", *options)
    assert found["summary"]["end"] == end


# Levels -----------------------------------------------------------------------------------------

PLACE = """
---
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {block: BLOCK, rack: RACK}}
status: {allocatable: {cpu: "2"}}
"""
NEAR = """
apiVersion: simulation.gangsched.io/v1alpha1
kind: Gang
metadata: {name: NAME}
spec:
  roles: {worker: COUNT}
  topology: {key: block, prefer: rack}
  template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
"""


def nodes_used(count: int, *words: str) -> set[str]:
    """Return the nodes of a gang that prefers a rack of the block that it requires."""
    Path("near.yaml").write_text(NEAR.replace("NAME", "near").replace("COUNT", str(count)))
    rows = text_of(*words, "places.yaml", "near.yaml").splitlines()
    return {row.split()[3] for row in rows if row.startswith("near-worker-")}


def test_gang_document_prefers_a_rack_of_its_block_by_the_levels_of_the_configuration() -> None:
    places = [("n0", "b0", "r0"), ("n1", "b0", "r1"), ("n2", "b1", "r0"), ("n3", "b1", "r0")]
    text = ""
    for name, block, rack in places:
        text += PLACE.replace("NAME", name).replace("BLOCK", block).replace("RACK", rack)
    Path("places.yaml").write_text(text)
    Path("levels.yaml").write_text(CONFIG + "levels: [block, rack]\n")
    with_levels = ("--config", "levels.yaml")
    assert nodes_used(4, *with_levels) == {"n2", "n3"}, "r0 of b1"
    assert nodes_used(3, *with_levels) == {"n2", "n3"}
    assert nodes_used(5, *with_levels) == {"<none>"}
    assert nodes_used(4, "--config", "config.yaml") == {"<none>"}
    assert nodes_used(4) == {"<none>"}
