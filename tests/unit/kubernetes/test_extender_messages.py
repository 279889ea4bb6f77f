"""The JSON of the extender protocol: what is read, what is written, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.errors import InvalidValueError
from gangsched.kubernetes.extender._messages import (
    HostPriority,
    MetaPod,
    MetaVictims,
    encode_bound,
    encode_filtered,
    encode_priorities,
    encode_victims,
    read_binding_args,
    read_extender_args,
    read_preemption_args,
)

BIND = {"PodName": "a", "PodNamespace": "b", "PodUID": "c", "Node": "d"}
VICTIMS = "NodeNameToMetaVictims"


def raw(document: object) -> bytes:
    return json.dumps(document).encode()


def test_requests_are_read_and_their_later_fields_ignored() -> None:
    document = {"Pod": {"metadata": {"name": "a"}}, "Nodes": None, "NodeNames": ["n", "m"]}
    pod, names = read_extender_args(raw(document))
    assert json.loads(pod) == {"metadata": {"name": "a"}}
    assert names == ["n", "m"]
    args = read_binding_args(raw({**BIND, "Later": 1}))
    assert (args.name, args.namespace, args.uid, args.node) == ("a", "b", "c", "d")
    victims = {"n": {"Pods": [{"UID": "x"}], "NumPDBViolations": 2}, "m": {"Pods": None}}
    _pod, found = read_preemption_args(raw({"Pod": {}, VICTIMS: victims}))
    assert [pod.uid for pod in found["n"].pods or ()] == ["x"]
    assert (found["n"].violations, found["m"].pods) == (2, None)


@pytest.mark.parametrize(
    ("read", "document", "field", "value", "expected"),
    [
        (read_extender_args, {"NodeNames": []}, "Pod", None, "present"),
        (read_extender_args, {"Pod": {}, "Nodes": {}}, "NodeNames", None, "nodeCacheCapable"),
        (read_extender_args, {"Pod": {}, "NodeNames": "n"}, "NodeNames", "n", "a list"),
        (read_extender_args, {"Pod": {}, "NodeNames": ["n", 7]}, "NodeNames[1]", 7, "a string"),
        (read_extender_args, [1], "the body", [1], "an object"),
        (read_binding_args, {**BIND, "Node": 3}, "Node", 3, "a string"),
        (read_binding_args, {**BIND, "PodUID": ""}, "PodUID", "", "a non-empty string"),
        (read_binding_args, {"PodName": "a"}, "PodNamespace", None, "present"),
        (
            read_preemption_args,
            {"Pod": {}, "NodeNameToVictims": {}},
            VICTIMS,
            None,
            "nodeCacheCapable",
        ),
    ],
)
def test_malformed_request_names_the_field_and_the_value(
    read: Callable[[bytes], object], document: Any, field: str, value: object, expected: str
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read(raw(document))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert expected in caught.value.expected


def test_malformed_victim_and_malformed_json_are_named() -> None:
    victims = {"n": {"Pods": [{"UID": 5}]}}
    with pytest.raises(InvalidValueError, match=r"NodeNameToMetaVictims.*UID must be a string"):
        read_preemption_args(raw({"Pod": {}, VICTIMS: victims}))
    with pytest.raises(InvalidValueError, match=r"the body must be JSON, got '\{oops'"):
        read_binding_args(b"{oops")


@pytest.mark.parametrize("field", BIND)
def test_bind_of_a_name_that_no_object_has_is_refused(field: str) -> None:
    """Such a name would be a part of the path of a request with the rights of the extender."""
    for value in ("", ".", "..", "a/b", "a\nb", "x" * 300):
        with pytest.raises(InvalidValueError, match=f"^{field} must be "):
            read_binding_args(raw({**BIND, field: value}))


def test_answers_have_the_fields_of_the_protocol() -> None:
    assert json.loads(encode_filtered(["n"], {"m": "full"})) == {
        "NodeNames": ["n"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"m": "full"},
        "Error": "",
    }
    assert json.loads(encode_bound("no")) == {"Error": "no"}
    assert json.loads(encode_bound()) == {"Error": ""}
    assert json.loads(encode_priorities([HostPriority("n", 10)])) == [{"Host": "n", "Score": 10}]
    assert json.loads(encode_victims({"n": MetaVictims([MetaPod("x")], 1)})) == {
        VICTIMS: {"n": {"Pods": [{"UID": "x"}], "NumPDBViolations": 1}}
    }
