"""Reserved capacity on nodes: through every change of them, in views, and pods that depart."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from gangsched.events import Bound, NodeAdded, PodAdded, PodDeleted
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.reserved_capacity import ReservedCapacity
from gangsched.framework.nodes.reserved_views import exempt, replace, withholds, without
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
    """Return two nodes without pods."""
    cluster = InMemoryCluster()
    nodes = Nodes(cluster)
    for name in (N1, N2):
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 8, GPU: 1, "pods": 8})))
        nodes.refresh(name)
    return cluster, nodes


def reserved(
    *requests: dict[str, int | str], on: NodeName = N1, returning: tuple[PodUID, ...] = ()
) -> ReservedCapacity:
    """Return an entry of a reservation for pods with these requests."""
    entry = ReservedCapacity.expecting(1, on, 0, returning)
    for each in requests:
        entry.add(Resources(each))
    return entry


class ReservingMachine(FleetMachine):
    """Each change of the nodes keeps what is withheld as the ledger says."""

    def look_at(self, *changed: NodeName | None) -> None:
        """Refresh nodes; if one was altered, the reservation is dropped before the next pod."""
        altered = self.nodes.altered
        for name in changed:
            if name is not None:
                self.nodes.refresh(name)
        if altered != self.nodes.altered:
            replace(self.nodes, ())

    @rule(wanted=st.lists(asked, min_size=1, max_size=2), all_leave=st.booleans())
    def reserve(self, wanted: list[list[Resources]], all_leave: bool) -> None:
        entries: list[ReservedCapacity] = []
        for name, requests in zip(NAMES, wanted, strict=False):
            info = self.nodes.infos.get(name)
            returning = info.holders if info is not None and all_leave else ()
            entries.append(ReservedCapacity.expecting(1, name, 0, returning))
            for each in requests:
                entries[-1].add(each)
        replace(self.nodes, entries)

    @rule(name=names, requests=amounts)
    def nominate(self, name: NodeName, requests: dict[str, int]) -> None:
        self.nodes.reserve([ReservedCapacity(2, name, 5, Resources.from_milli(requests))])

    @rule(data=st.data())
    def drop_a_nomination(self, data: st.DataObject) -> None:
        nominated = [entry for entry in self.nodes.ledger if entry.returning is None]
        if nominated:
            entry = nominated[data.draw(st.integers(0, len(nominated) - 1))]
            self.nodes.release([entry])
            self.nodes.release([entry])  # it is passed over

    @rule(uid=uids, name=names, requests=amounts)
    def assume_while_exempt(self, uid: PodUID, name: NodeName, requests: dict[str, int]) -> None:
        entries = self.nodes.ledger.expected()
        with exempt(self.nodes, entries):
            assert not withholds(self.nodes, entries)
            self.assume(uid, name, requests)

    @rule(data=st.data())
    def look_ahead(self, data: st.DataObject) -> None:
        nodes = self.nodes
        before = {name: (dict(info.free), info.withheld) for name, info in nodes.infos.items()}
        leaving = {
            name: [uid for uid in sorted(info.holders) if data.draw(st.booleans())]
            for name, info in nodes.infos.items()
        }
        with without(nodes, list(nodes.ledger), leaving):
            for name, info in nodes.infos.items():
                used = sum(info.holders.values(), start=Resources())
                assert Resources.from_milli(info.free) == info.node.allocatable - used
                assert not info.holders.keys() & set(leaving[name])
        after = {name: (dict(info.free), info.withheld) for name, info in nodes.infos.items()}
        assert {n: (_some(f), w) for n, (f, w) in before.items()} == {
            n: (_some(f), w) for n, (f, w) in after.items()
        }

    @invariant()
    def agrees(self) -> None:
        self.nodes._check()
        for name, info in self.nodes.infos.items():
            used = sum(info.holders.values(), start=Resources())
            nominated = sum((entry.requests for entry in info.nominated), start=Resources())
            withheld = Resources.from_milli(info.withheld)
            offered = info.node.allocatable
            assert Resources.from_milli(info.free) == offered - used - nominated - withheld
            # a reservation withholds no more than is free
            assert all(info.free[each] >= 0 for each in info.withheld)
            assert not info.withheld or any(e.node == name for e in self.nodes.ledger.expected())
            assert info.pod_count == len(info.holders) + len(info.nominated) + info.withheld_pods


def _some(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


TestReserving = ReservingMachine.TestCase


@pytest.mark.parametrize(
    ("before", "after", "is_less"),
    [
        (reserved({"cpu": 2}), reserved({"cpu": 2}), False),
        (reserved({"cpu": 2}), reserved({"cpu": 1}), True),
        (reserved({"cpu": 1}), reserved({"cpu": 2}), False),
        (reserved({"cpu": 1}, {"cpu": 1}), reserved({"cpu": 2}), True),
        (reserved({"cpu": 2}), reserved({"cpu": 1}, {"cpu": 1}), False),
        (reserved({"cpu": 2}), reserved({"cpu": 1}, NONE), True),
        (reserved({"cpu": 1, GPU: "1m"}), reserved({"cpu": 1}), True),
        (reserved({"cpu": 1}), reserved({"cpu": 1, GPU: "1m"}), False),
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
def test_view_withholds_capacity_and_places(
    before: ReservedCapacity, after: ReservedCapacity, is_less: bool
) -> None:
    _cluster, nodes = fleet()
    assert replace(nodes, [before, reserved({"cpu": 1}, on=N2)]) == []
    assert replace(nodes, [after, reserved({"cpu": 1}, on=N2)]) == [N1] * is_less
    nodes._check()
    assert replace(nodes, [after]) == [N2]
    assert nodes.infos[N2].withheld == {}


@pytest.mark.parametrize(
    ("entries", "is_some"),
    [
        ([], False),
        ([reserved({"cpu": 1})], True),
        ([reserved(NONE)], True),
        ([reserved({"cpu": 4}, returning=(POD.uid,))], True),
        ([reserved({"cpu": 3}, returning=(POD.uid,))], False),
        ([reserved({"cpu": 1}, on=NOWHERE)], False),
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
def test_amount_or_place_reserves_something(entries: list[ReservedCapacity], is_some: bool) -> None:
    _cluster, nodes = fleet()
    nodes.assume(POD, N1)
    replace(nodes, entries)
    assert withholds(nodes, entries) is is_some
    nodes._check()


def test_reserving_nothing_leaves_a_node_unchanged() -> None:
    _cluster, nodes = fleet()
    entries = [reserved({"cpu": 2})]
    replace(nodes, entries)
    before = nodes.class_of(N1)
    replace(nodes, entries)
    nodes.withhold_anew(nodes.infos[N1])
    assert nodes.class_of(N1) is before


def test_released_pod_that_never_started_does_not_return() -> None:
    """The part that was to return is free now, and so it is withheld."""
    _cluster, nodes = fleet()
    nodes.assume(POD, N1)
    replace(nodes, [reserved({"cpu": 8}, returning=(POD.uid,))])
    info = nodes.infos[N1]
    assert (info.withheld, info.withheld_pods) == ({"cpu": 5000}, 0)
    nodes.forget(POD.uid)
    assert (info.withheld, info.withheld_pods) == ({"cpu": 8000}, 1)
    assert nodes.departed == [POD.uid]
    nodes._check()


@pytest.mark.parametrize("is_assigned", [True, False])
def test_returning_pod_supplies_no_capacity_a_second_time(is_assigned: bool) -> None:
    """It was expected to leave by then; when it left, its return was not estimated."""
    cluster, nodes = fleet()
    nodes.assume(POD, N1)
    if is_assigned:
        cluster.apply(PodAdded(POD))
        cluster.apply(Bound(POD.uid, N1, 1))
        nodes.refresh(N1)
        nodes.confirm(POD.uid)
    entries = [reserved({"cpu": 5}, returning=(POD.uid,)), reserved({"cpu": 1}, on=N2)]
    replace(nodes, entries)
    assert nodes.infos[N1].withheld == {"cpu": 2000}
    if is_assigned:
        cluster.apply(PodDeleted(POD.uid))
        nodes.refresh(N1)
    else:
        nodes.forget(POD.uid)
    nodes._check()
    nodes.assume(POD, N1)
    nodes._check()
    nodes.withhold_anew(nodes.infos[N1])
    assert nodes.infos[N1].withheld == {"cpu": 5000}


def test_all_leaving_pods_are_known_until_other_needs_get_a_reservation() -> None:
    cluster, nodes = fleet()
    gone: list[PodUID] = []
    replace(nodes, [reserved({"cpu": 1})])
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
    replace(nodes, [reserved({"cpu": 2})])
    assert nodes.departed == []
