"""The steps of the Dockerfile that install the library, run on this machine, and what they make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import Client, ControlPlane
from support.control_plane.processes import Process, free_ports
from support.documents import ROOT

pytestmark = pytest.mark.once("makes no scheduler")

DOCKERFILE = ROOT / "Dockerfile"


def installing() -> str:
    """Return the command of the step that is marked as the one that runs pip."""
    found = re.search(
        r"^# pip-steps:.*\nRUN ((?:.*\\\n)*.*)\n", DOCKERFILE.read_text(), re.MULTILINE
    )
    assert found is not None
    return found[1].replace("\\\n", " ")


@pytest.fixture(scope="module")
def image(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Do what the first stage does, in a folder of its own; yield the virtual environment.

    The control plane is asked for because it is the switch of tests that take long.
    """
    folder = tmp_path_factory.mktemp("image")
    source, home = folder / "source", folder / "gangsched"
    source.mkdir()
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.c"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = installing()
    assert command.count("/opt/gangsched") == 5
    command = command.replace("/opt/gangsched", str(home))
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("GANGSCHED", "PYTHON"))}
    ran = subprocess.run(
        command,
        shell=True,
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    shutil.rmtree(source)
    yield home
    shutil.rmtree(folder)


def test_image_has_the_extension_and_no_installer(image: Path) -> None:
    code = "import gangsched; print(gangsched.heap_implementation)"
    ran = subprocess.run(
        [image / "bin/python", "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "cython"
    assert not list(image.glob("lib/python*/site-packages/pip"))


def test_image_holds_less_than_200_megabytes(image: Path) -> None:
    size = sum(file.stat().st_size for file in image.rglob("*") if file.is_file())
    print(f"the virtual environment of the image: {size / 1e6:.0f} MB")
    assert size < 200e6


def test_entry_point_schedules(image: Path, control_plane: ControlPlane, tmp_path: Path) -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    program, *arguments = json.loads(entry.replace("/opt/gangsched", str(image)))
    (port,) = free_ports(1)
    kubeconfig = control_plane.kubeconfig("image")
    ran = ["run", f"--kubeconfig={kubeconfig}", f"--serve=127.0.0.1:{port}", "--no-leader-elect"]
    process = Process(Path(program), [*arguments, *ran], tmp_path / "log")
    with Client(f"http://127.0.0.1:{port}") as pages:
        process.wait_until(lambda: pages.raw("GET", "/readyz")[0] == 200)
        assert b"gangsched_groups" in pages.raw("GET", "/metrics")[1]
    assert process.stop(timeout=20.0) == 0, process.log_tail()
