"""Law 10: if all pods fit, a restart does not change which gangs start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched import PodUID, WhenBindFails
from support.examples import one_in
from support.histories import Policy, decisions, policies, reports
from support.history_steps import HistoryStep, Pass, PutGroup, PutNode, PutPods, Rebuild, Restart
from support.world import World

arrivals = st.builds(
    PutPods,
    group=st.sampled_from([None, 0, 1, 2]),
    count=st.integers(1, 3),
    minimum=st.just(3),
)
specifications = st.lists(st.builds(PutGroup, st.integers(0, 2), st.integers(2, 5)), max_size=2)
keeping = policies.filter(lambda policy: policy.when_bind_fails is WhenBindFails.RETRY_MEMBER)
restarts = st.one_of(st.builds(Restart, st.integers(1, 3)), st.just(Rebuild()))
story = st.lists(
    st.one_of(arrivals, arrivals, decisions, decisions, reports, st.just(Pass())),
    max_size=20,
)


def bound(world: World) -> set[PodUID]:
    """Return the pods that have a node."""
    return {pod.uid for pod in world.driver.cluster.pods() if pod.node_name}


@one_in(2)
@given(
    keeping, specifications, story, st.lists(st.tuples(st.integers(0, 20), restarts), max_size=4)
)
def test_same_pods_run_with_and_without_restarts_when_all_fit(
    policy: Policy,
    said: list[HistoryStep],
    steps: list[HistoryStep],
    breaks: list[tuple[int, HistoryStep]],
) -> None:
    """Binds fail, hang, get lost and arrive late before, during and after each restart.

    Minima are stated beforehand: a minimum that is raised when half of a gang is bound finds a
    scheduler that released it, or a new one. No pod is evicted: evicted pods do not return
    here, and a new scheduler, which knows of no backoff, may try during the faults, and evict
    others.
    """
    room = (PutNode(0, cpu=1_000), *said)
    with_restarts = list(steps)
    for at, restart in breaks:
        with_restarts.insert(at, restart)
    calm = policy.world().live(*room, *steps).finish()
    broken = policy.world().live(*room, *with_restarts).finish()
    assert bound(broken) == bound(calm)
