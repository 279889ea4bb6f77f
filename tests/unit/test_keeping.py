"""Room kept for a gang: on which nodes, when it is kept anew, and who has left meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from gangsched.events import Bound, NodeAdded, PodAdded, PodDeleted
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import Need
from gangsched.framework.nodes.reserved_views import keep_for, keeps_some, lifted, without
from gangsched.memory import InMemoryCluster
from gangsched.model import Node, NodeName, Pod, PodUID, Resources
from support.fleet import NAMES, FleetMachine, amounts, names, uids

GPU = "example.com/gpu"
N1, N2, NOWHERE = NodeName("n1"), NodeName("n2"), NodeName("nowhere")
POD = Pod(name="p", requests={"cpu": 3})
NONE: dict[str, int | str] = {}

asked = st.lists(
    st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(1, 2)).map(Resources),
    min_size=1,
    max_size=3,
)


def fleet() -> tuple[InMemoryCluster, Nodes]:
    """Return two nodes with nobody on them."""
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    for name in (N1, N2):
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 8, GPU: 1, "pods": 8})))
        nodes.refresh(name)
    return cluster, nodes


def need(*requests: dict[str, int | str], returning: tuple[PodUID, ...] = ()) -> Need:
    found = Need(returning)
    for each in requests:
        found.add(Resources(each))
    return found


class KeepingMachine(FleetMachine):
    """Room is kept through every change for who needs it, and never more than there is."""

    def look_at(self, *changed: NodeName | None) -> None:
        """Read nodes anew; before anybody is placed again, who needs other nodes says so."""
        altered = self.nodes.altered
        for name in changed:
            if name is not None:
                self.nodes.refresh(name)
        if altered != self.nodes.altered:
            keep_for(self.nodes, {})

    @rule(wanted=st.lists(asked, min_size=1, max_size=2), all_leave=st.booleans())
    def keep(self, wanted: list[list[Resources]], all_leave: bool) -> None:
        needs: dict[NodeName, Need] = {}
        for name, requests in zip(NAMES, wanted, strict=False):
            info = self.nodes.infos.get(name)
            needs[name] = Need(info.holders if info is not None and all_leave else ())
            for each in requests:
                needs[name].add(each)
        keep_for(self.nodes, needs)

    @rule(uid=uids, name=names, requests=amounts)
    def assume_of_all(self, uid: PodUID, name: NodeName, requests: dict[str, int]) -> None:
        with lifted(self.nodes):
            assert not keeps_some(self.nodes)
            self.assume(uid, name, requests)

    @rule(data=st.data())
    def look_ahead(self, data: st.DataObject) -> None:
        nodes = self.nodes
        before = {name: (dict(info.free), info.kept) for name, info in nodes.infos.items()}
        leaving = {
            name: [uid for uid in sorted(info.holders) if data.draw(st.booleans())]
            for name, info in nodes.infos.items()
        }
        with without(nodes, leaving):
            for name, info in nodes.infos.items():
                used = sum(info.holders.values(), start=Resources())
                assert Resources.from_milli(info.free) == info.node.allocatable - used
                assert not info.holders.keys() & set(leaving[name])
        assert before == {name: (dict(i.free), i.kept) for name, i in nodes.infos.items()}

    @invariant()
    def agrees(self) -> None:
        self.nodes._check()
        for name, info in self.nodes.infos.items():
            assert all(info.free[each] >= 0 for each in info.kept)
            used = sum(info.holders.values(), start=Resources())
            kept = Resources.from_milli(info.kept)
            assert Resources.from_milli(info.free) == info.node.allocatable - used - kept
            assert not info.kept or name in self.nodes.needs


TestKeeping = KeepingMachine.TestCase


@pytest.mark.parametrize(
    ("before", "after", "is_less"),
    [
        (need({"cpu": 2}), need({"cpu": 2}), False),
        (need({"cpu": 2}), need({"cpu": 1}), True),
        (need({"cpu": 1}), need({"cpu": 2}), False),
        (need({"cpu": 1}, {"cpu": 1}), need({"cpu": 2}), True),
        (need({"cpu": 2}), need({"cpu": 1}, {"cpu": 1}), False),
        (need({"cpu": 2}), need({"cpu": 1}, NONE), True),
        (need({"cpu": 1, GPU: "1m"}), need({"cpu": 1}), True),
        (need({"cpu": 1}), need({"cpu": 1, GPU: "1m"}), False),
    ],
    ids=[
        "the-same",
        "less-of-it",
        "more-of-it",
        "as-much-for-fewer-pods",
        "as-much-for-more-pods",
        "less-for-more-pods",
        "the-least-of-something-no-more",
        "the-least-of-something-too",
    ],
)
def test_less_is_kept_where_there_is_less_of_something_or_fewer_pods(
    before: Need, after: Need, is_less: bool
) -> None:
    _cluster, nodes = fleet()
    assert keep_for(nodes, {N1: before, N2: need({"cpu": 1})}) == []
    assert keep_for(nodes, {N1: after, N2: need({"cpu": 1})}) == [N1] * is_less
    nodes._check()
    assert keep_for(nodes, {N1: after}) == [N2]
    assert nodes.infos[N2].kept == {}


@pytest.mark.parametrize(
    ("needs", "is_some"),
    [
        ({}, False),
        ({N1: need({"cpu": 1})}, True),
        ({N1: need(NONE)}, True),
        ({N1: need({"cpu": 4}, returning=(POD.uid,))}, True),
        ({N1: need({"cpu": 3}, returning=(POD.uid,))}, False),
        ({NOWHERE: need({"cpu": 1})}, False),
    ],
    ids=[
        "nothing",
        "an-amount",
        "a-place",
        "an-amount-for-who-takes-the-place-of-another",
        "what-comes-back",
        "a-node-that-is-not-there",
    ],
)
def test_something_is_kept_where_an_amount_is_or_a_place(
    needs: dict[NodeName, Need], is_some: bool
) -> None:
    _cluster, nodes = fleet()
    nodes.assume(POD, N1)
    keep_for(nodes, needs)
    assert keeps_some(nodes) is is_some
    nodes._check()


def test_keeping_what_is_kept_leaves_a_node_what_it_is() -> None:
    _cluster, nodes = fleet()
    needs = {N1: need({"cpu": 2})}
    keep_for(nodes, needs)
    before = nodes.class_of(N1)
    keep_for(nodes, needs)
    nodes.keep_anew(N1)
    assert nodes.class_of(N1) is before


def test_who_is_let_go_of_before_it_has_started_no_longer_comes_back() -> None:
    """What was to come back of it is free now, and so it is kept."""
    _cluster, nodes = fleet()
    nodes.assume(POD, N1)
    keep_for(nodes, {N1: need({"cpu": 8}, returning=(POD.uid,))})
    info = nodes.infos[N1]
    assert (info.kept, info.kept_pods) == ({"cpu": 5000}, 0)
    nodes.forget(POD.uid)
    assert (info.kept, info.kept_pods) == ({"cpu": 8000}, 1)
    assert nodes.departed == [POD.uid]
    nodes._check()


@pytest.mark.parametrize("is_assigned", [True, False])
def test_who_comes_back_to_a_node_gives_nothing_back_a_second_time(is_assigned: bool) -> None:
    """It was to have left the node by then; when it left it, nobody asked until when it is back."""
    cluster, nodes = fleet()
    nodes.assume(POD, N1)
    if is_assigned:
        cluster.apply(PodAdded(POD))
        cluster.apply(Bound(POD.uid, N1, 1))
        nodes.refresh(N1)
        nodes.confirm(POD.uid)
    needs = {N1: need({"cpu": 5}, returning=(POD.uid,)), N2: need({"cpu": 1})}
    keep_for(nodes, needs)
    assert nodes.infos[N1].kept == {"cpu": 2000}
    if is_assigned:
        cluster.apply(PodDeleted(POD.uid))
        nodes.refresh(N1)
    else:
        nodes.forget(POD.uid)
    nodes._check()
    nodes.assume(POD, N1)
    nodes._check()
    nodes.keep_anew(N1)
    assert nodes.infos[N1].kept == {"cpu": 5000}


def test_all_who_leave_are_known_until_room_is_kept_for_other_needs() -> None:
    cluster, nodes = fleet()
    gone: list[PodUID] = []
    keep_for(nodes, {N1: need({"cpu": 1})})
    for name in (N1, N2):
        for number in range(2):
            pod = Pod(name=f"{name}-{number}", node_name=name, requests={"cpu": 1})
            cluster.apply(PodAdded(pod))
            nodes.refresh(name)
            cluster.apply(PodDeleted(pod.uid))
            nodes.refresh(name)
            gone.append(pod.uid)
    nodes.assume(POD, N2)
    nodes.forget(POD.uid)
    assert nodes.departed == [*gone, POD.uid]
    keep_for(nodes, {N1: need({"cpu": 2})})
    assert nodes.departed == []
