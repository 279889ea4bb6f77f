"""Minima per role: specification, counts, quorum."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    GroupBelowMinimum,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Resources,
    Role,
    Taint,
    Toleration,
    gang,
    presets,
)
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm
from gangsched.coscheduling import Coscheduling, WhenBindFails, WhenBlocked
from gangsched.errors import InvalidPodGroupError
from gangsched.membership import ROLE_SPELLINGS, Source, Spelling, membership
from gangsched.model import NodeName
from gangsched.outcomes import (
    SUCCESS,
    EvictGroup,
    HoldGroup,
    RejectGroup,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.primitives import quorum
from gangsched.primitives.counters import RoleCounts
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.quorum import MatchPolicy, complete, decide
from gangsched.primitives.standing import Counts, Standing, standing
from gangsched.testing import make_node, make_pod
from support.driver import Driver
from support.gangs import node
from support.groups import claim_of
from support.views import KEY, FakeGroup, cycle

# Minima per role: specification, counts, quorum

ROLES = {"ps": 1, "worker": 4}
POD, NODE = Pod(name="p", namespace="ns"), NodeName("n")


def group(**fields: Any) -> PodGroup:
    return PodGroup(**{"name": "g", "namespace": "ns", **fields})


# The specification ----------------------------------------------------------------------------


def test_minimum_defaults_to_the_sum_of_role_minima() -> None:
    assert group(roles=ROLES).min_available == 5
    assert group(roles=ROLES) == group(roles=dict(reversed(ROLES.items())), min_available=5)
    assert group(roles=ROLES, min_available=7).min_available == 7
    assert dict(group(min_available=1).roles) == {}


def test_roles_are_immutable() -> None:
    given_ = dict(ROLES)
    made = group(roles=given_)
    given_["ps"] = 9
    assert dict(made.roles) == ROLES
    assert made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(group(roles=ROLES))


BAD: list[tuple[dict[str, Any], str, object]] = [
    *[({"roles": {"ps": bad}}, "roles['ps']", bad) for bad in (0, -1, 1.0, "1", True, None)],
    *[({"roles": {bad: 1}}, "roles", bad) for bad in ("", 1, None)],
    *[({"roles": bad}, "roles", bad) for bad in (None, 1, "ps", ["ps"])],
    ({"roles": Resources({"ps": 1})}, "roles", Resources({"ps": 1})),
    ({"roles": ROLES, "min_available": 4}, "roles", ROLES),
    ({"roles": ROLES, "min_available": 0}, "min_available", 0),
    ({}, "min_available", None),
    ({"roles": {}}, "min_available", None),
]


@pytest.mark.parametrize(("given_", "field", "value"), BAD)
def test_invalid_roles_are_refused(given_: dict[str, Any], field: str, value: object) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        group(**given_)
    error = caught.value
    assert (error.subject, error.field, repr(error.value)) == ("ns/g", field, repr(value))


# What a pod says ------------------------------------------------------------------------------


def says(*written: tuple[Spelling, str], claims: bool = True) -> Pod:
    labels = {"pod-group/name": "g"} if claims else {}
    annotations: dict[str, str] = {}
    field: str | None = None
    for spelling, role in written:
        match spelling.source:
            case Source.LABEL:
                labels[spelling.name] = role
            case Source.ANNOTATION:
                annotations[spelling.name] = role
            case Source.FIELD:
                field = role
    return Pod(name="p", namespace="ns", labels=labels, annotations=annotations, role=field)


def name_of(spelling: Spelling) -> str:
    return spelling.name


def test_role_spellings_are_the_published_ones() -> None:
    """Three spellings of this project, as for groups; Kubeflow, Volcano, JobSet."""
    assert [(spelling.source, spelling.name, spelling.minimum) for spelling in ROLE_SPELLINGS] == [
        (Source.FIELD, "Pod.role", None),
        (Source.LABEL, "pod-group.scheduling.sigs.k8s.io/role", None),
        (Source.LABEL, "pod-group/role", None),
        (Source.LABEL, "training.kubeflow.org/replica-type", None),
        (Source.ANNOTATION, "volcano.sh/task-spec", None),
        (Source.LABEL, "jobset.sigs.k8s.io/replicatedjob-name", None),
    ]


@pytest.mark.parametrize("spelling", ROLE_SPELLINGS, ids=name_of)
def test_every_role_spelling_is_read(spelling: Spelling) -> None:
    assert claim_of(says((spelling, "ps"))).role == "ps"
    assert membership(says((spelling, "ps"), claims=False)) is None
    assert membership(says((spelling, ""), claims=False)) is None
    assert claim_of(says()).role is None


@pytest.mark.parametrize("spelling", ROLE_SPELLINGS, ids=name_of)
def test_empty_role_is_an_error(spelling: Spelling) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(says((spelling, "")))
    assert (caught.value.subject, caught.value.field) == ("pod ns/p", spelling.name)


PAIRS = [(a, b) for i, a in enumerate(ROLE_SPELLINGS) for b in ROLE_SPELLINGS[i + 1 :]]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_different_role_spellings_are_an_error(first: Spelling, second: Spelling) -> None:
    assert claim_of(says((first, "ps"), (second, "ps"))).role == "ps"
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(says((first, "ps"), (second, "worker")))
    assert (caught.value.field, caught.value.value) == (second.name, "worker")
    assert caught.value.expected == f"'ps', the value of {first.name}"


# What a quorum is -----------------------------------------------------------------------------


def of(role: str, least: int, **counts: int) -> FakeGroup:
    """Return a group with a minimum of five, five members, and a minimum for one role."""
    return FakeGroup(
        min_available=5, waiting=5, roles={role: least}, of_role={role: RoleCounts(**counts)}
    )


COUNT = st.integers(0, 4)
counts_of = st.builds(lambda u, w, b, t: (u, w, b, min(t, u)), COUNT, COUNT, COUNT, COUNT)


@given(
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 4)),
    st.tuples(counts_of, counts_of, counts_of),
    st.integers(0, 3),
    st.sampled_from(MatchPolicy),
)
def test_members_needed_is_the_smallest_number_for_a_quorum(
    roles: dict[str, int], counts: tuple[Any, Any, Any], beyond: int, match: MatchPolicy
) -> None:
    """By brute force: over all ways to add members of a, of b and of neither."""
    (ua, wa, ba, ta), (ub, wb, bb, tb), (u, w, b, t) = counts
    view = FakeGroup(
        min_available=max(1, sum(roles.values()) + beyond),
        unscheduled=ua + ub + u,
        waiting=wa + wb + w,
        binding=ba + bb + b,
        untried=ta + tb + t,
        roles=roles,
        of_role={"a": RoleCounts(ua, wa, wa + ba, ta), "b": RoleCounts(ub, wb, wb + bb, tb)},
    )
    minimum = view.min_available
    assert minimum is not None
    only = match is MatchPolicy.ONLY_WAITING
    have = {"a": wa if only else wa + ba, "b": wb if only else wb + bb}
    total = view.waiting if only else view.scheduled

    def is_quorum(more_a: int, more_b: int, more: int) -> bool:
        enough = all(have[r] + {"a": more_a, "b": more_b}[r] >= n for r, n in roles.items())
        return enough and total + more_a + more_b + more >= minimum

    needed = quorum.members_needed(view, match)
    ways = [
        (x + y + z) for x in range(5) for y in range(5) for z in range(12) if is_quorum(x, y, z)
    ]
    assert needed is not None
    assert max(needed, 0) == min(ways)
    by_role = quorum.roles_needed(view, match)
    assert by_role == {"": minimum - total, **{r: n - have[r] for r, n in roles.items()}}
    policy = Coscheduling(match_policy=match, when_blocked=WhenBlocked.AT_ONCE)
    reachable = is_quorum(ta, tb, t)
    answer = policy.post_filter(cycle(view), POD, "full", now=0.0)
    assert isinstance(answer, RejectGroup) is (not reachable)
    outcome = policy.permit(cycle(view), POD, NODE, now=0.0)
    if is_quorum(0, 0, 0):
        assert outcome == SUCCESS
    else:
        assert isinstance(outcome, Wait if is_quorum(ua, ub, u) else Unschedulable)
    exists = is_quorum(ua, ub, u)
    assert isinstance(policy.pre_enqueue(POD, view, now=0.0), Success) is exists


def stands(minimum: int, counts: Counts, **roles: tuple[int, Counts]) -> Standing:
    tree = SubGroup(
        "", minimum, tuple(SubGroup(role, n, role=role) for role, (n, _) in roles.items())
    )
    return standing(tree, lambda sub: roles[sub.role][1] if sub.role else counts)


def test_unschedulable_reason_names_the_role() -> None:
    outcome = decide(stands(5, Counts(4, 1), ps=(2, Counts(0, 1))))
    assert outcome == Unschedulable("0 of 2 ps have a node, at most 1 more can get one")
    assert decide(stands(5, Counts(5, 0), ps=(1, Counts(1, 0)))) == SUCCESS


def test_incomplete_group_names_missing_roles() -> None:
    there = Counts(0, 6)
    roles = {"ps": (1, Counts()), "worker": (4, Counts(0, 5)), "x": (3, Counts(0, 1))}
    said = complete(stands(6, there, **roles))
    expected = "waiting for 1 more ps: 0 of 1 exist; 2 more x: 1 of 3 exist"
    assert said == Unschedulable(expected, resolvable=False)
    said = complete(stands(6, Counts(0, 5), ps=(1, Counts())))
    expected = "waiting for 1 more member: 5 of 6 exist; 1 more ps: 0 of 1 exist"
    assert said == Unschedulable(expected, resolvable=False)


@pytest.mark.parametrize("when", WhenBlocked)
def test_unreachable_role_follows_when_blocked(when: WhenBlocked) -> None:
    policy = Coscheduling(when_blocked=when)
    answer = policy.post_filter(cycle(of("ps", 1, unscheduled=1)), POD, "full", now=0.0)
    why = "pod p cannot be placed: full"
    assert (
        answer
        == {
            WhenBlocked.AT_ONCE: RejectGroup(KEY, why),
            WhenBlocked.UNTIL_OTHERS_TURN: HoldGroup(KEY, why),
            WhenBlocked.UNTIL_TIMEOUT: Unschedulable(why),
        }[when]
    )
    hopeful = of("ps", 1, unscheduled=1, untried=1)
    assert policy.post_filter(cycle(hopeful), POD, "full", now=0.0) == Unschedulable("full")


@pytest.mark.parametrize(("percentage", "stays"), [(39, False), (40, True)])
def test_members_that_a_role_lacks_count_for_the_percentage(percentage: int, stays: bool) -> None:
    """Two of five are missing, although five members hold nodes."""
    policy = Coscheduling(when_blocked=WhenBlocked.AT_ONCE, reject_percentage=percentage)
    answer = policy.post_filter(cycle(of("ps", 2)), POD, "full", now=0.0)
    why = "pod p cannot be placed: full"
    assert answer == (Unschedulable(why) if stays else RejectGroup(KEY, why))


@pytest.mark.parametrize(("servers", "falls"), [(0, True), (1, False)])
def test_failed_bind_below_a_role_minimum_may_evict_the_group(servers: int, falls: bool) -> None:
    policy = Coscheduling(when_bind_fails=WhenBindFails.RELEASE_GROUP)
    view = of("ps", 1, scheduled=servers)
    view.was_scheduled = True
    answer = policy.unreserve(cycle(view), POD, NODE, cause="bind_failed", now=0.0)
    assert isinstance(answer, EvictGroup) is falls


# A running group falls below its minimum with the first role that has too few members

SPEC = PodGroup(name="g", roles={"ps": 1, "worker": 2})


def running() -> Driver:
    """Return a group that runs with one parameter server and one worker more than it needs."""
    driver = Driver()
    driver.tell(node("n", 9), PodGroupAdded(SPEC))
    for name in ("ps-0", "worker-0", "worker-1", "worker-2"):
        driver.add(make_pod(name, group="g", role=name[:-2], cpu=1))
    driver.settle()
    return driver


def falls(driver: Driver) -> list[GroupBelowMinimum]:
    found = [effect for call in driver.log for effect in call.effects]
    return [effect for effect in found if isinstance(effect, GroupBelowMinimum)]


@pytest.mark.parametrize(("lost", "left"), [(["ps-0"], 3), (["worker-0", "worker-2"], 2)])
def test_group_that_lacks_one_role_is_below_its_minimum(lost: list[str], left: int) -> None:
    driver = running()
    driver.delete(*(f"default/{name}" for name in lost))
    assert falls(driver) == [GroupBelowMinimum(SPEC.key, left, 3)]


# Members of different roles count for their own role, although their requests are the same

REQUESTS = Resources({"cpu": 1})


def member(name: str, role: str) -> Pod:
    """Return a member whose requests are one object for all members."""
    return evolve(make_pod(name, group="g", role=role), requests=REQUESTS)


@pytest.mark.parametrize("budget", [0, 100])
@pytest.mark.parametrize("cpu", [4, 5])
def test_minimum_of_each_role_is_met_by_members_of_that_role(cpu: int, budget: int) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=cpu)))
    cluster.apply(PodGroupAdded(PodGroup(name="g", min_available=4, roles={"ps": 2, "worker": 2})))
    for n in range(3):
        cluster.apply(PodAdded(member(f"ps-{n}", "ps")))
    for n in range(2):
        cluster.apply(PodAdded(member(f"worker-{n}", "worker")))
    scheduler = presets.gang(cluster, search_budget=budget)
    scheduler.rebuild(now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    bound = [effect.uid for effect in effects if isinstance(effect, Bind)]
    assert len(bound) == cpu
    assert sum("worker" in uid for uid in bound) == 2


def test_role_of_members_of_two_sizes_takes_no_node_from_another_role() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name="n", allocatable={"cpu": 4, "memory": 9})))
    cluster.apply(PodGroupAdded(PodGroup(name="g", roles={"ps": 3, "worker": 1})))
    for n, memory in enumerate((1, 1, 2, 2)):
        pod = evolve(member(f"ps-{n}", "ps"), requests={"cpu": 1, "memory": memory})
        cluster.apply(PodAdded(pod))
    cluster.apply(PodAdded(member("worker", "worker")))
    scheduler = presets.gang(cluster, search_budget=0)
    scheduler.rebuild(now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    bound = [effect.uid for effect in effects if isinstance(effect, Bind)]
    assert len(bound) == 4
    assert "default/worker" in bound


def test_node_that_takes_no_member_of_one_role_does_not_wake_the_group() -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=1)))
    cluster.apply(PodGroupAdded(PodGroup(name="g", roles={"ps": 1, "worker": 1})))
    cluster.apply(PodAdded(evolve(member("ps", "ps"), requests={"cpu": 1, "gpu": 1})))
    for n in range(2):
        cluster.apply(PodAdded(member(f"worker-{n}", "worker")))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    assert scheduler.schedule_one(now=0.0)
    scheduler.handle(cluster.apply(NodeAdded(make_node("m", cpu=1))), now=1.0)
    assert scheduler.schedule_one(now=1.0) is None


# A role of the builder may state its own constraints on nodes

CPU = Node(name="c", allocatable={"cpu": 8}, labels={"pool": "cpu"})
GPU = Node(
    name="g",
    allocatable={"cpu": 8},
    labels={"pool": "gpu"},
    taints=[Taint(key="gpu", effect="NoSchedule")],
)
TERM = NodeSelectorTerm((NodeSelectorRequirement("pool", "In", ("cpu",)),))

OTHER = NodeSelectorTerm((NodeSelectorRequirement("pool", "Exists"),))


def first_of(role: Role, **more: Any) -> Pod:
    return gang("g", roles={"a": role, "b": 1}, **more).pods[0]


def test_launcher_and_workers_start_on_nodes_of_their_own_kind() -> None:
    workers = Role(2, node_selector={"pool": "gpu"}, tolerations=[Toleration(key="gpu")])
    launcher = Role(1, affinity=[TERM])
    job = gang("mpi", roles={"launcher": launcher, "worker": workers}, cpu=2)
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in (NodeAdded(GPU), NodeAdded(CPU), *job.events()):
        scheduler.handle(cluster.apply(event), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    binds = {each.uid.split("/")[1]: each.node for each in effects if isinstance(each, Bind)}
    assert binds == {"mpi-launcher-0": "c", "mpi-worker-0": "g", "mpi-worker-1": "g"}


@pytest.mark.parametrize(
    ("name", "own", "common", "nothing"),
    [
        ("node_selector", {"pool": "cpu"}, {"pool": "gpu"}, {}),
        ("affinity", (TERM,), (OTHER,), ()),
        ("tolerations", (Toleration(key="x"),), (Toleration(key="y"),), ()),
    ],
)
def test_attribute_of_a_role_replaces_that_of_the_gang(
    name: str, own: Any, common: Any, nothing: Any
) -> None:
    made = gang("g", roles={"a": Role(1, **{name: own}), "b": Role(1)}, **{name: common})
    expected = [Pod(name="p", **{name: value}) for value in (own, common)]
    assert [getattr(pod, name) for pod in made.pods] == [getattr(pod, name) for pod in expected]
    bare = first_of(Role(1, **{name: nothing}), **{name: common})
    assert getattr(bare, name) == getattr(Pod(name="p"), name)


def test_malformed_attribute_of_the_gang_is_named_as_given() -> None:
    with pytest.raises(InvalidValueError, match=r"^node_selector must be"):
        first_of(Role(1), node_selector=3)
