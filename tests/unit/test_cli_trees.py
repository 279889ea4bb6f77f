"""``gangsched simulate`` and ``explain`` of gangs with copies: trees as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.documents import printed_by

pytest.importorskip("yaml")

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "5"}},
}
CONTAINERS = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
DRAWN = """\
PART             ON NODES
serve            4 of 6 pods, needs 4
└─ decode        2 of 3 copies, needs 2
   ├─ decode/0   2 of 2 pods
   ├─ decode/1   2 of 2 pods
   └─ decode/2   0 of 2 pods
"""


def manifests(directory: Path, *names: str, count: int = 3) -> str:
    """Write a node and gangs of copies of two pods; return the file."""
    documents = [NODE]
    for name in names:
        roles = {"decode": {"count": count, "minimum": 2, "roles": {"pod": 2}}}
        documents.append(
            {
                "apiVersion": "simulation.gangsched.io/v1alpha1",
                "kind": "Gang",
                "metadata": {"name": name},
                "spec": {"roles": roles, "template": {"spec": {"containers": CONTAINERS}}},
            }
        )
    path = directory / "cluster.yaml"
    path.write_text("---\n".join(json.dumps(each) + "\n" for each in documents))
    return str(path)


def test_explain_draws_the_tree_below_the_reason(tmp_path: Path) -> None:
    file = manifests(tmp_path, "serve")
    first, _, rest = printed_by("explain", "serve", file).partition("\n")
    assert first.startswith("t=60s  pod group default/serve: runs: 4 of 6 members")
    assert rest.startswith(DRAWN)
    document = json.loads(printed_by("explain", "serve", file, "--output", "json"))
    assert [row["path"] for row in document["tree"]][-2:] == ["decode/1", "decode/2"]


def test_explain_lists_ten_domains_and_counts_the_others(tmp_path: Path) -> None:
    racks = [{"name": f"n{n:02}", "labels": {"rack": f"r{n:02}"}} for n in range(12)]
    nodes = [{**NODE, "metadata": each} for each in racks]
    spec = {"roles": {"w": 7}, "topology": "rack", "template": {"spec": {"containers": CONTAINERS}}}
    group = {
        "apiVersion": "simulation.gangsched.io/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": "g"},
        "spec": spec,
    }
    path = tmp_path / "racks.yaml"
    path.write_text("---\n".join(json.dumps(each) + "\n" for each in [*nodes, group]))
    printed = printed_by("explain", "g", str(path)).splitlines()
    rows = [line for line in printed if "rack=r" in line and "short by 2 cpu" in line]
    assert len(rows) == 10
    assert "and 2 more domains" in printed
    document = json.loads(printed_by("explain", "g", str(path), "--output", "json"))
    assert [(row["domain"], row["fits"], row["needed"]) for row in document["domains"]] == [
        (f"r{n:02}", 5, 7) for n in range(12)
    ]


def test_simulate_draws_what_lacks_pods_and_nothing_else(tmp_path: Path) -> None:
    assert printed_by("simulate", manifests(tmp_path, "serve")).endswith(f"\n\n{DRAWN}")
    assert "PART" not in printed_by("simulate", manifests(tmp_path, "serve", count=2))


def test_simulate_draws_the_first_trees_and_counts_the_others(tmp_path: Path) -> None:
    names = [f"g{n}" for n in range(7)]
    file = manifests(tmp_path, *names)
    printed = printed_by("simulate", file)
    assert printed.count("PART ") == 4
    assert printed.endswith("and 3 more gangs of which parts lack pods\n")
    document = json.loads(printed_by("simulate", file, "--output", "json"))
    assert [tree[0]["group"] for tree in document["trees"]] == [f"default/{n}" for n in names]
