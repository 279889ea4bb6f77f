"""How late the event loop is, as a metric."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

pytest.importorskip("prometheus_client")

from gangsched.kubernetes import Settings
from gangsched.kubernetes._loop_delay import measured_delays
from gangsched.kubernetes._measure import Measures
from support.running import on_a_loop, until


@on_a_loop
async def test_each_sample_that_was_due_while_the_loop_stood_still_counts() -> None:
    seen: list[float] = []
    with measured_delays(seen.append):
        await until(lambda: len(seen) > 1)
        before = len(seen)
        time.sleep(1.0)
        await until(lambda: len(seen) >= before + 3)
        stood_still = seen[before:]
    assert stood_still[0] >= 0.75  # due a quarter of a second after the last one
    assert stood_still[0] > stood_still[1] > stood_still[2] >= 0.25
    done = len(seen)
    await asyncio.sleep(0.3)
    assert len(seen) == done


@on_a_loop
async def test_delays_are_on_the_page_of_metrics() -> None:
    measures = Measures(Settings())

    def samples() -> float:
        page = measures.pages(list)["/metrics"]().body.decode()
        (found,) = re.findall(r"^gangsched_loop_delay_seconds_count (\S+)$", page, re.MULTILINE)
        return float(found)

    assert samples() == 0
    with measures.loop_delays():
        await until(lambda: samples() > 0)
