"""What the pages for operators name exists: metrics, labels and their values, rights."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support.documents import ROOT

pytest.importorskip("yaml")
if not (ROOT / "charts").is_dir():
    pytest.skip("an installed copy: the chart is not here", allow_module_level=True)

from support.chart import Right, rights, rules

HOW_TO = ROOT / "docs" / "how-to"
ALERTS = HOW_TO / "alert-on-kubernetes.md"
RIGHTS = ROOT / "docs" / "reference" / "rights.md"
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
PAGES = sorted((*(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.txt")))
METRIC = re.compile(
    r"\b(?:gangsched|scheduler|leader_election|rest_client)_[a-z_]*(?:total|seconds|pods|groups|copies"
    r"|status|demand|dropped|group|binds|objects|ready|bucket|used|nominal|share|pending)\b"
)
SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? [\d.e+-]+$")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
OF_PROMETHEUS = {"job", "instance"}
"""Labels that the scrape adds."""


class Exported:
    """The metrics of a scheduler and an extender that have begun to work."""

    def __init__(self) -> None:
        pytest.importorskip("prometheus_client")
        pytest.importorskip("msgspec")
        from gangsched import InMemoryCluster, Node, Scheduler
        from gangsched.kubernetes import Settings
        from gangsched.kubernetes._demand import PendingDemand
        from gangsched.kubernetes._measure import Measures
        from gangsched.model import GroupKey
        from gangsched.presets import coscheduling_profile

        measures = Measures(Settings())
        watched = measures.watch(Scheduler(InMemoryCluster(), coscheduling_profile()))
        measures.request("GET", 200)
        measures.serves_verbs()
        measures.held(lambda: 0.0)
        measures.unreadable("Pod", 1)
        measures.demand([PendingDemand(Node(name="n", allocatable={}), ((GroupKey("a/b"), 1),))])
        lines = measures.pages(list)["/metrics"]().body.decode().splitlines()
        assert watched is not None
        self.types = {line.split()[2]: line.split()[3] for line in lines if "# TYPE" in line}
        self.labels: dict[str, dict[str, set[str]]] = {}
        for line in lines:
            found = SAMPLE.match(line)
            if found is not None:
                known = self.labels.setdefault(found[1], {})
                for name, value in re.findall(r'(\w+)="([^"]*)"', found[2] or ""):
                    known.setdefault(name, set()).add(value)

    def has(self, name: str) -> bool:
        """Return whether a name is a metric, or a series of a histogram."""
        base = re.sub(r"_(?:bucket|sum|count)$", "", name)
        return name in self.types or self.types.get(base) == "histogram"


@pytest.fixture(scope="module")
def exported() -> Exported:
    return Exported()


def table(page: Path, heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading, without its header."""
    section = page.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def alerts() -> list[tuple[str, str]]:
    """Return each alert of the page with its expressions."""
    return [(row[0], text) for row in table(ALERTS, "What to alert on") for text in code(row[1])]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# Metrics ----------------------------------------------------------------------------------------


def test_alerts_ask_for_metrics_that_are_exported(exported: Exported) -> None:
    found = alerts()
    assert len(found) >= 9
    for alert, expression in found:
        asked = METRIC.findall(expression)
        assert asked, f"{alert}: no metric in {expression}"
        for name in asked:
            assert exported.has(name), f"{alert}: {name}"


def test_alerts_select_labels_and_values_that_exist(exported: Exported) -> None:
    seen = set[str]()
    for alert, expression in alerts():
        for name, inside in re.findall(r"([a-z_]+)\{([^}]*)\}", expression):
            for label, how, value in MATCHER.findall(inside):
                if label in OF_PROMETHEUS:
                    continue
                known = exported.labels[name]
                assert label in known, f"{alert}: {name} has no label {label}"
                if how == "=":
                    assert value in known[label], f"{alert}: {label} is never {value}"
                    seen.add(value)
    assert {"incomplete", "partly_running"} <= seen


def test_alerts_tell_a_leader_that_is_not_ready_and_the_wait_of_one_gang() -> None:
    asked = {name for _alert, expression in alerts() for name in METRIC.findall(expression)}
    assert {
        "gangsched_ready",
        "gangsched_oldest_pending_seconds",
        "gangsched_groups_below_minimum_total",
    } <= asked


def test_counters_are_rated_and_gauges_are_not(exported: Exported) -> None:
    for alert, expression in alerts():
        rated = set(re.findall(r"(?:rate|increase)\(([a-z_]+)", expression))
        for name in METRIC.findall(expression):
            counts = name.endswith("_bucket") or exported.types[name] == "counter"
            assert (name in rated) is counts, f"{alert}: {name}"


def test_every_page_names_metrics_that_are_exported(exported: Exported) -> None:
    named = {(n, page.name) for page in PAGES for n in METRIC.findall(page.read_text("utf-8"))}
    of_others = {"scheduler_pod_scheduling_sli_duration_seconds"}  # kube-scheduler's, measured
    unknown = {each for each in named if not exported.has(each[0]) and each[0] not in of_others}
    assert unknown == set()


def test_reference_lists_every_metric_of_the_scheduler_with_its_type(exported: Exported) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", REFERENCE.read_text("utf-8"), re.M)
    listed = {name: kind for name, kind, _labels in rows}
    own = {n: kind for n, kind in exported.types.items() if not n.startswith(("process", "python"))}
    created = {name for name in own if name.endswith("_created")}
    assert listed == {name: kind for name, kind in own.items() if name not in created}


# The chart --------------------------------------------------------------------------------------


def test_each_alert_of_the_chart_has_its_place_on_the_page_and_each_place_its_alert() -> None:
    rule = (ROOT / "charts/gangsched/templates/prometheusrule.yaml").read_text("utf-8")
    named = re.findall(r"- alert: (\w+)", rule)
    linked = re.findall(r'"gangsched.runbook" \(list \$page "(\w+)"\)', rule)
    places = re.findall(r"^### (Gangsched\w+)$", ALERTS.read_text("utf-8"), re.MULTILINE)
    assert len(named) >= 9
    assert linked == named
    assert places == named


# Rights -----------------------------------------------------------------------------------------


def test_table_of_rights_says_what_the_roles_allow() -> None:
    said = Counter[tuple[str, str]]()
    for verbs, resources, why in table(RIGHTS, "What it may do"):
        assert why
        said.update((verb, each) for verb in code(verbs) for each in code(resources))
    given = {(r.verb, r.resource) for r in rights(rules("cluster-role")) | rights(rules("role"))}
    assert set(said) == given
    assert [each for each, times in said.items() if times > 1] == []


def test_names_of_resources_are_of_one_api_group() -> None:
    """The table leaves API groups out, except for PodGroups, of which it says that all are read."""
    groups: dict[str, set[str]] = {}
    right: Right
    for right in rights(rules("cluster-role")) | rights(rules("role")):
        groups.setdefault(right.resource, set()).add(right.group)
    several = {resource for resource, found in groups.items() if len(found) > 1}
    assert several == {"podgroups", "podgroups/status"}
