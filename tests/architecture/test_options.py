"""Each option is known wherever options are listed; an option is one field of one class.

The classes are ``Coscheduling``, ``Preemption`` and ``Backfill``; the other options are arguments
of ``Scheduler``. A recipe, a configuration file, the defaults of the command line, and the line
``preset`` of a scenario are derived from these. What cannot be derived is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from inspect import Parameter, cleandoc, signature
from typing import Any, get_type_hints

import attrs
import pytest

from gangsched import Backfill, Coscheduling, InMemoryCluster, Preemption, Scheduler, presets
from gangsched.cli._options import _OF_PRESETS, POLICY
from gangsched.configuration import scheduler as configured
from gangsched.configuration._arguments import argument_name
from gangsched.replay import Recipe
from support.option_values import others
from support.page_tables import page_text, tables_of

pytestmark = pytest.mark.once("lists options")

PAGE = "reference/configuration.md"
NO_WAIT = "no member waits on permit"
OF_PROGRAMS = "for programs that make a Scheduler themselves"
LACKS: Mapping[str, Mapping[str, str]] = {
    "presets.coscheduling": {
        "placement": "for whole gangs",
        "search_budget": "for whole gangs",
        "membership": OF_PROGRAMS,
        "group_grace": OF_PROGRAMS,
    },
    "presets.gang": {
        "permit_timeout": NO_WAIT,
        "when_blocked": NO_WAIT,
        "reject_percentage": NO_WAIT,
        "unit": "it is the whole gang",
        "membership": OF_PROGRAMS,
        "group_grace": OF_PROGRAMS,
    },
}
"""By preset, the options that it lacks, and why."""

NOT_IN_A_FILE: Mapping[str, tuple[str, ...]] = {
    "Coscheduling": configured._OF_PODS,
    "Backfill": configured._OF_RUN_TIMES,
}
ENTRIES: Mapping[type[Any], str] = {
    Coscheduling: "Coscheduling",
    Preemption: "DefaultPreemption",
    Backfill: "Backfill",
}
"""By class of options, its entry in a configuration file."""


def described(thing: Any, section: str) -> set[str]:
    """Return the names that a section of a docstring explains."""
    text = cleandoc(thing.__doc__ or "").partition(f"{section}:\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^    (\w+): ", text, re.MULTILINE))


def of_scheduler() -> dict[str, Any]:
    """Return the options of ``Scheduler``, with their defaults."""
    every = signature(Scheduler).parameters.items()
    return {name: p.default for name, p in every if p.kind is Parameter.KEYWORD_ONLY}


def made(preset: Any, name: str, value: object) -> object:
    """Return the value of an option in what a preset makes if it is given one."""
    found: dict[str, Any] = {}

    def scheduler(_cluster: object, profile: Any, **given: object) -> None:
        found.update(attrs.asdict(profile.queue_sort, recurse=False), **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presets, "Scheduler", scheduler)
        preset(InMemoryCluster(), **{name: value})
    return found.get(name)


def unknown(entries: Mapping[type[Any], str]) -> Iterator[str]:
    """Say which option is not known in which place."""
    for kind, entry in entries.items():
        names = [each.name for each in attrs.fields(kind)]
        for name in set(names) - described(kind, "Attributes"):
            yield f"option {entry}.{name}: the docstring of its class does not explain it"
        absent = NOT_IN_A_FILE.get(entry, ())
        for name in set(absent) - set(names):
            yield f"option {entry}.{name}: configuration/scheduler.py names it, and it is gone"
        rows = {row[1].strip("`") for row in listed_on_the_page() if row[0] == f"`{entry}`"}
        hints = get_type_hints(kind)
        for name in names:
            if name not in absent and argument_name(name, hints[name]) not in rows:
                yield f"option {entry}.{name}: the table in docs/{PAGE} does not list it"
    policy = next(iter(entries))
    options = {**of_scheduler(), **{each.name: each.default for each in attrs.fields(policy)}}
    for place, lacks in LACKS.items():
        yield from unknown_to_preset(place, options, lacks)
    yield from unknown_on_the_command_line(options)


def listed_on_the_page() -> list[list[str]]:
    (table,) = tables_of(PAGE, "## Arguments of plugins")
    return table


def unknown_to_preset(
    place: str, options: Mapping[str, Any], lacks: Mapping[str, str]
) -> Iterator[str]:
    preset: Any = getattr(presets, place.partition(".")[2])
    takes, hints = signature(preset).parameters, get_type_hints(preset)
    explained, recipe = described(preset, "Args"), Recipe(preset.__name__)
    for name in set(lacks) - options.keys():
        yield f"option {name}: LACKS names it for {place}, and it is gone"
    for name, default in options.items():
        if name not in takes:
            if name not in lacks:
                yield f"option {name}: {place} has no argument for it"
            continue
        if takes[name].default != default:
            yield f"option {name}: {place} has another default than {default!r}"
        if name not in explained:
            yield f"option {name}: the docstring of {place} does not explain it"
        if name not in recipe.arguments:
            yield f"option {name}: a recipe does not have it for {place}"
        _path, value = next(others(hints[name], default))
        if made(preset, name, value) != value:
            yield f"option {name}: {place} does not pass it on"


def unknown_on_the_command_line(options: Mapping[str, Any]) -> Iterator[str]:
    """Say which setting of the command line is no option, or is not on its page."""
    page = page_text("reference/policies.md")
    for name in (*POLICY, "preempt"):
        if f"`--{name.replace('_', '-')}" not in page:
            yield f"option {name} of the command line: docs/reference/policies.md lacks it"
    for name in _OF_PRESETS:
        if name not in options:
            yield f"option {name} of the command line: no preset has it"
        default = options.get(name)
        for each in default.__class__ if isinstance(default, Enum) else ():
            if f"`{each.value}`" not in page and f" {each.value}`" not in page:
                yield f"option {name} of the command line: the page lacks {each.value}"


def test_each_option_is_known_in_every_place() -> None:
    assert sorted(unknown(ENTRIES)) == []


def test_option_that_a_place_does_not_know_is_named() -> None:
    more = attrs.make_class("More", {"unheard_of": attrs.field(default=3, type=int)})
    assert {
        "option Coscheduling.unheard_of: the docstring of its class does not explain it",
        f"option Coscheduling.unheard_of: the table in docs/{PAGE} does not list it",
        "option unheard_of: presets.coscheduling has no argument for it",
        "option unheard_of: presets.gang has no argument for it",
    } <= set(unknown({more: "Coscheduling"}))
