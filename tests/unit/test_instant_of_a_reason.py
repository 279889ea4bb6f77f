"""An answer to why says of when its reason is: nothing is computed anew when it is asked."""

from __future__ import annotations

from gangsched import InMemoryCluster, Node, NodeAdded, Pod, PodAdded, Unschedulable, presets
from gangsched.explain import BackingOff, NoNodeFits
from gangsched.model import Resources
from gangsched.protocols import CycleView, NodeView


class NotOnSundays:
    name = "NotOnSundays"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Unschedulable:
        return Unschedulable("not on a Sunday")


class Host:
    """A scheduler with a node that a plugin refuses to each pod; one was tried at 3."""

    def __init__(self) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster, plugins=[NotOnSundays()])
        self.tell(NodeAdded(node("n", cpu=1)), now=0.0)
        self.tell(PodAdded(Pod(name="big")), now=3.0)

    def tell(self, event: NodeAdded | PodAdded, now: float) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=now)
        while self.scheduler.schedule_one(now=now) is not None:
            pass

    def why(self) -> NoNodeFits | BackingOff:
        why = self.scheduler.why("default/big", budget=0)
        assert isinstance(why, NoNodeFits | BackingOff)
        return why


def node(name: str, *, cpu: int) -> Node:
    return Node(name=name, allocatable=Resources({"cpu": cpu}))


def test_reason_is_of_the_instant_of_the_last_attempt() -> None:
    host = Host()
    host.scheduler.advance(now=50.0)
    assert host.why().tried_at == 3.0


def test_next_failed_attempt_moves_the_instant() -> None:
    host = Host()
    host.scheduler.advance(now=50.0)
    host.tell(NodeAdded(node("m", cpu=4)), now=60.0)
    assert (host.why().attempts, host.why().tried_at) == (2, 60.0)


def test_answers_that_differ_in_the_instant_alone_are_equal() -> None:
    assert NoNodeFits(1, "no node", None, 3.0) == NoNodeFits(1, "no node", None, 9.0)
    assert BackingOff(8.0, 1, "no node", None, 3.0) == BackingOff(8.0, 1, "no node")


def test_instant_is_kept_by_a_snapshot() -> None:
    host = Host()
    restored = presets.gang(host.cluster, plugins=[NotOnSundays()])
    restored.restore(host.scheduler.snapshot())
    why = restored.why("default/big")
    assert isinstance(why, NoNodeFits | BackingOff)
    assert why.tried_at == 3.0
