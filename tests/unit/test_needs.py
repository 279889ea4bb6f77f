"""What is kept of one node for a gang that is to start later, against a count by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched.framework.nodes.reserved_capacity import Need
from gangsched.model import PodUID, Resources

GPU = "example.com/gpu"
UIDS = [PodUID(f"uid-{number}") for number in range(6)]

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(1, 3))
asked = amounts.map(Resources.from_milli)


def need_of(*requests: Resources, returning: list[PodUID] | None = None) -> Need:
    need = Need(returning or ())
    for each in requests:
        need.add(each)
    return need


def cpu(count: int) -> Resources:
    return Resources({"cpu": count})


@given(
    st.lists(asked, max_size=4),
    st.dictionaries(st.sampled_from(UIDS), asked, max_size=5),
    st.lists(st.sampled_from(UIDS), max_size=6, unique=True),
    st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(-2, 8)),
)
def test_kept_is_what_is_asked_for_less_what_comes_back_and_no_more_than_is_free(
    requests: list[Resources],
    holders: dict[PodUID, Resources],
    returning: list[PodUID],
    free: dict[str, int],
) -> None:
    kept, pods = need_of(*requests, returning=returning).kept(holders, free)
    back = [held for uid, held in holders.items() if uid in returning]
    wanted = sum(requests, start=Resources()) - sum(back, start=Resources())
    expected = {name: min(wanted.amount(name), free.get(name, 0)) for name in wanted}
    assert kept == {name: amount for name, amount in expected.items() if amount > 0}
    assert pods == max(len(requests) - len(back), 0)


def test_who_has_left_already_brings_nothing_back_and_who_has_not_does() -> None:
    gone = [PodUID(f"gone-{number}") for number in range(20)]
    there = [PodUID(f"there-{number}") for number in range(20)]
    need = need_of(*[cpu(1)] * 25, returning=[*gone, *there])
    assert need.kept(dict.fromkeys(there, cpu(1)), {"cpu": 9000}) == ({"cpu": 5000}, 5)


def test_of_what_a_node_does_not_offer_nothing_is_kept() -> None:
    need = need_of(Resources({"cpu": 2, GPU: "1m"}), cpu(1))
    assert need.kept({}, {"cpu": 8000}) == ({"cpu": 3000}, 2)


def test_the_least_that_is_needed_is_kept() -> None:
    need = need_of(Resources({"cpu": "1m"}))
    assert need.kept({}, {"cpu": 8000}) == ({"cpu": 1}, 1)


def test_where_more_pods_leave_than_come_no_place_is_kept() -> None:
    need = need_of(cpu(6), returning=UIDS[:3])
    holders = dict.fromkeys(UIDS[:3], cpu(1))
    assert need.kept(holders, {"cpu": 8000}) == ({"cpu": 3000}, 0)


def test_asking_what_is_kept_changes_nothing() -> None:
    need = need_of(cpu(3), returning=UIDS[:1])
    for _ in range(2):
        assert need.kept({UIDS[0]: cpu(1)}, {"cpu": 8000}) == ({"cpu": 2000}, 0)
    assert (need.requests, need.pods, need.returning) == ({"cpu": 3000}, 1, {UIDS[0]})
