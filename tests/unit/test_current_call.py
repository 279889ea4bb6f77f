"""The effects of one call: a notice that repeats is posted once, a notice that differs stays."""

from __future__ import annotations

from gangsched import Effect, GroupIncomplete, GroupKey, GroupRejected
from gangsched.framework.state.current_call import CurrentCall

G, H = GroupKey("default/g"), GroupKey("default/h")
ONE, TWO = GroupIncomplete(G, 1, 3), GroupIncomplete(G, 2, 3)
REJECTED = GroupRejected(G, 1, "why", 0.0)


def taken(*effects: Effect) -> tuple[Effect, ...]:
    """Return the effects of a call that has gathered *effects*."""
    call = CurrentCall()
    call.out.extend(effects)
    found = call.take()
    assert call.take() == ()
    return found


def test_notice_that_repeats_in_one_call_is_posted_once() -> None:
    assert taken(ONE, ONE) == (ONE,)
    assert taken(ONE, ONE, ONE) == (ONE,)


def test_notice_with_another_number_or_of_another_group_is_posted() -> None:
    other = GroupIncomplete(H, 1, 3)
    for effects in [(ONE,), (ONE, TWO), (ONE, TWO, ONE), (ONE, other)]:
        assert taken(*effects) == effects


def test_notice_is_posted_again_after_the_end_of_an_attempt() -> None:
    assert taken(ONE, REJECTED, ONE) == (ONE, REJECTED, ONE)
