"""The documentation is whole: names, fields, commands and records are where they should be.

That links resolve and that docstrings are well-formed is checked where it is built, with
``sphinx-build -W``.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gangsched
from gangsched.membership import ADMISSION_SPELLINGS, ROLE_SPELLINGS, SPELLINGS
from support.documents import ROOT, run_command

_REFERENCE = ROOT / "docs" / "reference"
_DIRECTIVE = re.compile(
    r"^\.\. (?P<kind>auto\w+|py:\w+):: (?P<name>[\w.]+)\n(?P<options>(?: {3}:.*\n)*)", re.MULTILINE
)
_BLOCK = re.compile(
    r"^<!-- (?P<kind>\w+): (?P<name>\w+) -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def _read(*path: str) -> str:
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def _documented() -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a reference page documents."""
    for page in sorted(_REFERENCE.glob("*.md")):
        for found in _DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
            options = dict(re.findall(r":([\w-]+):(?: (.*))?", found["options"]))
            if found["kind"] == "automodule":
                yield found["name"], ""
                module = importlib.import_module(found["name"])
                left_out = re.split(r",\s*", options.get("exclude-members", ""))
                if "no-members" not in options:
                    for name in getattr(module, "__all__", ()):
                        if name not in left_out:
                            yield found["name"], name
            elif found["kind"].startswith("py:"):
                yield options["module"], found["name"]
            else:
                module_name, _dot, name = found["name"].rpartition(".")
                yield module_name, name


_NOT_PUBLIC = tuple(f"gangsched.{each}" for each in ("core", "forking", "primitives", "values"))
"""What is public of these is imported from ``gangsched``."""


def _public_modules() -> Iterator[ModuleType]:
    """Yield each module that a user may import from; of a package, the package."""
    yield gangsched
    for info in pkgutil.iter_modules(gangsched.__path__, "gangsched."):
        if "._" not in info.name and info.name not in _NOT_PUBLIC:
            module = importlib.import_module(info.name)
            if hasattr(module, "__all__"):
                yield module
            elif info.ispkg:
                for inner in pkgutil.iter_modules(module.__path__, info.name + "."):
                    if "._" not in inner.name:
                        yield importlib.import_module(inner.name)


def test_every_public_name_is_on_a_reference_page() -> None:
    documented = [
        getattr(importlib.import_module(module), name) if name else importlib.import_module(module)
        for module, name in _documented()
    ]
    missing = [
        f"{module.__name__}.{name}"
        for module in _public_modules()
        for name in module.__all__
        if not name.startswith("__")
        and not any(getattr(module, name) is known for known in documented)
    ]

    assert missing == []


def _undocumented(module: ModuleType) -> Iterator[str]:
    """Yield what is public of the public classes of a module, and says nothing of itself."""
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.isclass(value):
            continue
        for member, inner in vars(value).items():
            said = inspect.isroutine(inner) or isinstance(inner, property | classmethod)
            if said and not member.startswith("_") and not inspect.getdoc(getattr(value, member)):
                yield f"{module.__name__}.{name}.{member}"


@pytest.mark.parametrize("module", tuple(_public_modules()), ids=lambda module: module.__name__)
def test_every_public_method_says_what_it_does(module: ModuleType) -> None:
    assert list(_undocumented(module)) == []


