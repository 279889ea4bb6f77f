"""What is released is pinned, and is built from one version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gangsched
from support.documents import ROOT

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_action_is_pinned_to_a_commit() -> None:
    used = re.findall(r"uses: *(\S+)", WORKFLOW)

    assert used
    assert [name for name in used if not re.search(r"@[0-9a-f]{40}$", name)] == []


def test_only_the_job_that_publishes_may_ask_for_an_identity_and_no_job_has_a_secret() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(WORKFLOW)

    assert workflow["permissions"] == {"contents": "read"}
    assert {name: job.get("permissions") for name, job in workflow["jobs"].items()} == {
        "check": None,
        "pure": None,
        "wheels": None,
        "publish": {"id-token": "write"},
    }
    assert set(workflow["jobs"]["publish"]["needs"]) == workflow["jobs"].keys() - {"publish"}
    assert "secrets." not in WORKFLOW
    assert "://" not in WORKFLOW


def test_the_version_is_written_in_one_file() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "gangsched._version.__version__"
    }
    others = ("pyproject.toml", "setup.py", "docs/conf.py", ".github/workflows/release.yml")
    files = [*Path(gangsched.__file__).parent.rglob("*.py"), *(ROOT / name for name in others)]
    quoted = re.compile(rf"[\"']v?{re.escape(gangsched.__version__)}[\"']")
    written = [path.name for path in files if quoted.search(path.read_text(encoding="utf-8"))]
    assert written == ["_version.py"]
    assert gangsched.__version__ not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_checks_run_the_commands_of_the_readme_as_they_are_written() -> None:
    for name in ("test", "demo"):
        assert f'command="$(readme_command {name})"' in _RUN
    assert _RUN.count('bash -c "$command"') == 2
