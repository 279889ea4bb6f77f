"""The machine of quotas, alone: charges, refusals, what is returned."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import GroupKey, InternalError, InvalidValueError, Quota, Resources
from gangsched._core._quotas import QuotaLedger

A, B, C = GroupKey("team/a"), GroupKey("team/b"), GroupKey("other/c")
QUOTA = Quota(name="team", namespaces=["team"], hard={"cpu": 10, "nvidia.com/gpu": 4})
BOTH = Quota(name="both", namespaces=["team", "other"], hard={"cpu": 12})


def cpu(amount: int | str) -> Resources:
    return Resources({"cpu": amount})


def ledger(*quotas: Quota) -> QuotaLedger:
    return QuotaLedger(quotas or (QUOTA,))


def test_charge_is_added_and_returned() -> None:
    found = ledger()
    assert found.charge([(A, cpu(6))]) == ""
    assert found.used("team") == cpu(6)
    found._check()
    assert not found.take_returned()
    found.release(A)
    found.release(A)
    assert found.take_returned()
    assert not found.take_returned()
    assert found.used("team") == Resources()
    found._check()


def test_larger_of_what_a_group_reserves_and_holds_is_charged() -> None:
    found = ledger()
    found.charge([(A, cpu(4))])
    found.hold(A, Resources(), cpu(3))
    assert found.used("team") == cpu(4)
    found.hold(A, Resources(), cpu(3))
    assert found.used("team") == cpu(6)
    found._check()
    assert found.exceeded_by({A: cpu(4)}) == ""
    reason = "exceeded quota team: requested cpu=5, used cpu=6, limited cpu=10"
    assert found.exceeded_by({A: cpu(5)}) == reason
    assert found.charge([(B, cpu(5))]) == reason
    found.hold(A, cpu(3), Resources())
    assert found.take_returned()
    assert found.charge([(B, cpu(5))]) == ""
    found._check()


def test_refused_group_returns_what_it_had_reserved() -> None:
    found = ledger()
    found.charge([(A, cpu(4))])
    assert found.charge([(A, cpu(11))]).endswith("whole quota")
    assert found.used("team") == Resources()
    found._check()


def test_refusal_names_quota_resource_request_used_and_limit() -> None:
    found = ledger()
    found.charge([(A, cpu("6500m"))])
    reason = "exceeded quota team: requested cpu=4, used cpu=6500m, limited cpu=10"
    assert found.charge([(B, cpu(4))]) == reason
    assert found.waiting == (B,)
    assert found.reason(B) == reason
    assert found.used("team") == cpu("6500m")
    found._check()


@pytest.mark.parametrize("used", [0, 6])
def test_refusal_of_more_than_the_whole_quota_says_that_no_end_helps(used: int) -> None:
    found = ledger()
    found.charge([(A, cpu(used))])
    assert found.charge([(B, cpu(11))]) == (
        f"exceeded quota team: requested cpu=11, used cpu={used}, limited cpu=10"
        "; it is more than the whole quota"
    )
    assert not found.charge([(B, cpu(10))]).endswith("whole quota")


def test_group_that_fits_exactly_is_admitted() -> None:
    found = ledger()
    found.charge([(A, cpu(6))])
    assert found.charge([(B, cpu(4))]) == ""


def test_group_is_charged_once() -> None:
    found = ledger()
    for _time in range(2):
        assert found.charge([(A, cpu(6))]) == ""
    assert found.used("team") == cpu(6)


def test_every_quota_of_a_namespace_counts() -> None:
    found = ledger(QUOTA, BOTH)
    assert found.charge([(C, cpu(8))]) == ""
    assert found.charge([(A, cpu(6))]).startswith("exceeded quota both")
    assert found.used("team") == Resources()


def test_resource_without_a_limit_and_namespace_without_a_quota_are_free() -> None:
    found = ledger()
    assert found.charge([(A, Resources({"memory": "1Ti"}))]) == ""
    assert found.charge([(C, cpu(1000))]) == ""
    assert not found.is_charged(C)
    found._check()


def test_groups_that_start_together_are_charged_together_or_not_at_all() -> None:
    found = ledger(BOTH)
    assert found.charge([(A, cpu(7)), (C, cpu(7))])
    assert found.used("both") == Resources()
    assert found.charge([(A, cpu(6)), (C, cpu(6))]) == ""
    assert found.used("both") == cpu(12)
    found._check()


def test_group_on_nodes_is_charged_beyond_the_limit_and_admits_no_other() -> None:
    found = ledger()
    found.force(A, cpu(50))
    found._check()
    assert found.charge([(B, cpu(1))])
    found.release(A)
    assert found.charge([(B, cpu(1))]) == ""


def test_group_that_gives_up_does_not_wait() -> None:
    found = ledger()
    found.charge([(A, cpu(11))])
    found.stop_waiting(A)
    assert found.waiting == ()
    assert found.reason(A) == ""


def test_reason_of_a_waiting_group_follows_what_is_used() -> None:
    found = ledger()
    found.charge([(A, cpu(8))])
    found.charge([(B, cpu(9))])
    found.release(A)
    found.charge([(GroupKey("team/d"), cpu(3))])
    assert "used cpu=3" in found.exceeded([(B, cpu(9))])
    assert "used cpu=3" in found.reason(B)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", ""), ("name", 1), ("namespaces", ()), ("namespaces", "team")),
        *(("namespaces", [""]), ("hard", {}), ("hard", {"cpu": -1}), ("hard", 3)),
    ],
)
def test_malformed_quota_is_refused(field: str, value: Any) -> None:
    given = {"name": "q", "namespaces": ["team"], "hard": {"cpu": 1}, field: value}
    with pytest.raises(InvalidValueError):
        Quota(**given)


@pytest.mark.parametrize("given", [3, [3], [QUOTA, QUOTA]])
def test_malformed_quotas_are_refused(given: Any) -> None:
    with pytest.raises(InvalidValueError, match="quotas"):
        QuotaLedger(given)


def test_check_finds_a_wrong_sum() -> None:
    found = ledger()
    found.charge([(A, cpu(6))])
    found._used["team"]["cpu"] = 5000
    with pytest.raises(InternalError):
        found._check()


def test_check_finds_a_quota_that_is_exceeded() -> None:
    found = ledger()
    found.charge([(A, cpu(6))])
    object.__setattr__(found._quotas[0], "hard", cpu(5))
    try:
        with pytest.raises(InternalError):
            found._check()
    finally:
        object.__setattr__(found._quotas[0], "hard", Resources({"cpu": 10, "nvidia.com/gpu": 4}))
