"""A counter that is rated begins with 0: ``rate`` does not see the increment that makes a series.

A series that appears with 1 has no sample before, so Prometheus has nothing to subtract from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.documents import ROOT

if not (ROOT / "charts").is_dir():
    pytest.skip("an installed copy: the chart is not here", allow_module_level=True)
pytest.importorskip("prometheus_client")
pytest.importorskip("msgspec")

from gangsched import InMemoryCluster, Scheduler
from gangsched.kubernetes import Settings
from gangsched.kubernetes._measure import Measures
from gangsched.presets import coscheduling_profile

HOW_TO = ROOT / "docs" / "how-to"
DASHBOARD = ROOT / "charts" / "gangsched" / "dashboards" / "gangsched.json"
OF_THE_SCRAPE = {"job", "instance"}
BEGINS_WITH_A_REQUEST = "rest_client_requests_total"
"""Its codes are not known before. An alert on it asks for what goes on for a while."""
SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? ([\d.e+-]+)$")
SELECTED = re.compile(r"rate\(([a-z_]+)(?:\{([^}]*)\})?\[")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def begun() -> list[tuple[str, dict[str, str], float]]:
    """Return the samples of a scheduler and an extender that have done nothing yet."""
    measures = Measures(Settings())
    watched = measures.watch(Scheduler(InMemoryCluster(), coscheduling_profile()))
    measures.serves_verbs()
    lines = measures.pages(list)["/metrics"]().body.decode().splitlines()
    assert watched is not None
    found = [SAMPLE.match(line) for line in lines if line[:1] != "#"]
    return [(m[1], dict(LABEL.findall(m[2] or "")), float(m[3])) for m in found if m is not None]


def queries(value: Any) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(value.get("expr"), str):
                yield value["expr"].replace('"$profile"', '"gangsched"')
            for each in value.values():
                yield from queries(each)
        case list():
            for each in value:
                yield from queries(each)
        case _:
            pass


def rated() -> list[tuple[str, str]]:
    """Return the metrics that dashboard and pages rate, with their selectors."""
    texts = [*queries(json.loads(DASHBOARD.read_text("utf-8")))]
    texts += [page.read_text("utf-8") for page in sorted(HOW_TO.glob("*.md"))]
    return sorted({(name, inside) for text in texts for name, inside in SELECTED.findall(text)})


def test_every_series_that_is_rated_is_there_with_zero_before_anything_happens() -> None:
    samples, missing = begun(), list[str]()
    found = [each for each in rated() if each[0] != BEGINS_WITH_A_REQUEST]
    assert len(found) >= 10
    for name, inside in found:
        wanted = [(k, v) for k, v in LABEL.findall(inside) if k not in OF_THE_SCRAPE]
        values = [
            value
            for each, labels, value in samples
            if each == name and all(labels.get(label) == value for label, value in wanted)
        ]
        if not values or (not name.startswith("process_") and any(values)):
            missing.append(f"{name}{{{inside}}}: {values}")
    assert missing == []


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [
        (
            "scheduler_schedule_attempts_total",
            "result",
            {"scheduled", "waiting", "unschedulable", "error"},
        ),
        (
            "scheduler_permit_wait_duration_seconds_count",
            "result",
            {"Success", "Unschedulable"},
        ),
        (
            "gangsched_extender_requests_total",
            "verb",
            {"filter", "prioritize", "preempt", "bind"},
        ),
        ("gangsched_extender_requests_total", "code", {"200", "400", "499", "500", "503"}),
    ],
)
def test_every_value_of_a_label_is_there_from_the_beginning(
    name: str, label: str, values: set[str]
) -> None:
    found = {(labels[label], value) for each, labels, value in begun() if each == name}
    assert found == {(value, 0.0) for value in values}


def test_queries_select_labels_and_values_that_exist() -> None:
    known: dict[str, dict[str, set[str]]] = {}
    for name, labels, _value in begun():
        for label, value in labels.items():
            known.setdefault(name, {}).setdefault(label, set()).add(value)
    for expression in queries(json.loads(DASHBOARD.read_text("utf-8"))):
        for name, inside in re.findall(r"([a-z_]+)\{([^}]*)\}", expression):
            for label, value in LABEL.findall(inside):
                if label not in OF_THE_SCRAPE and name in known:
                    assert value in known[name].get(label, ()), f"{expression}: {label}={value}"


def test_alert_on_requests_asks_for_what_goes_on() -> None:
    """The series of a code begins with 1, so only its further requests are seen."""
    page = (HOW_TO / "alert-on-kubernetes.md").read_text("utf-8")
    (row,) = (line for line in page.splitlines() if f"rate({BEGINS_WITH_A_REQUEST}" in line)
    assert "for 15 min" in row
