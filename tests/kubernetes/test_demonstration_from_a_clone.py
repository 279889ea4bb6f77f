"""The demonstration by its one command from a fresh clone, and what is left behind: nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from support.control_plane.fixtures import need_control_plane
from support.patience import HANG, STEPS, until
from support.root import ROOT

pytestmark = pytest.mark.once("the gangs are those of job controllers")

_PARTS: Final = ("src", "tests", "charts", "examples", "pyproject.toml", "README.md")
_MADE: Final = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.egg-info")
_NAMES: Final = ("kube-controller-manager", "kwok", "kubectl", "helm", "training-operator.v1")


class Clone:
    """A copy of what a clone has, and what its command needs of the machine.

    Attributes:
        tree: The copy.
        scratch: The folder of temporary files of everything that is started.
    """

    def __init__(self, folder: Path) -> None:
        self.tree: Final = folder / "clone"
        self.scratch: Final = folder / "scratch"
        self.scratch.mkdir()
        self.tree.mkdir()
        for part in _PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, self.tree / part, ignore=_MADE)
            else:
                shutil.copy(ROOT / part, self.tree / part)
        self._log = folder / "log.txt"
        self._files = self.files()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run the command in a session of its own, as a terminal does."""
        environment = {**os.environ, "TMPDIR": str(self.scratch)}
        for name in ("PYTHONPATH", "KUBECONFIG", "VIRTUAL_ENV"):
            environment.pop(name, None)
        with self._log.open("wb") as output:
            return subprocess.Popen(
                ["bash", "examples/on-a-cluster/run", *arguments],
                cwd=self.tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # a command in the background of a shell ignores the signal, and so would its own
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def files(self) -> set[Path]:
        return {file.relative_to(self.tree) for file in self.tree.rglob("*")}

    def processes(self) -> list[str]:
        """Return the command lines of processes that were started with the folder; Linux only."""
        found: list[str] = []
        mark = f"TMPDIR={self.scratch}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
                if any(each.startswith(mark) for each in variables):
                    found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue  # it has ended, or is another user's
        return found

    def assert_nothing_is_left(self) -> None:
        until(lambda: not self.processes(), lambda: self.processes(), step=0.1)
        assert list(self.scratch.iterdir()) == []
        assert self.files() - self._files == set()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    need_control_plane(*_NAMES)
    return Clone(tmp_path)


def test_one_command_shows_the_job_and_leaves_nothing(clone: Clone) -> None:
    process = clone.start("job")
    assert process.wait(STEPS) == 0, clone.said
    pending, _, running = clone.said.partition("gpu-node-2, gpu-node-3")
    assert pending.count("Pending ") == 4
    assert running.count("Running ") >= 4
    assert "$ helm uninstall gangsched" in clone.said
    clone.assert_nothing_is_left()


def test_command_that_is_interrupted_leaves_nothing(clone: Clone) -> None:
    process = clone.start("job")

    def is_running() -> bool:
        assert process.poll() is None, clone.said
        return "the scheduler runs" in clone.said

    until(is_running, lambda: clone.said, step=0.1)
    assert len(clone.processes()) > 4
    process.send_signal(signal.SIGINT)  # Ctrl-C
    assert process.wait(HANG) == 128 + signal.SIGINT
    clone.assert_nothing_is_left()
