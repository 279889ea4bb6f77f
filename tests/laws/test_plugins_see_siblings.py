"""Plugins that depend on where other pods are: never an illegal placement, in either unit.

The plugins are written against the public protocols only. An oracle that tries every sequence says
which gangs can start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    Bind,
    Bound,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.explain import SearchBudgetExhausted, Shortage, UnschedulableMember
from gangsched.options import PlacementStrategy
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.siblings import (
    ZONE,
    Beside,
    CountedPerZone,
    OnePerNode,
    OnePerZone,
    Rule,
    accepts,
    can_place,
    ruled,
)

RULES: tuple[type[Rule], ...] = (OnePerNode, OnePerZone, CountedPerZone, Beside)
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit), ids=lambda unit: unit.value)

pytestmark = pytest.mark.once("says itself which unit it is about")


class Host:
    """A scheduler with one of the rules, a cluster that binds at once, and a witness.

    The witness checks each bind against the rule, on the pods that the cluster shows.
    """

    def __init__(self, rule: Rule, unit: SchedulingUnit, **options: Any) -> None:
        self.rule = rule
        self.cluster = InMemoryCluster()
        profile = Profile(*presets.coscheduling_profile().plugins, rule)
        self.scheduler = Scheduler(self.cluster, profile, unit=unit, **options)
        self.evicted: list[str] = []
        self.now = 0.0

    def tell(self, *events: Any) -> None:
        for event in events:
            self._perform(self.scheduler.handle(self.cluster.apply(event), now=self.now))

    def decide(self) -> dict[str, str]:
        """Decide until nothing is left; return the node of each bound pod."""
        for _ in range(200):
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is None:
                break
            self._perform(effects)
            self.scheduler._check()
        return self.placed()

    def placed(self) -> dict[str, str]:
        return {p.name: str(p.node_name) for p in self.cluster.pods() if p.node_name is not None}

    def later(self) -> dict[str, str]:
        """Decide, and let permit timeouts and backoff end; return the node of each bound pod."""
        for _ in range(8):
            self.decide()
            self.now += 4.0
            self._perform(self.scheduler.advance(now=self.now))
        return self.decide()

    def _perform(self, effects: tuple[Any, ...]) -> None:
        # a release is judged as a whole: its members were planned in the order of the binds
        for effect in effects:
            if isinstance(effect, Bind):
                pod = self.cluster.pod(effect.uid)
                node = self.cluster.node(effect.node)
                assert pod is not None
                assert node is not None
                nodes = list(self.cluster.nodes())
                on = {str(n.name): list(self.cluster.pods_on(n.name)) for n in nodes}
                assert accepts(self.rule, pod, node, on, nodes), f"{pod.name} on {node.name}"
                self.tell(Bound(effect.uid, effect.node, effect.attempt))
            elif type(effect).__name__ == "Evict":
                self.evicted.append(effect.uid)
                self.tell(PodDeleted(effect.uid))


def gang(name: str, count: int, least: int, label: str | None = "a", **more: Any) -> list[Pod]:
    made = (make_pod(f"{name}-{n}", group=name, min_available=least, **more) for n in range(count))
    return [ruled(pod, label) for pod in made]


def unschedulable(host: Host) -> UnschedulableMember:
    """Return why the gang ``default/g`` does not start."""
    found = getattr(host.scheduler.why(GroupKey("default/g")), "unschedulable_member", None)
    assert isinstance(found, UnschedulableMember)
    return found


def zoned(name: str, zone: str, cpu: int = 8) -> Node:
    return make_node(name, cpu=cpu, labels={ZONE: zone})


# One rule, both units ---------------------------------------------------------------------------


@EACH_UNIT
@EACH_RULE
@pytest.mark.parametrize("placement", list(PlacementStrategy), ids=lambda p: p.value)
def test_each_placement_strategy_keeps_the_rule(
    rule: type[Rule], unit: SchedulingUnit, placement: PlacementStrategy
) -> None:
    host = Host(rule(), unit, placement=placement)
    host.tell(*(NodeAdded(zoned(f"{zone}{n}", zone)) for zone in "abc" for n in range(2)))
    host.tell(*map(PodAdded, gang("g", 4, 3, gpu=0, cpu=1)))
    placed = host.decide()
    assert len(placed) == (4 if rule in {OnePerNode, Beside} else 3)


def test_proof_names_how_many_fit_and_why_nodes_refused() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP)
    host.tell(*(NodeAdded(make_node(f"n{n}", cpu=8)) for n in range(2)))
    host.tell(*map(PodAdded, gang("g", 3, 3, cpu=1)))
    host.decide()
    found = unschedulable(host)
    assert str(found.proof) == "at most 2 of 3 members fit at once"
    reasons = "0/2 nodes are available: 2 a pod of the application is on the node."
    assert str(found.diagnosis) == reasons


@pytest.mark.parametrize(("zones", "sizes", "fits"), [(3, 1, 3), (4, 2, 2), (2, 1, 2)])
def test_proof_has_the_largest_number_that_fits(zones: int, sizes: int, fits: int) -> None:
    host = Host(OnePerZone(), SchedulingUnit.GROUP)
    host.tell(*(NodeAdded(zoned(f"n{n}", f"z{n % zones // sizes}")) for n in range(5)))
    host.tell(*map(PodAdded, gang("g", 6, 5, cpu=1)))
    host.decide()
    found = unschedulable(host)
    assert found.proof == Shortage(5, fits, True)


def test_exhausted_search_is_reported_as_undecided() -> None:
    host = Host(OnePerZone(), SchedulingUnit.GROUP, search_budget=20)
    host.tell(*(NodeAdded(zoned(f"z{n}", f"z{n}")) for n in range(6)))
    host.tell(*map(PodAdded, gang("g", 7, 7, cpu=1)))
    host.decide()
    found = unschedulable(host)
    assert isinstance(found.proof, SearchBudgetExhausted)


def test_lack_of_resources_is_proven_without_asking_about_siblings() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP)
    host.tell(NodeAdded(make_node("n0", cpu=2)))
    host.tell(*map(PodAdded, gang("g", 2, 2, cpu=2)))
    host.decide()
    found = unschedulable(host)
    assert found.proof == Shortage(2, 1, True, resource="cpu")


# Completeness ------------------------------------------------------------------------------------

cases = st.fixed_dictionaries(
    {
        "nodes": st.lists(
            st.tuples(st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=3
        ),
        "running": st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None])), max_size=2
        ),
        "pending": st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None])), min_size=1, max_size=4
        ),
        "spare": st.integers(0, 2),
    }
)


def started(rule: Rule, unit: SchedulingUnit, drawn: Any) -> tuple[bool, bool]:
    """Return whether the gang starts, and whether the oracle says that it can.

    Where it cannot, what is proven is compared with the oracle, too.
    """
    host = Host(rule, unit)
    nodes = [zoned(f"n{n}", zone, cpu) for n, (cpu, zone) in enumerate(drawn["nodes"])]
    host.tell(*map(NodeAdded, nodes))
    for n, (where, label) in enumerate(drawn["running"]):
        pod = ruled(make_pod(f"old-{n}", cpu=1), label)
        host.tell(PodAdded(pod))
        node = nodes[where % len(nodes)]
        host.cluster.apply(Bound(pod.uid, NodeName(node.name), 1))
        host.tell(PodAdded(host.cluster.pod(pod.uid) or pod))
    pending = drawn["pending"]
    least = max(len(pending) - drawn["spare"], 1)
    pods = [
        ruled(make_pod(f"w-{n}", group="g", min_available=least, cpu=cpu), label)
        for n, (cpu, label) in enumerate(pending)
    ]
    running = host.placed()
    expected = can_place(rule, nodes, running, [*host.cluster.pods(), *pods], least)
    host.tell(*map(PodAdded, pods))
    placed = host.decide()
    starts = sum(name.startswith("w-") for name in placed) >= least
    if not starts and unit is SchedulingUnit.GROUP:
        proof = unschedulable(host).proof
        assert isinstance(proof, Shortage)
        everything = [*host.cluster.pods()]
        assert not can_place(rule, nodes, running, everything, proof.fits + 1)
        assert not proof.exact or can_place(rule, nodes, running, everything, proof.fits)
    return starts, expected


@EACH_RULE
@given(drawn=cases)
def test_search_finds_a_placement_if_one_exists(rule: type[Rule], drawn: Any) -> None:
    starts, can_start = started(rule(), SchedulingUnit.GROUP, drawn)
    assert starts == can_start


@EACH_RULE
@one_in(2)
@given(drawn=cases)
def test_pod_by_pod_never_starts_what_cannot_start(rule: type[Rule], drawn: Any) -> None:
    starts, can_start = started(rule(), SchedulingUnit.POD, drawn)
    assert can_start or not starts


def test_member_that_is_placed_last_may_be_needed_first() -> None:
    """The kinds come in the wrong order, and only one node has capacity for both."""
    host = Host(Beside(), SchedulingUnit.GROUP)
    host.tell(NodeAdded(make_node("n0", cpu=1)), NodeAdded(make_node("n1", cpu=2)))
    host.tell(PodAdded(ruled(make_pod("b", group="g", min_available=2, cpu=1), "b")))
    host.tell(PodAdded(ruled(make_pod("a", group="g", min_available=2, cpu=1), "a")))
    assert host.decide() == {"a": "n1", "b": "n1"}


def test_gang_within_one_label_keeps_the_rule() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP)
    host.tell(*(NodeAdded(zoned(name, name[0])) for name in ("a0", "b0", "b1")))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, topology=Topology(ZONE))))
    host.tell(*(PodAdded(ruled(make_pod(f"g-{n}", group="g", cpu=1))) for n in range(2)))
    assert sorted(host.decide().values()) == ["b0", "b1"]


def test_gang_that_fits_within_no_value_is_refused() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP)
    host.tell(*(NodeAdded(zoned(name, name[0])) for name in ("a0", "b0")))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=2, topology=Topology(ZONE))))
    host.tell(*(PodAdded(ruled(make_pod(f"g-{n}", group="g", cpu=1))) for n in range(2)))
    assert host.decide() == {}
    found = unschedulable(host)
    assert str(found.proof).startswith("at most 1 of 2 members fit within zone=")


def test_groups_of_a_bundle_keep_the_rule_among_each_other() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP)
    host.tell(*(NodeAdded(make_node(f"n{n}", cpu=8)) for n in range(3)))
    bundle = (GroupKey("default/one"), GroupKey("default/two"))
    for name in ("one", "two"):
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=2, bundle=bundle)))
        host.tell(*(PodAdded(ruled(make_pod(f"{name}-{n}", group=name, cpu=1))) for n in range(2)))
    assert host.decide() == {}
    host.tell(NodeAdded(make_node("n3", cpu=8)))
    assert sorted(host.later().values()) == ["n0", "n1", "n2", "n3"]


# Elastic and late members -----------------------------------------------------------------------


@EACH_UNIT
def test_late_member_of_a_started_gang_sees_its_siblings(unit: SchedulingUnit) -> None:
    host = Host(OnePerNode(), unit)
    host.tell(*(NodeAdded(make_node(f"n{n}", cpu=8)) for n in range(2)))
    host.tell(*map(PodAdded, gang("g", 3, 2, cpu=1)))
    assert len(host.decide()) == 2
    host.tell(NodeAdded(make_node("n2", cpu=8)))
    assert len(host.later()) == 3


# What requeues ----------------------------------------------------------------------------------


@EACH_UNIT
def test_pod_that_leaves_requeues_a_gang_that_its_presence_refused(unit: SchedulingUnit) -> None:
    host = Host(OnePerZone(), unit)
    host.tell(*(NodeAdded(zoned(f"{zone}{n}", zone)) for zone in "ab" for n in range(2)))
    host.tell(PodAdded(ruled(make_pod("old", cpu=1))))
    assert host.decide()
    host.tell(*map(PodAdded, gang("g", 2, 2, cpu=1)))
    assert len(host.decide()) == 1
    host.tell(PodDeleted(PodUID("default/old")))
    assert len(host.later()) == 2


@EACH_UNIT
def test_pod_that_arrives_on_a_node_requeues_a_pod_that_needs_it_there(
    unit: SchedulingUnit,
) -> None:
    host = Host(Beside(), unit)
    host.tell(NodeAdded(make_node("n0", cpu=8)))
    host.tell(PodAdded(ruled(make_pod("late", cpu=1), "b")))
    assert host.decide() == {}
    host.tell(PodAdded(ruled(make_pod("first", cpu=1), "a")))
    host.decide()
    assert host.later() == {"first": "n0", "late": "n0"}


@EACH_UNIT
def test_label_of_another_node_requeues_a_gang(unit: SchedulingUnit) -> None:
    host = Host(OnePerZone(), unit)
    host.tell(NodeAdded(zoned("a0", "a")), NodeAdded(zoned("a1", "a", 1)))
    host.tell(*map(PodAdded, gang("g", 2, 2, cpu=1)))
    assert host.decide() == {}
    host.tell(NodeUpdated(zoned("a1", "b", 1)))
    assert len(host.later()) == 2


@EACH_UNIT
def test_changed_label_of_a_running_pod_requeues_a_pod(unit: SchedulingUnit) -> None:
    host = Host(Beside(), unit)
    host.tell(NodeAdded(make_node("n0", cpu=8)))
    host.tell(PodAdded(make_pod("first", cpu=1)))
    assert host.decide()
    host.tell(PodAdded(ruled(make_pod("late", cpu=1), "b")))
    host.decide()
    running = host.cluster.pod(PodUID("default/first"))
    assert running is not None
    host.tell(PodAdded(ruled(running, "a")))
    assert host.later() == {"first": "n0", "late": "n0"}


# Preemption and backfill --------------------------------------------------------------------------


@EACH_UNIT
def test_preemption_evicts_a_pod_that_is_in_the_way_by_its_presence(unit: SchedulingUnit) -> None:
    host = Host(OnePerZone(), unit, preemption=Preemption())
    host.tell(NodeAdded(zoned("a0", "a")), NodeAdded(zoned("b0", "b")))
    host.tell(PodAdded(ruled(make_pod("low", cpu=1))))
    host.decide()
    host.tell(*map(PodAdded, gang("high", 2, 2, cpu=1, priority=5)))
    host.decide()
    for _ in range(5):
        host.later()
    assert host.evicted == ["default/low"]
    assert len(host.placed()) == 2


def test_backfill_leads_to_no_illegal_start() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP, backfill=Backfill())
    host.tell(*(NodeAdded(make_node(f"n{n}", cpu=2)) for n in range(2)))
    host.tell(*map(PodAdded, gang("one", 2, 2, cpu=2)))
    assert len(host.decide()) == 2
    host.tell(*map(PodAdded, gang("two", 2, 2, "a", cpu=1)))
    host.decide()
    for name in ("one-0", "one-1"):
        host.tell(PodDeleted(PodUID(f"default/{name}")))
    assert len(host.later()) == 2


# Snapshots and forks ----------------------------------------------------------------------------


def test_restored_scheduler_sees_the_pods_on_nodes() -> None:
    host = Host(OnePerNode(), SchedulingUnit.GROUP)
    host.tell(NodeAdded(make_node("n0", cpu=8)))
    host.tell(PodAdded(ruled(make_pod("old", cpu=1))))
    host.decide()
    data = host.scheduler.snapshot()
    host.scheduler.restore(data)
    host.scheduler._check()
    host.tell(*map(PodAdded, gang("g", 1, 1, cpu=1)))
    assert set(host.decide()) == {"old"}
    assert host.scheduler.snapshot() != data


@pytest.mark.parametrize("rule", [OnePerNode, OnePerZone, Beside])
def test_what_if_sees_the_pods_on_nodes(rule: Callable[[], Rule]) -> None:
    host = Host(rule(), SchedulingUnit.GROUP)
    host.tell(NodeAdded(make_node("n0", cpu=8)))
    host.tell(*map(PodAdded, gang("g", 2, 2, cpu=1)))
    ahead = host.scheduler.what_if(NodeAdded(zoned("n1", "b")), now=0.0)
    nodes = {effect.node for effect in ahead.effects if isinstance(effect, Bind)}
    assert nodes == ({"n0", "n1"} if rule is not Beside else nodes)
    assert host.scheduler.why(GroupKey("default/g")) is not None
    assert len(host.decide()) == (2 if rule is Beside else 0)
