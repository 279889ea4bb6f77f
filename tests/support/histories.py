"""Hypothesis strategies for policies, steps and histories."""

from __future__ import annotations

from attrs import evolve, field, frozen
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    Backoff,
    ClusterState,
    MatchPolicy,
    Order,
    Preemption,
    Quota,
    Scheduler,
    SchedulingUnit,
    Topology,
    WhenBindFails,
    WhenBlocked,
    presets,
)
from support.driver import Driver, Fate
from support.estimates import Estimates
from support.examples import IS_DEEP
from support.history_steps import (
    Catch,
    ChangePod,
    Decide,
    DropGroup,
    DropNode,
    HistoryStep,
    Pass,
    PutBundle,
    PutGroup,
    PutNode,
    PutPods,
    Rebuild,
    Repeat,
    Report,
    Restart,
)
from support.level_laws import HOST, LEVELS, LevelDriver
from support.units import coscheduling, current
from support.world import World

__all__ = [
    "Policy",
    "all_policies",
    "bundle_deeds",
    "catches",
    "decisions",
    "steps",
    "group_deeds",
    "gangs_in_levels",
    "histories",
    "level_histories",
    "level_policies",
    "level_steps",
    "node_deeds",
    "passes",
    "pod_changes",
    "pod_deeds",
    "policies",
    "preempting_policies",
    "reports",
    "restarts",
    "rivals",
    "steady_policies",
    "whole_gangs",
]


@frozen
class Policy:
    """The arguments of a scheduler; by default, the unit is that of the running test."""

    order: Order = Order.LAST_FAILURE
    when_blocked: WhenBlocked = WhenBlocked.UNTIL_OTHERS_TURN
    reject_percentage: int = 0
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    when_bind_fails: WhenBindFails = WhenBindFails.RETRY_MEMBER
    bind_retries: int = 1
    gangs: bool = True
    unit: SchedulingUnit | None = None
    backoff: Backoff = field(factory=Backoff)
    preemption: Preemption | None = None
    backfill: Backfill | None = None
    strict_priorities: bool = False
    quotas: tuple[Quota, ...] = ()
    levels: tuple[str, ...] = ()
    together: bool = False
    """Whether events of one instant are handled in one call."""

    def make(self, cluster: ClusterState) -> Scheduler:
        """Return a scheduler with this policy."""
        if not self.gangs:
            return presets.pod_by_pod(cluster, backoff=self.backoff, preemption=self.preemption)
        return coscheduling(
            cluster,
            order=self.order,
            when_blocked=self.when_blocked,
            reject_percentage=self.reject_percentage,
            match_policy=self.match_policy,
            when_bind_fails=self.when_bind_fails,
            unit=self.unit,
            backoff=self.backoff,
            preemption=self.preemption,
            backfill=self.backfill if self.reserves else None,
            strict_priorities=self.strict_priorities,
            can_evict=self.when_bind_fails is WhenBindFails.RELEASE_AFTER_RETRIES or None,
            bind_retries=self.bind_retries,
            quotas=self.quotas,
            levels=self.levels,
        )

    @property
    def reserves(self) -> bool:
        """Whether capacity is reserved, which only whole gangs get."""
        is_whole = self.gangs and (self.unit or current()) is SchedulingUnit.GROUP
        return is_whole and self.backfill is not None

    def world(self) -> World:
        """Return an empty world with a scheduler of this policy."""
        driver = (LevelDriver if self.levels else Driver)(
            self.make, grouped=self.gangs, match=self.match_policy, together=self.together
        )
        driver.check_each = 1 if IS_DEEP else 4
        return World(driver)


backfills = st.one_of(
    st.none(),
    st.builds(
        Backfill,
        run_times=st.sampled_from([None, Estimates(), Estimates()]),
        after_attempts=st.sampled_from([1, 1, 2]),
        after_seconds=st.sampled_from([0.0, 0.0, 5.0]),
        least_members=st.sampled_from([1, 2, 2, 3]),
        overdue_after=st.sampled_from([0.0, 1.0, 5.0]),
        drain_for=st.sampled_from([5.0, 40.0]),
    ),
)
"""With the unit ``pod`` it is left out."""

