"""Arguments of plugins in a configuration: their table, and ``scoringStrategy``."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    Preemption,
    Reclaim,
)
from gangsched.configuration import make_scheduler, read_settings, scheduler
from gangsched.configuration._arguments import Arguments
from gangsched.configuration.scheduler import check_settings
from gangsched.presets import coscheduling_profile
from support.page_tables import page_text, tables_of

# The table of arguments in the documentation is what the reader of a configuration asks for

PAGE = "reference/configuration.md"
PLUGINS = scheduler._CONFIGURED


class Recorded(Arguments):
    """Arguments of a plugin; what is asked for is written down as a row of the table."""

    rows: dict[tuple[str, str], tuple[str, str]]

    def _note(self, name: str, kind: str, default: str) -> None:
        self.rows[(self._plugin, name)] = (kind, default)

    def choice(self, name: str, kind: type[Any], default: Any) -> Any:
        assert issubclass(kind, Enum)
        words = [f"`{each.value}`" for each in kind]
        shown = "" if default is None else f"`{default.value}`"
        self._note(name, f"{', '.join(words[:-1])} or {words[-1]}", shown)
        return super().choice(name, kind, default)

    def whole(self, name: str, default: int, *, least: int = 0) -> int:
        self._note(name, f"whole number >= {least}", f"`{default}`")
        return super().whole(name, default, least=least)

    def flag(self, name: str, default: bool) -> bool:
        self._note(name, "`true` or `false`", f"`{str(default).lower()}`")
        return super().flag(name, default)

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
    monkeypatch.setattr(scheduler, "Arguments", Recorded)
    check_settings(settings(*PLUGINS))
    return found


def settings(*plugins: str, **args: object) -> Any:
    entries = [{"name": name, "args": args} for name in plugins]
    return read_settings({"profiles": [{"pluginConfig": entries}]})


def rows() -> list[list[str]]:
    (table,) = tables_of(PAGE, "## Arguments of plugins")
    return table


@pytest.mark.once("reads files")
def test_table_has_every_argument_with_its_type_and_its_default(
    asked: dict[tuple[str, str], tuple[str, str]],
) -> None:
    shown = {
        (plugin.strip("`"), argument.strip("`")): (kind, default)
        for plugin, argument, kind, _unit, default, _meaning in rows()
    }
    assert shown == asked
    assert {plugin for plugin, _argument in shown} == set(PLUGINS)


@pytest.mark.parametrize(
    ("word", "meant"), [(None, None), *((each.value, each) for each in Reclaim)]
)
def test_choice_without_a_default_may_be_absent(word: str | None, meant: Reclaim | None) -> None:
    profile = settings("DefaultPreemption", reclaim=word).profile
    assert scheduler._preemption(profile) == Preemption(reclaim=meant)
    with pytest.raises(InvalidValueError, match=r"args\.reclaim must be one of Nominal, Fair"):
        check_settings(settings("DefaultPreemption", reclaim="All"))


@pytest.mark.once("reads files")
def test_every_number_has_a_unit_and_every_argument_a_meaning() -> None:
    for plugin, argument, kind, unit, _default, meaning in rows():
        assert bool(unit) == ("number" in kind), (plugin, argument)
        assert meaning, (plugin, argument)


@pytest.mark.once("reads files")
def test_method_of_arguments_that_is_not_in_the_table_is_noticed() -> None:
    """A new kind of argument needs a row, so it needs a method here."""
    ours = {name for name in vars(Arguments) if not name.startswith("_")}
    assert ours - {"path", "close", "options"} == {
        name for name in vars(Recorded) if name[0] != "_"
    } - {"rows"}


@pytest.mark.once("reads files")
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


# ``scoringStrategy`` of ``NodeResourcesFit``: what counts, and the field that is wrong

PATH = "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy"


def with_strategy(strategy: object) -> Any:
    args = {"scoringStrategy": strategy}
    config = [{"name": "NodeResourcesFit", "args": args}]
    config += [{"name": "Coscheduling", "args": {"placement": "score"}}]
    return read_settings({"profiles": [{"pluginConfig": config}]})


def node_of(strategy: object) -> str:
    """Return the node of a pod: on ``cpus`` much cpu is used, and on ``memories`` much memory."""
    cluster = InMemoryCluster()
    scheduler = make_scheduler(with_strategy(strategy), cluster)
    for name, requests in (
        ("cpus", {"cpu": 6, "memory": 1}),
        ("memories", {"cpu": 1, "memory": 6}),
    ):
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 10, "memory": 10})))
        cluster.apply(PodAdded(Pod(name=f"on-{name}", node_name=name, requests=requests)))
    scheduler.rebuild(now=0.0)
    pod = Pod(name="p", requests={"cpu": 1, "memory": 1})
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    (found,) = (effect.node for effect in effects if isinstance(effect, Bind))
    return found


@pytest.mark.once("reads configurations")
@pytest.mark.parametrize(
    ("kind", "heavy", "node"),
    [
        ("MostAllocated", "cpu", "cpus"),
        ("MostAllocated", "memory", "memories"),
        ("LeastAllocated", "cpu", "memories"),
        ("LeastAllocated", "memory", "cpus"),
    ],
)
def test_resource_with_the_larger_weight_decides(kind: str, heavy: str, node: str) -> None:
    resources = [
        {"name": name, **({"weight": 9} if name == heavy else {})} for name in ("cpu", "memory")
    ]
    assert node_of({"type": kind, "resources": resources}) == node


@pytest.mark.once("reads configurations")
def test_resource_that_is_not_named_does_not_count() -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "memory"}]}
    assert node_of(strategy) == "memories"


@pytest.mark.once("reads configurations")
@pytest.mark.parametrize(
    ("strategy", "field", "value"),
    [
        ("MostAllocated", "", "MostAllocated"),
        ([], "", []),
        ({}, ".type", None),
        ({"type": "RequestedToCapacityRatio"}, ".type", "RequestedToCapacityRatio"),
        ({"type": "MostAllocated", "resource": []}, ".resource", []),
        ({"type": "MostAllocated", "shape": 1}, ".shape", 1),
        ({"type": "MostAllocated", "resources": []}, ".resources", []),
        ({"type": "MostAllocated", "resources": None}, ".resources", None),
        ({"type": "MostAllocated", "resources": {"cpu": 1}}, ".resources", {"cpu": 1}),
    ],
)
def test_field_that_is_wrong_is_named(strategy: object, field: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_settings(with_strategy(strategy))
    assert (caught.value.field, caught.value.value) == (f"{PATH}{field}", value)


@pytest.mark.once("reads configurations")
@pytest.mark.parametrize(
    ("entry", "field", "value"),
    [
        ("memory", "", "memory"),
        ({}, ".name", None),
        ({"name": ""}, ".name", ""),
        ({"name": "cpu"}, ".name", "cpu"),
        ({"name": "memory", "weight": 0}, ".weight", 0),
        ({"name": "memory", "weight": 101}, ".weight", 101),
        ({"name": "memory", "weight": "2"}, ".weight", "2"),
        ({"name": "memory", "weight": True}, ".weight", True),
        ({"name": "memory", "wieght": 2}, ".wieght", 2),
    ],
)
def test_entry_of_a_resource_that_is_wrong_is_named(
    entry: object, field: str, value: object
) -> None:
    strategy = {"type": "LeastAllocated", "resources": [{"name": "cpu"}, entry]}
    with pytest.raises(InvalidValueError) as caught:
        check_settings(with_strategy(strategy))
    assert caught.value.field == f"{PATH}.resources[1]{field}"
    assert caught.value.value is value


@pytest.mark.once("reads configurations")
def test_field_that_is_misspelt_is_suggested() -> None:
    with pytest.raises(InvalidValueError, match=r"did you mean resources\?"):
        check_settings(with_strategy({"type": "MostAllocated", "resource": []}))
