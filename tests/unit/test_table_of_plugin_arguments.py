"""The table of arguments in the documentation is what the reader of a configuration asks for."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from gangsched.configuration import read_settings, scheduler
from gangsched.configuration.scheduler import check_settings
from gangsched.presets import coscheduling_profile
from support.page_tables import page_text, tables_of

pytestmark = pytest.mark.once("reads files")

PAGE = "reference/configuration.md"
PLUGINS = scheduler._CONFIGURED


class Recorded(scheduler._Args):
    """Arguments of a plugin; what is asked for is written down as a row of the table."""

    rows: dict[tuple[str, str], tuple[str, str]]

    def _note(self, name: str, kind: str, default: str) -> None:
        self.rows[(self._plugin, name)] = (kind, default)

    def choice(self, name: str, kind: type[Any], default: Any) -> Any:
        assert issubclass(kind, Enum)
        words = [f"`{each.value}`" for each in kind]
        self._note(name, f"{', '.join(words[:-1])} or {words[-1]}", f"`{default.value}`")
        return super().choice(name, kind, default)

    def whole(self, name: str, default: int, *, least: int = 0) -> int:
        self._note(name, f"whole number >= {least}", f"`{default}`")
        return super().whole(name, default, least=least)

    def flag(self, name: str) -> bool:
        self._note(name, "`true` or `false`", "`false`")
        return super().flag(name)

    def seconds(self, name: str, default: float) -> float:
        self._note(name, "number >= 0", f"`{int(default)}`")
        return super().seconds(name, default)

    def strategy(self, name: str) -> Any:
        self._note(name, "[mapping](#scoring-by-resources)", "`{type: LeastAllocated}`")
        return super().strategy(name)

    def constraints(self, name: str) -> Any:
        self._note(name, "list", "`[]`")
        return super().constraints(name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], tuple[str, str]]:
    """What the reader asks for, if each plugin has an entry: by plugin and argument."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    monkeypatch.setattr(Recorded, "rows", found, raising=False)
    monkeypatch.setattr(scheduler, "_Args", Recorded)
    check_settings(settings(*PLUGINS))
    return found


def settings(*plugins: str, **args: object) -> Any:
    entries = [{"name": name, "args": args} for name in plugins]
    return read_settings({"profiles": [{"pluginConfig": entries}]})


def rows() -> list[list[str]]:
    (table,) = tables_of(PAGE, "## Arguments of plugins")
    return table


def test_table_has_every_argument_with_its_type_and_its_default(
    asked: dict[tuple[str, str], tuple[str, str]],
) -> None:
    shown = {
        (plugin.strip("`"), argument.strip("`")): (kind, default)
        for plugin, argument, kind, _unit, default, _meaning in rows()
    }
    assert shown == asked
    assert {plugin for plugin, _argument in shown} == set(PLUGINS)


def test_every_number_has_a_unit_and_every_argument_a_meaning() -> None:
    for plugin, argument, kind, unit, _default, meaning in rows():
        assert bool(unit) == ("number" in kind), (plugin, argument)
        assert meaning, (plugin, argument)


def test_method_of_arguments_that_is_not_in_the_table_is_noticed() -> None:
    """A new kind of argument needs a row, so it needs a method here."""
    ours = {name for name in vars(scheduler._Args) if not name.startswith("_")}
    assert ours - {"path", "close"} == {name for name in vars(Recorded) if name[0] != "_"} - {
        "rows"
    }


def test_plugins_that_are_named_below_the_table_are_the_defaults_and_the_others() -> None:
    paragraph = page_text(PAGE).partition("These can be disabled by name")[2].partition("\n## ")[0]
    default, _, enabled = paragraph.partition("These run only if they are enabled:")
    names: dict[str, bool] = {}
    for plugin in coscheduling_profile().plugins:
        named: Any = plugin
        names[named.name] = hasattr(plugin, "score")
    for name, scores in names.items():
        if name in ("Coscheduling", "DefaultBinder"):
            continue
        assert f"`{name}`" in default, name
        assert (f"`{name}` (scores)" in default.replace("\n", " ")) == scores, name
    assert all(f"`{name}`" in enabled for name in scheduler._OTHERS)
