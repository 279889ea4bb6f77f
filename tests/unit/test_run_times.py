"""``AnnotatedRunTimes``: expected ends, wrong estimates, refused values."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import AnnotatedRunTimes, InvalidValueError, Pod
from gangsched.testing import make_pod

SECONDS = "example.com/seconds"
EXACT = AnnotatedRunTimes(SECONDS)


def running(pod: Pod, seconds: str | None) -> Pod:
    """Return a pod on which it is written for how long it runs."""
    return pod if seconds is None else evolve(pod, annotations={SECONDS: seconds})


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("annotation", {"annotation": ""}),
        ("wrong_by", {"annotation": "x", "wrong_by": 0.5}),
        ("seed", {"annotation": "x", "seed": None}),
    ],
)
def test_malformed_run_times_are_refused(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        AnnotatedRunTimes(**given)
    assert caught.value.field == field


@pytest.mark.parametrize("text", [None, "", "-1", "1e5", "soon", "9" * 400])
def test_expected_end_is_unknown_without_a_valid_annotation(text: str | None) -> None:
    pod = running(make_pod("p"), text)
    assert EXACT.expected_end(pod, started_at=None, now=0.0) is None


def test_errors_of_estimates_are_bounded_and_equal_within_a_group() -> None:
    sloppy = AnnotatedRunTimes(SECONDS, wrong_by=4.0, seed=7)
    found = set[float]()
    for n in range(50):
        pods = [
            running(make_pod(f"g{n}-{m}", group=f"g{n}", min_available=2), "100") for m in range(2)
        ]
        first, second = (sloppy.expected_end(p, started_at=5.0, now=9.0) for p in pods)
        assert first is not None
        assert first == second
        assert 25.0 <= first - 5.0 <= 400.0
        found.add(first)
    assert len(found) == 50
    assert min(found) < 55.0
    assert max(found) > 255.0