policies = st.builds(
    Policy,
    order=st.sampled_from(Order),
    when_blocked=st.sampled_from(WhenBlocked),
    reject_percentage=st.sampled_from([0, 0, 34, 100]),
    match_policy=st.sampled_from([*[MatchPolicy.ONCE_SATISFIED] * 3, *MatchPolicy]),
    when_bind_fails=st.sampled_from(WhenBindFails),
    gangs=st.sampled_from([True] * 7 + [False]),
    unit=st.sampled_from(SchedulingUnit),
    backfill=backfills,
    together=st.booleans(),
)

preempting_policies = st.builds(
    lambda policy, preemption: evolve(policy, preemption=preemption),
    policies,
    st.sampled_from(
        [
            Preemption(),
            Preemption(elastic_members=True),
            Preemption(grace=5.0),
            Preemption(grace=0.0, elastic_members=True),
        ]
    ),
)
"""Policies by which lower priorities are displaced."""

all_policies: st.SearchStrategy[Policy] = st.one_of(policies, preempting_policies)

steady_policies = policies.map(
    lambda policy: evolve(
        policy,
        match_policy=MatchPolicy.ONCE_SATISFIED,
        when_bind_fails=WhenBindFails.RETRY_MEMBER,
    )
)
"""Policies by which a group that has started stays, and later members join it one by one."""

level_policies = st.builds(
    lambda policy, quotas: evolve(policy, gangs=True, levels=LEVELS, quotas=quotas),
    all_policies,
    st.sampled_from(
        [(), (), (Quota(name="q", namespaces=["default"], hard={"cpu": 6, "gpu": 6}),)]
    ),
)
"""Policies of schedulers that know levels."""

_groups = st.integers(0, 3)
_indices = st.integers(0, 11)
_node = st.builds(
    PutNode,
    index=st.integers(0, 5),
    cpu=st.integers(1, 4),
    gpu=st.sampled_from([0, 0, 1, 2]),
    pods=st.sampled_from([None, None, 1, 3]),
    zone=st.sampled_from("ab"),
    tainted=st.sampled_from([False, False, False, True]),
    cordoned=st.sampled_from([False, False, False, True]),
)
_often_zero = st.sampled_from([0, 0, 0, 1])
_role = st.sampled_from([None, None, None, "ps", "worker", "worker"])
_minima = st.sampled_from(
    [
        *[()] * 4,
        (("ps", 1),),
        (("ps", 1), ("worker", 1)),
        (("ps", 1), ("worker", 2)),
        (("worker", 3),),
    ]
)


@st.composite
def _members(draw: st.DrawFn) -> PutPods:
    """Return members of a group, which mostly agree on its minimum and priority."""
    group = draw(_groups)
    own = (None, 2, 3, 4)[group]
    return PutPods(
        group=group,
        count=draw(st.integers(1, 4)),
        minimum=draw(st.sampled_from([own, own, own, own, None, 1, 3])),
        cpu=draw(st.integers(1, 2)),
        gpu=draw(_often_zero),
        zone=draw(st.sampled_from([None, None, None, "a", "b"])),
        tolerant=draw(st.booleans()),
        priority=draw(st.sampled_from([group % 2] * 6 + [0, 1])),
        gated=draw(st.sampled_from([False, False, False, True])),
        role=draw(_role),
    )


_regular = st.builds(
    PutPods,
    count=st.integers(1, 2),
    cpu=st.integers(0, 2),
    gpu=_often_zero,
    zone=st.sampled_from([None, None, "a"]),
    priority=st.integers(0, 1),
    gated=st.sampled_from([False, False, False, True]),
)
_fates = st.sampled_from([Fate.DONE] * 4 + [Fate.FAILED, Fate.LOST, Fate.LATE, Fate.PENDING])

