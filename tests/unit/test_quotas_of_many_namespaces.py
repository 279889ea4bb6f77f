"""A question to the quotas reads those of the namespaces that it is about."""

from __future__ import annotations

import pytest

from gangsched import GroupKey, Quota
from gangsched._core._quotas import QuotaLedger
from gangsched.resources import Resources

ONE = Resources({"cpu": 1})
TWO = Resources({"cpu": 2})


def test_quotas_of_other_namespaces_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = QuotaLedger(
        Quota(name=f"q{k}", namespaces=(f"ns{k}",), hard={"cpu": 1}) for k in range(100)
    )
    read: list[str] = []

    class Used(dict[str, dict[str, int]]):
        def __getitem__(self, name: str) -> dict[str, int]:
            read.append(name)
            return super().__getitem__(name)

    monkeypatch.setattr(ledger, "_used", Used(ledger._used))
    assert ledger.charge([(GroupKey("ns7/g"), ONE)]) == ""
    assert set(read) == {"q7"}
    monkeypatch.undo()
    ledger._check()


def test_first_exceeded_quota_by_the_order_given_is_named() -> None:
    ledger = QuotaLedger(
        [
            Quota(name="second", namespaces=("b", "a"), hard={"cpu": 1}),
            Quota(name="first", namespaces=("a",), hard={"cpu": 1}),
            Quota(name="third", namespaces=("c",), hard={"cpu": 1}),
        ]
    )
    # the quota of the other namespace is met first, and given last
    reason = ledger.exceeded([(GroupKey("c/g"), TWO), (GroupKey("a/g"), TWO)])
    assert reason.startswith("exceeded quota second:")
