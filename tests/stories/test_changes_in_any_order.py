"""A change is several events. In whatever order they come, the same gangs run in the end.

Pods and groups are read by two watches, of which either may be behind. So a scheduler sees states
that never were: a pod that is gone under the minimum of before, a node without the end of its pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    Event,
    GroupRestarted,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodPhase,
    PodUpdated,
    RestartPolicy,
    Scheduler,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way

POLICY: Final = RestartPolicy(max_restarts=3, backoff=5.0, longest_backoff=40.0)
SPAN: Final = 0.9
"""Seconds that the events of one change are apart at most; a loss is judged after one second."""


@frozen
class Change:
    """What becomes of a gang that runs.

    Attributes:
        preset: Its name.
        group: The gang before.
        size: The number of its members: ``a0``, which has the role if there is one, and so on.
        fates: What becomes of each member: it stays, ends, or is deleted.
        minimum: Its minimum after the change.
        loses_node: Whether the node of the first member is lost.
        stuck: Whether terminating pods stay until the end of the story.
    """

    preset: str
    group: PodGroup
    size: int
    fates: tuple[str, ...]
    minimum: int
    loses_node: bool
    stuck: bool = False

    def events(self, story: Story) -> list[Event]:
        """Return its events, of each object one."""
        found: list[Event] = []
        for number, fate in enumerate(self.fates):
            pod = story.pod(f"a{number}")
            match fate:
                case "terminates":
                    found.append(PodUpdated(evolve(pod, deleted_at=story.now)))
                case "is deleted":
                    found.append(PodDeleted(pod.uid))
                case "fails":
                    found.append(PodUpdated(evolve(pod, phase=PodPhase.FAILED)))
                case "succeeds":
                    found.append(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))
                case _:
                    pass
        if self.minimum != self.group.min_available:
            found.append(PodGroupUpdated(evolve(self.group, min_available=self.minimum)))
        if self.loses_node:
            found.append(NodeDeleted(NodeName(story.bound["a0"])))
        return found


FATES: Final = ("stays", "stays", "terminates", "is deleted", "fails", "succeeds")


@st.composite
def changes(draw: st.DrawFn, *, stuck: bool = False) -> Change:
    size = draw(st.integers(1, 4))
    minimum = draw(st.integers(max(1, size - 1), size))
    roles = draw(st.sampled_from([{}, {"ps": 1}]))
    policy = draw(st.sampled_from([POLICY, POLICY, None]))
    fates = draw(st.lists(st.sampled_from(FATES), min_size=size, max_size=size))
    # to ask for more members and to lose some is two changes: their order says what was lost
    grows = draw(st.booleans()) and {*fates} == {"stays"}
    return Change(
        draw(st.sampled_from(["gang", "coscheduling"])),
        PodGroup(name="g", min_available=minimum, roles=roles, restart=policy),
        size,
        tuple(fates),
        draw(st.integers(1, size + 1 if grows else minimum)),
        draw(st.booleans()) and not grows,
        stuck,
    )


def running(change: Change) -> Story:
    """Return a story in which the gang of a change runs."""

    def make(cluster: ClusterState) -> Scheduler:
        preset = presets.gang if change.preset == "gang" else presets.coscheduling
        return preset(cluster, can_evict=True)

    story = Story(make, way=Way.RESTORED)
    story.tell(*(NodeAdded(make_node(f"n{number}", cpu=2)) for number in range(9)))
    story.tell(PodGroupAdded(change.group))
    for number in range(change.size):
        role = "ps" if change.group.roles and number == 0 else None
        story.add(make_pod(f"a{number}", group="g", cpu=1, role=role))
    story.run(10.0)
    assert len(story.bound) == change.size
    return story


Outcome = tuple[frozenset[str], frozenset[str], int]


def outcome(change: Change, arrange: Callable[[list[Event]], list[tuple[float, Event]]]) -> Outcome:
    """Return what runs after a change, what was evicted, and how often it was restarted.

    A controller replaces the members that are gone or have failed, once all is quiet.
    """
    story = running(change)
    lost = [n for n, fate in enumerate(change.fates) if fate not in ("stays", "succeeds")]
    for wait, event in arrange(change.events(story)):
        story.decide()
        story.run(story.now + wait)
        if wait:
            story.interrupt()
        story.tell(event)
    story.run(story.now + 2.0)
    if not change.stuck:
        gone = [pod.name for pod in story.cluster.pods() if pod.deleted_at is not None]
        story.delete(*gone)
    story.run(story.now + 3.0)
    names = {pod.name for pod in story.cluster.pods()}
    evicted = [n for n in range(change.size) if f"a{n}" in story.evicted]
    for number in sorted({*lost, *evicted}):
        role = "ps" if change.group.roles and number == 0 else None
        name = f"b{number}"
        assert name not in names
        story.add(make_pod(name, group="g", cpu=1, role=role, created_at=story.now))
    story.run(story.now + 100.0)
    live = {p.name for p in story.cluster.pods() if p.node_name and not p.is_finished}
    ending = {pod.name for pod in story.cluster.pods() if pod.deleted_at is not None}
    restarts = len(story.of(GroupRestarted))
    return frozenset(live - ending), frozenset(story.evicted), restarts


def at_once(events: list[Event]) -> list[tuple[float, Event]]:
    return [(0.0, event) for event in events]


@one_in(2)
@given(changes(), st.data())
def test_change_has_one_outcome_in_whatever_order_and_pieces_it_comes(
    change: Change, data: st.DataObject
) -> None:
    def arranged(events: list[Event]) -> list[tuple[float, Event]]:
        order = data.draw(st.permutations(events))
        waits = st.sampled_from([0.0, 0.01, SPAN / max(len(events), 1)])
        return [(data.draw(waits), event) for event in order]

    assert outcome(change, arranged) == outcome(change, at_once)


@one_in(2)
@given(changes(stuck=True))
def test_pod_that_terminates_for_ever_keeps_no_gang_from_its_nodes(change: Change) -> None:
    ended = outcome(evolve(change, stuck=False), at_once)
    assert outcome(change, at_once) == ended
