"""Workloads that are drawn with copies of roles."""

from __future__ import annotations

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

from gangsched import PodAdded, PodGroup, PodGroupAdded, gang, presets
from gangsched.membership import membership
from gangsched.simulation import Simulator, Workload, report
from gangsched.strategies import roles, workloads
from support.examples import one_in


def groups_of(workload: Workload) -> dict[PodGroup, list[str | None]]:
    """Return the groups with the roles of their members."""
    events = [arrival.event for arrival in workload.arrivals]
    groups = {each.group.key: each.group for each in events if isinstance(each, PodGroupAdded)}
    found: dict[PodGroup, list[str | None]] = {group: [] for group in groups.values()}
    for pod in [each.pod for each in events if isinstance(each, PodAdded)]:
        claim = membership(pod)
        if claim is not None and claim.group in groups:
            found[groups[claim.group]].append(claim.role)
    return found


@one_in(2)
@given(workloads(roles=roles(), sizes=st.integers(1, 3), max_jobs=2))
def test_drawn_jobs_have_the_pods_of_their_copies(workload: Workload) -> None:
    for group, found in groups_of(workload).items():
        event(f"copies: {group.has_copies}")
        job = gang("any", roles=group.roles)
        # of a role of pods the group tells its minimum alone
        assert Counter(map(group.path_of, found)) >= Counter(pod.role for pod in job.pods)
        assert job.group.min_available <= group.min_available <= len(found)


@one_in(2)
@given(workloads(roles=roles(max_pods=4), sizes=st.just(1), max_jobs=2))
def test_drawn_jobs_with_copies_start_whole_or_not_at_all(workload: Workload) -> None:
    simulator = Simulator(workload, presets.gang)
    simulator.run()
    gangs = report(simulator).summary.gangs
    event(f"starts: {gangs.started_whole > 0}")
    assert gangs.partial == 0
