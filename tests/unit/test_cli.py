"""The command: input, exit codes, output."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gangsched import Effect, Preemption, __version__
from gangsched.cli import main
from gangsched.replay import Call, Header, Recipe, Replay
from gangsched.simulation import SCHEMA, EventLog
from gangsched.simulation.documents import Document, read_documents
from gangsched.simulation.render import progress
from support.documents import fails

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


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "jobs.csv").write_text(HEADER + "a,0,2,1,10\nb,5,1,1,10\n")
    return tmp_path


def test_bad_input_is_one_sentence_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "bad.yaml").write_text(NODE + "---\n" + POD.replace("500m", "many"))
    (files / "bad.csv").write_text(HEADER + "a,0,none,1,10\n")
    (files / "latin.yaml").write_bytes(b"caf\xe9")
    assert "expected manifests or --trace" in fails(capsys, "simulate")
    assert "nowhere.yaml: No such file" in fails(capsys, "simulate", "nowhere.yaml")
    assert "expected UTF-8 text, byte 3" in fails(capsys, "simulate", "latin.yaml")
    wrong = fails(capsys, "simulate", "bad.yaml")
    assert "bad.yaml: document 2: spec.containers[0].resources.requests.cpu" in wrong
    assert "'many'" in wrong
    assert "bad.csv: line 2: workers: " in fails(
        capsys, "simulate", "--trace", "bad.csv", "--nodes", "1x8"
    )
    assert "--trace: expected --nodes" in fails(capsys, "simulate", "--trace", "jobs.csv")
    assert "'40'" in fails(capsys, "simulate", "--trace", "jobs.csv", "--nodes", "40")
    assert "--at: expected a number of seconds" in fails(
        capsys, "simulate", "node.yaml", "--at", "soon", "pod.yaml"
    )
    assert "--at 5: expected a manifest" in fails(capsys, "simulate", "node.yaml", "--at", "5")
    twice = fails(capsys, "simulate", "node.yaml", "pod.yaml", "--at", "5", "pod.yaml")
    assert "pod default/p is given by two files" in twice


def test_unknown_arguments_are_refused_by_the_parser(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in (["simulate", "--policy", "best"], ["simulate", "--until", "-1"], ["what"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    assert "--until" in capsys.readouterr().err


def test_command_without_arguments_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "simulate" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"gangsched {__version__}\n"


def test_pod_runs_as_long_as_its_annotation_says(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "node.yaml", "--at", "10", "pod.yaml", "--output", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == SCHEMA
    assert [(s["at"], [p["status"] for p in s["pods"]]) for s in report["snapshots"]] == [
        (0.0, []),
        (10.0, ["Running"]),
        (40.0, ["Completed"]),
    ]
    assert report["summary"]["end"] == 40.0


def test_manifests_come_from_standard_input_too(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(POD))
    assert main(["simulate", "node.yaml", "-"]) == 0
    assert "Successfully assigned default/p to node-0" in capsys.readouterr().out


def test_trace_runs_on_nodes_of_a_shape(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trace", "jobs.csv", "--nodes", "1x2", "--detail", "summary"]
    assert main(["simulate", *options]) == 0
    text = capsys.readouterr().out
    assert "1 submitted, 1 started whole" in text
    assert "simulated             20s" in text
    assert "NAME" not in text


def test_events_are_printed_without_tables(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables of thousands of pods take minutes."""
    printed: dict[str, str] = {}
    for detail in ("all", "events"):
        words = ["--trace", "jobs.csv", "--nodes", "1x2", "--detail", detail]
        assert main(["simulate", *words]) == 0
        printed[detail] = capsys.readouterr().out
    assert printed["events"].startswith("TIME ")
    assert "Completed" in printed["events"]
    assert printed["all"].startswith("t=0s\n")
    assert printed["all"].endswith(printed["events"])


def test_unknown_kind_is_reported_and_skipped(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "odd.yaml").write_text("apiVersion: v9\nkind: Widget\nmetadata: {name: w}\n")
    assert main(["simulate", "odd.yaml", "node.yaml"]) == 0
    assert capsys.readouterr().out.startswith("skipped: odd.yaml")


def test_malformed_minimum_is_reported_as_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = (
        "labels: {pod-group.scheduling.sigs.k8s.io/name: g,"
        " pod-group.scheduling.sigs.k8s.io/min-available: two},"
    )
    (files / "odd.yaml").write_text(POD.replace("annotations:", labels + " annotations:"))
    assert main(["simulate", "node.yaml", "odd.yaml"]) == 0
    text = capsys.readouterr().out
    assert "Refused" in text
    assert "must be an int >= 1, got 'two'" in text
    assert "Pending" in text


