"""A runner of cluster tests that is killed leaves neither its workers nor their programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.control_plane.fixtures import need_control_plane
from support.patience import until
from support.root import ROOT
from support.runs import identity_of, programs_of

pytestmark = pytest.mark.once("makes no scheduler")

INNER = "tests/kubernetes/test_control_plane.py"


def test_programs_of_a_killed_runner_end_with_it(tmp_path: Path) -> None:
    need_control_plane()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1"]
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    log = tmp_path / "log"
    with log.open("wb") as output:
        runner = subprocess.Popen(
            [*command, f"--basetemp={tmp_path / 'inner'}", INNER],
            cwd=ROOT,
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    identity = identity_of(runner.pid)

    def are_started() -> bool:
        assert runner.poll() is None, log.read_text()
        commands = " ".join(programs_of(identity).values())
        return "etcd" in commands and "kube-apiserver" in commands

    until(are_started, lambda: programs_of(identity))
    runner.kill()
    runner.wait()
    until(lambda: not programs_of(identity), lambda: programs_of(identity))
