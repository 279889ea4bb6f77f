"""The decision log as text: every value there and back, and every malformed line refused."""

from __future__ import annotations

import inspect
import json
from typing import Any, get_args

import pytest
from attrs import fields
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Backoff,
    DecisionLogError,
    Effect,
    Event,
    InMemoryCluster,
    InvalidValueError,
    Order,
    PlacementStrategy,
    presets,
)
from gangsched.replay import FORMAT, Call, Header, Recipe, read_log
from gangsched.values.form_table import EFFECTS, EVENTS, NOUNS
from support.values import effects, events

_HEADER = Header().to_line()
_instants = st.floats(allow_nan=False, allow_infinity=False)


def read_back(call: Call) -> Call:
    (found,) = read_log([_HEADER, call.to_line()])
    return found


# There and back -------------------------------------------------------------------------------


@given(events, st.lists(events, max_size=2), st.lists(effects, max_size=3), _instants)
def test_call_with_any_event_and_effects_is_read_back_equal(
    event: Event, shown: list[Event], returned: list[Effect], now: float
) -> None:
    call = Call(
        line=2,
        call="handle",
        now=now,
        events=(event,),
        shown=tuple(shown),
        effects=tuple(returned),
    )
    line = call.to_line()
    assert read_back(call) == call
    assert read_back(call).to_line() == line
    assert line.isascii()
    assert line.splitlines(keepends=True) == [line]


@pytest.mark.parametrize(
    "call",
    [
        Call(line=2, call="advance", now=0.0, effects=()),
        Call(line=2, call="schedule_one", now=1.5, effects=None),
        Call(line=2, call="schedule_one", now=1.5, raised="PluginError: no"),
        Call(line=2, call="rebuild", now=-3, effects=()),
        Call(line=2, call="restart"),
        Call(line=2, call="shown"),
    ],
    ids=lambda call: f"{call.call}-{call.raised is None}",
)
def test_every_kind_of_line_is_read_back_equal(call: Call) -> None:
    assert read_back(call) == call


def test_every_event_and_effect_is_in_the_table_with_every_field() -> None:
    assert {record.kind for record in EVENTS} == set(get_args(Event))
    assert {record.kind for record in EFFECTS} == set(get_args(Effect))
    for record in (*NOUNS, *EVENTS, *EFFECTS):
        assert {field.name for field in fields(record.kind)} == record.forms.keys(), record.kind


def test_field_with_its_default_is_left_out() -> None:
    line = '{"call":"handle","now":0,"event":{"kind":"PodAdded","pod":{"uid":"u","name":"p"}},'
    (call,) = read_log([_HEADER, line + '"effects":[]}'])
    assert call.to_line() == line + '"effects":[]}\n'


def test_log_is_read_lazily() -> None:
    calls = iter(read_log([_HEADER, Call(call="restart").to_line(), "nonsense"]))
    assert next(calls).call == "restart"
    with pytest.raises(DecisionLogError, match="line 3: expected a JSON object, got nonsense"):
        next(calls)


# The header -----------------------------------------------------------------------------------


def test_header_has_the_recipe_and_the_plain_data_of_the_writer() -> None:
    header = Header(recipe=Recipe("gang", placement=PlacementStrategy.PACK), about={"seed": 3})
    read = read_log([header.to_line()]).header
    assert read == header
    assert json.loads(header.to_line())["format"] == FORMAT
    for wrong in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(InvalidValueError, match="about must be an object of plain JSON data"):
            Header(about=wrong).to_line()


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe("coscheduling", permit_timeout=3, order=Order.CREATION, backoff=Backoff(2, 4)),
        Recipe(
            "gang",
            search_budget=7,
            placement="spread",
            backfill=Backfill(AnnotatedRunTimes("example.com/seconds"), least_members=8),
        ),
        Recipe("pod_by_pod"),
    ],
    ids=lambda recipe: recipe.preset,
)
def test_recipe_is_read_back_and_makes_its_scheduler(recipe: Recipe) -> None:
    back = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert back == recipe
    assert hash(back) == hash(recipe)
    assert repr(back) == repr(recipe)
    assert back(InMemoryCluster()).schedule_one(now=0.0) is None
    assert back != Recipe("coscheduling")


def test_recipe_has_every_argument_of_its_preset_with_its_default() -> None:
    for name in ("coscheduling", "gang", "pod_by_pod"):
        takes = set(inspect.signature(getattr(presets, name)).parameters)
        # a plugin cannot be written into a log
        assert takes - {"cluster", "plugins", "weights"} == Recipe(name).arguments.keys()
    assert Recipe("pod_by_pod").to_json() == {
        "preset": "pod_by_pod",
        "arguments": {"backoff": {"initial": 1.0, "maximum": 10.0}, "preemption": None},
    }


@pytest.mark.parametrize(
    ("preset", "arguments", "field"),
    [
        ("best", {}, "preset"),
        ("pod_by_pod", {"order": Order.CREATION}, "arguments"),
        ("gang", {"order": "alphabetic"}, "order"),
        ("gang", {"search_budget": 1.5}, "search_budget"),
        ("gang", {"backoff": 3}, "backoff"),
        ("coscheduling", {"permit_timeout": "long"}, "permit_timeout"),
    ],
)
def test_malformed_recipe_is_refused_by_field(
    preset: str, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Recipe(preset, **arguments)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("header", "field"),
    [
        *((text, "") for text in (None, "", "[]", "{", "[" * 100_000)),
        ("{}", "format"),
        ('{"format":"gangsched.decisions/2"}', "format"),
        ('{"format":"gangsched.decisions/1"}', "gangsched"),
        ('{"format":"gangsched.decisions/1","gangsched":"0"}', "about"),
        ('{"format":"gangsched.decisions/1","gangsched":"0","about":{},"more":1}', "more"),
    ],
)
def test_malformed_header_is_refused_by_field(header: str | None, field: str) -> None:
    with pytest.raises(DecisionLogError) as refused:
        read_log([] if header is None else [header], file="a.log")
    assert (refused.value.file, refused.value.line, refused.value.field) == ("a.log", 1, field)


