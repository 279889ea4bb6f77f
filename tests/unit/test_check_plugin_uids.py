"""``check_plugin`` finds a signed plugin whose answer depends on the UID of the pod."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from gangsched import Node, Outcome, Pod, Success, Unschedulable, gang
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import check_plugin

PODS = gang("g", workers=4, cpu=1).pods
NODES = [Node(name="n", allocatable={"cpu": 16})]


class Unsigned:
    """At most some members of a group on a node; it does not count the pod itself."""

    name = "Few"

    def __init__(self, most: int = 2, *, compares_uids: bool = True) -> None:
        self.most, self.compares_uids = most, compares_uids

    def reads_pods(self, pod: Pod) -> bool:
        return pod.pod_group is not None

    def count(self, pod: Pod, node: NodeView) -> int:
        members = [each for each in node.pods if each.pod_group == pod.pod_group]
        return sum(not (self.compares_uids and each.uid == pod.uid) for each in members)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        if pod.pod_group is None or self.count(pod, node) < self.most:
            return Success()
        return Unschedulable(f"{self.most} members run there", resolvable=False)


class Signed(Unsigned):
    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.namespace, pod.pod_group

    def node_signature(self, node: NodeView) -> Hashable:
        return None


class SignedByUid(Signed):
    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.uid


class Scored(Signed):
    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success()

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 0 if pod.pod_group is None else min(self.count(pod, node), 100)


@pytest.mark.parametrize(
    "plugin", [Signed(1), Signed(2), Signed(8), Scored()], ids=["1", "2", "8", "score"]
)
def test_signed_plugin_that_compares_uids_is_found(plugin: object) -> None:
    with pytest.raises(AssertionError, match=r"Few\.pod_signature: is equal, and .* UIDs"):
        check_plugin(plugin, pods=PODS, nodes=NODES)


def test_signed_plugin_that_compares_uids_is_found_without_pods_of_a_caller() -> None:
    with pytest.raises(AssertionError, match=r"Few\.pod_signature: is equal, and filter differs"):
        check_plugin(Signed())


@pytest.mark.parametrize(
    "plugin",
    [Unsigned(), SignedByUid(), Signed(compares_uids=False), Scored(compares_uids=False)],
    ids=["unsigned", "signed by UID", "counts all", "scores all"],
)
def test_plugin_whose_answer_holds_for_its_signature_passes(plugin: Any) -> None:
    check_plugin(plugin, pods=PODS, nodes=NODES)
