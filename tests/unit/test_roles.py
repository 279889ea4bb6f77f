"""Minima per role: specification, counts, quorum."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gangsched._core import _quorum
from gangsched._core._counters import MemberState, PodGroupCounters, RoleCounts
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._quorum import MatchPolicy, complete, decide
from gangsched._core._registry import PodGroupInfo, PodGroupRegistry
from gangsched.coscheduling import Coscheduling, WhenBindFails, WhenBlocked
from gangsched.errors import InternalError, InvalidPodGroupError, InvalidValueError
from gangsched.membership import ROLE_SPELLINGS, Source, Spelling, membership
from gangsched.model import GroupKey, NodeName, Pod, PodGroup, PodUID, Resources
from gangsched.outcomes import (
    SUCCESS,
    EvictGroup,
    HoldGroup,
    RejectGroup,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.strategies import pod_groups
from support.groups import claim_of, grouped, key
from support.views import KEY, FakeGroup, cycle

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
    *[({"roles": {"ps": bad}}, "roles.ps", bad) for bad in (0, -1, 1.0, "1", True, None)],
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


def test_role_minima_above_the_minimum_are_refused() -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        group(roles=ROLES, min_available=4)
    assert caught.value.expected == "counts with a sum <= min_available, which is 4"


@given(pod_groups(roles=st.dictionaries(st.sampled_from(["ps", "worker"]), st.integers(1, 4))))
def test_drawn_groups_with_roles_are_valid(drawn: PodGroup) -> None:
    assert sum(drawn.roles.values()) <= drawn.min_available


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


# Which members count --------------------------------------------------------------------------

UIDS = [PodUID(f"uid-{number}") for number in range(5)]
SOME_ROLE = st.sampled_from([None, "ps", "worker"])


class RoleMachine(RuleBasedStateMachine):
    """Compare counts and ready members by role with dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.info = PodGroupInfo(key=GroupKey("ns/g"), uid=1)
        self.entity = QueuedGroup(1, 0.0, self.info)
        self.states: dict[int, MemberState] = {}
        self.roles: dict[int, str | None] = {}
        self.ready: set[int] = set()

    @rule(n=st.integers(0, 4), state=st.sampled_from(MemberState), role=SOME_ROLE)
    def comes_or_changes(self, n: int, state: MemberState, role: str | None) -> None:
        self.info.members.set(UIDS[n], state)
        if n not in self.states or self.states[n] is not MemberState.UNSCHEDULED:
            self.info.members.give_role(UIDS[n], role)
            self.roles[n] = role
        before, self.states[n] = self.states.get(n), state
        if state is MemberState.UNSCHEDULED and before is not state:
            self.entity.add(Pod(name=f"p{n}", uid=UIDS[n]), n, self.roles[n])
            self.ready.add(n)
        elif state is not MemberState.UNSCHEDULED:
            self.entity.discard_all([UIDS[n]])
            self.ready.discard(n)

    @rule(n=st.integers(0, 4))
    def goes(self, n: int) -> None:
        self.entity.discard(UIDS[n])
        self.info.members.discard(UIDS[n])
        self.states.pop(n, None)
        self.roles.pop(n, None)
        self.ready.discard(n)

    @rule(n=st.integers(0, 4), undo=st.booleans())
    def has_a_turn(self, n: int, undo: bool) -> None:
        self.entity.mark_tried(UIDS[n])
        if undo and n in self.ready:
            self.entity.mark_ready(UIDS[n])
        else:
            self.ready.discard(n)

    @rule()
    def refill(self) -> None:
        self.entity.refill()
        self.ready = {n for n, s in self.states.items() if s is MemberState.UNSCHEDULED}

    @invariant()
    def agrees(self) -> None:
        self.info.members._check()
        self.entity._check()
        s = MemberState
        for role in ("ps", "worker"):
            states = [self.states[n] for n, each in self.roles.items() if each == role]
            untried = {n for n in self.ready if self.roles[n] == role}
            holding = [state for state in states if state in (s.WAITING, s.BINDING, s.ASSIGNED)]
            assert self.info.role(role) == RoleCounts(
                states.count(s.UNSCHEDULED),
                states.count(s.WAITING),
                len(holding),
                len(untried),
                states.count(s.SUCCEEDED),
            )
            assert self.entity.ready_of(role) == len(untried)
            first = self.entity.next_of([role])
            assert (None if first is None else first.uid) == (
                UIDS[min(untried)] if untried else None
            )
        both = {n for n in self.ready if self.roles[n]}
        first = self.entity.next_of(["worker", "ps", "nobody"])
        assert (None if first is None else first.uid) == (UIDS[min(both)] if both else None)
        assert self.info.members._by_role.keys() == {r for r in self.roles.values() if r}


TestRoleMachine = RoleMachine.TestCase


