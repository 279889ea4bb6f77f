"""A recipe has each option of its preset, and each field of the classes that the options are of."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from attrs import fields

from gangsched import InvalidValueError, Quota, presets
from gangsched.replay import Recipe
from support.option_values import others

PRESETS = ("coscheduling", "gang", "pod_by_pod")


def options() -> Iterator[tuple[str, str, str, Any]]:
    """Yield preset, argument, path within the argument, and value."""
    for preset in PRESETS:
        kinds = get_type_hints(getattr(presets, preset))
        for name, default in Recipe(preset).arguments.items():
            for path, value in others(kinds[name], default):
                yield preset, name, path, value


def at(value: Any, path: str) -> Any:
    """Return what is at a dotted path of a value."""
    for part in path.split(".") if path else ():
        value = value[int(part)] if part.isdecimal() else getattr(value, part)
    return value


def shown(path: str, value: Any) -> str:
    """Return the path of an option; of an enumeration the member too, as each is drawn."""
    part = at(value, path)
    return f"{path}-{part.name}" if path and isinstance(part, enum.Enum) else path or str(value)


OPTIONS = [
    pytest.param(preset, name, path, value, id=f"{preset}-{name}-{shown(path, value)}")
    for preset, name, path, value in options()
]


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
        *("quotas.0.parent", "quotas.0.nominal", "quotas.0.weight", "quotas.0.reclaim_from"),
        *("backoff.maximum", "unit.", "permit_timeout.", "history."),
    }


def test_recipe_of_an_earlier_version_has_quotas_without_queues() -> None:
    """Its quotas have three fields; each of these is required."""
    quota = Quota(name="team", namespaces=["a"], hard={"cpu": 4})
    data = Recipe("gang", quotas=[quota]).to_json()
    (written,) = data["arguments"]["quotas"]
    earlier = {name: written[name] for name in ("name", "namespaces", "hard")}
    assert len(written) == len(fields(Quota))
    data["arguments"]["quotas"] = [earlier]
    assert data["arguments"].pop("history", 0) is None
    assert Recipe.from_json(data) == Recipe("gang", quotas=[quota])
    data["arguments"]["quotas"] = [{"name": "team", "namespaces": ["a"]}]
    with pytest.raises(InvalidValueError, match=r"arguments\.quotas\[0\]\.hard"):
        Recipe.from_json(data)
