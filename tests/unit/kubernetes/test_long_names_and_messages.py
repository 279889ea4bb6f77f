"""What users write may be a quarter of a megabyte long; what is told of it is not."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import InvalidValueError
from gangsched._text import shortened
from gangsched.errors import InvalidPodGroupError
from gangsched.membership import membership
from gangsched.model import Pod, PodUID
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi
from support.running import on_a_loop, running, until

EVENTS = "/apis/events.k8s.io/v1/events"
LONG = "ä" * 100_000
MOST = 1024


@given(st.text(), st.integers(3, 40))
def test_text_is_cut_at_bytes_and_says_so(text: str, most: int) -> None:
    cut = shortened(text, most)
    assert len(cut.encode(errors="replace")) <= most or cut == text
    if len(text.encode(errors="replace")) <= most:
        assert cut == text
    else:
        assert cut.endswith("...")
        kept = text.encode(errors="replace")[: most - 3]
        assert kept.startswith(cut[:-3].encode())
        assert len(kept) - len(cut[:-3].encode()) < 4


@pytest.mark.parametrize(
    ("key", "length", "is_refused"),
    [
        ("scheduling.k8s.io/group-name", 253, False),
        ("scheduling.k8s.io/group-name", 254, True),
        ("gang.scheduling.koordinator.sh/name", 254, True),
        ("volcano.sh/task-spec", 253, False),
        ("volcano.sh/task-spec", 254, True),
    ],
)
def test_name_that_no_object_can_have_is_refused(key: str, length: int, is_refused: bool) -> None:
    names = {"scheduling.k8s.io/group-name": "g", key: "x" * length}
    pod = Pod(name="p", uid=PodUID("p"), annotations=names)
    if not is_refused:
        assert membership(pod) is not None
        return
    with pytest.raises(InvalidPodGroupError, match=r"a name of at most 253 characters") as error:
        membership(pod)
    assert error.value.field == key


def test_error_shows_the_beginning_of_a_long_value_and_its_length() -> None:
    error = InvalidValueError("field", "x" * 300_000, "short")
    assert len(str(error)) < 1000
    assert str(error).startswith("field must be short, got 'xxx")
    assert str(error).endswith("... (300,002 characters)")
    assert str(InvalidValueError("field", "x" * 500, "short")).endswith("x'")


@on_a_loop
async def test_long_names_are_cut_in_conditions_events_and_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "gangsched")
    api = MemoryApi()
    api.put(NODES, node_json("n", gpu=4))
    pod = pod_json("p")
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": LONG}
    api.put(PODS, pod)
    selector = {"key": "v" * 63, **{f"k{n}": "v" * 63 for n in range(100)}}
    api.put(PODS, pod_json("q", nodeSelector=selector))
    api.put(PODS, pod_json("g-0", group="g"))
    api.put(GROUPS, group_json("g", 1))
    async with running(api):
        await until(lambda: api.pods()["default/g-0"])
        await until(lambda: {"p", "q"} <= set(_told(api)))
    assert "at most 253 characters" in _told(api)["p"]
    for name in ("p", "q"):
        assert len(_told(api)[name].encode()) <= MOST
        (condition,) = api.objects[PODS][f"default/{name}"]["status"]["conditions"]
        assert len(condition["message"].encode()) <= MOST
    assert max(len(each.getMessage()) for each in caplog.records) < 4 * MOST


def _told(api: MemoryApi) -> dict[str, str]:
    events = json.loads(json.dumps(list(api.objects.get(EVENTS, {}).values())))
    return {each["regarding"]["name"]: each["note"] for each in events}
