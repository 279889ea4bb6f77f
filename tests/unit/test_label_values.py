"""The values of a label, in which order a gang tries them, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Bound,
    GroupKey,
    InMemoryCluster,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    Scheduler,
    Topology,
    presets,
)
from gangsched.errors import InternalError
from gangsched.framework.nodes.label_values import LabelValues
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.placement import topology
from gangsched.framework.placement.plan import Domain
from gangsched.framework.runtime import filter_and_score
from gangsched.model import Node
from gangsched.options import PlacementStrategy
from gangsched.testing import make_pod
from support.calls import lines_for

RACK = "rack"


class Host:
    """A scheduler and its cluster; each bind is reported at once."""

    def __init__(self, **options: Any) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.gang(self.cluster, **options)
        self.now = 0.0
        self.binds: list[Bind] = []

    def tell(self, event: Any) -> None:
        self.now += 1000.0
        self.scheduler.handle(self.cluster.apply(event), now=self.now)

    def values(self) -> list[LabelValues]:
        """Return the values for each class of pods, after a check of them and of the scheduler."""
        self.scheduler._check()
        state, found = self.scheduler._state, list[LabelValues]()
        for pod_class in state.pod_classes.by_signature.values():
            known = filter_and_score.judged(state.settings, state.nodes, pod_class, self.now)
            kept = known.judgements
            values = kept.values_of(RACK)
            judged = {given: kept._judged[given].max_pods for given in kept._firsts}
            values._check(kept._firsts, judged.__getitem__)
            found.append(values)
        return found

    def decide(self) -> None:
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            for effect in effects:
                if isinstance(effect, Bind):
                    self.binds.append(effect)
                    report = Bound(effect.uid, effect.node, effect.attempt)
                    self.scheduler.handle(self.cluster.apply(report), now=self.now)


def node(name: str, cpu: int, rack: str | None) -> Node:
    labels = {} if rack is None else {RACK: rack}
    return Node(name=NodeName(name), allocatable={"cpu": cpu}, labels=labels)


def spec(name: str, least: int) -> PodGroup:
    return PodGroup(name=name, min_available=least, topology=Topology(RACK))


# The order of the values -------------------------------------------------------------------------


def expected(
    counts: Sequence[tuple[PodClass, int]], needed: int
) -> list[tuple[frozenset[str] | None, float]]:
    """Return the domains as the rule says it, with a look at every class of nodes."""
    enough: dict[str, int] = {}
    totals: dict[str, int] = {}
    for pod_class, count in counts:
        of_class: dict[str, int] = {}
        for found, each in pod_class.judgements.with_max_pods():
            value = found.node.labels.get(RACK)
            if value is not None:
                of_class[value] = of_class.get(value, 0) + each * len(found.nodes)
        for value, most in of_class.items():
            enough[value] = enough.get(value, 0) + min(most, count)
            totals[value] = totals.get(value, 0) + most
    fitting = [value for value, most in enough.items() if most >= needed]
    if not fitting and enough:
        fitting = [max((most, value) for value, most in enough.items())[1]]
    fitting.sort(key=lambda value: (-enough[value], totals[value], value))
    return [*((frozenset({value}), float(enough[value])) for value in fitting)]


RACKS = st.sampled_from(["a", "b", "c", "d", None])
NODES = st.lists(st.tuples(st.integers(1, 4), RACKS), max_size=8)
RUNNING = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 2)), max_size=5)
KINDS = st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 4)), min_size=1, max_size=3)


@given(NODES, RUNNING, KINDS, st.integers(1, 12), st.sampled_from([(), (0,), (1, 2), (0, 3, 4)]))
def test_values_are_tried_in_the_order_of_the_rule(
    given_nodes: list[tuple[int, str | None]],
    running: list[tuple[int, int]],
    kinds: list[tuple[int, int]],
    needed: int,
    deleted: tuple[int, ...],
) -> None:
    """Also when several kinds of members share a class, and after nodes have changed."""
    host = Host()
    for number, (cpu, rack) in enumerate(given_nodes):
        host.tell(NodeAdded(node(f"n{number}", cpu, rack)))
    host.tell(PodGroupAdded(spec("g", 50)))  # it waits for more members than there are
    members = [make_pod(f"g{k}", group="g", cpu=cpu) for k, (cpu, _count) in enumerate(kinds)]
    for member in members:
        host.tell(PodAdded(member))
    state = host.scheduler._state
    info = state.pods.registry.get(GroupKey("default/g"))
    assert info is not None

    def check() -> None:
        counts: list[tuple[PodClass, int]] = []
        for member, (_cpu, count) in zip(members, kinds, strict=True):
            counts.append((state.pods.members[member.uid].pod_class, count))
        assert info is not None
        host.values()
        found = topology.domains(state.nodes, state.pods, info, counts, needed)
        assert [
            (None if domain is None else domain.values, most) for domain, most in found
        ] == expected(counts, needed)

    check()
    for number, (place, cpu) in enumerate(running):
        if place < len(given_nodes):
            pod = make_pod(f"r{number}", cpu=cpu)
            host.tell(PodAdded(evolve(pod, node_name=NodeName(f"n{place}"))))
            check()
    check()
    for place in deleted:
        if place < len(given_nodes):
            cpu, rack = given_nodes[place]
            if place % 2:
                host.tell(NodeUpdated(node(f"n{place}", cpu + 1, "e" if rack == "a" else "a")))
            else:
                host.tell(NodeDeleted(NodeName(f"n{place}")))
    check()


GANGS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 2), st.booleans()), min_size=1, max_size=6
)


def history(
    placement: PlacementStrategy,
    given_nodes: list[tuple[int, str | None]],
    gangs: list[tuple[int, int, bool]],
) -> list[Bind]:
    """Place gangs within a value each, of which some lose a member; return the binds."""
    host = Host(placement=placement)
    for number, (cpu, rack) in enumerate(given_nodes):
        host.tell(NodeAdded(node(f"n{number}", cpu, rack)))
    for number, (size, cpu, loses) in enumerate(gangs):
        host.tell(PodGroupAdded(spec(f"g{number}", size)))
        for k in range(size):
            host.tell(PodAdded(make_pod(f"g{number}-{k}", group=f"g{number}", cpu=cpu)))
        host.decide()
        host.values()
        if loses and host.binds:
            host.tell(PodDeleted(host.binds[-1].uid))
            # a late member goes to the value of its gang
            name = host.binds[-1].uid.removeprefix("default/")
            host.tell(PodAdded(make_pod(f"{name}-late", group=name.partition("-")[0], cpu=1)))
            host.decide()
            host.values()
    return host.binds


@given(st.sampled_from(list(PlacementStrategy)), NODES, GANGS)
def test_nodes_of_a_value_are_used_in_the_order_of_all_nodes(
    placement: PlacementStrategy,
    given_nodes: list[tuple[int, str | None]],
    gangs: list[tuple[int, int, bool]],
) -> None:
    """The same nodes are chosen as by a pass over all nodes that leaves the others out."""
    found = history(placement, given_nodes, gangs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Domain, "within", None)
        assert history(placement, given_nodes, gangs) == found


def test_value_that_takes_no_member_any_more_is_left_out() -> None:
    host = Host()
    for rack in "ab":
        host.tell(NodeAdded(node(rack, 2, rack)))
    for name in ("g", "h", "i"):
        host.tell(PodGroupAdded(spec(name, 2)))
        for k in range(2):
            host.tell(PodAdded(make_pod(f"{name}{k}", group=name, cpu=1)))
        host.decide()
        host.values()
    assert [bind.node for bind in host.binds] == ["a", "a", "b", "b"]
    host.tell(PodDeleted(host.binds[0].uid))
    host.tell(PodDeleted(host.binds[1].uid))
    host.decide()
    host.values()
    assert [bind.node for bind in host.binds[4:]] == ["a", "a"]


def test_label_without_a_group_is_read_anew_for_the_next_group() -> None:
    """Nodes are told apart by a label only while a group asks for it."""
    host = Host()
    for number in range(4):
        host.tell(NodeAdded(node(f"n{number}", 2, "ab"[number % 2])))
    for name in ("g", "h"):
        host.tell(PodGroupAdded(spec(name, 4)))
        for k in range(4):
            host.tell(PodAdded(make_pod(f"{name}{k}", group=name, cpu=1)))
        host.decide()
        host.values()
        for k in range(4):
            host.tell(PodDeleted(host.binds[-1 - k].uid))
        host.tell(PodGroupDeleted(GroupKey(f"default/{name}")))
        for number in range(40):  # the label is idle, and forgotten after some changes
            changed = node(f"n{number % 4}", 2 + number % 2, "ab"[(number + number // 4) % 2])
            host.tell(NodeUpdated(changed))
        host.values()
    racks = [host.cluster.node(bind.node) for bind in host.binds[4:]]
    assert len({math.nan if rack is None else rack.labels[RACK] for rack in racks}) == 1


# What it costs -----------------------------------------------------------------------------------


def steps_of_a_gang(racks: int, strategy: PlacementStrategy) -> int:
    """Return how many lines run for a gang of 3 in a cluster with so many racks of 3 nodes."""
    host = Host(placement=strategy)
    for number in range(3 * racks):
        host.tell(NodeAdded(node(f"n{number}", 4, f"r{number // 3}")))

    def place(name: str) -> None:
        host.tell(PodGroupAdded(spec(name, 3)))
        for k in range(3):
            host.tell(PodAdded(make_pod(f"{name}{k}", group=name, cpu=3)))
        host.decide()

    for number in range(4):  # what is made once is made
        place(f"before{number}-")
    steps = lines_for(lambda: place("measured"))
    assert len(host.binds) == 15
    return steps


@pytest.mark.parametrize("strategy", list(PlacementStrategy))
def test_gang_within_a_value_costs_the_same_for_any_number_of_values(
    strategy: PlacementStrategy,
) -> None:
    """Each gang looked at every class of nodes twice."""
    assert steps_of_a_gang(200, strategy) < 1.3 * steps_of_a_gang(20, strategy)


# The invariants ----------------------------------------------------------------------------------


def forget_a_class(values: LabelValues) -> None:
    values._values["a"].firsts.clear()


def miscount(values: LabelValues) -> None:
    values._values["a"].total += 1


def disorder(values: LabelValues) -> None:
    values._order.reverse()


def lose_an_order(values: LabelValues) -> None:
    ranking = values._values["a"].by_score
    assert ranking is not None
    ((rank, _found),) = ranking
    del ranking._levels[rank]
    ranking._ranks.remove(rank)


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (forget_a_class, "label rack: a class of nodes is not at its value"),
        (miscount, "label rack: the totals {'a': 5, 'b': 3} are wrong"),
        (disorder, "label rack: the values are not in order"),
        (lose_an_order, "label rack: a has lost an order"),
    ],
)
def test_check_reports_values_that_are_not_those_of_the_nodes(
    sabotage: Callable[[LabelValues], None], says: str
) -> None:
    host = Host()
    for rack, cpu in (("a", 4), ("b", 3)):
        host.tell(NodeAdded(node(rack, cpu, rack)))
    host.tell(PodGroupAdded(spec("g", 5)))
    for k in range(5):
        host.tell(PodAdded(make_pod(f"g{k}", group="g", cpu=1)))
    host.decide()
    (values,) = host.values()
    assert list(values.in_order()) == [(3, "b"), (4, "a")]
    sabotage(values)
    with pytest.raises(InternalError) as caught:
        host.values()
    assert caught.value.invariant == says
