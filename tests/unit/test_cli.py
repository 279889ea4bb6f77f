"""The command: bad input, streams, signals. What single commands do is in the files beside."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gangsched import Effect, __version__
from gangsched.cli import main
from gangsched.replay import Call, Header, Recipe, Replay
from gangsched.simulation import EventLog, FaultPlan
from gangsched.simulation.documents import Document, read_documents
from support.documents import fails, printed_by, refuses, run_command

pytest.importorskip("rich")

NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-0}
status: {allocatable: {cpu: "4"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {simulation.gangsched.io/run-seconds: "30"}}
spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
"""
HEADER = "job,submit_s,workers,gpus_per_worker,duration_s\n"
TRACE = HEADER + "a,0,2,1,10\nb,5,1,1,10\n"
NODES = "node,cpu,memory,gpus\nn0,4,8Gi,4\n"
WORKLOAD = ("--trace", "jobs.csv", "--nodes", "1x4")
FORGED = "a\x1b[2Jb\nINJECTED: deadlock none"
ESCAPED = r"a\x1b[2Jb\nINJECTED: deadlock none"
FILES: dict[str, str | bytes] = {
    "node.yaml": NODE,
    "pod.yaml": POD,
    "jobs.csv": TRACE,
    "nodes.csv": NODES,
    "bad.yaml": NODE + "---\n" + POD.replace("500m", "many"),
    "bad.csv": HEADER + "a,0,none,1,10\n",
    "latin.yaml": b"caf\xe9",
    "own-pod.yaml": POD.replace("{name: p,", "{name: a-0,"),
    "unknown.csv": "id,when\n1,2\n",
    "lacks.csv": "job,submit_s,workers,duration_s\n",
    "torn.gz": gzip.compress(TRACE.encode())[:-9],
    "followed.gz": gzip.compress(TRACE.encode()) + b"x",
    "damaged.gz": gzip.compress(TRACE.encode())[:-8] + bytes(8),
    "latin.gz": gzip.compress(b"\xff"),
    "jobs.bin": b"\xff" + TRACE.encode(),
    "no.json": "{",
    "bind-0.json": '{"faults": [{"kind": "BindFails", "bind": 0}]}',
    "list.json": "[]",
    "forged.csv": f'{HEADER}"{FORGED}",0,2,4,10\n',
    "large.csv": f"{HEADER}a,0,1,999999999,{'9' * 300}\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


def words_of(line: str) -> list[str]:
    return ["simulate", *line.replace("WORKLOAD", " ".join(WORKLOAD)).split()]


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "expected manifests or --trace"),
        ("nowhere.yaml", "nowhere.yaml: No such file"),
        ("--trace / --nodes 1x1", "/: Is a directory"),
        ("latin.yaml", "expected UTF-8 text, byte 3"),
        ("bad.yaml", "bad.yaml: document 2: spec.containers[0].resources.requests.cpu: "),
        ("--trace bad.csv --nodes 1x8", "bad.csv: line 2: workers: "),
        ("--trace jobs.csv", "--trace: expected --nodes"),
        ("--trace jobs.csv --nodes 40", "'40'"),
        ("--trace torn.gz --nodes 1x1", "torn.gz: the compressed file is not whole: "),
        ("torn.gz", "torn.gz: the compressed file is not whole: "),
        ("--trace followed.gz --nodes 1x1", "followed.gz: the beginning of the compressed file"),
        ("followed.gz", "file was read; what follows it is not gzip\n"),
        ("damaged.gz", "damaged.gz: the compressed file is damaged: CRC check failed"),
        ("--trace latin.gz --nodes 1x1", "latin.gz: expected UTF-8 text, byte 0 is not\n"),
        ("--trace jobs.bin --nodes 1x1", "jobs.bin: expected UTF-8 text, byte 0 is not\n"),
        ("--trace jobs.csv --nodes latin.gz", "latin.gz: expected UTF-8 text, byte 0 is not"),
        ("--trace lacks.csv --nodes 1x4", "gpus_per_worker"),
        ("--trace unknown.csv --nodes 1x4", "job and submit_s"),
        ("--trace unknown.csv --nodes 1x4", "creation_time and num_gpu"),
        ("--trace unknown.csv --nodes 1x4", "app and role"),
        ("--trace unknown.csv --nodes 1x4", "18 numbers"),
        ("node.yaml --at soon pod.yaml", "--at: expected a number of seconds"),
        ("node.yaml --at 5", "--at 5: expected a manifest"),
        ("node.yaml pod.yaml --at 5 pod.yaml", "pod default/p is given by two files"),
        ("own-pod.yaml WORKLOAD", "pod default/a-0 is given by two files"),
        ("node.yaml --log no/run.log", "no/run.log: No such file"),
        ("WORKLOAD --picture run.doc", "gangsched: --picture must be a name that ends with .svg"),
        ("WORKLOAD --delete 5 default/x", "--delete: job must be a job that has arrived by t=5"),
        ("node.yaml --delete 60", "--delete 60: expected a job"),
        ("node.yaml --delete soon default/x", "--delete: expected a number of seconds"),
        ("WORKLOAD --faults no.json", "no.json: expected JSON"),
        ("WORKLOAD --faults bind-0.json", "bind-0.json: faults[0].bind must be"),
        ("WORKLOAD --faults list.json", "list.json: plan must be an object with faults and ahead"),
        ("WORKLOAD --faults f --fault-seed 1", "--fault-seed"),
        ("- --trace -", "expected one input from standard input, got a manifest and --trace\n"),
        ("--trace - --nodes -", "got --trace and --nodes\n"),
        ("--at 5 - --faults - --trace -", "got --at, --trace and --faults\n"),
        ("--until -1", "--until"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(line: str, said: str) -> None:
    assert said in refuses(*words_of(line))


def test_sentence_about_bad_input_is_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "'many'" in fails(capsys, "simulate", "bad.yaml")


def test_table_that_lacks_one_column_is_refused_for_that_column_alone() -> None:
    said = refuses("simulate", "--trace", "lacks.csv", "--nodes", "1x4")
    assert "num_gpu" not in said


def test_command_without_the_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install 'gangsched[cli]'" in refuses("simulate", "node.yaml")


def test_figures_that_exceed_a_float_are_refused_in_json_only() -> None:
    words = ["simulate", "--trace", "large.csv", "--nodes", "1x999999999"]
    assert "--output json: a figure of the report is too large" in refuses(
        *words, "--output", "json"
    )
    assert "1 started whole" in printed_by(*words)


def test_trace_of_a_file_has_a_bound_on_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangsched.simulation.traces.MOST_STREAMED", 2)
    said = refuses("simulate", *WORKLOAD)
    assert said == "gangsched: jobs.csv: line 3: workers: with it the file has more than 2 pods\n"


# Inputs that can be read only once --------------------------------------------------------------


def piped(folder: Path, text: str) -> str:
    """Return the name of a pipe, into which a text is written once."""
    name = folder / "pipe"
    os.mkfifo(name)
    threading.Thread(target=name.write_text, args=(text,), daemon=True).start()
    return str(name)


def test_trace_of_a_pipe_runs_as_that_of_a_file(folder: Path) -> None:
    of_pipe = run_command("simulate", "--trace", piped(folder, TRACE), "--nodes", "1x4")
    assert of_pipe == run_command("simulate", *WORKLOAD)
    assert of_pipe[0] == 0


def test_nodes_of_a_pipe_are_read(folder: Path) -> None:
    printed_by("simulate", "--trace", "jobs.csv", "--nodes", piped(folder, NODES))


def test_compressed_inputs_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run_command("simulate", *WORKLOAD, "pod.yaml")
    for name in ("jobs.csv", "pod.yaml"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    for trace in ("jobs.csv.gz", "-"):
        packed = io.TextIOWrapper(io.BytesIO((folder / "jobs.csv.gz").read_bytes()))
        monkeypatch.setattr("sys.stdin", packed)
        words = ("--trace", trace, "--nodes", "1x4", "pod.yaml.gz")
        assert run_command("simulate", *words) == plain


def test_each_policy_of_compare_gets_the_trace_of_a_pipe(folder: Path) -> None:
    text = printed_by("compare", "--trace", piped(folder, TRACE), "--nodes", "1x4")
    assert text.count("1 of 1") == 6 + 6  # gangs, and single pods


def test_each_policy_of_compare_gets_the_faults_of_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = FaultPlan.drawn(3).to_json()
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(plan)))
    text = printed_by("compare", *WORKLOAD, "--output", "json", "--faults", "-")
    assert [run["settings"]["faults"] for run in json.loads(text)["runs"]] == 6 * [plan]


