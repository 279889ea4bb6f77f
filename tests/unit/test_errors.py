"""Every exception: message, attributes, base classes, pickling."""

from __future__ import annotations

import inspect
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

CASES: list[tuple[GangschedError, str, type[Exception]]] = [
    (
        InvalidValueError("requests.cpu", "-1", "a quantity >= 0"),
        "requests.cpu must be a quantity >= 0, got '-1'",
        ValueError,
    ),
    (
        InvalidPodGroupError("ns/g", "min_available", 0, "an int >= 1"),
        "ns/g: min_available must be an int >= 1, got 0",
        InvalidValueError,
    ),
    (UnknownPodError("uid-7"), "no pod or pod group 'uid-7' is known", LookupError),
    (ProfileError("queue_sort", "got none"), "queue_sort: got none", ValueError),
    (ClusterStateError("ns/p", "is bound already"), "ns/p: is bound already", GangschedError),
    (
        PluginError("Quota", "permit", "ns/p", "returned None"),
        "plugin 'Quota' at permit for ns/p: returned None",
        GangschedError,
    ),
    (GangRejectedError("ns/p", "timed out"), "ns/p must not start: timed out", GangschedError),
    (
        ReentrantCallError("why", "handle"),
        "why was called from inside handle of the same scheduler",
        GangschedError,
    ),
    (
        InternalError("an entity is in two places"),
        "broken invariant, please report: an entity is in two places",
        GangschedError,
    ),
    (
        HostClosedError("submit", "the host is closed"),
        "submit was refused: the host is closed",
        RuntimeError,
    ),
    (
        ManifestError("job.yaml", 2, "spec.minMember", "expected a number, got 'x'"),
        "job.yaml: document 2: spec.minMember: expected a number, got 'x'",
        ValueError,
    ),
    (
        ManifestError("job.yaml", 1, "", "expected a mapping, got a list"),
        "job.yaml: document 1: expected a mapping, got a list",
        ValueError,
    ),
    (
        TraceError("pods.csv", 3, "cpu", "expected a quantity, got '?'"),
        "pods.csv: line 3: cpu: expected a quantity, got '?'",
        ValueError,
    ),
    (
        TraceError("pods.csv", 4, "", "has 3 columns, the header has 5"),
        "pods.csv: line 4: has 3 columns, the header has 5",
        ValueError,
    ),
    (
        DecisionLogError("run.log", 3, "event.pod.name", "expected a string, got 7"),
        "run.log: line 3: event.pod.name: expected a string, got 7",
        ValueError,
    ),
    (
        DecisionLogError("run.log", 1, "", "expected a header, got nothing"),
        "run.log: line 1: expected a header, got nothing",
        ValueError,
    ),
]
ERRORS = pytest.mark.parametrize(
    ("error", "sentence", "builtin"),
    CASES,
    ids=[f"{type(case[0]).__name__}-{index}" for index, case in enumerate(CASES)],
)


@ERRORS
def test_error_has_its_message_fields_and_base_class_and_survives_pickling(
    error: GangschedError, sentence: str, builtin: type[Exception]
) -> None:
    assert sentence == str(error)
    arguments = list(inspect.signature(type(error)).parameters)
    assert error.args == tuple(getattr(error, name) for name in arguments)
    assert isinstance(error, GangschedError)
    assert isinstance(error, builtin)
    back = pickle.loads(pickle.dumps(error))
    assert (type(error), error.args, vars(error), sentence) == (
        type(back),
        back.args,
        vars(back),
        str(back),
    )


def test_every_error_has_a_case() -> None:
    untested = set(errors.__all__) - {type(case[0]).__name__ for case in CASES}
    assert {"GangschedError"} == untested


def test_documented_attributes_exist() -> None:
    for error, _sentence, _builtin in CASES:
        for base in type(error).__mro__:
            _, _, attributes = (base.__doc__ or "").partition("Attributes:\n")
            for line in attributes.splitlines():
                name, colon, _ = line.strip().partition(":")
                if colon and name.isidentifier():
                    assert hasattr(error, name), f"{base.__name__}.{name}"
