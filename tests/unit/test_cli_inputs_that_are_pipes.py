"""Inputs that can be read only once: a process substitution of a shell, and standard input."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path

import pytest

from gangsched.simulation import FaultPlan
from support.documents import fails, run_command

pytest.importorskip("rich")

TRACE = "job,submit_s,workers,gpus_per_worker,duration_s\na,0,2,1,10\nb,1,3,1,10\n"
NODES = "node,cpu,memory,gpus\nn0,4,8Gi,4\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pipe(folder: Path) -> Path:
    """A named pipe, into which a trace is written once."""
    name = folder / "pipe"
    os.mkfifo(name)
    threading.Thread(target=name.write_text, args=(TRACE,), daemon=True).start()
    return name


def test_trace_of_a_pipe_runs_as_that_of_a_file(pipe: Path, folder: Path) -> None:
    (folder / "t.csv").write_text(TRACE)
    of_file = run_command("simulate", "--trace", "t.csv", "--nodes", "1x4")
    of_pipe = run_command("simulate", "--trace", str(pipe), "--nodes", "1x4")
    assert of_pipe == of_file
    assert of_file[0] == 0


def test_each_policy_of_compare_gets_the_trace_of_a_pipe(pipe: Path) -> None:
    code, text = run_command("compare", "--trace", str(pipe), "--nodes", "1x4")
    assert code == 0
    assert text.count("2 of 2") == 6


def test_each_policy_of_compare_gets_the_faults_of_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "t.csv").write_text(TRACE)
    plan = json.dumps(FaultPlan.drawn(3).to_json())
    (folder / "faults.json").write_text(plan)
    monkeypatch.setattr("sys.stdin", io.StringIO(plan))
    words = ("compare", "--trace", "t.csv", "--nodes", "1x4", "--output", "json", "--faults")
    code, from_stdin = run_command(*words, "-")
    assert code == 0
    assert from_stdin == run_command(*words, "faults.json")[1]
    runs = json.loads(from_stdin)["runs"]
    assert [run["settings"]["faults"] for run in runs] == 6 * [json.loads(plan)]


def test_nodes_of_a_pipe_are_read(folder: Path) -> None:
    name = folder / "nodes"
    os.mkfifo(name)
    threading.Thread(target=name.write_text, args=(NODES,), daemon=True).start()
    (folder / "t.csv").write_text(TRACE)
    assert run_command("simulate", "--trace", "t.csv", "--nodes", str(name))[0] == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["-", "--trace", "-"], "a manifest and --trace"),
        (["--trace", "-", "--nodes", "-"], "--trace and --nodes"),
        (["--at", "5", "-", "--faults", "-", "--trace", "-"], "--at, --trace and --faults"),
    ],
)
def test_two_inputs_from_standard_input_are_refused(
    words: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TRACE))
    text = fails(capsys, "simulate", *words)
    assert text == f"gangsched: expected one input from standard input, got {named}\n"


@pytest.mark.parametrize("option", ["--trace", "--nodes"])
def test_compressed_file_is_told_from_other_bytes(
    option: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t.csv").write_text(TRACE)
    (folder / "t.gz").write_bytes(gzip.compress(TRACE.encode()))
    (folder / "t.bin").write_bytes(b"\xff" + TRACE.encode())
    words = {"--trace": "t.csv", "--nodes": "1x4"}
    given = [word for pair in {**words, option: "t.gz"}.items() for word in pair]
    text = fails(capsys, "simulate", *given)
    assert "t.gz: expected UTF-8 text, byte 1 is not; the file is compressed: " in text
    given = [word for pair in {**words, option: "t.bin"}.items() for word in pair]
    assert fails(capsys, "simulate", *given).endswith("byte 0 is not\n")


def test_directory_and_absent_file_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.csv: No such file" in fails(capsys, "simulate", "--trace", "absent.csv")
    assert "/: Is a directory" in fails(capsys, "simulate", "--trace", "/", "--nodes", "1x1")


def test_errors_name_options_as_they_are_typed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t.csv").write_text(TRACE)
    words = ("simulate", "--trace", "t.csv", "--nodes", "1x4")
    text = fails(capsys, *words, "--picture", "run.doc")
    assert text.startswith("gangsched: --picture must be a name that ends with .svg")
    text = fails(capsys, *words, "--delete", "5", "default/x")
    assert text.startswith("gangsched: --delete: job must be a job that has arrived by t=5")