def test_manifests_come_from_standard_input_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(POD))
    assert "Successfully assigned default/p to node-0" in printed_by("simulate", "node.yaml", "-")


def test_file_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(text: str, *, file: str) -> Iterator[Document]:
        parsed.append(file)
        yield from read_documents(text, file=file)

    monkeypatch.setattr("gangsched.simulation._manifest_objects.read_documents", counted)
    printed_by("simulate", "node.yaml", "--at", "5", "pod.yaml")
    assert parsed == ["node.yaml", "pod.yaml"]


# What a terminal, a pipe and a disk do ----------------------------------------------------------


def test_help_and_version_are_printed() -> None:
    assert "simulate" in printed_by()
    assert printed_by("--version") == f"gangsched {__version__}\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_run_shows_no_progress_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("simulate", *WORKLOAD)) == 0
    assert capsys.readouterr().err == ""


def test_long_run_names_its_policy_and_its_progress_off_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=6)  # seconds between two looks at it
    monkeypatch.setattr("gangsched.cli._progress.monotonic", lambda: next(clock))
    assert main(("compare", *WORKLOAD, "--policy", "fifo", "--policy", "gang,backfill")) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "gangsched: fifo: 4 of 4 arrivals, t=5s" in lines
    assert "gangsched: gang,backfill: 4 of 4 arrivals, t=5s" in lines