def test_command_without_the_extra_names_what_to_install(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install 'gangsched[cli]'" in fails(capsys, "simulate", "node.yaml")


def test_there_is_no_progress_bar_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10) as advanced:
        advanced(5)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_there_is_a_progress_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress(10) as advanced:
        advanced(10)
    assert "simulating" in terminal.getvalue()


def test_table_is_never_cut(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "p" * 250
    (files / "long.yaml").write_text(POD.replace("name: p,", f"name: {long},"))
    assert main(["simulate", "node.yaml", "long.yaml"]) == 0
    assert f"Successfully assigned default/{long} to node-0\n" in capsys.readouterr().out


# Faults, logs, replay -------------------------------------------------------------------------


def test_faults_are_read_or_drawn_and_are_in_the_report(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {"faults": [{"kind": "BindFails", "bind": 1}]}
    (files / "plan.json").write_text(json.dumps(plan))
    words = ["simulate", "node.yaml", "pod.yaml", "--output", "json"]
    assert main([*words, "--faults", "plan.json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["settings"]["faults"] == {**plan, "ahead": False}
    assert "FailedBinding" in [event["reason"] for event in told["events"]]
    assert main([*words, "--fault-seed", "3"]) == 0
    first = capsys.readouterr().out
    assert len(json.loads(first)["settings"]["faults"]["faults"]) == 8
    assert main([*words, "--fault-seed", "3"]) == 0
    assert capsys.readouterr().out == first
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["faults"] is None


def test_malformed_plan_is_one_sentence_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "no.json").write_text("{")
    (files / "odd.json").write_text('{"faults": [{"kind": "BindFails", "bind": 0}]}')
    words = ("node.yaml", "pod.yaml", "--faults")
    assert "no.json: expected JSON" in fails(capsys, "simulate", *words, "no.json")
    assert "odd.json: faults[0].bind must be" in fails(capsys, "simulate", *words, "odd.json")
    assert "nowhere.json: No such file" in fails(capsys, "simulate", *words, "nowhere.json")
    with pytest.raises(SystemExit):
        main(["simulate", "node.yaml", "--faults", "a", "--fault-seed", "1"])
    capsys.readouterr()


@pytest.mark.parametrize("policy", ["coscheduling", "gang", "pod_by_pod"])
def test_replay_runs_the_log_of_simulate_again(
    policy: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "node.yaml", "pod.yaml", "--policy", policy, "--fault-seed", "1"]
    assert main([*words, "--log", "run.log"]) == 0
    capsys.readouterr()
    assert main(["replay", "run.log"]) == 0
    assert capsys.readouterr().out == "run.log: no divergence\n"


def test_replay_that_diverges_says_where_and_exits_with_1(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["simulate", "node.yaml", "pod.yaml", "--log", "run.log"]) == 0
    text = (files / "run.log").read_text()
    before, after = '"node":"node-0","attempt":1', '"node":"x","attempt":1'
    (files / "run.log").write_text(text.replace(before, after, 1))
    capsys.readouterr()
    assert main(["replay", "run.log"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("run.log: line ")
    assert "log:  Bind(uid='default/p', node='x', attempt=1)" in printed
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["replay", "-"]) == 0
    assert capsys.readouterr().out == "-: no divergence\n"


def test_log_can_be_replayed_with_another_policy(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = POD.replace("name: p,", "name: p, labels: {scheduling.x-k8s.io/pod-group: g},")
    (files / "gang.yaml").write_text(group)
    assert main(["simulate", "node.yaml", "gang.yaml", "--log", "run.log"]) == 0
    capsys.readouterr()
    assert main(["replay", "run.log", "--policy", "coscheduling", "--order", "creation"]) == 0
    assert main(["replay", "run.log", "--policy", "pod_by_pod"]) == 1
    assert "GroupIncomplete" in capsys.readouterr().out
    for option in (["--order", "creation"], ["--permit-timeout", "3"]):
        assert main(["replay", "run.log", *option]) == 2
        assert f"{option[0]} requires --policy" in capsys.readouterr().err


def test_malformed_log_is_one_sentence_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "unsaid.log").write_text(Header().to_line())
    (files / "bad.log").write_text(Header(recipe=Recipe("gang")).to_line() + '{"call":"fly"}\n')
    (files / "latin.log").write_bytes(b"caf\xe9")
    for name, expected in (
        ("nowhere.log", "nowhere.log: No such file"),
        ("unsaid.log", "the log's header has no recipe"),
        ("bad.log", "bad.log: line 2: call: expected one of handle"),
        ("latin.log", "latin.log: line 1: expected UTF-8 text, byte 3"),
        ("pod.yaml", "pod.yaml: line 1: expected a header"),
    ):
        assert main(["replay", name]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert expected in captured.err
        assert captured.err.count("\n") == 1


def test_log_that_cannot_be_written_is_one_sentence_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no/run.log: No such file" in fails(
        capsys, "simulate", "node.yaml", "--log", "no/run.log"
    )


# What a terminal, a pipe and a disk do --------------------------------------------------------

FORGED = "a\x1b[2Jb\nINJECTED: deadlock none"
ESCAPED = r"a\x1b[2Jb\nINJECTED: deadlock none"


def command(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with streams of the system."""
    line = [sys.executable, "-m", "gangsched.cli", *words]
    settings = {**os.environ, "PYTHONIOENCODING": "ascii:strict", "PYTHONUNBUFFERED": ""}
    return subprocess.run(line, text=True, env=settings, check=False, **options)


def test_simulate_escapes_control_characters_of_names(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "jobs.csv").write_text(f'{HEADER}"{FORGED}",0,2,4,10\n')
    assert main(["simulate", "--trace", "jobs.csv", "--nodes", "1x8"]) == 0
    text = capsys.readouterr().out
    assert ESCAPED in text
    assert "\x1b" not in text
    assert "\nINJECTED" not in text


def test_simulate_escapes_control_characters_of_skipped_objects(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"apiVersion": "v9", "kind": FORGED, "metadata": {"name": FORGED}}
    (files / "odd.json").write_text(json.dumps(document))
    assert main(["simulate", "odd.json", "node.yaml"]) == 0
    text = capsys.readouterr().out
    assert text.count(ESCAPED) == 2
    assert "\nINJECTED" not in text


def test_explain_escapes_control_characters_of_names(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "jobs.csv").write_text(f'{HEADER}"{FORGED}",0,2,4,10\n')
    words = ["explain", FORGED, "--trace", "jobs.csv", "--nodes", "1x4", "--add", "1x4"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert ESCAPED in text
    assert "\x1b" not in text
    assert "\nINJECTED" not in text


def test_error_escapes_control_characters_of_names(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "jobs.csv").write_text(HEADER + "a,0,2,4,10\n")
    complaint = fails(capsys, "explain", FORGED, "--trace", "jobs.csv", "--nodes", "1x4")
    assert ESCAPED in complaint
    assert complaint.count("\n") == 1
    assert r"a\x1b[2Jb\n" in fails(capsys, "simulate", FORGED)


def test_replay_escapes_control_characters_of_a_log(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"call": "advance", "now": 0.0, "raised": FORGED}
    (files / "run.log").write_text(Header(recipe=Recipe("gang")).to_line() + json.dumps(call))
    assert main(["replay", "run.log"]) == 1
    text = capsys.readouterr().out
    assert f"log:  raised {ESCAPED}\n" in text
    assert "\x1b" not in text


def test_table_is_not_cut_by_wide_characters(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = "訓練" * 30
    (files / "jobs.csv").write_text(f"{HEADER}{job},0,1,1,10\n", encoding="utf-8")
    assert main(["simulate", "--trace", "jobs.csv", "--nodes", "1x1"]) == 0
    assert f"Successfully assigned default/{job}-0 to node-000\n" in capsys.readouterr().out


def test_stream_that_cannot_encode_a_name_gets_it_escaped(files: Path) -> None:
    (files / "jobs.csv").write_text(f"{HEADER}é,0,1,1,10\n", encoding="utf-8")
    ran = command("simulate", "--trace", "jobs.csv", "--nodes", "1x1", capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert r"Successfully assigned default/\xe9-0 to node-000" in ran.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [["demo"], ["--help"], ["explain", "tf-smoke-gpu"]])
def test_full_disk_is_one_sentence_and_exit_code_2(files: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = command(*words, stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert ran.stderr == "gangsched: standard output: No space left on device\n"


def test_closed_pipe_is_no_error(files: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = command("demo", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


def interrupting(times: int) -> Any:
    """Return an ``effects`` that presses Ctrl-C in its first calls."""
    pressed = 0
    inner = EventLog.effects

    def effects(self: EventLog, given: tuple[Effect, ...], now: float) -> None:
        nonlocal pressed
        inner(self, given, now)
        if now > 0 and pressed < times:
            pressed += 1
            signal.raise_signal(signal.SIGINT)

    return effects


@pytest.mark.parametrize("output", ["text", "json"])
def test_after_ctrl_c_simulate_prints_the_report_so_far_and_exits_with_130(
    output: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EventLog, "effects", interrupting(1))
    before = signal.getsignal(signal.SIGINT)
    words = ["simulate", "node.yaml", "--at", "10", "pod.yaml", "--output", output]
    assert main(words) == 130
    captured = capsys.readouterr()
    assert captured.err == ("gangsched: interrupted at t=10s; the report is of the run so far\n")
    if output == "json":
        assert json.loads(captured.out)["summary"]["end"] == 10.0
    else:
        assert re.search(r"^simulated +10s in", captured.out, re.MULTILINE)
    assert signal.getsignal(signal.SIGINT) is before


def test_second_ctrl_c_ends_the_command_at_once(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(self: EventLog, given: tuple[Effect, ...], now: float) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(EventLog, "effects", twice)
    assert main(["simulate", "node.yaml", "pod.yaml"]) == 130
    assert capsys.readouterr().err == "gangsched: interrupted\n"


def test_after_ctrl_c_replay_says_how_far_it_came(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["simulate", "node.yaml", "pod.yaml", "--log", "run.log"]) == 0
    capsys.readouterr()

    def interrupted(self: Replay, call: Call) -> None:
        if call.line == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Replay, "perform", interrupted)
    assert main(["replay", "run.log"]) == 130
    captured = capsys.readouterr()
    assert captured.out == "run.log: no divergence before line 3\n"
    assert captured.err == "gangsched: interrupted\n"


def test_run_can_be_started_in_another_thread(files: Path) -> None:
    """Python allows signal handlers in the main thread only."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["simulate", "node.yaml"])))
    thread.start()
    thread.join()
    assert codes == [0]


def test_figures_that_exceed_a_float_are_one_sentence_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "jobs.csv").write_text(f"{HEADER}a,0,1,999999999,{'9' * 300}\n")
    words = ["--trace", "jobs.csv", "--nodes", "1x999999999"]
    complaint = fails(capsys, "simulate", *words, "--output", "json")
    assert "--output json: a figure of the report is too large" in complaint
    assert main(["simulate", *words]) == 0
    assert "1 started whole" in capsys.readouterr().out


@pytest.mark.parametrize("preset", [[], {}, 3, None])
def test_log_whose_preset_is_no_name_is_one_sentence_and_exit_code_2(
    preset: object, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = json.loads(Header(recipe=Recipe("gang")).to_line())
    header["scheduler"]["preset"] = preset
    (files / "odd.log").write_text(json.dumps(header))
    assert "scheduler.preset: expected one of" in fails(capsys, "replay", "odd.log")


def test_log_cannot_ask_for_a_search_without_end(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = Recipe("gang", preemption=Preemption())
    header = json.loads(Header(recipe=recipe).to_line())
    for path in (("search_budget",), ("preemption", "search_budget")):
        asked = json.loads(json.dumps(header))
        inner = asked["scheduler"]["arguments"]
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = 10**12
        (files / "long.log").write_text(json.dumps(asked))
        where = ".".join(("scheduler", "arguments", *path))
        complaint = fails(capsys, "replay", "long.log")
        assert f"{where}: expected an int from 0 to 1000000" in complaint


# Large input ----------------------------------------------------------------------------------


def test_file_is_parsed_once(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def counted(text: str, *, file: str) -> Iterator[Document]:
        parsed.append(file)
        yield from read_documents(text, file=file)

    monkeypatch.setattr("gangsched.simulation.manifests.read_documents", counted)
    assert main(["simulate", "node.yaml", "--at", "5", "pod.yaml"]) == 0
    assert parsed == ["node.yaml", "pod.yaml"]


def test_line_break_in_a_quoted_cell_is_part_of_the_name(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "jobs.csv").write_bytes(f'{HEADER}"a\r\nb",0,1,1,10\n'.encode())
    words = ["--trace", "jobs.csv", "--nodes", "1x1", "--output", "json"]
    assert main(["simulate", *words]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["key"] for job in jobs] == ["default/a\r\nb"]


def test_trace_of_a_file_has_a_bound_on_its_pods(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangsched.simulation.traces.MOST_STREAMED", 10)
    (files / "jobs.csv").write_text(HEADER + "a,0,6,1,10\nb,0,4,1,10\nc,0,1,1,10\n")
    complaint = fails(capsys, "simulate", "--trace", "jobs.csv", "--nodes", "1x1")
    assert (
        complaint
        == "gangsched: jobs.csv: line 4: workers: with it the file has more than 10 pods\n"
    )