@pytest.mark.parametrize("module", tuple(_public_modules()), ids=lambda module: module.__name__)
def test_name_that_is_on_no_page_is_found(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class New:
        def silent(self) -> None: ...

    monkeypatch.setattr(module, "New", New, raising=False)
    monkeypatch.setattr(module, "__all__", [*module.__all__, "New"])

    assert list(_undocumented(module)) == [f"{module.__name__}.New.silent"]
    if not _is_documented_whole(module):
        with pytest.raises(AssertionError, match="New"):
            test_every_public_name_is_on_a_reference_page()


def _is_documented_whole(module: ModuleType) -> bool:
    """Say whether a page documents whatever a module lists."""
    return any(name == "New" for where, name in _documented() if where == module.__name__)


def test_no_name_is_documented_twice() -> None:
    names = list(_documented())

    assert sorted(set(names)) == sorted(names)


def test_every_spelling_of_a_group_on_a_page_is_read() -> None:
    known = {spelling.name for spelling in (*SPELLINGS, *ADMISSION_SPELLINGS, *ROLE_SPELLINGS)}
    known |= {spelling.minimum for spelling in SPELLINGS if spelling.minimum}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for found in re.findall(r'"(pod-group[\w.]*/[\w-]+)"', page.read_text(encoding="utf-8")):
            assert found in known, page


def test_readme_has_the_two_commands_and_no_other() -> None:
    text = _read("README.md")
    commands = {b["name"]: b["text"] for b in _BLOCK.finditer(text) if b["kind"] == "command"}

    assert list(commands) == ["demo", "test"]
    assert len(re.findall(r"^```(?:sh|bash|shell|console)$", text, re.MULTILINE)) == 2
    for command in commands.values():
        assert command.count("\n") == 1, "a command is one line"
        assert command.startswith("python3 -m venv .venv && "), "a command needs nothing before it"


def test_output_in_the_readme_is_that_of_the_demonstration() -> None:
    pytest.importorskip("yaml")
    pytest.importorskip("rich")
    (shown,) = (b["text"] for b in _BLOCK.finditer(_read("README.md")) if b["kind"] == "output")
    code, printed = run_command("demo")

    assert code == 0
    assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


@pytest.mark.parametrize("record", _RECORDS, ids=lambda record: record.stem)
def test_decision_record_says_context_decision_alternatives_consequences(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)

    assert headings == ["Context", "Decision", "Alternatives", "Consequences"]
    number, _colon, title = text.splitlines()[0].removeprefix("# ").partition(": ")
    assert number == record.stem[:4]
    assert f"| {number} | [{title}]({record.name}) |" in _read("docs", "decisions", "index.md")


def test_decision_records_are_numbered_one_after_the_other() -> None:
    numbers = [int(record.stem[:4]) for record in _RECORDS]

    assert numbers == list(range(1, len(numbers) + 1))


def test_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (.*)$", _read("CHANGELOG.md"), re.MULTILINE)

    assert headings[0] == gangsched.__version__


def _fields(heading: str) -> list[str]:
    """Return the fields of the first table below a heading of the report's page."""
    text = _read("docs", "reference", "report-schema.md")
    below = text.partition(f"\n{heading}\n")[2]
    table = below.partition("|---")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def _flat(value: dict[str, Any], prefix: str, inner: str) -> list[str]:
    return [*value, *(f"{prefix}.{name}" for name in value[inner])]


def test_json_report_has_the_fields_that_its_page_gives(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job,submit_s,workers,gpus_per_worker,duration_s\na,0,3,1,9\n")
    words = ("simulate", "--trace", str(trace), "--nodes", "1x2", "--policy", "pod_by_pod")
    code, printed = run_command(*words, "--output", "json")
    given = json.loads(printed)
    summary = given["summary"]
    snapshot = given["snapshots"][0]
    pods = [f"pods[].{name}" for name in snapshot["pods"][0]]

    assert code == 0
    assert given["schema"] in _read("docs", "reference", "report-schema.md")
    assert list(given) == _fields("## The report")
    assert list(given["settings"]) == _fields("## `settings`")
    assert [*snapshot, *pods] == _fields("## `snapshots[]`")
    assert list(given["events"][0]) == _fields("## `events[]`")
    assert list(given["jobs"][0]) == _fields("## `jobs[]`")
    assert list(given["pending"][0]) == _fields("## `pending[]`")
    assert list(given["inputs"][0]) == _fields("## `inputs[]`")
    assert list(given["timeline"][0]) == _fields("## `timeline[]`")
    assert list(summary) == _fields("## `summary`")
    counts = _fields("### `gangs`, `singles` and `jobs`")
    for kind in ("gangs", "singles", "jobs"):
        assert _flat(summary[kind], "waiting", "waiting") == counts
    assert list(summary["deadlock"]) == _fields("### `deadlock`")

    code, printed = run_command(*words[:-1], "gang", "--levels", "rack", "--output", "json")
    given = json.loads(printed)
    assert list(given["timeline"][0]["levels"][0]) == _fields("### `levels[]`")
    assert list(given["summary"]["levels"]["rack"]) == _fields("### `summary.levels`")

    config = tmp_path / "config.yaml"
    config.write_text("quotas: [{name: q, namespaces: [default], nominal: {nvidia.com/gpu: 2}}]\n")
    code, printed = run_command(*words[:5], "--config", str(config), "--output", "json")
    given = json.loads(printed)
    assert list(given["timeline"][0]["queues"][0]) == _fields("### `queues[]`")
    assert list(given["summary"]["queues"]["q"]) == _fields("### `summary.queues`")


def test_page_about_a_host_names_the_version_that_is_tested() -> None:
    groups = tomllib.loads(_read("pyproject.toml"))["dependency-groups"]
    pages = sorted((ROOT / "docs" / "how-to").glob("host-*.md"))
    needed = {
        name: text
        for text in (page.read_text(encoding="utf-8") for page in pages)
        for name in re.findall(r"^<!-- needs: (\S+) -->$", text, re.MULTILINE)
    }

    assert sorted(needed) == [pin.partition("==")[0] for pin in groups["hosts"]]
    for pin in groups["hosts"]:
        assert f"pip install {pin}\n" in needed[pin.partition("==")[0]]


_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def test_shown_output_of_an_example_is_compared() -> None:
    """Plain text after a Python block is not run; the lines after ``>>>`` are."""
    shown = re.compile(r"^```python\n(?:(?!```).*\n)*```\n\n```text$", re.MULTILINE)

    assert shown.search("```python\nprint(1)\n```\n\n```text\n1\n```\n")
    assert [page.name for page in _PAGES if shown.search(page.read_text(encoding="utf-8"))] == []


def test_reader_sees_the_name_of_a_file_that_a_page_writes() -> None:
    hidden = [
        f"{page.name}: {found['name']}"
        for page in _PAGES
        for found in re.finditer(
            r"(?P<before>.*)\n\n<!-- file: (?P<name>\S+) -->", page.read_text(encoding="utf-8")
        )
        if f"`{found['name']}`" not in found["before"]
    ]

    assert hidden == []