node_deeds = st.one_of(_node, _node, _node, st.builds(DropNode, st.integers(0, 5)))
pod_deeds = st.one_of(_members(), _members(), _regular)
_group = st.builds(
    PutGroup,
    group=_groups,
    minimum=st.integers(1, 6),
    timeout=st.sampled_from([None, None, 0, 1, 30]),
    priority=st.sampled_from([None, None, None, 0, 1]),
    cpu=st.sampled_from([0, 0, 0, 2, 4, 9]),
    roles=_minima,
    bundle=st.sampled_from([*[()] * 6, (0, 1), (1, 2), (0, 1, 3)]),
    within_zone=st.sampled_from([None, None, None, None, True, True, False]),
)
group_deeds = st.one_of(_group, st.builds(DropGroup, _groups))
bundle_deeds = st.builds(
    PutBundle,
    groups=st.sampled_from([(0, 1), (2, 1), (1, 2, 3), (0, 3)]),
    minimum=st.integers(1, 3),
)


@st.composite
def whole_gangs(draw: st.DrawFn) -> tuple[HistoryStep, ...]:
    """Return steps that add all that a gang needs, in any order.

    With steps drawn one by one, few gangs start: members contradict each other, or do not fit.
    """
    servers, workers = draw(st.integers(0, 1)), draw(st.integers(1, 3))
    groups = draw(st.sampled_from([(0,), (1,), (2,), (3,), (1, 2), (0, 3)]))
    within_zone = draw(st.sampled_from([None, None, True, True, False]))
    minima = {"ps": servers, "worker": draw(st.integers(0, workers))}
    found: list[HistoryStep] = []
    for group in groups:
        spec = PutGroup(
            group,
            draw(st.integers(1, servers + workers)),
            roles=tuple((role, n) for role, n in minima.items() if n),
            bundle=groups if len(groups) > 1 else (),
            within_zone=within_zone,
        )
        serving = PutPods(group, servers, priority=group % 2, role="ps")
        working = PutPods(group, workers, priority=group % 2, role="worker")
        found += [spec, working, *[serving] * servers]
    zones = draw(st.sampled_from(["ab", "ab", "a"]))
    room = [PutNode(draw(st.integers(0, 5)), cpu=draw(st.integers(2, 6)), zone=z) for z in zones]
    return (*draw(st.permutations([*room, *found])), draw(decisions))


_hows = ["delete", "delete", "terminate", "succeed", "succeed", "fail", "ungate", "ungate"]
pod_changes = st.builds(
    ChangePod,
    index=_indices,
    how=st.sampled_from([*_hows, "recreate", "relabel", "reclaim", "recast", "resize", "seize"]),
    to=st.integers(0, 3),
)
decisions = st.builds(Decide, steps=st.sampled_from([None, None, 1, 1, 2, 3]), fate=_fates)
passes = st.builds(Pass, seconds=st.sampled_from([None, None, 0.5, 1, 10]))
reports = st.builds(Report, index=_indices, fate=_fates, landing=st.booleans())
catches = st.one_of(
    st.builds(Repeat, _indices),
    st.builds(Catch, late=st.booleans()),
    st.builds(Catch, index=_indices),
)
restarts = st.one_of(st.builds(Restart, every=st.integers(1, 3)), st.just(Rebuild()))

steps: st.SearchStrategy[HistoryStep] = st.one_of(
    node_deeds,
    pod_deeds,
    pod_deeds,
    pod_changes,
    st.one_of(group_deeds, group_deeds, bundle_deeds),
    decisions,
    decisions,
    passes,
    reports,
    catches,
    restarts,
)
"""Any step."""


@st.composite
def rivals(draw: st.DrawFn) -> tuple[HistoryStep, ...]:
    """Return steps that fill the nodes, and then add pods of higher priority.

    With steps drawn one by one, lower priorities rarely occupy the nodes first.
    """
    small = st.integers(1, 3)
    found: list[HistoryStep] = [
        PutNode(index, cpu=draw(st.integers(1, 3)), zone=draw(st.sampled_from("ab")))
        for index in range(draw(small))
    ]
    for group in draw(st.sampled_from([(0,), (2,), (0, 2)])):
        least = draw(small)
        if draw(st.booleans()):
            found.append(PutGroup(group, least, priority=draw(st.sampled_from([None, 0]))))
        found.append(PutPods(group, least + draw(st.integers(0, 2)), least, priority=0))
    found.append(PutPods(count=draw(st.integers(1, 2)), priority=draw(st.integers(0, 1))))
    found.append(Decide())
    group, least = draw(st.sampled_from([1, 3])), draw(small)
    within = draw(st.sampled_from([None, None, True]))
    priority = draw(st.sampled_from([1, 1, 2]))
    found.append(PutGroup(group, least, within_zone=within))
    cpu = draw(st.sampled_from([1, 1, 2]))
    found.append(PutPods(group, least + draw(st.integers(0, 1)), cpu=cpu, priority=priority))
    if draw(st.booleans()):
        found.append(PutPods(None, 1, cpu=cpu, priority=draw(st.integers(1, 3))))
    return (*found, draw(decisions))


