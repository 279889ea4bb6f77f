"""What a plugin says of a node that is like no other is asked again after each pod."""

from __future__ import annotations

from collections.abc import Hashable

from gangsched import NodeAdded, PodAdded, Success, Unschedulable, presets
from gangsched.model import Pod
from gangsched.outcomes import Outcome
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost


class FewPods:
    """Accepts as many pods on a node as it offers cpus, whatever they request."""

    name = "FewPods"
    signs_allocatable = True

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        return (node.pod_count, node.node.allocatable)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        most = node.node.allocatable.to_milli()["cpu"] // 1000
        return Success() if node.pod_count < most else Unschedulable("too many pods")


def test_node_like_no_other_is_full_when_a_plugin_refuses_it_after_its_last_pod() -> None:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, plugins=(FewPods(),))
    for name, cpu in (("small", 1), ("large", 2)):
        host.tell(NodeAdded(make_node(name, cpu=cpu)))
    classes = host.scheduler._state.nodes.classes
    for number in range(5):
        host.tell(PodAdded(make_pod(f"p-{number}", cpu="1m")))
        host.decide()
    assert False in {given.is_signed for given in classes.occupied()}
    pods = list(host.cluster.pods())
    assert sorted(str(pod.node_name) for pod in pods) == ["None", "None", "large", "large", "small"]
