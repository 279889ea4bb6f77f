"""Quotas in the configuration file."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import InMemoryCluster, InvalidValueError, Quota
from gangsched.configuration import make_scheduler, read_settings

TEAM = {"name": "team", "namespaces": ["a", "b"], "hard": {"cpu": 4, "memory": "1Gi"}}


def test_quotas_are_read_and_given_to_the_scheduler() -> None:
    settings = read_settings({"quotas": [TEAM]})
    expected = Quota(name="team", namespaces=["a", "b"], hard={"cpu": 4, "memory": "1Gi"})
    assert settings.quotas == (expected,)
    assert make_scheduler(settings, InMemoryCluster())._state.settings.quotas == (expected,)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, r"quotas\[0\]\.name"),
        ({"namespaces": []}, r"quotas\[0\]\.namespaces"),
        ({"namespaces": "a"}, r"quotas\[0\]\.namespaces"),
        ({"hard": {}}, r"quotas\[0\]\.hard"),
        ({"hard": {"cpu": "many"}}, r"quotas\[0\]\.hard\.cpu"),
        ({"soft": {"cpu": 1}}, r"quotas\[0\]\.soft"),
    ],
)
def test_malformed_quota_is_refused_with_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        read_settings({"quotas": [{**TEAM, **change}]})


def test_quotas_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"quotas\[1\]\.name"):
        read_settings({"quotas": [TEAM, TEAM]})