_topologies = st.sampled_from(
    [
        *(Topology("rack"), Topology("zone", prefer="rack"), Topology("rack", required=False)),
        *(Topology(slices={"rack": 2}), Topology("zone", slices={"rack": 2, HOST: 1})),
        *(Topology(slices={"rack": 2}, apart="rack"), Topology("zone", slices={HOST: 2})),
        *(Topology(apart=HOST), Topology("zone", apart="rack"), Topology("rack", apart=HOST)),
        *(Topology(exclusive="rack"), Topology(exclusive="zone"), Topology(exclusive=HOST)),
        *(Topology("rack", exclusive="rack"), Topology(apart="rack", exclusive="rack")),
        *(Topology("zone", balanced=True), Topology(slices={"rack": 2}, exclusive="zone")),
    ]
)
_racks = st.sampled_from(["r", "r", "s", None])


@st.composite
def gangs_in_levels(draw: st.DrawFn) -> tuple[HistoryStep, ...]:
    """Return steps that add or change a gang in levels, its numbered members, and a node."""
    group, minimum = draw(_groups), draw(st.integers(1, 4))
    members = PutPods(
        group,
        draw(st.integers(1, 4)),
        cpu=draw(st.sampled_from([1, 1, 2])),
        priority=group % 2,
        number=draw(st.sampled_from([0, 0, 0, 1, 2])),
    )
    node = evolve(draw(_node), rack=draw(_racks), tainted=False, cordoned=False)
    spec = PutGroup(
        group, minimum, priority=draw(st.sampled_from([None, 1])), topology=draw(_topologies)
    )
    some: list[HistoryStep] = [spec, members, node]
    return (*draw(st.permutations(some)), draw(decisions))


def _numbered(pods: PutPods, number: int) -> PutPods:
    return evolve(pods, number=number, role=None)


level_steps: st.SearchStrategy[HistoryStep] = st.one_of(
    *[st.builds(lambda node, rack: evolve(node, rack=rack), _node, _racks)] * 2,
    *[st.builds(_numbered, _members(), st.integers(0, 4))] * 2,
    st.builds(lambda spec, of: evolve(spec, topology=of, roles=()), _group, _topologies),
    steps,
)
"""Any step, with nodes that change their rack, numbered members, and gangs in levels."""


def level_histories(*, chapters: int = 5) -> st.SearchStrategy[list[HistoryStep]]:
    """Return histories of gangs in levels that begin with nodes and a gang."""
    begin = st.lists(
        st.builds(lambda node, rack: evolve(node, rack=rack), _node, _racks), min_size=2, max_size=5
    )
    chapter = st.lists(level_steps, max_size=10)
    scene = st.one_of(chapter, gangs_in_levels(), gangs_in_levels(), rivals())
    return st.builds(
        lambda first, rest: [*first, *(step for steps in rest for step in steps)],
        begin,
        st.tuples(*[scene] * chapters),
    )


def histories(
    of: st.SearchStrategy[HistoryStep] = steps, *, chapters: int = 5
) -> st.SearchStrategy[list[HistoryStep]]:
    """Return histories that begin with a few nodes, with about five steps a chapter."""
    begin = st.lists(_node, min_size=1, max_size=4)
    chapter = st.lists(of, max_size=12)
    scene = st.one_of(chapter, chapter, whole_gangs(), rivals()) if of is steps else chapter
    return st.builds(
        lambda first, rest: [*first, *(step for steps in rest for step in steps)],
        begin,
        st.tuples(*[scene] * chapters),
    )
