"""``kubectl gang`` of groups with copies, and of groups of groups: rows, trees and documents."""

from __future__ import annotations

import io
import json
import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Event,
    GroupKey,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    Role,
)
from gangsched.cli import _gang_get, _gang_why
from gangsched.configuration import Settings
from gangsched.errors import InvalidValueError
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._gang_rows import GangRow, gang_rows, read_gang_row
from gangsched.kubernetes._running import ObservedScheduler
from gangsched.kubernetes._scope import Scope
from gangsched.kubernetes._survey import Survey
from gangsched.testing import make_node, make_pod

SERVE = GroupKey("default/serve")


def survey_of(*events: Event) -> Survey:
    """Return a survey of a cluster with some objects."""
    cache = Cache(None)
    for event in events:
        cache.cluster.apply(event)
    return Survey(cache, Settings(), 100.0)


def copies(count: int = 3, on_nodes: int = 1) -> Iterable[Event]:
    """Return copies of a leader and a worker, of which the first ones run, on nodes of two."""
    roles = {"decode": Role(count, 2, roles={"leader": 1, "worker": 1})}
    yield from (NodeAdded(make_node(f"n{n}", cpu=2)) for n in range(on_nodes))
    yield PodGroupAdded(PodGroup(name="serve", roles=roles))
    for copy in range(count):
        for role in ("leader", "worker"):
            labelled = f"decode.{copy}.{role}"
            pod = make_pod(f"serve-{labelled}", group="serve", role=labelled, cpu=1)
            yield PodAdded(_on(f"n{copy}", pod) if copy < on_nodes else pod)


def _on(node: str, pod: Pod) -> Pod:
    return evolve(pod, node_name=node, phase=PodPhase.RUNNING)


def family(on_nodes: int) -> Iterable[Event]:
    """Return two groups of two pods below a group, of which the first ones run."""
    yield NodeAdded(make_node("n0", cpu=2))
    yield PodGroupAdded(PodGroup(name="serve", min_groups=2))
    for n in range(2):
        yield PodGroupAdded(PodGroup(name=f"c{n}", min_available=2, parent=SERVE))
        for m in range(2):
            pod = make_pod(f"c{n}-{m}", group=f"c{n}", cpu=1)
            yield PodAdded(_on("n0", pod) if 2 * n + m < on_nodes else pod)


def row_of(*events: Event) -> GangRow:
    """Return the row of ``serve``."""
    return {row.name: row for row in gang_rows(survey_of(*events))}["serve"]


def options(**given: Any) -> Namespace:
    """Return the options of a command."""
    return Namespace(
        **{"output": "table", "keys": (SERVE,), "namespace": None, "said": None, **given},
        group=SERVE,
        config=None,
    )


def test_row_of_a_gang_with_copies_has_its_tree() -> None:
    row = row_of(*copies())
    assert [(each.path, each.counts) for each in row.tree] == [
        ("", "2 of 6 pods, needs 4"),
        ("decode", "1 of 3 copies, needs 2"),
        ("decode/0", "2 of 2 pods"),
        ("decode/1", "0 of 2 pods"),
        ("decode/2", "0 of 2 pods"),
    ]
    assert row_of(*copies(on_nodes=2)).reason.startswith("runs: 4 of 6 members hold nodes")


@pytest.mark.parametrize(
    ("on_nodes", "phase"), [(0, "Scheduling"), (2, "Scheduling"), (4, "Running")]
)
def test_row_of_a_group_of_groups_counts_the_pods_below_it(on_nodes: int, phase: str) -> None:
    row = row_of(*family(on_nodes))
    assert (row.needed, row.have, row.held, row.running) == (4, 4, on_nodes, on_nodes)
    assert row.phase == phase
    assert row.tree[0].counts == f"{on_nodes // 2} of 2 groups"


def test_group_of_groups_without_enough_pods_is_pending_and_ends_with_them() -> None:
    given = [*family(0)]
    assert row_of(*given[:-1]).phase == "Pending"
    for phase, expected in ((PodPhase.SUCCEEDED, "Finished"), (PodPhase.FAILED, "Failed")):
        ended = [
            PodAdded(evolve(e.pod, phase=phase, node_name="n0")) if isinstance(e, PodAdded) else e
            for e in given
        ]
        assert row_of(*ended).phase == expected


