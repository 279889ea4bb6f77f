"""``gangsched explain``: why a group or pod does not run, and what would make it start."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from support.documents import ROOT, printed_by, refuses

pytest.importorskip("yaml")

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}{labels}}}}}
spec: {{unschedulable: {cordoned}}}
status: {{allocatable: {{cpu: "{cpu}"}}}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  template:
    metadata:
      labels:
        pod-group.scheduling.sigs.k8s.io/name: train
        pod-group.scheduling.sigs.k8s.io/min-available: "3"
    spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, {more}}}
spec: {{containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}
"""
HEADER = "job,submit_s,workers,gpus_per_worker,duration_s"
BUSY = f"""{HEADER},tenant,cpu_per_worker
run,0,1,4,1000,red,1
wide,10,3,4,100,red,1
pair,20,2,4,100,red,1
one,30,1,4,100,blue,1
last,40,2,4,100,blue,1
late,900,1,1,10,blue,1
"""
TRACES = {
    "two.csv": f"{HEADER}\nx,0,1,4,100\ny,5,1,4,50\n",
    "gangs.csv": f"{HEADER}\ng,0,2,4,100\nh,5,2,4,50\ntiny,6,1,4,1\n",
    "freed.csv": f"{HEADER}\na,0,1,4,100\nb,0,1,4,1000\nc,10,2,4,50\n",
    "reserved.csv": f"{HEADER}\nfirst,0,1,3,100\nbig,1,2,2,100\nsmall,2,1,1,500\n",
    # the first has finished when the question is asked
    "queue.csv": f"{HEADER}\ng0,0,2,4,10\n"
    + "".join(f"g{number},{number},2,4,100000\n" for number in range(1, 8)),
    "low.csv": f"{HEADER},priority\nlow,0,2,4,1000,0\nwait,1,2,4,9,0\n",
    "busy.csv": BUSY,
}
QUOTAS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
quotas:
- {name: company, nominal: {cpu: 2}}
- {name: red, parent: company, namespaces: [default], nominal: {cpu: 2, memory: 1Gi}}
"""
LIMITED = ("train", "one.yaml", "job.yaml", "--config", "quotas.yaml", "--until", "30")
EMPTY = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: empty}
spec: {minMember: 2}
"""
GROUP = "pod-group.scheduling.sigs.k8s.io"


def node(name: str, cpu: int, labels: str = "", cordoned: bool = False) -> str:
    return NODE.format(name=name, cpu=cpu, labels=labels, cordoned=str(cordoned).lower())


