"""Compare the member counts with a dictionary."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gangsched.model import PodUID
from gangsched.primitives.counters import MemberState, PodGroupCounters, RoleCounts

UIDS = [PodUID(f"uid-{number}") for number in range(6)]
STATES = st.sampled_from(MemberState)


class CountersMachine(RuleBasedStateMachine):
    """Every operation, on counters and on a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.counters = PodGroupCounters()
        self.model: dict[PodUID, MemberState] = {}

    @rule(uid=st.sampled_from(UIDS), state=STATES)
    def set(self, uid: PodUID, state: MemberState) -> None:
        assert self.counters.set(uid, state) is self.model.get(uid)
        self.model[uid] = state

    @rule(uid=st.sampled_from(UIDS))
    def discard(self, uid: PodUID) -> None:
        assert self.counters.discard(uid) is self.model.pop(uid, None)

    @invariant()
    def agrees(self) -> None:
        self.counters._check()
        counters, model = self.counters, self.model
        assert list(counters) == list(model)
        assert len(counters) == len(model)
        for uid in UIDS:
            assert counters.state(uid) is model.get(uid)
            assert (uid in counters) is (uid in model)
        for state in MemberState:
            assert counters.count(state) == list(model.values()).count(state)

    @invariant()
    def sums_agree(self) -> None:
        """Each count equals its definition."""

        def of(*states: MemberState) -> int:
            return len([state for state in self.model.values() if state in states])

        s, c = MemberState, self.counters
        assert c.unscheduled == of(s.UNSCHEDULED)
        assert c.waiting == of(s.WAITING)
        assert c.assumed == of(s.WAITING, s.BINDING)
        assert c.assigned == of(s.ASSIGNED)
        assert c.scheduled == of(s.WAITING, s.BINDING, s.ASSIGNED)
        assert c.all == of(s.UNSCHEDULED, s.WAITING, s.BINDING, s.ASSIGNED)
        assert c.started == of(s.ASSIGNED, s.SUCCEEDED, s.FAILED)


TestCountersMachine = CountersMachine.TestCase


@pytest.mark.parametrize(
    "state",
    [
        MemberState.GATED,
        MemberState.TERMINATING,
        MemberState.SUCCEEDED,
        MemberState.FAILED,
        MemberState.REFUSED,
    ],
)
def test_gated_terminating_finished_and_refused_do_not_count(state: MemberState) -> None:
    """F54, rows 27 to 29 and 77."""
    counters = PodGroupCounters()
    counters.set(UIDS[0], MemberState.UNSCHEDULED)
    counters.set(UIDS[1], state)
    assert (counters.all, len(counters)) == (1, 2)


def test_binding_member_is_counted() -> None:
    """F16: members that hold a node are waiting, binding or assigned."""
    counters = PodGroupCounters()
    for state in (MemberState.WAITING, MemberState.BINDING, MemberState.ASSIGNED):
        counters.set(UIDS[0], state)
        assert counters.scheduled == counters.all == 1


def test_unused_role_counts_zero() -> None:
    assert PodGroupCounters().role("ps") == RoleCounts(0, 0, 0, 0)


def test_members_of_a_role_are_untried_but_those_that_were_tried() -> None:
    counters = PodGroupCounters()
    for uid in UIDS[:2]:
        counters.set(uid, MemberState.UNSCHEDULED)
        counters.give_role(uid, "ps")
    assert counters.role("ps") == RoleCounts(unscheduled=2, untried=2)
    assert counters.role("ps", tried=1) == RoleCounts(unscheduled=2, untried=1)


def test_changed_role_counts_once() -> None:
    counters = PodGroupCounters()
    for uid, state in zip(UIDS, (MemberState.WAITING, MemberState.BINDING), strict=False):
        counters.set(uid, state)
        counters.give_role(uid, "ps")
    assert counters.role("ps") == RoleCounts(waiting=1, scheduled=2)
    counters.give_role(UIDS[0], "worker")
    assert counters.role("ps") == RoleCounts(scheduled=1)
    assert counters.role("worker") == RoleCounts(waiting=1, scheduled=1)
    counters.give_role(UIDS[1], None)
    assert counters.role("ps") == RoleCounts()
    counters._check()
