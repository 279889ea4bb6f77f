"""No start and no join exceeds a quota: gangs of unlike members, roles, bundles, all presets.

The oracle sums up what groups with a member on a node hold or reserve, from pods and effects alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from attrs import evolve, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    GroupKey,
    NodeAdded,
    PlacementStrategy,
    Pod,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    Quota,
    Resources,
    SchedulingUnit,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story
from support.story_presets import Preset, each_of

pytestmark = pytest.mark.once("the tests choose the unit themselves")

LIMIT = 6
TEAM = Quota(name="team", namespaces=["default"], hard={"cpu": LIMIT})
NOTHING = Resources()
each_preset = each_of(
    {
        "gang": presets.gang,
        "gang, packed": partial(presets.gang, placement=PlacementStrategy.PACK),
        "gang, spread": partial(presets.gang, placement=PlacementStrategy.SPREAD),
        "coscheduling": presets.coscheduling,
        "coscheduling, whole": partial(presets.coscheduling, unit=SchedulingUnit.GROUP),
    }
)


@frozen
class Job:
    """A group: its minimum, the CPUs and role of each member, and what it states."""

    least: int
    cpus: Sequence[tuple[int, bool]]
    leads: bool = False
    stated: int = 0
    joins: bool = False
    """Whether it is a bundle with the job before it."""


def charged(story: Story) -> int:
    """Return what groups with a member on a node hold, or state, if that is more; in CPUs."""
    binding = {bind.uid for bind in story.binds}
    held: dict[GroupKey, int] = {}
    for pod in story.cluster.pods():
        gives_back = pod.is_finished or (pod.node_name is None and pod.uid not in binding)
        if not gives_back:
            key = GroupKey(f"default/{pod.name.partition('-')[0]}")
            held[key] = held.get(key, 0) + pod.requests.amount("cpu") // 1000
    groups = {key: story.cluster.pod_group(key) for key in held}
    stated = {key: group.min_resources for key, group in groups.items() if group is not None}
    return sum(
        max(cpus, stated.get(key, NOTHING).amount("cpu") // 1000) for key, cpus in held.items()
    )


def arrive(story: Story, jobs: Sequence[Job], late: int) -> None:
    """Add jobs; the last *late* members of each come after all others were decided."""
    names = [f"j{number}" for number in range(len(jobs))]
    with_next = [job.joins for job in jobs[1:]] + [False]
    afterwards: list[Pod] = []
    for number, (name, job) in enumerate(zip(names, jobs, strict=True)):
        others = [names[number - 1]] if job.joins and number else []
        others += [names[number + 1]] if with_next[number] and not others else []
        roles = {"lead": 1} if job.leads else {}
        group = PodGroup(
            name=name,
            min_available=max(job.least, len(roles)),
            roles=roles,
            min_resources={"cpu": job.stated} if job.stated else {},
            bundle=[f"default/{other}" for other in others],
        )
        story.tell(PodGroupAdded(group))
        pods = [
            make_pod(f"{name}-{n}", group=name, cpu=cpu, role="lead" if leads else None)
            for n, (cpu, leads) in enumerate(job.cpus)
        ]
        first = max(len(pods) - late, 0)
        story.add(*pods[:first])
        afterwards += pods[first:]
    decide(story)
    story.add(*afterwards)
    decide(story)


def decide(story: Story) -> None:
    """Decide cycle by cycle, and check the quota after each; binds succeed in between."""
    for _ in range(200):
        effects = story.scheduler.schedule_one(now=story.now)
        if effects is None:
            break
        story._perform(effects)
        assert charged(story) <= LIMIT, f"{charged(story)} of {LIMIT} CPUs"
        story.finish_binds()
    else:
        raise AssertionError("schedule_one does not come to rest")


jobs = st.builds(
    Job,
    least=st.sampled_from([1, 2, 2, 3]),
    cpus=st.lists(st.tuples(st.sampled_from([1, 2, 1, 3]), st.booleans()), min_size=2, max_size=5),
    leads=st.sampled_from([False, False, False, True]),
    stated=st.sampled_from([0, 0, 4, 5]),
    joins=st.booleans(),
)
UNLIKE = Job(1, [(1, False), (2, False), (4, False)])
STATED = [Job(2, [(1, False)] * 5, stated=5), Job(1, [(1, False)] * 2, joins=True)]


@each_preset
@one_in(3)
@given(
    st.lists(jobs, min_size=1, max_size=3),
    st.sampled_from([(32,), (4, 3), (8, 8), (3,)]),
    st.integers(0, 2),
    st.lists(st.integers(0, 14), max_size=4),
)
@example([UNLIKE], (32,), 0, [])
@example(STATED, (32,), 0, [])
def test_no_start_and_no_join_exceeds_a_quota(
    preset: Preset,
    jobs: Sequence[Job],
    nodes: Sequence[int],
    late: int,
    gone: Sequence[int],
) -> None:
    story = Story(partial(preset, quotas=[TEAM]), holds_binds=True)
    for number, cpus in enumerate(nodes):
        story.tell(NodeAdded(make_node(f"n{number}", cpu=cpus)))
    arrive(story, jobs, late)
    for number in gone:
        pods = sorted(story.cluster.pods(), key=lambda pod: pod.name)
        if pods and number % 2:
            story.tell(PodDeleted(pods[number % len(pods)].uid))
        elif pods:
            ends = pods[number % len(pods)]
            if ends.node_name is not None:
                story.update(ends.name, phase=PodPhase.SUCCEEDED)
            story.add(evolve(make_pod(f"j0-{9 + number}", group="j0", cpu=1 + number % 4)))
        decide(story)
    for _ in range(3):
        story.now = (story.scheduler.next_deadline() or story.now) + 1.0
        story._perform(story.scheduler.advance(now=story.now))
        decide(story)
