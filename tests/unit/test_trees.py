"""How a group stands part by part: ``Scheduler.tree``."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUpdated,
    Role,
    Topology,
    UnknownPodError,
    gang,
    presets,
)
from gangsched.testing import make_node, make_pod
from gangsched.trees import Tree, TreeRow
from support.immediate_host import ImmediateHost

SERVE = GroupKey("default/serve")


class Host(ImmediateHost):
    """Nodes of one rack each."""

    def __init__(self, *cpus: int) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster)
        for n, cpu in enumerate(cpus):
            self.tell(NodeAdded(make_node(f"n{n}", cpu=cpu, labels={"rack": f"r{n}"})))

    def tree(self, name: str = "serve") -> Tree:
        """Return the tree of a group."""
        return self.scheduler.tree(f"default/{name}")

    def submit(self, count: int = 4, minimum: int = 3, **roles: Any) -> None:
        """Submit copies of a leader and three workers, and decide."""
        copy = {"leader": 1, "worker": 3}
        decode = Role(count, minimum, roles=copy, topology=Topology("rack"))
        self.tell(*gang("serve", roles={"decode": decode, **roles}, cpu=1).events())
        self.decide()

    def child(self, name: str, parent: str = "serve", pods: int = 2, **stated: Any) -> None:
        """Add a group of pods below another group."""
        group = PodGroup(
            name=name, min_available=pods, parent=GroupKey(f"default/{parent}"), **stated
        )
        made = [make_pod(f"{name}-{n}", group=name, cpu=1) for n in range(pods)]
        self.tell(PodGroupAdded(group), *map(PodAdded, made))


def test_copies_are_counted_whole() -> None:
    host = Host(4, 4, 4, 3)
    host.submit(router=1)
    assert str(host.tree()) == "\n".join(
        [
            "PART             ON NODES",
            "serve            13 of 17 pods, needs 13",
            "├─ decode        3 of 4 copies, needs 3",
            "│  ├─ decode/0   4 of 4 pods",
            "│  ├─ decode/1   4 of 4 pods",
            "│  ├─ decode/2   4 of 4 pods",
            "│  └─ decode/3   0 of 4 pods",
            "└─ router        1 of 1 pod",
        ]
    )


def test_roles_of_a_copy_are_shown_if_it_runs_in_part() -> None:
    host = Host(4, 4)
    host.submit(2, 2)
    host.end("serve-decode-1-worker-0")
    rows = {row.path: (row.counts, row.lacks) for row in host.tree()}
    assert rows == {
        "": ("7 of 7 pods, needs 8", True),
        "decode": ("1 of 2 copies", True),
        "decode/0": ("4 of 4 pods", False),
        "decode/1": ("3 of 3 pods, needs 4", True),
        "decode/1/leader": ("1 of 1 pod", False),
        "decode/1/worker": ("2 of 2 pods, needs 3", True),
    }


def test_of_many_copies_those_that_lack_pods_come_first_and_others_are_summed_up() -> None:
    host = Host(*[4] * 24)
    host.submit(64, 16)
    host.end("serve-decode-7-worker-0", *(f"serve-decode-0-worker-{n}" for n in range(3)))
    host.end("serve-decode-0-leader-0")
    assert len(host.tree()) == 68
    assert host.tree().lines("ascii") == [
        "PART                       ON NODES",
        "serve                      91 of 251 pods, needs 64",
        "`- decode                  22 of 64 copies, needs 16",
        "   |- decode/7             3 of 3 pods, needs 4",
        "   |  |- decode/7/leader   1 of 1 pod",
        "   |  `- decode/7/worker   2 of 2 pods, needs 3",
        "   |- decode/0             0 of 0 pods, needs 4",
        *(f"   |- decode/{n}            0 of 4 pods" for n in range(24, 30)),
        "   |- and 34 more          0 of 136 pods",
        "   `- 22 more, whole       88 of 88 pods",
    ]


def test_groups_below_a_group_are_counted_at_each_level() -> None:
    host = Host(4)
    host.tell(PodGroupAdded(PodGroup(name="top", min_groups=2)))
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1, parent=GroupKey("default/top"))))
    for name in ("a", "b"):
        host.child(name, pods=3)
    host.child("p", "top", 1)
    host.decide()
    assert host.tree("top").lines()[1:] == [
        "top        2 of 2 groups",
        "├─ p       1 of 1 pod",
        "└─ serve   1 of 2 groups, needs 1",
        "   ├─ a    3 of 3 pods",
        "   └─ b    0 of 3 pods",
    ]
    assert host.tree("serve")[0].depth == 0
    assert [row.group for row in host.tree("serve")] == [SERVE, "default/a", "default/b"]


def test_parent_without_children_wants_one() -> None:
    host = Host()
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=2)))
    assert [row.counts for row in host.tree()] == ["0 of 0 groups, needs 2"]
    assert host.tree().is_nested


def test_group_in_another_namespace_is_named_with_it() -> None:
    host = Host(2)
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1)))
    far = PodGroup(name="far", namespace="other", min_available=1, parent=SERVE)
    host.tell(PodGroupAdded(far))
    assert host.tree().lines()[2] == "└─ other/far   0 of 0 pods, needs 1"


def test_flat_group_has_one_row_and_its_roles() -> None:
    host = Host(9)
    host.tell(*gang("serve", roles={"ps": 1, "worker": 2}, cpu=1).events())
    host.tell(PodAdded(make_pod("more", group="serve", role="evaluator", cpu=1)))
    host.decide()
    assert [row.counts for row in host.tree()] == [
        "4 of 4 pods, needs 3",
        "1 of 1 pod",
        "2 of 2 pods",
        "1 of 1 pod, needs 0",
    ]
    assert host.tree()[-1].path == "other roles"
    assert not host.tree().is_nested


def test_group_that_labels_define_has_one_row() -> None:
    host = Host(2)
    host.tell(PodAdded(Pod(name="a", pod_group="serve", min_available=1)))
    assert [row.counts for row in host.tree()] == ["0 of 1 pod"]


def test_copy_that_has_succeeded_is_whole() -> None:
    host = Host(4)
    host.submit(1, 1)
    for pod in tuple(host.cluster.pods()):
        host.tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))
    assert [row.counts for row in host.tree()] == ["4 of 4 pods", "1 of 1 copy", "4 of 4 pods"]
    assert not any(row.lacks for row in host.tree())


def test_unknown_group_is_refused() -> None:
    with pytest.raises(UnknownPodError, match="default/serve"):
        Host().tree()


def test_names_are_printable() -> None:
    row = TreeRow(
        group=GroupKey("a/b\n"), path="", depth=0, of="pods", held=0, total=0, needed=0, lacks=False
    )
    assert Tree([row]).lines()[1] == "b\\n    0 of 0 pods"
    assert Tree().lines() == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "no such"])
def test_tree_is_drawn_without_boxes_where_there_are_none(encoding: str) -> None:
    host = Host()
    host.submit(1, 1)
    assert host.tree().lines(encoding)[2].startswith("`- decode ")


def test_listing_counts_the_members_below_a_group_of_groups() -> None:
    host = Host(3)
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1)))
    host.child("a")
    host.child("b")
    host.decide()
    row = next(row for row in host.scheduler.groups() if row.key == SERVE)
    assert (row.min_available, row.members, row.pending, row.bound) == (2, 4, 2, 2)
