"""The half of the tutorial for operators that needs a cluster is run on one, block by block.

The other half is run with the documentation. A block is a shell script below ``<!-- cluster: NAME
-->``; the block of text after it is what its commands print, where ``...`` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.control_plane import ControlPlane, programs
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.control_plane.training_operator import kwok_stages
from support.documents import ROOT
from support.patience import HANG, saw, until

pytestmark = pytest.mark.once("the scheduler is a process with a configuration of its own")

_PAGE: Final = (ROOT / "docs" / "tutorial" / "on-a-cluster.md").read_text(encoding="utf-8")
_BLOCK: Final = re.compile(
    r"^<!-- cluster: (?P<name>\w+) -->\n```sh\n(?P<commands>.*?)^```\n"
    r"(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_FILE: Final = re.compile(
    r"^<!-- file: (?P<name>\S+) -->\n```yaml\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_COMMANDS: Final = {"gangsched": "gangsched.cli", "kubectl-gang": "gangsched.cli._kubectl"}
_TIMEOUT: Final = "--timeout=60s"
"""What a reader waits at most; a slow machine may need longer."""
_SERVED: Final = "127.0.0.1:10259"


def _tools(folder: Path) -> Path:
    """Return a folder with the programs that the page names."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "kubectl").symlink_to(programs(["kubectl"])["kubectl"])
    for name, module in _COMMANDS.items():
        code = f"import sys; from {module} import main; sys.exit(main())"
        program = tools / name
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
        program.chmod(0o755)
    return tools


@contextmanager
def _running(command: str, folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Run a command until the end, once it says that it is ready; yields its log."""
    (port,) = free_ports(1)
    served = f"127.0.0.1:{port}"
    assert _SERVED in command
    words = command.replace(_SERVED, served).split()
    log = folder / "scheduler.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        _until_ready(f"http://{served}/readyz", process, log)
        yield log
    finally:
        process.terminate()
        process.wait(HANG)


def _until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=HANG):
                return True
        except OSError:
            return False

    until(is_ready, log.read_text, step=0.1)


def _prints(commands: list[str], shown: str, folder: Path, environment: dict[str, str]) -> None:
    """Run commands; those that only read are repeated until all print what is shown."""
    printed: dict[str, str] = {}

    def are_as_shown() -> bool:
        for command in commands:
            reads = command.startswith(("kubectl get", "kubectl gang"))
            if reads or command not in printed:
                ran = subprocess.run(
                    ["bash", "-c", command.replace(_TIMEOUT, f"--timeout={HANG:g}s")],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                )
                assert reads or ran.returncode == 0, f"{command}: {ran.stdout}"
                printed[command] = ran.stdout
        together = "".join(printed[command] for command in commands)
        saw(f"expected:\n{shown}\nprinted:\n{together}")
        # columns are wider for an age of minutes
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        return not shown or doctest.OutputChecker().check_output(shown, together, options)

    until(are_as_shown, step=0.2)


def test_tutorial_for_operators_does_what_it_says(tmp_path: Path) -> None:
    need_control_plane("kube-controller-manager", "kwok", "kubectl")
    for found in _FILE.finditer(_PAGE):
        (tmp_path / found["name"]).write_text(found["text"], encoding="utf-8")
    blocks = {found["name"]: found for found in _BLOCK.finditer(_PAGE)}
    start = blocks.pop("start")["commands"].strip()
    with ControlPlane(tmp_path / "control-plane") as plane:
        plane.start_controller_manager()
        plane.start_kwok(kwok_stages(plane))
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(_tools(tmp_path)), os.environ.get("PATH", ""))),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
            "KUBECONFIG": str(plane.kubeconfig("person")),
            "COLUMNS": "200",
        }
        _prints(["kubectl apply -f nodes.yaml"], "", tmp_path, environment)
        with _running(start, tmp_path, environment):
            for block in blocks.values():
                lines = block["commands"].splitlines()
                _prints(lines, block["shown"] or "", tmp_path, environment)


def test_every_block_for_a_shell_is_run() -> None:
    assert [found["name"] for found in _BLOCK.finditer(_PAGE)] == [
        *("start", "waits", "why", "grow", "starts", "clean")
    ]
    assert _PAGE.count("```sh\n") == 6
