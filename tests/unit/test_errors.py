"""Every exception: message, attributes, base classes, pickling."""

from __future__ import annotations

import pickle

import pytest

from gangsched import errors
from gangsched.errors import (
    ClusterStateError,
    DecisionLogError,
    GangRejectedError,
    GangschedError,
    HostClosedError,
    InternalError,
    InvalidPodGroupError,
    InvalidValueError,
    ManifestError,
    PluginError,
    ProfileError,
    ReentrantCallError,
    TraceError,
    UnknownPodError,
)

CASES: list[tuple[GangschedError, str, dict[str, object], type[Exception]]] = [
    (
        InvalidValueError("requests.cpu", "-1", "a quantity >= 0"),
        "requests.cpu must be a quantity >= 0, got '-1'",
        {"field": "requests.cpu", "value": "-1", "expected": "a quantity >= 0"},
        ValueError,
    ),
    (
        InvalidPodGroupError("ns/g", "min_available", 0, "an int >= 1"),
        "ns/g: min_available must be an int >= 1, got 0",
        {
            "subject": "ns/g",
            "field": "min_available",
            "value": 0,
            "expected": "an int >= 1",
        },
        InvalidValueError,
    ),
    (
        UnknownPodError("uid-7"),
        "no pod or pod group 'uid-7' is known",
        {"subject": "uid-7"},
        LookupError,
    ),
    (
        ProfileError("queue_sort", "expected exactly one plugin, got none"),
        "queue_sort: expected exactly one plugin, got none",
        {"point": "queue_sort", "problem": "expected exactly one plugin, got none"},
        ValueError,
    ),
    (
        ClusterStateError("ns/p", "is bound to n1 already"),
        "ns/p: is bound to n1 already",
        {"subject": "ns/p", "problem": "is bound to n1 already"},
        GangschedError,
    ),
    (
        PluginError("Quota", "permit", "ns/p", "returned None"),
        "plugin 'Quota' at permit for ns/p: returned None",
        {"plugin": "Quota", "point": "permit", "subject": "ns/p", "problem": "returned None"},
        GangschedError,
    ),
    (
        GangRejectedError("ns/p", "timed out"),
        "ns/p must not start: timed out",
        {"uid": "ns/p", "reason": "timed out"},
        GangschedError,
    ),
    (
        ReentrantCallError("why", "handle"),
        "why was called from inside handle of the same scheduler",
        {"inner": "why", "outer": "handle"},
        GangschedError,
    ),
    (
        InternalError("an entity is in two places"),
        "broken invariant, please report: an entity is in two places",
        {"invariant": "an entity is in two places"},
        GangschedError,
    ),
    (
        HostClosedError("submit", "the host is closed"),
        "submit was refused: the host is closed",
        {"call": "submit", "reason": "the host is closed"},
        RuntimeError,
    ),
    (
        ManifestError("job.yaml", 2, "spec.minMember", "expected a number, got 'x'"),
        "job.yaml: document 2: spec.minMember: expected a number, got 'x'",
        {
            "file": "job.yaml",
            "document": 2,
            "field": "spec.minMember",
            "problem": "expected a number, got 'x'",
        },
        ValueError,
    ),
    (
        ManifestError("job.yaml", 1, "", "expected a mapping, got a list"),
        "job.yaml: document 1: expected a mapping, got a list",
        {"field": ""},
        ValueError,
    ),
    (
        TraceError("pods.csv", 3, "cpu", "expected a quantity, got '?'"),
        "pods.csv: line 3: cpu: expected a quantity, got '?'",
        {"file": "pods.csv", "line": 3, "column": "cpu", "problem": "expected a quantity, got '?'"},
        ValueError,
    ),
    (
        TraceError("pods.csv", 4, "", "has 3 columns, the header has 5"),
        "pods.csv: line 4: has 3 columns, the header has 5",
        {"column": ""},
        ValueError,
    ),
    (
        DecisionLogError("run.log", 3, "event.pod.name", "expected a string, got 7"),
        "run.log: line 3: event.pod.name: expected a string, got 7",
        {
            "file": "run.log",
            "line": 3,
            "field": "event.pod.name",
            "problem": "expected a string, got 7",
        },
        ValueError,
    ),
    (
        DecisionLogError("run.log", 1, "", "expected a header, got nothing"),
        "run.log: line 1: expected a header, got nothing",
        {"field": ""},
        ValueError,
    ),
]
ERRORS = pytest.mark.parametrize(
    ("error", "sentence", "fields", "builtin"),
    CASES,
    ids=[f"{type(case[0]).__name__}-{index}" for index, case in enumerate(CASES)],
)


@ERRORS
def test_message_is_made_from_the_fields(
    error: GangschedError, sentence: str, fields: dict[str, object], builtin: type[Exception]
) -> None:
    assert sentence == str(error)
    assert fields == {name: getattr(error, name) for name in fields}


@ERRORS
def test_error_is_a_builtin_exception_too(
    error: GangschedError, sentence: str, fields: dict[str, object], builtin: type[Exception]
) -> None:
    assert isinstance(error, GangschedError)
    assert isinstance(error, builtin)


@ERRORS
def test_error_survives_pickling(
    error: GangschedError, sentence: str, fields: dict[str, object], builtin: type[Exception]
) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(error) is type(back)
    assert error.args == back.args
    assert vars(error) == vars(back)
    assert sentence == str(back)


def test_every_error_has_a_case() -> None:
    untested = set(errors.__all__) - {type(case[0]).__name__ for case in CASES}
    assert {"GangschedError"} == untested


def test_every_error_derives_from_the_base_class() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), GangschedError), name


def test_documented_attributes_exist() -> None:
    for error, _sentence, _fields, _builtin in CASES:
        for base in type(error).__mro__:
            _, _, attributes = (base.__doc__ or "").partition("Attributes:\n")
            for line in attributes.splitlines():
                name, colon, _ = line.strip().partition(":")
                if colon and name.isidentifier():
                    assert hasattr(error, name), f"{base.__name__}.{name}"
