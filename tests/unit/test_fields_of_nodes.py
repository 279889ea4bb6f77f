"""Which fields of a node are read is found by changing each of them, and not from a list."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gangsched import Node, NodeAdded
from gangsched.errors import GangschedError
from gangsched.kubernetes import read_notification
from support.api_fields import NODE
from unit.test_known_limits import rows

VALUES: Final[tuple[Any, ...]] = (
    True,
    "x",
    ["x"],
    {"cpu": "3"},
    [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    [{"names": ["image:1"], "sizeBytes": 3}],
)
"""A value of each shape that a field of a node has."""


def read(**parts: dict[str, Any]) -> Node | None:
    """Return the node that is read from this specification and status; None if it is refused."""
    value = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}, **parts}
    try:
        event = read_notification({"type": "ADDED", "object": value}).event
    except GangschedError:
        return None
    assert isinstance(event, NodeAdded)
    return event.node


def is_read(field: str) -> bool:
    """Return whether some value of a field changes what is read, or is refused."""
    part, _dot, name = field.partition(".")
    return any(read(**{part: {name: value}}) != read() for value in VALUES)


@pytest.mark.parametrize("field", NODE)
def test_field_of_a_node_is_read_exactly_if_the_page_says_that_it_is_honoured(field: str) -> None:
    said = {name: treatment for name, treatment, _how in rows("Node")}
    assert is_read(field) == (said[field] == "honoured")
