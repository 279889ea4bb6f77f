"""A message names the field, the value and what is expected, and nothing that is right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from gangsched import InvalidValueError, NodeName, PodUID
from gangsched import _copying as copying
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, ManifestError, ProfileError, UnknownPodError
from gangsched.events import Bind, VolumeChoice
from gangsched.model import Node
from gangsched.plugins import NodeResourcesFit
from gangsched.plugins.node_resources import ScoringStrategy
from gangsched.replay import Recipe, read_log
from gangsched.simulation.documents import read_documents
from support.views import node_view

RATIO = ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
POINTS = ((0, 0), (100, 10))
LINES = '{"format":"x"}\n' * 100
LINES_ARGUMENT: Any = LINES


def deep(opening: str) -> Callable[[], object]:
    return lambda: list(read_documents(opening * 300, file="f.yaml"))


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: NodeResourcesFit(shape=POINTS),
        "shape must be empty unless scoring_strategy is RequestedToCapacityRatio,"
        " got ((0, 0), (100, 10))",
    ),
    (
        lambda: NodeResourcesFit(scoring_strategy=RATIO),
        "shape must be given if scoring_strategy is RequestedToCapacityRatio, got ()",
    ),
    (
        lambda: NodeResourcesFit(scoring_strategy=RATIO, shape=((0, 11),)),
        "shape must be points of two ints, with ascending percentages and scores from 0 to 10,"
        " got (0, 11)",
    ),
    (
        lambda: read_log(LINES_ARGUMENT),
        "lines must be an iterable of lines, such as an open file or text.splitlines(),"
        " got " + repr(LINES[:80]),
    ),
    (
        deep("{a: "),
        "f.yaml: document 1: a.a.a.a.a.a.a.a.a.a…: nested deeper than 200 levels",
    ),
    (
        deep("- "),
        "f.yaml: document 1: [0][0][0][0][0][0][0][0][0][0]…: nested deeper than 200 levels",
    ),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_refusal_names_what_is_wrong(call: Callable[[], object], says: str) -> None:
    with pytest.raises(GangschedError) as caught:
        call()
    assert str(caught.value) == says


def test_argument_that_a_preset_does_not_take_is_named_and_not_its_value() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Recipe("pod_by_pod", foo=3)
    said = str(caught.value)
    assert said.startswith("arguments must be among those of presets.pod_by_pod: backoff, ")
    assert said.endswith(", got 'foo'")
    assert (caught.value.field, caught.value.value) == ("arguments", "foo")


def test_argument_of_a_recipe_in_a_log_is_named_by_its_path() -> None:
    with pytest.raises(InvalidValueError) as caught:
        Recipe.from_json({"preset": "pod_by_pod", "arguments": {"foo": 3}}, path="scheduler")
    assert str(caught.value) == (
        "scheduler.arguments must be among those of the presets, got 'foo'"
    )
    with pytest.raises(InvalidValueError) as caught:
        Recipe.from_json({"preset": "pod_by_pod", "arguments": {"unit": "pod"}}, path="scheduler")
    assert caught.value.field == "scheduler.arguments"
    assert caught.value.value == "unit"


def test_unknown_pod_or_group_is_said_to_be_neither() -> None:
    assert str(UnknownPodError("default/a")) == "no pod or pod group 'default/a' is known"


def test_cycle_without_counts_names_the_argument_that_is_missing() -> None:
    name = NodeName("n")
    state = CycleState(None, {name: node_view(Node(name=name))})
    with pytest.raises(LookupError, match=r"^state\.counts needs the argument counts of .*'n'"):
        _ = state.counts


def test_plugin_that_cannot_be_forked_is_told_what_it_needs() -> None:
    class Quota:
        name = "Quota"

        def __init__(self) -> None:
            self.left = 2

    with pytest.raises(ProfileError) as caught:
        copying._plugin(Quota(), "Quota")
    assert str(caught.value) == (
        "what_if: plugin 'Quota' has state and no fork method; add fork(), see"
        " gangsched.protocols.Forkable"
    )


def test_notification_of_a_wrong_type_names_the_field() -> None:
    pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
    from gangsched.kubernetes import read_notification

    with pytest.raises(ManifestError) as caught:
        read_notification({"type": "GONE", "object": {}})
    assert str(caught.value) == (
        "watch: document 1: type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, got 'GONE'"
    )


def test_server_without_a_scheme_is_refused_by_its_field() -> None:
    pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
    import subprocess

    from gangsched.kubernetes import _configuration

    done = subprocess.CompletedProcess([], 0, json.dumps({"server": "api:6443"}).encode(), b"")
    with pytest.raises(_configuration.ConfigurationError) as caught:
        _configuration._access("config", done)
    assert str(caught.value) == (
        "config: clusters[].cluster.server: expected the URL of a server, got 'api:6443'"
    )


def test_lost_read_is_not_said_to_have_been_carried_out() -> None:
    from gangsched.kubernetes._api import ConnectionLost

    assert str(ConnectionLost("GET", "/p", "cut off", sent=True)) == "GET /p: no answer: cut off"
    assert str(ConnectionLost("GET", "/p", "cut off", sent=False)) == (
        "GET /p: no answer: cut off; it was not sent"
    )
    assert str(ConnectionLost("PATCH", "/p", "cut off", sent=True)) == (
        "PATCH /p: no answer: cut off; it may have been carried out"
    )


class Conflicting:
    """Requests of which every write meets a conflict."""

    async def send(self, method: str, path: str, **_more: Any) -> Any:
        from gangsched.kubernetes._api import Response

        if method == "PATCH":
            return Response(409)
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "team", "uid": "u", "resourceVersion": "1"},
            "spec": {},
        }
        return Response(200, body=json.dumps(claim).encode())


def test_volume_writer_that_gives_up_says_so() -> None:
    pytest.importorskip("aiohttp", reason="the extra kubernetes is not installed")
    from gangsched.kubernetes._volume_writer import VolumeRefusedError, VolumeWriter

    requests: Any = Conflicting()
    writer = VolumeWriter(requests, lambda _bind, _reason: None)
    choice = VolumeChoice("team/c", NodeName("n"))
    assert Bind(PodUID("u"), NodeName("n"), 1, (choice,)).volumes == (choice,)
    with pytest.raises(VolumeRefusedError) as caught:
        asyncio.run(writer._write(choice))
    assert str(caught.value) == (
        "gave up on claim team/c: it or its volume changed during all 8 writes"
    )
