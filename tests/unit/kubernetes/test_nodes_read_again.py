"""A node is read again whenever something changes that a scheduler reads of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched import NodeAdded
from gangsched.kubernetes import read_event
from gangsched.kubernetes._decode import NodeDecoder
from support.api_objects import node, raw


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("declaredFeatures", ["RestartAllContainersOnContainerExits"]),
        ("images", [{"names": ["registry/image:1"], "sizeBytes": 23_000_000}]),
        ("allocatable", {"cpu": "1"}),
        ("capacity", {"cpu": "1"}),
    ],
)
def test_status_that_a_kubelet_changes_is_read_again(field: str, value: Any) -> None:
    decode = NodeDecoder()
    before = node(version="7")
    if field == "capacity":
        del before["status"]["allocatable"]
    decode(raw(before))
    after = {**before, "metadata": {**before["metadata"], "resourceVersion": "8"}}
    after["status"] = {**before["status"], field: value}
    event = read_event({"type": "ADDED", "object": json.loads(raw(after))})
    assert isinstance(event, NodeAdded)
    assert decode(raw(after)).node == event.node
    assert event.node != decode(raw(before)).node
