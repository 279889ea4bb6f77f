"""What is released is pinned, and is built from one version."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import gangsched
from support.documents import ROOT

CI = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_pushes_and_pull_requests_are_checked_without_a_secret() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(CI)

    # YAML reads the key "on" as true
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": None}
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["check"]["steps"][-1] == {"run": "bash .ci/run"}
    assert "secrets." not in CI
    tested = {*workflow["jobs"]["tests"]["strategy"]["matrix"]["python"], "3.11"}
    classifiers = PROJECT["project"]["classifiers"]
    named = {found[1] for each in classifiers if (found := re.search(r":: (3\.\d+)$", each))}
    assert tested == named


def test_only_a_tag_on_main_is_released() -> None:
    assert 'git merge-base --is-ancestor "$GITHUB_SHA" origin/main' in WORKFLOW
    assert "fetch-depth: 0" in WORKFLOW


def test_uploaded_files_were_installed_and_tested() -> None:
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load(WORKFLOW)["jobs"]["pure"]["steps"]
    runs = [step.get("run", "") for step in steps]
    built = next(n for n, run in enumerate(runs) if "-m build" in run)
    installed = next(n for n, run in enumerate(runs) if "pip install dist/*.tar.gz" in run)
    tested = next(n for n, run in enumerate(runs) if "-m pytest" in run)
    uploaded = next(n for n, step in enumerate(steps) if "upload-artifact" in step.get("uses", ""))
    assert built < installed < tested < uploaded
    assert "SOURCE_DATE_EPOCH" in runs[built]
    command = PROJECT["tool"]["cibuildwheel"]["test-command"]
    files = [word for word in command.split() if word.endswith(".py")]
    assert files
    assert all((ROOT / file).is_file() for file in files), files


def built_with(monkeypatch: pytest.MonkeyPatch, **environment: str) -> dict[str, Any]:
    """Return what ``setup.py`` hands to setuptools."""
    given: dict[str, Any] = {}
    command = SimpleNamespace(sdist=type("sdist", (), {}))
    fake = SimpleNamespace(Extension=lambda *_a, **_n: "heap", setup=given.update, command=command)
    monkeypatch.setitem(sys.modules, "setuptools", cast("Any", fake))
    monkeypatch.setitem(sys.modules, "setuptools.command", cast("Any", command))
    monkeypatch.setitem(sys.modules, "setuptools.command.sdist", cast("Any", command))
    for name in ("GANGSCHED_REPOSITORY", "GANGSCHED_REF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(ROOT)
    fake.setup = lambda **keywords: given.update(keywords)
    runpy.run_path("setup.py")
    return given


def test_readme_of_the_package_index_has_absolute_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = {"GANGSCHED_REPOSITORY": "https://forge.example/o/gangsched", "GANGSCHED_REF": "v1"}
    given = built_with(monkeypatch, **place)
    readme = given["long_description"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", readme)
    assert len(links) > 10
    for image, target in links:
        view = "raw" if image else "blob"
        base = f"https://forge.example/o/gangsched/{view}/v1/"
        assert target.startswith(base)
        assert (ROOT / target.removeprefix(base).partition("#")[0]).exists()
    assert given["project_urls"]["Source"] == place["GANGSCHED_REPOSITORY"]
    assert {"Changelog", "Documentation", "Issues"} < given["project_urls"].keys()
    for name in place:
        assert f"{name}: ${{{{ github." in WORKFLOW
        assert name in PROJECT["tool"]["cibuildwheel"]["linux"]["environment-pass"]


def test_readme_without_a_repository_is_that_of_the_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = built_with(monkeypatch)
    assert given["long_description"] == (ROOT / "README.md").read_text(encoding="utf-8")
    assert given["project_urls"] == {}


def test_sdist_has_everything_that_the_tests_and_the_documentation_need() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    for name in ("tests", "docs", "benchmarks", "CHANGELOG.md", "CONTRIBUTING.md", ".ci/run"):
        assert name in manifest
    assert 'tar -tzf "${sdists[0]}"' in _RUN


@pytest.mark.parametrize("workflow", [WORKFLOW, CI], ids=["release", "ci"])
def test_every_action_is_pinned_to_a_commit(workflow: str) -> None:
    used = re.findall(r"uses: *(\S+)", workflow)

    assert used
    assert [name for name in used if not re.search(r"@[0-9a-f]{40}$", name)] == []


def test_only_the_publishing_job_requests_an_identity_and_no_job_has_a_secret() -> None:
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


def test_version_is_written_in_one_file() -> None:
    assert PROJECT["project"]["dynamic"] == ["version", "readme", "urls"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "gangsched._version.__version__"
    }
    others = ("pyproject.toml", "setup.py", "docs/conf.py", ".github/workflows/release.yml")
    files = [*Path(gangsched.__file__).parent.rglob("*.py"), *(ROOT / name for name in others)]
    quoted = re.compile(rf"[\"']v?{re.escape(gangsched.__version__)}[\"']")
    written = [path.name for path in files if quoted.search(path.read_text(encoding="utf-8"))]
    assert written == ["_version.py"]
    assert gangsched.__version__ not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_checks_run_the_commands_of_the_readme_as_they_are_written() -> None:
    for name in ("test", "demo"):
        assert f'command="$(readme_command {name})"' in _RUN
    assert _RUN.count('bash -c "$command"') == 2