def test_give_role_refuses_unknown_uid() -> None:
    with pytest.raises(InvalidValueError):
        PodGroupCounters().give_role(UIDS[0], "ps")


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (
            "_by_role",
            "counts by role {'ps': [0, 0, 2, 0, 0, 0, 0, 0, 0, 0]}"
            " are not {'ps': [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]}",
        ),
        ("_roles", "a role is recorded for a pod that is not a member"),
    ],
)
def test_check_reports_wrong_role_counts(sabotage: str, says: str) -> None:
    counters = PodGroupCounters()
    counters.set(UIDS[0], MemberState.WAITING)
    counters.give_role(UIDS[0], "ps")
    counters._check()
    if sabotage == "_by_role":
        counters._by_role["ps"][MemberState.WAITING] = 2
    else:
        counters._roles[UIDS[1]] = "ps"
    with pytest.raises(InternalError) as caught:
        counters._check()
    assert caught.value.invariant == says


def test_group_has_the_roles_of_its_specification() -> None:
    registry = PodGroupRegistry()
    pod = grouped("a", minimum=1)
    labelled = Pod(name="b", namespace="ns", labels={**pod.labels, "pod-group/role": "ps"})
    info = registry.join(pod, claim_of(pod))
    registry.join(labelled, claim_of(labelled))
    assert (dict(info.roles), info.role("ps").unscheduled, info.is_complete) == ({}, 1, True)
    registry.set_spec(group(roles={"ps": 2}))
    assert (dict(info.roles), info.is_complete) == ({"ps": 2}, False)
    registry.set_spec(group(roles={"ps": 1}, min_available=2))
    assert info.is_complete
    registry.delete_spec(key("g"), now=0.0)
    assert dict(info.roles) == {}
    registry.leave(key("g"), labelled.uid, now=0.0)
    assert info.role("ps") == RoleCounts()
    registry._check()


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

    needed = _quorum.members_needed(view, match)
    ways = [
        (x + y + z) for x in range(5) for y in range(5) for z in range(12) if is_quorum(x, y, z)
    ]
    assert needed is not None
    assert max(needed, 0) == min(ways)
    by_role = _quorum.roles_needed(view, match)
    assert by_role == {"": minimum - total, **{r: n - have[r] for r, n in roles.items()}}
    policy = Coscheduling(match_policy=match, when_blocked=WhenBlocked.AT_ONCE)
    assert policy.members_needed(view) == needed
    assert policy.roles_needed(view) == by_role
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


def test_roles_needed_is_empty_after_the_first_release() -> None:
    for view in (
        FakeGroup(min_available=None, roles=ROLES),
        FakeGroup(was_scheduled=True, roles=ROLES),
    ):
        assert _quorum.members_needed(view, MatchPolicy.ONCE_SATISFIED) is None
        assert _quorum.roles_needed(view, MatchPolicy.ONCE_SATISFIED) == {}


def test_unschedulable_reason_names_the_role() -> None:
    outcome = decide(min_available=5, scheduled=4, remaining=1, roles=[("ps", 2, 0, 1)])
    assert outcome == Unschedulable("0 of 2 ps have a node, at most 1 more can get one")
    assert decide(min_available=5, scheduled=5, remaining=0, roles=[("ps", 1, 1, 0)]) == SUCCESS


def test_incomplete_group_names_missing_roles() -> None:
    roles = [("ps", 1, 0), ("worker", 4, 5), ("x", 3, 1)]
    said = complete(min_available=6, present=6, roles=roles)
    expected = "waiting for 1 more ps: 0 of 1 exist; 2 more x: 1 of 3 exist"
    assert said == Unschedulable(expected, resolvable=False)
    said = complete(min_available=6, present=5, roles=roles[:1])
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


def test_lost_member_rejects_its_group_and_names_the_role() -> None:
    answer = Coscheduling().unreserve(cycle(of("ps", 1)), POD, NODE, cause="timeout", now=0.0)
    said = "timed out waiting on permit: 6 of 5 members held a node; missing: 1 ps"
    assert answer == RejectGroup(KEY, said)
    whole = of("ps", 1, scheduled=1)
    assert Coscheduling().unreserve(cycle(whole), POD, NODE, cause="timeout", now=0.0) is None


@pytest.mark.parametrize(("servers", "falls"), [(0, True), (1, False)])
def test_failed_bind_below_a_role_minimum_may_evict_the_group(servers: int, falls: bool) -> None:
    policy = Coscheduling(when_bind_fails=WhenBindFails.RELEASE_GROUP)
    view = of("ps", 1, scheduled=servers)
    view.was_scheduled = True
    answer = policy.unreserve(cycle(view), POD, NODE, cause="bind_failed", now=0.0)
    assert isinstance(answer, EvictGroup) is falls
