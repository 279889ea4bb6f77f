"""Instants are written as the API server reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from gangsched.kubernetes._instants import micro_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.floats(0.0, 4_000_000_000.0))
@example(1_799_999_999.999_999_9)
@example(1_800_000_000.0)
def test_micro_time_is_the_instant_to_the_microsecond(at: float) -> None:
    written = datetime.strptime(micro_time(at), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert abs(written - (_EPOCH + timedelta(seconds=at))) <= timedelta(microseconds=1)
