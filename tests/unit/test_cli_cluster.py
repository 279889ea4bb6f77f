"""``gangsched run``: its options, and what it says about bad input."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gangsched.cli import main
from gangsched.kubernetes._logs import JsonFormatter, TextFormatter


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("profiles: [{schedulerName: 3}]", "profiles[0].schedulerName must be a string, got 3"),
        (
            "parallelism: 4",
            "parallelism must be absent, because no setting has this name here, got 4",
        ),
        ("a: [", "expected YAML"),
        ("- 1", "configuration must be a mapping, got [1]"),
    ],
)
def test_malformed_configuration_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert main(["run", "--config", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gangsched: {file}: ")
    assert problem in said


def test_absent_configuration_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", "/does/not/exist"]) == 2
    assert "/does/not/exist: No such file or directory" in capsys.readouterr().err


def test_absent_kubeconfig_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kubernetes_asyncio")
    assert main(["run", "--kubeconfig", "/does/not/exist", "--serve", ""]) == 2
    said = capsys.readouterr().err
    assert said.count("/does/not/exist") == 1
    assert said.endswith("no such file: name a kubeconfig with --kubeconfig or $KUBECONFIG\n")


@pytest.mark.parametrize("address", ["10259", "host:", "host:x", "host:70000"])
def test_malformed_address_is_named(capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert main(["run", "--serve", address]) == 2
    assert f"--serve: expected HOST:PORT, got '{address}'" in capsys.readouterr().err


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("gangsched.x", logging.WARNING, "f", 1, message, (), None)


def test_log_line_is_json_or_text_without_control_characters() -> None:
    entry = json.loads(JsonFormatter().format(record("a\nb")))
    assert (entry["level"], entry["logger"], entry["msg"]) == ("warning", "gangsched.x", "a\nb")
    line = TextFormatter().format(record("a\x1b[2J\nb"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith(r"warning gangsched.x: a\x1b[2J\nb")
