"""A recipe has each option of its preset, and each field of the classes that the options are of."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

import pytest
from attrs import NOTHING as REQUIRED
from attrs import fields, has, resolve_types

from gangsched import AnnotatedRunTimes, presets
from gangsched.model import Resources
from gangsched.replay import Recipe
from gangsched.run_times import RunTimes

PRESETS = ("coscheduling", "gang", "pod_by_pod")
# a log can have these run times only
WRITABLE: dict[object, type[Any]] = {RunTimes: AnnotatedRunTimes}


def others(kind: Any, default: object) -> Iterator[tuple[str, Any]]:
    """Yield values that differ from the default: of a class, one for each of its fields."""
    kind = next((each for each in get_args(kind) if NoneType in get_args(kind)), kind)
    kind = WRITABLE.get(kind, kind)
    if has(kind):
        yield from each_field(kind)
    elif get_origin(kind) is Iterable:
        for path, value in others(get_args(kind)[0], None):
            yield f"0.{path}", (value,)
    elif issubclass(get_origin(kind) or kind, tuple):
        yield "", ("x", "y")
    elif issubclass(kind, enum.Enum):
        yield from (("", each) for each in kind if each is not default)
    elif issubclass(kind, bool):
        yield "", not default
    elif issubclass(kind, int | float):
        yield "", 7 if default is REQUIRED else cast("float", default) + 1
    else:
        yield "", {str: "x", Resources: Resources({"cpu": 3})}[kind]


def each_field(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value of an attrs class for each field, which alone differs from its default."""
    made = [each for each in fields(resolve_types(kind)) if each.init]
    needed = {f.name: next(others(f.type, REQUIRED))[1] for f in made if f.default is REQUIRED}
    for each in made:
        for path, value in others(each.type, each.default):
            name = f"{each.name}.{path}" if path else each.name
            yield name, kind(**{**needed, each.name: value})


def options() -> Iterator[tuple[str, str, str, Any]]:
    """Yield preset, argument, path within the argument, and value."""
    for preset in PRESETS:
        kinds = get_type_hints(getattr(presets, preset))
        for name, default in Recipe(preset).arguments.items():
            for path, value in others(kinds[name], default):
                yield preset, name, path, value


OPTIONS = [
    pytest.param(preset, name, path, value, id=f"{preset}-{name}-{path or value}")
    for preset, name, path, value in options()
]


def at(value: Any, path: str) -> Any:
    """Return what is at a dotted path of a value."""
    for part in path.split(".") if path else ():
        value = value[int(part)] if part.isdecimal() else getattr(value, part)
    return value


@pytest.mark.parametrize(("preset", "name", "path", "value"), OPTIONS)
def test_recipe_records_and_reproduces_each_option(
    preset: str, name: str, path: str, value: Any
) -> None:
    assert Recipe(preset).arguments[name] != value
    recipe = Recipe(preset, **{name: value})
    back = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert at(back.arguments[name], path) == at(value, path)
    assert back.arguments[name] == value
    assert back == recipe != Recipe(preset)


def test_options_are_those_of_every_class() -> None:
    paths = {f"{name}.{path}" for _preset, name, path, _value in options()}
    assert paths >= {
        *("preemption.elastic_members", "backfill.run_times.seed", "quotas.0.hard"),
        *("backoff.maximum", "unit.", "permit_timeout."),
    }
