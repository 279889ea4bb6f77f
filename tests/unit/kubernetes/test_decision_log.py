"""Decisions in the log: stable keys that a store of logs can be asked for."""

from __future__ import annotations

import itertools
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from gangsched import Event, GroupKey, InMemoryCluster, NodeAdded, Pod, PodAdded, presets
from gangsched.events import PodGroupAdded
from gangsched.kubernetes._decision_log import LOGGER, LoggedDecisions, logged
from gangsched.kubernetes._logs import FIELDS, JsonFormatter, TextFormatter, configure_logs
from gangsched.membership import membership
from gangsched.testing import make_group, make_node, make_pod

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "logs.md"


def group_of(pod: Pod) -> GroupKey | None:
    claim = membership(pod)
    return None if claim is None else claim.group


def entries(caplog: pytest.LogCaptureFixture, *events: Event) -> list[dict[str, Any]]:
    """Decide about *events* with whole gangs as units; return the JSON of each record."""
    cluster = InMemoryCluster()
    # each reading of the clock is a quarter of a second later
    seconds = itertools.count()
    driven = LoggedDecisions(
        presets.gang(cluster),
        cluster,
        group_of,
        clock=lambda: next(seconds) / 4,
    )
    with caplog.at_level(logging.INFO, LOGGER):
        for event in events:
            driven.handle(cluster.apply(event), now=0.0)
        while driven.schedule_one(now=0.0) is not None:
            pass
    return [json.loads(JsonFormatter().format(each)) for each in caplog.records]


def gang(name: str, size: int, cpu: int) -> list[Event]:
    group = make_group(name, min_available=size)
    pods = [make_pod(f"{name}-{n}", group=name, cpu=cpu) for n in range(size)]
    return [PodGroupAdded(group), *map(PodAdded, pods)]


def without_common(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in ("ts", "level", "logger")}


def test_assigned_pod_is_logged_with_node_attempt_and_duration(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pod = make_pod("p", cpu=1)
    (entry,) = entries(caplog, NodeAdded(make_node("n", cpu=4)), PodAdded(pod))
    assert (entry["level"], entry["logger"]) == ("info", "gangsched.kubernetes.decisions")
    assert without_common(entry) == {
        "msg": "pod assigned",
        "pod": "default/p",
        "node": "n",
        "attempt": 1,
        "seconds": 0.25,
    }


def test_members_of_a_gang_are_logged_with_their_group(caplog: pytest.LogCaptureFixture) -> None:
    found = entries(caplog, NodeAdded(make_node("n", cpu=4)), *gang("g", 2, 1))
    assert [(each["msg"], each.get("pod"), each["group"]) for each in found] == [
        ("gang scheduled", None, "default/g"),
        ("pod assigned", "default/g-0", "default/g"),
        ("pod assigned", "default/g-1", "default/g"),
    ]
    assert found[0]["members"] == 2
    assert {each["seconds"] for each in found} == {0.25}


def test_rejected_gang_is_logged_with_reason_and_attempt(caplog: pytest.LogCaptureFixture) -> None:
    found = entries(caplog, NodeAdded(make_node("n", cpu=1)), *gang("g", 2, 1))
    (rejected,) = [each for each in found if each["msg"] == "gang rejected"]
    assert (rejected["group"], rejected["attempt"]) == ("default/g", 1)
    assert rejected["reason"]
    told = [each for each in found if each["msg"] == "pod is unschedulable"]
    assert told
    assert {each["group"] for each in told} == {"default/g"}
    assert all(each["reason"] and each["pod"].startswith("default/g-") for each in told)


def test_text_line_has_the_fields_after_the_message() -> None:
    record = logging.makeLogRecord(
        {"name": "x", "msg": "gang rejected", "group": "a/b", "reason": "no room\n", "attempt": 2}
    )
    line = TextFormatter().format(record)
    assert line.endswith(r'gang rejected group=a/b attempt=2 reason="no room\\n"')


@pytest.mark.parametrize(("verbosity", "is_logged"), [(0, False), (1, False), (2, True), (3, True)])
def test_decisions_are_logged_from_verbosity_2_on(verbosity: int, *, is_logged: bool) -> None:
    configure_logs(verbosity=verbosity)
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    assert (logged(scheduler, cluster, group_of) is not scheduler) == is_logged


def test_documentation_names_the_fields() -> None:
    text = PAGE.read_text(encoding="utf-8")
    _before, _mark, section = text.partition("## Keys of a record")
    named = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert named == ["ts", "level", "logger", "msg", "error", *FIELDS]
