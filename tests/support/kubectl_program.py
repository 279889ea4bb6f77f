"""The real ``kubectl``, with its command ``gang``, as a user of a control plane runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, final

from attrs import frozen

from support.control_plane.programs import programs
from support.documents import ROOT

__all__ = ["Kubectl", "Printed", "plugin_folder"]

_CODE: Final = "import sys; from gangsched.cli._kubectl import main; sys.exit(main())"


def plugin_folder(folder: Path) -> Path:
    """Make a folder for the PATH in which kubectl finds its command ``gang``."""
    folder.mkdir()
    plugin = folder / "kubectl-gang"
    plugin.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{_CODE}' \"$@\"\n", encoding="utf-8")
    plugin.chmod(0o755)
    return folder


@final
@frozen
class Printed:
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str


@final
@frozen
class Kubectl:
    """``kubectl`` with the rights of a kubeconfig.

    Attributes:
        kubeconfig: The kubeconfig.
        plugins: A folder from ``plugin_folder``.
    """

    kubeconfig: Path
    plugins: Path

    def run(self, *arguments: str, stdin: str = "") -> Printed:
        """Run a command."""
        (program,) = programs(["kubectl"]).values()
        source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(self.plugins), os.environ.get("PATH", ""))),
            "KUBECONFIG": str(self.kubeconfig),
            "PYTHONPATH": source,
        }
        ran = subprocess.run(
            [program, *arguments],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        return Printed(ran.returncode, ran.stdout, ran.stderr)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that must succeed; return what it prints."""
        printed = self.run(*arguments, stdin=stdin)
        assert printed.code == 0, f"kubectl {' '.join(arguments)}: {printed.err}"
        return printed.out