def test_running_scheduler_and_listing_have_the_same_rows_of_a_parent() -> None:
    survey = survey_of(*family(2))
    running = ObservedScheduler(survey.cache, survey.scheduler, survey.now)
    assert running.members_of(SERVE) == survey.members_of(SERVE)
    assert [pod.name for pod in running.members_of(SERVE)] == ["c0-0", "c0-1", "c1-0", "c1-1"]


def test_row_is_read_as_it_was_written() -> None:
    row = row_of(*copies())
    document = json.loads(json.dumps(row.to_dict()))
    assert read_gang_row(document) == evolve(row, age=round(row.age))
    del document["tree"]
    assert not read_gang_row(document).tree


@pytest.mark.parametrize(
    "change", [{"depth": 2}, {"depth": -1}, {"held": True}, {"path": 3}, {"lacks": 1}, None]
)
def test_malformed_tree_is_refused(change: Any) -> None:
    document = row_of(*copies()).to_dict()
    document["tree"][0] = change and {**document["tree"][0], **change}
    with pytest.raises(InvalidValueError):
        read_gang_row(document)


@pytest.mark.parametrize("depth", [0, 3])
def test_tree_has_one_root_and_no_gap(depth: int) -> None:
    document = row_of(*copies()).to_dict()
    document["tree"][1]["depth"] = depth
    with pytest.raises(InvalidValueError, match="depth"):
        read_gang_row(document)


def test_named_gang_is_printed_with_its_tree(capsys: pytest.CaptureFixture[str]) -> None:
    survey = survey_of(*copies())
    _gang_get.get_gangs(survey, options())
    table, _, tree = capsys.readouterr().out.partition("\n\n")
    assert "serve" in table
    assert tree.splitlines()[:3] == [
        "PART             ON NODES",
        "serve            2 of 6 pods, needs 4",
        "└─ decode        1 of 3 copies, needs 2",
    ]
    _gang_get.get_gangs(survey, options(keys=()))
    assert "PART" not in capsys.readouterr().out


def test_why_prints_the_tree_above_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    _gang_why.explain_gang(survey_of(*family(2)), options())
    first, *tree, why, _helps = capsys.readouterr().out.splitlines()
    assert first == (
        "pod group default/serve: Scheduling: 4 of 4 members are there, 2 hold a node, 2 run"
    )
    assert tree == [
        "PART    ON NODES",
        "serve   1 of 2 groups",
        "├─ c0   2 of 2 pods",
        "└─ c1   0 of 2 pods",
    ]
    assert why.startswith(
        "why: runs in part: 2 of 4 members hold nodes; the rest: pod default/c1-0"
    )


def test_tree_is_drawn_with_what_the_terminal_can_write(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    _gang_why.explain_gang(survey_of(*family(2)), options())
    out.seek(0)
    assert "|- c0" in out.read()


def test_document_has_the_rows_of_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    _gang_get.get_gangs(survey_of(*family(2)), options(output="json", keys=()))
    found = {each["name"]: each["tree"] for each in json.loads(capsys.readouterr().out)["items"]}
    assert found["c0"] == []
    assert found["serve"][0] == {
        "group": "default/serve",
        "path": "",
        "depth": 0,
        "of": "groups",
        "held": 1,
        "total": 2,
        "needed": 2,
        "lacks": True,
    }


def test_tree_names_no_group_of_a_namespace_that_must_not_be_read() -> None:
    far = PodGroup(name="far", namespace="decode", min_available=1, parent=SERVE)
    parent = PodGroup(name="serve", min_groups=1)
    near = PodGroup(name="near", roles={"decode": Role(2, roles={"pod": 1})}, parent=SERVE)
    row = row_of(*map(PodGroupAdded, (parent, far, near)))
    scope = Scope(frozenset(["default"]))
    found = scope.without_others(row.to_dict(), lambda key: key.startswith("decode/"))
    assert [(each["group"], each["path"]) for each in found["tree"]] == [
        (SERVE, ""),
        ("(of another namespace)", ""),
        *(("default/near", path) for path in ("", "decode", "decode/0", "decode/1")),
    ]
    assert "decode/1" in str(read_gang_row(found).tree)
