"""The counters of falls and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import GroupBelowMinimum, GroupKey, GroupRestarted
from gangsched.metrics import Metrics

prometheus = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
KEY = GroupKey("default/g")


@pytest.mark.parametrize(
    ("notice", "name"),
    [
        (GroupBelowMinimum(KEY, 1, 2), "gangsched_groups_below_minimum_total"),
        (GroupRestarted(KEY, 1, 6, 10.0), "gangsched_group_restarts_total"),
    ],
)
def test_notice_is_counted(notice: Any, name: str) -> None:
    registry: Any = prometheus.CollectorRegistry()
    metrics = Metrics(registry)
    metrics.see([notice, notice], 0.0)
    assert registry.get_sample_value(name, {"profile": "gangsched"}) == 2
