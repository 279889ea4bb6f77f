"""What running pods were given is part of what tells them apart when they are decoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangsched import Pod, PodAdded
from gangsched.kubernetes import read_event
from gangsched.kubernetes._decode import PodDecoder
from support.api_objects import Document, pod, raw


def slowly(document: Document) -> Pod:
    event = read_event({"type": "ADDED", "object": json.loads(raw(document))})
    assert isinstance(event, PodAdded)
    return event.pod


def running(name: str, **status: Any) -> Document:
    document = pod(name, nodeName="n1")
    document["status"] = {"phase": "Running", **status}
    return document


def given(cpu: str, name: str = "c") -> list[Document]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    one = {"name": name, "ready": True, "resources": {"requests": amounts}}
    return [{**one, "allocatedResources": amounts}]


PENDING = {"type": "PodResizePending", "status": "True"}


def test_pods_that_were_given_the_same_are_read_once() -> None:
    decode = PodDecoder()
    for index in range(4):
        document = running(f"w-{index}", containerStatuses=given("3"))
        assert decode(raw(document)).pod == slowly(document)
    assert (decode.slow, decode.fast) == (1, 3)


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": given("2")},
        {"containerStatuses": given("3", "other")},
        {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]},
        {"containerStatuses": None},
        {"initContainerStatuses": given("3")},
        {"containerStatuses": given("500m"), "conditions": [{**PENDING, "reason": "Infeasible"}]},
        {"containerStatuses": given("500m"), "conditions": [{**PENDING, "reason": "Deferred"}]},
        {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}},
    ],
)
def test_pod_that_was_given_something_else_is_no_copy(status: Document) -> None:
    decode = PodDecoder()
    decode(raw(running("w-0", containerStatuses=given("3"))))
    decode(raw(running("w-1", containerStatuses=given("500m"))))
    document = running("w-2", **status)
    for _ in range(2):
        assert decode(raw(document)).pod == slowly(document)


def test_names_of_containers_decide_which_report_is_whose() -> None:
    decode = PodDecoder()
    first = running("w-0", containerStatuses=given("3"))
    second = running("w-1", containerStatuses=given("3"))
    second["spec"]["containers"][0]["name"] = "d"
    for document in (first, second):
        assert decode(raw(document)).pod == slowly(document)
    assert slowly(first).requests != slowly(second).requests


def test_resources_of_the_whole_pod_are_part_of_the_key() -> None:
    decode = PodDecoder()
    for cpu in ("1", "2", "5"):
        document = running("w-0", resources={"requests": {"cpu": cpu}})
        document["spec"]["resources"] = {"requests": {"cpu": "2"}}
        assert decode(raw(document)).pod == slowly(document)
    assert decode.slow == 3


def test_reason_of_a_pending_resize_is_part_of_the_key() -> None:
    decode = PodDecoder()
    for reason in ("Deferred", "Infeasible", "Deferred"):
        conditions = [{**PENDING, "reason": reason}]
        document = running("w-0", containerStatuses=given("500m"), conditions=conditions)
        assert decode(raw(document)).pod == slowly(document)
    assert (decode.slow, decode.fast) == (2, 1)
