"""ReservedCapacity against a count by hand, and the ledger of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangsched.errors import InternalError
from gangsched.framework.nodes.reserved_capacity import CapacityLedger, ReservedCapacity
from gangsched.model import NodeName, PodUID, Resources

GPU = "example.com/gpu"
NODE, OTHER = NodeName("n"), NodeName("m")
UIDS = [PodUID(f"uid-{number}") for number in range(6)]

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(1, 3))
asked = amounts.map(Resources.from_milli)


def expecting(*requests: Resources, returning: list[PodUID] | None = None) -> ReservedCapacity:
    """Return an entry of a reservation for pods with these requests."""
    entry = ReservedCapacity.expecting(1, NODE, 0, returning or ())
    for each in requests:
        entry.add(each)
    return entry


def cpu(count: int) -> Resources:
    return Resources({"cpu": count})


@given(
    st.lists(asked, max_size=4),
    st.dictionaries(st.sampled_from(UIDS), asked, max_size=5),
    st.lists(st.sampled_from(UIDS), max_size=6, unique=True),
    st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(-2, 8)),
)
def test_reservation_withholds_requests_less_returning_pods_and_at_most_what_is_free(
    requests: list[Resources],
    holders: dict[PodUID, Resources],
    returning: list[PodUID],
    free: dict[str, int],
) -> None:
    amounts, pods = expecting(*requests, returning=returning).withheld(holders, free)
    back = [held for uid, held in holders.items() if uid in returning]
    wanted = sum(requests, start=Resources()) - sum(back, start=Resources())
    expected = {name: min(wanted.amount(name), free.get(name, 0)) for name in wanted}
    assert amounts == {name: amount for name, amount in expected.items() if amount > 0}
    assert pods == max(len(requests) - len(back), 0)


@given(asked, st.dictionaries(st.sampled_from(UIDS), asked, max_size=5))
def test_nominated_pod_withholds_its_whole_request_whatever_is_free(
    requests: Resources, holders: dict[PodUID, Resources]
) -> None:
    entry = ReservedCapacity(1, NODE, 0, requests)
    assert entry.withheld(holders, {"cpu": -5}) == (dict(requests), 1)


def test_only_returning_pods_that_are_still_there_supply_capacity() -> None:
    gone = [PodUID(f"gone-{number}") for number in range(20)]
    there = [PodUID(f"there-{number}") for number in range(20)]
    entry = expecting(*[cpu(1)] * 25, returning=[*gone, *there])
    assert entry.withheld(dict.fromkeys(there, cpu(1)), {"cpu": 9000}) == ({"cpu": 5000}, 5)


def test_nothing_is_withheld_of_a_resource_that_the_node_does_not_offer() -> None:
    entry = expecting(Resources({"cpu": 2, GPU: "1m"}), cpu(1))
    assert entry.withheld({}, {"cpu": 8000}) == ({"cpu": 3000}, 2)


def test_one_thousandth_is_withheld() -> None:
    entry = expecting(Resources({"cpu": "1m"}))
    assert entry.withheld({}, {"cpu": 8000}) == ({"cpu": 1}, 1)


def test_no_pod_is_counted_where_more_pods_return_than_start() -> None:
    entry = expecting(cpu(6), returning=UIDS[:3])
    holders = dict.fromkeys(UIDS[:3], cpu(1))
    assert entry.withheld(holders, {"cpu": 8000}) == ({"cpu": 3000}, 0)


def test_withheld_changes_nothing() -> None:
    entry = expecting(cpu(3), returning=UIDS[:1])
    for _ in range(2):
        assert entry.withheld({UIDS[0]: cpu(1)}, {"cpu": 8000}) == ({"cpu": 2000}, 0)
    assert (entry.requests, entry.pods, entry.returning) == (cpu(3), 1, {UIDS[0]})


# The ledger -----------------------------------------------------------------------------------


class LedgerMachine(RuleBasedStateMachine):
    """The ledger agrees with a plain list, whatever is added and removed."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = CapacityLedger()
        self.entries: list[ReservedCapacity] = []

    @rule(name=st.sampled_from([NODE, OTHER]), owner=st.integers(1, 2), is_nominated=st.booleans())
    def add(self, name: NodeName, owner: int, is_nominated: bool) -> None:
        entry = (
            ReservedCapacity(owner, name, 0, cpu(1))
            if is_nominated
            else ReservedCapacity.expecting(owner, name, 0, ())
        )
        assert entry not in self.ledger
        assert not self.ledger.remove(entry)
        self.ledger.add(entry)
        self.entries.append(entry)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        entry = self.entries.pop(data.draw(st.integers(0, len(self.entries) - 1)))
        assert self.ledger.remove(entry)
        assert not self.ledger.remove(entry)

    @invariant()
    def agrees(self) -> None:
        self.ledger._check()
        assert len(self.ledger) == len(self.entries)
        for name in (NODE, OTHER):
            assert list(self.ledger.on(name)) == [e for e in self.entries if e.node == name]
        assert set(self.ledger) == set(self.entries)
        assert set(self.ledger.expected()) == {e for e in self.entries if e.returning is not None}
        assert all(entry in self.ledger for entry in self.entries)


TestLedger = LedgerMachine.TestCase


def misfile(ledger: CapacityLedger) -> None:
    ledger._by_node[OTHER] = ledger._by_node.pop(NODE)


def add_twice(ledger: CapacityLedger) -> None:
    ledger.add(ledger.on(NODE)[0])


def nominate_two_pods(ledger: CapacityLedger) -> None:
    ledger.add(ReservedCapacity(1, NODE, 0, cpu(2), 2))


def miscount(ledger: CapacityLedger) -> None:
    ledger.expecting += 1


def leave_an_empty_list(ledger: CapacityLedger) -> None:
    ledger._by_node[OTHER] = []


@pytest.mark.parametrize(
    ("sabotage", "message"),
    [
        (misfile, "an entry for n is misfiled under m"),
        (add_twice, "an entry for n is misfiled under n"),
        (nominate_two_pods, "an entry for a nominated pod on n is for several"),
        (miscount, "2 entries of reservations are counted, there are 1"),
        (leave_an_empty_list, "the ledger has an empty list for m"),
    ],
)
def test_check_of_the_ledger_finds(
    sabotage: Callable[[CapacityLedger], None], message: str
) -> None:
    ledger = CapacityLedger()
    ledger.add(ReservedCapacity(1, NODE, 0, cpu(1)))
    ledger.add(expecting(cpu(1)))
    ledger._check()
    sabotage(ledger)
    with pytest.raises(InternalError) as caught:
        ledger._check()
    assert str(caught.value) == f"broken invariant, please report: {message}"