@pytest.mark.parametrize(
    ("scheduler", "field"),
    [
        (3, "scheduler"),
        ({"preset": "gang"}, "scheduler"),
        ({"preset": "gang", "arguments": []}, "scheduler.arguments"),
        ({"preset": "best", "arguments": {}}, "scheduler.preset"),
        ({"preset": "gang", "arguments": {"speed": 1}}, "scheduler.arguments"),
        ({"preset": "gang", "arguments": {"placement": "x"}}, "scheduler.arguments.placement"),
        (
            {"preset": "gang", "arguments": {"backoff": {"initial": 0, "maximum": 1}}},
            "scheduler.arguments.backoff.initial",
        ),
    ],
)
def test_malformed_recipe_in_a_header_is_refused_by_field(scheduler: Any, field: str) -> None:
    header = {"format": FORMAT, "gangsched": "0", "scheduler": scheduler, "about": {}}
    with pytest.raises(DecisionLogError) as refused:
        read_log([json.dumps(header)])
    assert refused.value.field == field


# Malformed lines ------------------------------------------------------------------------------

_POD = '{"kind":"PodAdded","pod":{"uid":"u","name":"p"%s}}'
_HANDLE = '{"call":"handle","now":0,"event":%s,"effects":[]}'
_ONE = '{"call":"schedule_one","now":0,"effects":[%s]}'


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("", "", ""),
        ("7", "", "7"),
        ('{"call":"advance","now":NaN,"effects":[]}', "", "NaN"),
        ('{"call":"advance","now":1%s,"effects":[]}' % ("0" * 5000), "", ""),
        ("{}", "call", "None"),
        ('{"call":"sleep"}', "call", "'sleep'"),
        ('{"call":"advance","now":"0","effects":[]}', "now", "'0'"),
        ('{"call":"advance","now":1e999,"effects":[]}', "now", "inf"),
        ('{"call":"advance","now":0}', "effects", ""),
        ('{"call":"advance","now":0,"effects":null}', "effects", "None"),
        ('{"call":"advance","now":0,"effects":[],"raised":"x"}', "effects", ""),
        ('{"call":"advance","now":0,"raised":7}', "raised", "7"),
        ('{"call":"advance","now":0,"effects":[],"event":{}}', "event", ""),
        ('{"call":"restart","now":0}', "now", ""),
        ('{"call":"restart","shown":[]}', "shown", ""),
        ('{"call":"shown","shown":{}}', "shown", "{}"),
        ('{"call":"shown","shown":[7]}', "shown[0]", "7"),
        ('{"call":"handle","now":0,"effects":[]}', "event", "either event or events"),
        (_HANDLE % "null", "event", "None"),
        (_HANDLE % '{"kind":"PodEaten"}', "event.kind", "'PodEaten'"),
        (_HANDLE % '{"kind":"PodAdded"}', "event.pod", "None"),
        (_HANDLE % '{"kind":"PodDeleted","uid":7}', "event.uid", "7"),
        (
            _HANDLE % (_POD % ',"prioriti":1'),
            "event.pod.prioriti",
            "(did you mean priority?), got 1",
        ),
        (_HANDLE % (_POD % ',"priority":1.5'), "event.pod.priority", "1.5"),
        (_HANDLE % (_POD % ',"namespace":"a/b"'), "event.pod.namespace", "'a/b'"),
        (_HANDLE % (_POD % ',"requests":{"cpu":"1"}'), "event.pod.requests.cpu", "'1'"),
        (_HANDLE % (_POD % ',"requests":{"cpu":-1}'), "event.pod.requests.cpu", "'-1m'"),
        (_HANDLE % (_POD % ',"labels":[]'), "event.pod.labels", "[]"),
        (_HANDLE % (_POD % ',"labels":{"a":1}'), "event.pod.labels.a", "1"),
        (_HANDLE % (_POD % ',"owners":["a",2]'), "event.pod.owners[1]", "2"),
        (_HANDLE % (_POD % ',"phase":"Dead"'), "event.pod.phase", "'Dead'"),
        (_HANDLE % (_POD % ',"created_at":"soon"'), "event.pod.created_at", "'soon'"),
        (_HANDLE % (_POD % ',"tolerations":[{}]'), "event.pod.tolerations[0].key", "''"),
        (_ONE % "null", "effects[0]", "None"),
        (_ONE % '{"kind":"PodAdded"}', "effects[0].kind", "'PodAdded'"),
        (_ONE % '{"kind":"Bind","uid":"u","node":"n"}', "effects[0].attempt", "None"),
        (
            _ONE
            % (
                '{"kind":"GroupIncomplete","group":"g","present":1,"min_available":2,'
                '"roles":[["a",1]]}'
            ),
            "effects[0].roles[0]",
            "['a', 1]",
        ),
    ],
)
def test_malformed_line_is_refused_by_number_field_and_value(
    line: str, field: str, value: str
) -> None:
    log = read_log([_HEADER, Call(call="restart").to_line(), line], file="a.log")
    with pytest.raises(DecisionLogError) as refused:
        list(log)
    error = refused.value
    assert (error.file, error.line, error.field) == ("a.log", 3, field)
    assert value in error.problem
    assert len(str(error)) < 400


def test_malformed_effect_is_not_written() -> None:
    wrong: Any = ("bind",)
    with pytest.raises(InvalidValueError, match="kind"):
        Call(call="advance", now=0.0, effects=wrong).to_line()