def members(group: str, count: int, minimum: int, limits: str) -> str:
    more = f'labels: {{{GROUP}/name: {group}, {GROUP}/min-available: "{minimum}"}}'
    return "---".join(
        POD.format(name=f"{group}-{n}", more=more, limits=limits) for n in range(count)
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cordoned = [node("b", 2, cordoned=True), node("c", 2, cordoned=True)]
    Path("nodes.yaml").write_text("---".join([node("a", 4), *cordoned]))
    Path("job.yaml").write_text(JOB)
    Path("group.yaml").write_text(EMPTY)
    Path("one.yaml").write_text("---".join([node("a", 2), node("b", 2)]))
    Path("quotas.yaml").write_text(QUOTAS)
    Path("n.csv").write_text("node,cpu,gpus\nn,8,4\n")
    for name, text in TRACES.items():
        Path(name).write_text(text)


def says(*words: str) -> str:
    return printed_by("explain", *words)


def data(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(says(*words, "--output", "json"))
    return found


def asked(name: str, trace: str, until: int, *more: str) -> tuple[str, ...]:
    """Return the words of a question about a trace at an instant."""
    nodes = {"two.csv": "1x4", "reserved.csv": "1x4", "busy.csv": "n.csv"}.get(trace, "2x4")
    return (name, "--trace", trace, "--nodes", nodes, "--until", str(until), *more)


# The smallest change ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["coscheduling", "gang"])
def test_two_more_nodes_would_start_the_gang_of_the_demonstration(policy: str) -> None:
    words = ("tf-smoke-gpu", "--policy", policy)
    shape = "cpu=8, memory=32Gi, nvidia.com/gpu=2, pods=110"
    first, second = says(*words).splitlines()
    assert first.startswith("t=70s  pod group default/tf-smoke-gpu: pod ") or policy == "gang"
    assert "does not fit" in first
    assert second == f"2 more nodes of {shape} would start pod group default/tf-smoke-gpu now"
    found = data(*words)
    (change,) = found["smallest_changes"]
    assert (change["nodes"], change["at"]) == (2, found["at"])
    assert change["shape"]["nvidia.com/gpu"] == "2"
    assert found["why"]["answer"] == "NoNodeFits"
    assert (found["schema"], found["group"]) == ("gangsched.explain/1", "default/tf-smoke-gpu")


def test_default_job_is_that_of_the_demonstration() -> None:
    examples = resources.files("gangsched.simulation") / "examples"
    files = [str(examples / name) for name in ("cluster.yaml", "tf-smoke-gpu.yaml")]
    assert says("default/tf-smoke-gpu", *files) == says("tf-smoke-gpu")
    grown = says("tf-smoke-gpu", *files, "--at", "60", str(examples / "scale-up.yaml"))
    assert grown.splitlines() == [
        "t=2m  pod group default/tf-smoke-gpu: 5 members hold nodes",
        "pod group default/tf-smoke-gpu has started",
    ]


def test_node_classes_are_tried_by_frequency() -> None:
    assert says("train", "nodes.yaml", "job.yaml").splitlines()[1:] == [
        "1 more node of cpu=2 would start pod group default/train now",
        "1 more node of cpu=4 would start pod group default/train now",
    ]


def test_cordoned_node_is_added_uncordoned_and_one_that_cannot_help_has_the_reason() -> None:
    cordoned = [node("a", 4, ", zone: z", cordoned=True), node("b", 1), node("c", 1)]
    Path("kinds.yaml").write_text("---".join(cordoned))
    found = data("train", "kinds.yaml", "job.yaml", "--most", "5")["smallest_changes"]
    assert [(one["shape"], one["labels"], one["nodes"]) for one in found] == [
        ({"cpu": "4"}, {"zone": "z"}, 2),
        ({"cpu": "1"}, {}, None),
    ]
    assert found[1]["refusal"] == "Insufficient cpu"
    assert (found[1]["tried"], found[1]["why"]["answer"]) == (5, "NoNodeFits")


def test_untried_node_classes_are_counted() -> None:
    Path("kinds.yaml").write_text("---".join(node(f"n{n}", 1, f", k: k{n}") for n in range(6)))
    words = ("train", "kinds.yaml", "job.yaml", "--most", "1")
    assert "2 further kinds of nodes were not tried: give --shape" in says(*words)
    found = data(*words)
    assert (len(found["smallest_changes"]), found["untried"]) == (4, 2)


def test_shape_may_be_given() -> None:
    text = says("train", "one.yaml", "job.yaml", "--shape", "cpu=2500m,gpu=1")
    assert text.endswith(
        "1 more node of cpu=2500m, gpu=1 would start pod group default/train now\n"
    )


def test_number_of_nodes_says_how_many_others_start_with_them() -> None:
    Path("t.csv").write_text(
        f"{HEADER}\n" + "".join(f"{n},{at},2,4,1000\n" for at, n in enumerate("abcd"))
    )
    words = asked("d", "t.csv", 10)
    change = "6 more nodes of nvidia.com/gpu=4 would start pod group default/d now, and 2 other"
    assert change in says(*words)
    assert [each["others_started"] for each in data(*words)["smallest_changes"]] == [2]


# What if ----------------------------------------------------------------------------------------


def test_what_if_nodes_were_added_or_files_applied() -> None:
    text = says("train", "one.yaml", "job.yaml", "--add", "1x8")
    assert "what if:\n  t=60s  node/added-node-000  Allocatable: nvidia.com/gpu=8\n" in text
    Path("more.yaml").write_text(node("more", 2))
    words = ("train", "one.yaml", "job.yaml", "--apply", "more.yaml")
    assert says(*words).endswith("  then default/train: 3 members hold nodes\n")
    found = data(*words)["what_if"]
    kinds = [effect["kind"] for effect in found["effects"]]
    assert kinds.count("Bind") == kinds.count("PodScheduled") == 3
    assert {effect["at"] for effect in found["effects"]} == {found["until"]} == {60.0}
    assert found["why"] == {"default/train": {"answer": "Running", "text": "3 members hold nodes"}}


def test_what_if_quotas_stated_something_else() -> None:
    kept_out = says(*LIMITED)
    assert "exceeded quota red: requested cpu=6, used cpu=0, limited cpu=4" in kept_out
    helps = "it would start with 1 more node if quota red had nominal cpu=4"
    assert f"{helps}\n" in kept_out
    (change,) = data(*LIMITED)["smallest_changes"]
    assert change["larger_quotas"] == [{"name": "red", "nominal": {"cpu": "4"}, "hard": {}}]
    assert (change["nodes"], change["nodes_besides"]) == (None, 1)
    larger = ("--quota", "red", "nominal", "cpu=4")
    text = says(*LIMITED, *larger)
    assert "what if:\n  t=30s  quota/red  nominal: cpu=4\n" in text
    assert "then default/train: pod default/train-2 does not fit" in text
    # what is not named stays, so the two changes are about one quota
    Path("more.yaml").write_text(node("more", 4))
    both = (*larger, "--quota", "red", "hard", "memory=1Gi", "--apply", "more.yaml")
    assert "then default/train: 3 members hold nodes" in says(*LIMITED, *both)


def test_added_node_gets_an_unused_name() -> None:
    Path("taken.yaml").write_text(node("added-node-000", 2))
    text = says("train", "taken.yaml", "job.yaml", "--add", "1x8")
    assert "node/added-added-node-000" in text


def test_added_node_that_takes_no_member_is_named_with_the_reason() -> None:
    words = asked("red/wide", "busy.csv", 60, "--add", "2x4")
    reason = "  a node of nvidia.com/gpu=4 takes none of its members: Insufficient cpu"
    assert reason in says(*words)
    assert data(*words)["what_if"]["refusals"] == [
        {"shape": {"nvidia.com/gpu": "4"}, "labels": {}, "refusal": "Insufficient cpu"}
    ]
    big = node("big", 64).replace('"64"', '"64", nvidia.com/gpu: "4"')
    Path("big.yaml").write_text(big)
    words = asked("red/wide", "busy.csv", 60, "--apply", "big.yaml")
    assert "takes none of its members" not in says(*words)
    assert data(*words)["what_if"]["refusals"] == []


def changed(*words: str) -> list[str]:
    lines = says(*words).splitlines()
    return [line for line in lines if line.startswith("  then") or "other groups" in line]


def test_what_if_prints_the_groups_that_change_and_the_one_in_question_first() -> None:
    words = asked("g6", "queue.csv", 50, "--add", "4x4")
    first, *others = changed(*words)
    assert first.startswith("  then default/g6: as of 6: pod default/g6-0 does not fit: ")
    assert others == [
        "  then default/g2: 2 members hold nodes",
        "  then default/g3: 2 members hold nodes",
        "  5 other groups: as before",
    ]
    assert len(data(*words)["what_if"]["why"]) == 8
    finished = changed(*asked("g0", "queue.csv", 50, "--add", "4x4"))
    assert finished[0] == "  then default/g2: 2 members hold nodes"
    assert not any("0 members" in line for line in finished)


def test_what_if_prints_a_group_that_loses_or_gets_members() -> None:
    high = POD.format(name="high", more="labels: {}", limits="nvidia.com/gpu: 4")
    Path("high.yaml").write_text(high.replace("spec: {", "spec: {priority: 9, "))
    lines = changed(*asked("wait", "low.csv", 50, "--apply", "high.yaml", "--preempt"))
    assert lines[0].startswith("  then default/wait: ")
    assert lines[1].startswith("  then default/low: ")
    more, late = (
        members("more", 3, 2, "nvidia.com/gpu: 4"),
        members("late", 3, 3, "nvidia.com/gpu: 4"),
    )
    Path("groups.yaml").write_text(f"{more}---{late}")
    words = ("late", "groups.yaml", "--nodes", "2x4", "--until", "30", "--add", "1x4")
    assert "  then default/more: 3 members hold nodes" in changed(*words)


# What is ahead ----------------------------------------------------------------------------------


def test_groups_that_come_first_are_counted_with_their_requests() -> None:
    words = asked("blue/last", "busy.csv", 60, "--order", "creation", "--most")
    assert says(*words, "1").splitlines()[2] == (
        "3 other pod groups and pods are tried before it; together they request cpu=6,"
        " nvidia.com/gpu=24"
    )
    requests = {"cpu": "6", "nvidia.com/gpu": "24"}
    assert data(*words, "1")["ahead"] == {"count": 3, "requests": requests}
    assert data(*words, "8")["ahead"] is None, "the nodes would start it"
    pair = says(*asked("red/pair", "busy.csv", 60, "--order", "creation", "--most", "0"))
    assert "1 other pod group or pod is tried before it; together they request cpu=3," in pair
    first = asked("red/wide", "busy.csv", 60, "--order", "creation", "--most", "1")
    assert "before it" not in says(*first)
    assert data(*first)["ahead"] is None


@pytest.mark.parametrize(
    ("file", "count", "cpu"),
    [
        (members("half", 1, 2, 'cpu: "1"'), 1, "3"),  # it lacks members
        (members("most", 2, 1, 'cpu: "5"'), 2, "8"),  # one member runs, and one is pending
    ],
)
def test_groups_ahead_count_if_they_are_complete_with_what_is_pending(
    file: str, count: int, cpu: str
) -> None:
    Path("more.yaml").write_text(file)
    name, *words_of_trace = asked("red/pair", "busy.csv", 60)
    words = (name, "more.yaml", *words_of_trace, "--most", "0", "--order", "creation")
    assert data(*words)["ahead"]["count"] == count
    assert data(*words)["ahead"]["requests"]["cpu"] == cpu


def test_json_says_whether_the_budget_was_used_up() -> None:
    found = data(*asked("blue/last", "busy.csv", 60, "--most", "1", "--add", "1x4"))
    assert [each["exhausted"] for each in found["smallest_changes"]] == [False]
    assert found["what_if"]["exhausted"] is False
    started = data(*asked("blue/last", "busy.csv", 60, "--most", "8"))
    assert [each["exhausted"] for each in started["smallest_changes"]] == [None]


@pytest.mark.parametrize("name", ["small", "big"])
def test_capacity_that_is_reserved_for_a_gang_is_named(name: str) -> None:
    """The reason of the small job counts the free GPU as used."""
    words = asked(name, "reserved.csv", 50)
    assert "reserved:" not in says(*words)
    found = says(*words, "--backfill").splitlines()
    assert found[1] == "reserved: 1 node is reserved for pod group default/big, starts by 100"
    reservation = data(*words, "--backfill")["reservation"]
    named = {"group": "default/big", "pod": None, "since": 1.0}
    assert reservation == {**named, "starts_at": 100.0, "nodes": ["node-000"]}


def test_job_that_runs_is_not_told_of_a_reservation() -> None:
    words = asked("first", "reserved.csv", 50, "--backfill")
    assert "reserved" not in says(*words)
    assert data(*words)["reservation"] is None


# What can be asked about ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default/y-0", "y-0", "default/y", "y"])
def test_single_pod_is_explained_by_the_name_of_the_pod_or_of_its_job(name: str) -> None:
    first, *_rest = says(*asked(name, "two.csv", 50)).splitlines()
    start, _colon, why = first.partition(": ")
    assert start == "t=50s  pod default/y-0 of job default/y"
    assert why.endswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_json_names_the_pod_and_its_group() -> None:
    found = data(*asked("y", "two.csv", 50))
    assert (found["group"], found["pod"]) == (None, "default/y-0")
    assert found["why"]["answer"] in {"NoNodeFits", "BackingOff"}
    assert (found["started_at"], found["finished_at"]) == (None, None)
    member = data(*asked("default/h-1", "gangs.csv", 50))
    assert (member["group"], member["pod"]) == ("default/h", "default/h-1")
    assert [change["nodes"] for change in member["smallest_changes"]] == [2]


def test_running_pod_is_said_to_run() -> None:
    text = says(*asked("x", "two.csv", 50))
    assert text.startswith("t=50s  pod default/x-0 of job default/x: on node")


def test_job_without_a_group_is_explained_by_its_first_pod_without_a_node() -> None:
    key = "simulation.gangsched.io/job"
    more = f'annotations: {{{key}: pair, {key}-pods: "2"}}'
    pods = [POD.format(name=n, more=more, limits="nvidia.com/gpu: 4") for n in "ab"]
    Path("pair.yaml").write_text("---".join(pods))
    first, *_rest = says("pair", "pair.yaml", "--nodes", "1x4", "--until", "5").splitlines()
    assert first.startswith("t=5s  pod default/b of job default/pair: ")


@pytest.mark.parametrize(
    ("name", "trace", "sentence"),
    [
        ("g", "gangs.csv", "pod group default/g: it has finished; it ran from t=0s to t=100s"),
        ("y", "two.csv", "pod default/y-0 of job default/y: it has finished; it ran from t=100s"),
    ],
)
def test_finished_job_is_said_to_have_finished_with_its_times(
    name: str, trace: str, sentence: str
) -> None:
    words = asked(name, trace, 400)
    text = says(*words)
    assert sentence in text
    assert "; --until asks about an earlier instant, --history for its attempts" in text
    assert "hold nodes" not in text
    assert "would start" not in text
    found = data(*words)
    assert found["finished_at"] - found["started_at"] in (100.0, 50.0)
    assert found["smallest_changes"] == []


ARRIVES = "arrives at t=15m, and the question is asked at t=60s\n"
HERE = ("one.yaml", "job.yaml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("other", *HERE),
            "NAME: no pod or pod group 'default/other' is known; known groups: default/train\n",
        ),
        (("other", "one.yaml"), "there is no group"),
        (("train", *HERE, "--policy", "pod_by_pod"), "--policy: expected coscheduling"),
        *(
            (
                ("train", *HERE, "--shape", shape),
                f"--shape must be NAME=AMOUNT, separated by commas, got {shape!r}",
            )
            for shape in ("cpu", "=2", "cpu=1,cpu=2", "cpu=1,,")
        ),
        (("train", *HERE, "--shape", "cpu=many"), "--shape: cpu must be "),
        (("train", *HERE, "--most", "-1"), "--most must be"),
        (("train", *HERE, "--add", "8"), "--add must be COUNTxGPUS"),
        (("train", *HERE, "--apply", "nowhere.yaml"), "nowhere.yaml: No such file"),
        (("train", "nowhere.yaml"), "nowhere.yaml: No such file"),
        *(
            ((*LIMITED, "--quota", *change.split()), f"--quota{said}\n")
            for change, said in (
                ("blue hard cpu=1", ": no quota 'blue'; known: company, red"),
                (
                    "red size cpu=1",
                    " red: expected nominal, borrow, lend, hard or weight, got 'size'",
                ),
                ("red lend cpu", " red lend: expected NAME=AMOUNT, separated by commas, got 'cpu'"),
                ("red borrow cpu=-1", " red borrow: expected a quantity >= 0, got '-1'"),
                ("red weight x", " red weight: expected a finite number >= 0, got 'x'"),
            )
        ),
        (
            ("train", "one.yaml", "job.yaml", "--quota", "red", "weight", "2"),
            "--quota: no quota 'red'; known: none",
        ),
        (
            asked("other/z", "two.csv", 50),
            "no pod or pod group 'other/z' is known; known jobs: default/x, default/y\n",
        ),
        (asked("late", "busy.csv", 60), f"NAME: blue/late {ARRIVES}"),
        (asked("blue/late", "busy.csv", 60), f"NAME: blue/late {ARRIVES}"),
        (asked("late-0", "busy.csv", 60), f"NAME: blue/late-0 {ARRIVES}"),
        (asked("ate", "busy.csv", 60), "no pod or pod group 'default/ate' is known"),
        (
            asked("blue/one", "busy.csv", 60, "--delete", "50", "blue/one"),
            "no pod or pod group 'blue/one' is known",
        ),
        (
            asked("train", "busy.csv", 60, "--at", "90", "job.yaml"),
            "NAME: default/train arrives at t=90s, and",
        ),
        (
            asked("empty", "busy.csv", 60, "--at", "90", "group.yaml"),
            "NAME: default/empty arrives at t=90s, and",
        ),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_option(words: tuple[str, ...], said: str) -> None:
    assert said in refuses("explain", *words)


def test_job_of_another_namespace_is_suggested_by_its_name() -> None:
    rows = [f"j{number},0,1,1,10,bob" for number in range(7)]
    Path("t.csv").write_text("\n".join((f"{HEADER},tenant", *rows, "")))
    assert refuses("explain", *asked("j6", "t.csv", 5)).endswith("; did you mean bob/j6?\n")


# Attempts ---------------------------------------------------------------------------------------


def test_nodes_that_were_freed_since_the_last_attempt_are_counted() -> None:
    assert "at most 1 of 2 members fit" in says(*asked("c", "freed.csv", 200))


def test_history_has_every_attempt_of_a_group_or_pod() -> None:
    entries = data(*asked("c", "freed.csv", 1001, "--history"))["history"]
    assert [entry["message"].partition(":")[0] for entry in entries] == [
        "Attempt 1",
        "Attempt 2",
        "Attempt 2",
    ]
    assert {entry["object"] for entry in entries} == {"podgroup/default/c"}
    assert data(*asked("c", "freed.csv", 1001))["history"] is None
    single = says(*asked("a", "freed.csv", 50, "--history"))
    assert single.rstrip().endswith("t=0s  Successfully assigned default/a-0 to node-000")


def test_every_field_of_the_json_is_on_its_reference_page() -> None:
    found = data("train", "one.yaml", "job.yaml", "--add", "1x8", "--shape", "gpu=1", "--most", "2")
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([\w.\[\]]+)` \|", page, re.MULTILINE))
    fields = {*found}
    fields |= {f"smallest_changes[].{name}" for name in found["smallest_changes"][0]}
    fields |= {f"what_if.{name}" for name in found["what_if"]}
    assert described == fields
