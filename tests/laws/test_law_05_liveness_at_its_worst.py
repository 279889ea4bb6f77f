"""Law 5: how much of the bound of ``docs/explanation/liveness.md`` is used in bad cases.

A bound far from reality is useless: here gangs and a cluster are chosen such that each event
requeues all entities, and all but the last are tried uselessly.
"""

from __future__ import annotations

import pytest

from gangsched import WhenBlocked
from support.histories import Policy
from support.history_steps import Decide, Pass, PutNode, PutPods
from support.liveness import Aftermath, faults_stop
from support.world import World

POLICIES = {
    "gives way": Policy(),
    "holds": Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT),
    "falls at once": Policy(when_blocked=WhenBlocked.AT_ONCE),
    "holds when few are missing": Policy(when_blocked=WhenBlocked.AT_ONCE, reject_percentage=100),
}


def everybody_in_vain(policy: Policy, *, gangs: int, pods: int) -> World:
    """Return a world with gangs that each need the whole only node, and small pods on it.

    The members of each are unlike, so their headrooms sum to more than is free: each departure
    requeues every gang. No two gangs are equivalent, so none is tried for another, and they
    fail at different instants, so their backoffs do not end together.
    """
    running = [PutPods(cpu=1) for _ in range(pods)]
    world = policy.world().live(PutNode(0, cpu=1_000), *running, Decide())
    for gang in range(gangs):
        large, small = PutPods(gang, 1, 2, cpu=501 + gang), PutPods(gang, 1, 2, cpu=499 - gang)
        world.live(large, small, Decide(), Pass(0.3))
    return world


@pytest.mark.pod_by_pod("one turn a member: the size of the bound")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_sixth_of_the_bound_is_used_when_every_event_requeues_all_in_vain(
    policy: Policy,
) -> None:
    """F6, F7: every gang fits on the empty cluster, and on no other.

    It was a fourth of the bound before an event could end a backoff: an entity that an event has
    helped is not tried once more at the end of its backoff, and the bound counts both tries.
    """
    world = faults_stop(everybody_in_vain(policy, gangs=3, pods=40))
    world.driver.checked = False
    after = Aftermath(policy, world.driver, delete=True).live_on()
    assert len(after.fitting) == 3
    assert all(after.started() & set(entity) for entity in after.fitting)
    assert not after.overdue()
    assert after.backlog.steps / 6 < after.steps


def in_one_round(policy: Policy, gangs: int) -> Aftermath:
    """Let gangs be tried of which each finds capacity for one member and never for both."""
    world = policy.world().live(PutNode(0, cpu=1_000))
    for gang in range(gangs):
        world.live(PutPods(gang, 1, 2, cpu=501 + gang), PutPods(gang, 1, 2, cpu=501, zone="a"))
    after = Aftermath(policy, faults_stop(world).driver).live_on()
    assert not after.fitting
    assert after.rounds == 1
    assert not after.overdue()
    return after


def attempts(after: Aftermath) -> int:
    """Return how often an attempt of a gang has begun."""
    return sum(info.attempts for info in after.driver.scheduler.registry)


@pytest.mark.pod_by_pod("the permit timeout")
@pytest.mark.parametrize("gangs", [1, 2, 4, 12])
def test_gangs_that_hold_until_their_deadlines_are_tried_three_times(gangs: int) -> None:
    """Each is tried once while another holds the node, once alone, and once as a whole.

    A rejection wakes only what failed meanwhile, so gangs cannot wake each other once per pair.
    """
    after = in_one_round(POLICIES["holds"], gangs)
    assert attempts(after) == 3 * gangs - 1, "the first one had the node to itself"


@pytest.mark.parametrize("gangs", [1, 2, 4, 12])
@pytest.mark.parametrize("policy", ["gives way", "falls at once"])
def test_gangs_that_yield_are_tried_once_per_round(policy: str, gangs: int) -> None:
    """F5: a holding gang delays no try, so its rejection requeues no other.

    Each may be tried once more as a whole: pod by pod it was in its own way.
    """
    after = in_one_round(POLICIES[policy], gangs)
    assert gangs <= attempts(after) <= 2 * gangs
