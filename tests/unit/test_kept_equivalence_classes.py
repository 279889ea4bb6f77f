"""Equivalence classes of entities with like members, kept by the class of their pods."""

from __future__ import annotations

import pytest

from gangsched.errors import InternalError
from gangsched.framework.queueing import equivalence
from gangsched.framework.queueing.equivalence_class import (
    EquivalenceClass,
    check_kept,
    of_like_members,
)
from support.backfill_host import Host


def full() -> Host:
    """Return a full node, and two equal gangs that failed."""
    host = Host(a=1)
    host.pod("old")
    host.decide()
    host.gang("x", 2)
    host.gang("y", 2)
    host.decide()
    return host


def test_equal_gangs_have_one_class() -> None:
    host = full()
    state = host.scheduler._state
    gangs = [e for e in state.pods.entities.values() if e.group is not None]
    found = [
        equivalence.class_of(state.settings, state.nodes, state.pods, state.call, gang)
        for gang in gangs
    ]
    assert len(found) == 2
    assert found[0] is found[1]
    (pod_class,) = {state.pods.members[pod.uid].pod_class for pod in gangs[0].pending}
    assert found[0] == EquivalenceClass(2, ((pod_class, 2),))
    host.scheduler._check()


def test_check_refuses_a_class_that_is_kept_for_another() -> None:
    host = full()
    (pod_class,) = {
        each for each in host.scheduler._state.pod_classes.by_signature.values() if each.askings
    }
    check_kept(pod_class)
    pod_class.askings[3, 3] = next(iter(pod_class.askings.values()))
    with pytest.raises(InternalError, match="is kept for"):
        host.scheduler._check()


def test_class_is_not_kept_before_a_pod_of_it_is_evaluated() -> None:
    """What a node must have free is not known until then."""
    host = full()
    (pod_class,) = {
        each for each in host.scheduler._state.pod_classes.by_signature.values() if each.askings
    }
    pod_class.askings.clear()
    pod_class.fitted = None
    of_like_members(pod_class, 2, 2)
    assert not pod_class.askings
