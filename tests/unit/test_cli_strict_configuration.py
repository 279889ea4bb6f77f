"""A configuration file is decoded strictly, and what is wrong with it is one readable line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from gangsched.cli import _configuration, main
from gangsched.configuration import read_settings, settings
from gangsched.errors import InvalidValueError
from support.root import ROOT

pytest.importorskip("yaml")
pytestmark = pytest.mark.once("reads files")

SCHEMA: Final = json.loads(
    (ROOT / "charts" / "gangsched" / "values.schema.json").read_text(encoding="utf-8")
)


def checked(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, str]:
    """Return the exit code of ``gangsched run --check``, and what it says without the file."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    code = main(["run", "--check", "--config", str(file)])
    printed = capsys.readouterr()
    return code, (printed.err + printed.out).replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "podMaxBackoffSeconds: 5\npodInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 9\n",
            "line 3, column 1: the key 'podMaxBackoffSeconds' is given twice in one mapping",
        ),
        (
            "leaderElection:\n  leaderElect: true\n  leaderElect: false\n",
            "line 3, column 3: the key 'leaderElect' is given twice in one mapping",
        ),
        (
            "quotas:\n- {name: a, name: b, namespaces: [x], hard: {cpu: 1}}\n",
            "line 2, column 13: the key 'name' is given twice in one mapping",
        ),
        ("a: [\n", "line 2, column 1: did not find expected node content"),
        ("a: b: c\n", "line 1, column 5: mapping values are not allowed in this context"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: but found another document"),
        ("{[a]: 1}\n", "line 1, column 2: found unhashable key"),
    ],
)
def test_text_that_strict_decoding_refuses_is_one_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    code, found = checked(tmp_path, capsys, text)
    assert (code, found) == (2, f"gangsched: FILE: expected YAML: {said}\n")


def test_aliases_and_equal_keys_of_different_mappings_are_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "quotas:\n- {name: a, namespaces: &n [x], hard: {cpu: 1}}\n"
    text += "- {name: b, namespaces: *n, hard: {cpu: 1}}\n"
    assert checked(tmp_path, capsys, text) == (0, "FILE: valid\n")


def test_empty_list_of_namespaces_says_that_one_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "quotas: [{name: a, namespaces: [], hard: {cpu: 1}}]"
    code, said = checked(tmp_path, capsys, text)
    assert code == 2
    assert "quotas[0].namespaces must be a list of at least one non-empty string" in said


def test_transport_that_is_not_installed_is_refused_with_its_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "clientConnection: {transport: httptools}"

    def absent(_name: str) -> None:
        return None

    monkeypatch.setattr(_configuration, "find_spec", absent)
    code, said = checked(tmp_path, capsys, text)
    assert code == 2
    assert said.startswith("gangsched: FILE: clientConnection.transport must be auto or aiohttp")
    assert "gangsched[kubernetes-fast]" in said
    assert checked(tmp_path, capsys, "clientConnection: {transport: auto}")[0] == 0


# The schema of the chart ------------------------------------------------------------------------


def known(path: str) -> set[str]:
    """Return the fields that the reader of the configuration takes at a path."""
    source = Path(str(settings.__file__)).read_text(encoding="utf-8")
    begin, end, name = {
        "": ("def read_settings", "def _quotas", "root"),
        "leaderElection": ("def _leader_election", "def _client", "given"),
        "clientConnection": ("def _client", "def _profile", "given"),
        "quotas": ("def _quotas", "def _leader_election", "each"),
    }[path]
    text = source[source.index(begin) : source.index(end)]
    found = set(re.findall(rf'{name}\.(?:\w+)\("(\w+)"', text))
    return found | set(re.findall(r'^    name = "(\w+)"', text, re.MULTILINE))


def schema(path: str) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA["definitions"]["configuration"]
    for name in filter(None, path.split(".")):
        found = found["properties"][name]
    items: dict[str, Any] = found.get("items", found)
    return items


def test_configuration_of_the_chart_has_its_schema() -> None:
    assert SCHEMA["properties"]["configuration"] == {"$ref": "#/definitions/configuration"}


@pytest.mark.parametrize("path", ["", "leaderElection", "clientConnection", "quotas"])
def test_schema_of_the_chart_has_the_fields_that_are_read_and_no_other(path: str) -> None:
    found = schema(path)
    set_by_the_chart = {"apiVersion", "kind", "profiles"} if not path else set[str]()
    assert set(found["properties"]) == known(path) - set_by_the_chart
    assert len(found["properties"]) >= 3
    assert found["additionalProperties"] is False


@pytest.mark.parametrize(
    "text", ["5s", "1m30s", "500ms", "1h", "2.5s", "1h2m3s4ms", "5", "s", "", "5d"]
)
def test_schema_takes_the_durations_that_are_read(text: str) -> None:
    rule = SCHEMA["definitions"]["duration"]["anyOf"][1]
    taken = len(text) >= rule["minLength"] and bool(re.search(rule["pattern"], text))
    try:
        read_settings({"drainSeconds": text})
        reads = True
    except InvalidValueError:
        reads = False
    assert taken == reads
