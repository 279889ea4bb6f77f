"""Shared proofs say the same as one step for each class."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._proofs import Proof, Proofs
from gangsched.errors import InternalError

actions = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "renew"]), st.integers(0, 7), st.integers(-1, 30)),
    max_size=40,
)


@given(actions)
def test_renewed_proofs_are_those_of_each_class_alone(taken: list[tuple[str, int, int]]) -> None:
    proofs, joined, steps = Proofs(), dict[int, Proof](), dict[int, int]()
    for now, (what, key, since) in enumerate(taken, 1):
        if what == "join" and key not in joined:
            step = now if since < 0 else min(since, now)
            joined[key], steps[key] = proofs.join(step), step
        elif what == "leave" and key in joined:
            proofs.leave(joined.pop(key))
            del steps[key]
        elif what == "renew":
            proofs.renew(now, since=None if since < 0 else since)
            steps = {one: now if since < 0 or at >= since else at for one, at in steps.items()}
        assert {one: proof.current().step for one, proof in joined.items()} == steps
        proofs._check(list(joined.values()))
    for proof in joined.values():
        proofs.leave(proof)
    assert not proofs._by_step


def test_event_renews_many_proofs_at_the_cost_of_a_few() -> None:
    proofs = Proofs()
    joined = [proofs.join(step) for step in range(500)]
    for step in range(500, 600):
        proofs.renew(step)
        assert len(proofs._by_step) == 1
    assert {proof.current().step for proof in joined} == {599}


def test_check_notices_a_class_that_is_not_counted() -> None:
    proofs = Proofs()
    proof = proofs.join(3)
    with pytest.raises(InternalError, match="counted otherwise"):
        proofs._check([])
    proofs.leave(proof)
    with pytest.raises(InternalError, match="unknown"):
        proofs._check([proof])
