"""Gangs within a rack, required or preferred, against every placement that there is.

The oracle knows nodes as pairs of cpu and rack, and tries every choice. It shares no code with the
core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

from attrs import evolve, frozen
from hypothesis import event, given
from hypothesis import strategies as st

from gangsched import (
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    PodGroup,
    PodGroupAdded,
    SchedulingUnit,
    Topology,
    presets,
)
from gangsched.core.scheduler import Scheduler
from gangsched.testing import make_pod
from support.story import Story

RACKS = st.sampled_from(["a", "b", None])


def on_the_core(unit: SchedulingUnit = SchedulingUnit.GROUP) -> Story:
    """Return a story that the core decides."""
    make: Any = partial(Scheduler, profile=presets.coscheduling_profile(), unit=unit)
    return Story(make)


def node(name: str, cpu: int, rack: str | None) -> Node:
    labels = {} if rack is None else {"rack": rack}
    return Node(name=NodeName(name), allocatable={"cpu": cpu}, labels=labels)


@frozen
class Case:
    """Nodes as cpu and rack, running members as cpu and node, and what comes later.

    Attributes:
        lost: A node that is deleted (2) or loses its label (1) while members run on it.
    """

    nodes: tuple[tuple[int, str | None], ...]
    running: tuple[tuple[int, int], ...]
    lost: tuple[int, int]
    pending: tuple[int, ...]
    minimum: int
    required: bool
    unit: SchedulingUnit


@st.composite
def cases(draw: Any) -> Case:
    nodes = tuple(draw(st.lists(st.tuples(st.integers(0, 4), RACKS), min_size=1, max_size=4)))
    where = st.tuples(st.integers(1, 2), st.integers(0, len(nodes) - 1))
    running = tuple(draw(st.lists(where, max_size=2)))
    lost = running[0][1] if running and draw(st.booleans()) else len(nodes) - 1
    return Case(
        nodes,
        running,
        (lost, draw(st.integers(0, 2))),
        tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))),
        draw(st.integers(1, 4)),
        draw(st.booleans()),
        draw(st.sampled_from(SchedulingUnit)),
    )


def fits(free: Sequence[int], sizes: Sequence[int]) -> bool:
    """Return whether pods fit on nodes together, by trying every choice."""
    for choice in product(range(len(free)), repeat=len(sizes)):
        left = list(free)
        for number, size in zip(choice, sizes, strict=True):
            left[number] -= size
        if min(left, default=0) >= 0:
            return True
    return False


def fits_in_part(free: Sequence[int], sizes: Iterable[int], number: int) -> bool:
    """Return whether some *number* of pods fit on nodes together."""
    return any(fits(free, some) for some in combinations(tuple(sizes), number))


def told(case: Case) -> tuple[Story, dict[str, tuple[int, str | None]], set[str | None]]:
    """Return a story in which everything has come; the nodes there, and the racks of members."""
    story = on_the_core(case.unit)
    nodes = {f"n{n}": each for n, each in enumerate(case.nodes)}
    spec = PodGroup(
        name="g", min_available=case.minimum, topology=Topology("rack", required=case.required)
    )
    story.tell(PodGroupAdded(spec), *(NodeAdded(node(n, *each)) for n, each in nodes.items()))
    for number, (cpu, where) in enumerate(case.running):
        seat = f"n{where}"
        pod = make_pod(f"r-{number}", group="g", cpu=cpu)
        story.add(evolve(pod, node_name=NodeName(seat)))
        nodes[seat] = (nodes[seat][0] - cpu, nodes[seat][1])
    name, how = f"n{case.lost[0]}", case.lost[1]
    if how == 1:
        story.tell(NodeUpdated(node(name, case.nodes[case.lost[0]][0], None)))
        nodes[name] = (nodes[name][0], None)
    elif how == 2:
        story.tell(NodeDeleted(NodeName(name)))
        del nodes[name]
    at = {f"n{where}" for _cpu, where in case.running}
    racks = {nodes[each][1] if each in nodes else None for each in at}
    story.add(*(make_pod(f"p-{n}", group="g", cpu=cpu) for n, cpu in enumerate(case.pending)))
    story.run(until=600)
    return story, nodes, racks


@given(cases())
def test_members_are_where_their_rack_allows_and_as_many_as_possible(case: Case) -> None:
    story, nodes, racks = told(case)
    new = {pod: on for pod, on in story.bound.items() if pod.startswith("p-")}
    sizes = {f"p-{n}": cpu for n, cpu in enumerate(case.pending)}
    runs, known = bool(racks), racks - {None}
    lacking = max(case.minimum - len(case.running), 0)
    left = {
        name: cpu - sum(sizes[pod] for pod, on in new.items() if on == name)
        for name, (cpu, _rack) in nodes.items()
    }
    assert min((left[name] for name in set(new.values())), default=0) >= 0
    allowed = set(known) if runs else {rack for _cpu, rack in nodes.values()} - {None}
    groups = [[n for n, (_cpu, rack) in nodes.items() if rack == each] for each in allowed]
    if not case.required:
        groups.append(list(nodes))
    starts = [
        group
        for group in groups
        if fits_in_part([max(nodes[n][0], 0) for n in group], case.pending, lacking)
    ]
    event(f"required {case.required}, runs {runs}, known {bool(known)}, starts {bool(new)}")
    if lacking:
        assert len(new) >= lacking or not starts
        assert not new or starts
    if case.required:
        used = {nodes[name][1] for name in new.values()}
        assert used <= allowed
        assert runs or len(used) <= 1
    if new or not lacking:
        # no member is left that fits where the others are
        rooms = {nodes[name][1] for name in new.values()} if not runs else known
        open_ = [n for n, (_c, rack) in nodes.items() if not case.required or rack in rooms]
        if not lacking or new:
            waiting = [cpu for pod, cpu in sizes.items() if pod not in new]
            assert not any(left[n] >= cpu for n in open_ for cpu in waiting)
    alike = len(set(case.pending)) == 1  # of others, see the case below
    if not case.required and not runs and alike and any(g is not groups[-1] for g in starts):
        first = [nodes[name][1] for pod, name in new.items()]
        best = max(first.count(rack) for rack in allowed)
        assert best >= lacking


def test_unlike_members_share_the_rack_that_is_preferred_if_they_fit_in_it() -> None:
    story = on_the_core()
    group = PodGroup(name="g", min_available=3, topology=Topology("rack", required=False))
    racks = (("n0", 1, "a"), ("n1", 3, "a"), ("n2", 2, None))
    story.tell(PodGroupAdded(group), *(NodeAdded(node(*each)) for each in racks))
    story.add(*(make_pod(f"p-{n}", group="g", cpu=cpu) for n, cpu in enumerate((1, 1, 2, 2))))
    story.run(until=600)
    assert len(story.bound) >= 3
    assert sorted(set(story.bound.values()) & {"n0", "n1"}) == ["n0", "n1"]
    assert sum(on != "n2" for on in story.bound.values()) >= 3