def test_terminal_gets_a_progress_bar_with_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(("simulate", *WORKLOAD, "--policy", "fifo")) == 0
    assert "fifo" in terminal.getvalue()


@pytest.mark.parametrize("job", ["p" * 250, "訓練" * 30])
def test_table_is_never_cut(job: str) -> None:
    Path("jobs.csv").write_text(f"{HEADER}{job},0,1,1,10\n", encoding="utf-8")
    text = printed_by("simulate", *WORKLOAD)
    assert f"Successfully assigned default/{job}-0 to node-000\n" in text


@pytest.mark.parametrize("command", [["simulate"], ["explain", FORGED, "--add", "1x4"]])
def test_control_characters_of_names_are_escaped(command: list[str]) -> None:
    text = printed_by(*command, "--trace", "forged.csv", "--nodes", "1x4")
    assert ESCAPED in text
    assert "\x1b" not in text
    assert "\nINJECTED" not in text


def test_control_characters_of_skipped_objects_errors_and_logs_are_escaped() -> None:
    document = {"apiVersion": "v9", "kind": FORGED, "metadata": {"name": FORGED}}
    Path("odd.json").write_text(json.dumps(document))
    text = printed_by("simulate", "odd.json", "node.yaml")
    assert text.count(ESCAPED) == 2
    assert "\nINJECTED" not in text
    assert ESCAPED in refuses("explain", FORGED, *WORKLOAD)
    assert r"a\x1b[2Jb\n" in refuses("simulate", FORGED)
    call = {"call": "advance", "now": 0.0, "raised": FORGED}
    Path("run.log").write_text(Header(recipe=Recipe("gang")).to_line() + json.dumps(call))
    code, text = run_command("replay", "run.log")
    assert code == 1
    assert f"log:  raised {ESCAPED}\n" in text
    assert "\x1b" not in text


def in_a_process(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with streams of the system."""
    line = [sys.executable, "-m", "gangsched", *words]
    settings = {**os.environ, "PYTHONIOENCODING": "ascii:strict", "PYTHONUNBUFFERED": ""}
    return subprocess.run(line, text=True, env=settings, check=False, **options)


def test_stream_that_cannot_encode_a_name_gets_it_escaped() -> None:
    Path("jobs.csv").write_text(f"{HEADER}é,0,1,1,10\n", encoding="utf-8")
    ran = in_a_process("simulate", *WORKLOAD, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"Successfully assigned default/\xe9-0 to node-000" in ran.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [["demo"], ["--help"]])
def test_full_disk_is_one_sentence_and_exit_code_2(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = in_a_process(*words, stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert ran.stderr == "gangsched: standard output: No space left on device\n"


def test_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = in_a_process("demo", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


# Ctrl-C -----------------------------------------------------------------------------------------


def interrupting(times: int) -> Any:
    """Return an ``effects`` that presses Ctrl-C as often, once something happens after t=0."""
    inner = EventLog.effects
    left = [times]

    def effects(self: EventLog, given: tuple[Effect, ...], now: float) -> None:
        inner(self, given, now)
        while now > 0 and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    return effects


AT_10 = ("simulate", "node.yaml", "--at", "10", "pod.yaml")


@pytest.mark.parametrize("output", ["text", "json"])
def test_after_ctrl_c_simulate_prints_the_report_so_far_and_exits_with_130(
    output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventLog, "effects", interrupting(1))
    before = signal.getsignal(signal.SIGINT)
    assert main([*AT_10, "--output", output]) == 130
    captured = capsys.readouterr()
    assert captured.err == "gangsched: interrupted at t=10s; the report is of the run so far\n"
    if output == "json":
        assert json.loads(captured.out)["summary"]["end"] == 10.0
    else:
        assert re.search(r"^simulated +10s in", captured.out, re.MULTILINE)
    assert signal.getsignal(signal.SIGINT) is before


def test_second_ctrl_c_ends_the_command_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventLog, "effects", interrupting(2))
    assert run_command(*AT_10) == (130, "gangsched: interrupted\n")


def test_after_ctrl_c_replay_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    printed_by("simulate", "node.yaml", "pod.yaml", "--log", "run.log")

    def interrupted(self: Replay, call: Call) -> None:
        if call.line == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Replay, "perform", interrupted)
    code, text = run_command("replay", "run.log")
    assert code == 130
    assert sorted(text.splitlines()) == [
        "gangsched: interrupted",
        "run.log: no divergence before line 3",
    ]


def test_run_can_be_started_in_another_thread() -> None:
    """Python allows signal handlers in the main thread only."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["simulate", "node.yaml"])))
    thread.start()
    thread.join()
    assert codes == [0]
