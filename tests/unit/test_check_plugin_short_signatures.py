"""``check_plugin`` finds a signature that leaves out what is compared with the pods on a node."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from gangsched import Node, Outcome, Pod, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import check_plugin

PODS = [Pod(name=name, labels={"app": name}, requests={"cpu": 1}) for name in ("web", "store")]
NODES = [Node(name="n", allocatable={"cpu": 16})]


class OneOfAnApp:
    """One pod of each app on a node; the signature lacks the app."""

    name = "OneOfAnApp"

    def reads_pods(self, pod: Pod) -> bool:
        return "app" in pod.labels

    def pod_signature(self, pod: Pod) -> Hashable:
        return "app" in pod.labels

    def node_signature(self, node: NodeView) -> Hashable:
        return tuple(sorted(pod.labels.get("app", "") for pod in node.pods))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        app = pod.labels.get("app")
        if app is None or all(each.labels.get("app") != app for each in node.pods):
            return Success()
        return Unschedulable("the app runs there", resolvable=True)


class SignedByApp(OneOfAnApp):
    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.labels.get("app")


class FarFromItsApp(OneOfAnApp):
    """Scores by the apps on a node; the signature lacks the app."""

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success()

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 100 - min(sum(each.labels == pod.labels for each in node.pods), 100)


@pytest.mark.parametrize("plugin", [OneOfAnApp(), FarFromItsApp()], ids=["filter", "score"])
def test_signature_without_the_label_that_is_compared_is_found(plugin: OneOfAnApp) -> None:
    with pytest.raises(AssertionError) as found:
        check_plugin(plugin, pods=PODS, nodes=NODES)
    said = str(found.value)
    assert "pod_signature" in said
    assert "sign all that is compared with node.pods" in said
    assert "a copy of default/web" in said


def test_signature_with_the_label_that_is_compared_is_accepted() -> None:
    check_plugin(SignedByApp(), pods=PODS, nodes=NODES)
