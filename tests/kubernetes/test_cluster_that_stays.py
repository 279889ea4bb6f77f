"""The cluster that stays until Ctrl-C, as a person uses it, and what is left: nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.cluster_shell import SHELL_PROGRAMS
from support.control_plane.fixtures import need_control_plane
from support.patience import HANG, until
from support.root import ROOT

pytestmark = pytest.mark.once("the scheduler is a process with a configuration of its own")

DEFINITION: Final = "charts/gangsched/crds/podgroups.scheduling.x-k8s.io.yaml"
"""The definition that the page installs on such a cluster; see ``demonstrate-on-kubernetes.md``."""
_PAGE: Final = (ROOT / "docs" / "tutorial" / "on-a-cluster.md").read_text(encoding="utf-8")
_FILES: Final = {
    found["name"]: found["text"]
    for found in re.finditer(
        r"^<!-- file: (?P<name>\S+) -->\n```yaml\n(?P<text>.*?)^```$",
        _PAGE,
        re.MULTILINE | re.DOTALL,
    )
}
_IGNORING: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: ignoring}
spec:
  parallelism: 2
  completions: 2
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget}]
  template:
    spec:
      schedulerName: gangsched
      restartPolicy: Never
      containers: [{name: worker, image: "busybox:1", command: [sleep, "600"]}]
"""
"""A Job whose controller waits for the phase of a pod that is deleted."""


class Shell:
    """A shell beside the cluster, with the two lines that were printed.

    Attributes:
        process: The program that serves the cluster.
        scratch: The folder of its temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self.scratch: Final = folder / "scratch"
        self.scratch.mkdir()
        self._work = folder / "work"
        self._work.mkdir()
        for name, text in _FILES.items():
            (self._work / name).write_text(text, encoding="utf-8")
        self._log = folder / "log.txt"
        with self._log.open("wb") as output:
            self.process: Final = subprocess.Popen(
                [sys.executable, str(ROOT / "examples" / "on-a-cluster" / "run.py"), "shell"],
                env={
                    **os.environ,
                    "TMPDIR": str(self.scratch),
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONPATH": str(ROOT / "src"),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def write(self, name: str, text: str) -> None:
        (self._work / name).write_text(text, encoding="utf-8")

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def exports(self) -> str:
        return "\n".join(line for line in self.said.splitlines() if line.startswith("export "))

    def popen(self, command: str) -> subprocess.Popen[str]:
        environment = dict(os.environ)
        for name in ("PYTHONPATH", "KUBECONFIG"):
            environment.pop(name, None)
        return subprocess.Popen(
            ["bash", "-c", f"{self.exports}\n{command}"],
            cwd=self._work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> str:
        ran = self.popen(command)
        printed, _ = ran.communicate(timeout=HANG)
        return printed

    def processes(self) -> list[str]:
        """Return the command lines of processes with files in the folder; Linux only."""
        found: list[str] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it has ended
            if str(self.scratch) in command:
                found.append(command)
        return found

    @contextmanager
    def scheduling(self) -> Generator[None]:
        scheduler = self.popen("exec gangsched run --no-leader-elect")
        try:
            yield
        finally:
            scheduler.terminate()
            scheduler.communicate(timeout=HANG)


def test_cluster_stays_until_it_is_interrupted_and_leaves_nothing(tmp_path: Path) -> None:
    need_control_plane(*SHELL_PROGRAMS)
    shell = Shell(tmp_path)

    def serves() -> bool:
        assert shell.process.poll() is None, shell.said
        return "Ctrl-C" in shell.said

    def prints(command: str, expected: str, times: int = 1) -> None:
        until(lambda: shell.run(command).count(expected) == times, lambda: shell.run(command))

    try:
        until(serves, lambda: shell.said)
        assert len(shell.processes()) >= 4
        prints("kubectl get crds 2>&1", "No resources found")
        prints("kubectl api-resources -o name", "podgroups.scheduling.k8s.io")
        shell.run(f"kubectl apply -f {ROOT / DEFINITION}")
        prints("kubectl get podgroups.scheduling.x-k8s.io 2>&1", "No resources found")
        shell.run("kubectl apply -f nodes.yaml")
        prints("kubectl get nodes", " Ready ", 2)
        with shell.scheduling():
            shell.run("kubectl apply -f train.yaml")
            prints("kubectl gang get", "does not fit")
            shell.run("kubectl apply -f more.yaml")
            prints("kubectl get pods", " Running ", 4)
            shell.run("kubectl delete job train")
            prints("kubectl get pods", "No resources")
            shell.write("ignoring.yaml", _IGNORING)
            shell.run("kubectl apply -f ignoring.yaml")
            prints("kubectl get pods", " Running ", 2)
            before = shell.run("kubectl get pods -o name").split()
            shell.run("kubectl delete --wait=false " + " ".join(before))
            until(
                lambda: not {*before} & {*shell.run("kubectl get pods -o name").split()},
                lambda: shell.run("kubectl get pods"),
            )
            prints("kubectl get pods", " Running ", 2)
            shell.run("kubectl delete job ignoring")
        prints("kubectl get nodes", " Ready ", 4)
        shell.process.send_signal(signal.SIGINT)  # Ctrl-C
        assert shell.process.wait(HANG) == 128 + signal.SIGINT
    finally:
        shell.process.terminate()
        shell.process.wait(HANG)
    until(lambda: not shell.processes(), shell.processes)
    assert list(shell.scratch.iterdir()) == []
    assert "Traceback" not in shell.said
