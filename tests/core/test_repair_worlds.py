"""Gangs that are repaired after a node is lost, against every set of parts that could move.

Nothing is restarted if what is lost fits beside the others. Else as few members move as can, and
none if that would not help. Whatever moved, the gang is whole and legal in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, combinations

from attrs import evolve
from hypothesis import assume, event, given
from hypothesis import strategies as st

from gangsched import (
    Evict,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodUID,
    RestartPolicy,
)
from gangsched.testing import make_pod
from support.level_jobs import Job, jobs
from support.level_worlds import (
    LEVELS,
    Unit,
    World,
    WorldHost,
    domain,
    fits,
    is_legal,
    units,
    worlds,
)


class Controlled(WorldHost):
    """A cluster in which pods that are deleted are created again, under their names."""

    def lose(self, name: str) -> set[int]:
        """Lose a node; return the members that were on it."""
        lost = [pod for pod in self.cluster.pods() if pod.node_name == name]
        self.tell(NodeDeleted(NodeName(name)))
        for pod in lost:
            if pod.name.startswith("g-"):
                self.create_again(pod)
            else:
                self.tell(PodDeleted(pod.uid))
        return {int(pod.name[2:]) for pod in lost if pod.name.startswith("g-")}

    def create_again(self, pod: Pod) -> None:
        """Delete a pod, and create another one like it."""
        self.tell(PodDeleted(pod.uid))
        self.tell(PodAdded(evolve(pod, uid=PodUID(f"{pod.uid}'"), node_name=None)))

    def evict(self) -> set[int]:
        """Carry out evictions; return the members that were evicted."""
        pods = {pod.uid: pod for pod in self.cluster.pods()}
        evicted = [pods[e.uid] for e in self.effects if isinstance(e, Evict) and e.uid in pods]
        self.effects.clear()
        for pod in evicted:
            self.create_again(pod)
        return {int(pod.name[2:]) for pod in evicted}

    def come_to_rest(self) -> None:
        """Carry out restarts until there are none; several may follow one another."""
        for number in range(1, 4):
            self.evict()
            self.decide()
            self.at(400.0 * number)


@st.composite
def repaired(draw: st.DrawFn) -> Job:
    """Draw a gang that is repaired, without parts that it can do without."""
    job = draw(jobs(most=6))
    parts = [*units(job.unit)]
    # in a gang that has started, whoever comes first goes first, also if it is not needed
    assume(all(unit.least == len(unit.members) for unit in parts))
    assume(len(job.groups) == 1 and all(unit.wanted == len(unit.children) for unit in parts))
    policy = RestartPolicy(repair=True, backoff=10.0)
    return evolve(job, groups=(evolve(job.groups[0], restart=policy),))


def innermost(unit: Unit, on: Mapping[int, str]) -> Iterator[frozenset[int]]:
    """Yield the members that run of each part with a level and none within it that has members."""
    below = [each for child in unit.children for each in innermost(child, on)]
    yield from below
    mine = unit.below & on.keys()
    if unit.level is not None and mine and not below:
        yield mine


def left(world: World, sizes: tuple[int, ...], on: Mapping[int, str]) -> World:
    """Return what members leave free of a world in which none runs."""
    free = dict(world.free)
    for member, name in on.items():
        free[name] -= sizes[member]
    return evolve(world, free=free)


@given(worlds(most=7), repaired(), st.data())
def test_as_few_members_move_as_can(world: World, job: Job, data: st.DataObject) -> None:
    host = Controlled(world, can_evict=True, search_budget=20_000)
    host.tell(*map(PodGroupAdded, job.groups), *map(PodAdded, job.pods({})))
    host.decide()
    assume(host.on)
    # others come: their pods fill what they find, but of domains that the gang has for itself
    alone = any(unit.exclusive for unit in units(job.unit))
    names = st.sampled_from(sorted(world.free))
    full = data.draw(st.lists(names, max_size=0 if alone else 3, unique=True))
    rest, cpus = left(world, job.sizes, host.on), dict(world.free)
    for number, name in enumerate(full):
        cpu = data.draw(st.integers(0, rest.free[name]))
        if cpu:
            pod = make_pod(f"o-{number}", cpu=cpu)
            host.tell(PodAdded(evolve(pod, node_name=NodeName(name))))
            cpus[name] -= cpu
    shut = {
        level: frozenset(chain.from_iterable(names))
        for level, names in others_in(world, [n for n in full if cpus[n] < world.free[n]]).items()
    }
    gone = data.draw(st.sampled_from(sorted(set(host.on.values()))))
    lost = host.lose(gone)
    del cpus[gone]
    places = {name: place for name, place in world.places.items() if name != gone}
    now = World(places, cpus, {level: names - {gone} for level, names in shut.items()})
    on = dict(host.on)
    assert lost.isdisjoint(on)
    host.decide()
    moved = host.evict() & on.keys()  # others may have come beside them just before

    def can(some: frozenset[int]) -> bool:
        stay = {member: name for member, name in on.items() if member not in some}
        return fits(job.unit, left(now, job.sizes, stay), job.sizes, stay)

    if can(frozenset()):
        event("in place")
        if len(lost) == 1:  # several are replaced one by one, and may be in each other's way
            assert not moved
        host.come_to_rest()
        assert job.unit.is_met(host.on)
        assert is_legal(job.unit, now, host.on)
        return
    parts = [*innermost(job.unit, on)]
    sets = [
        frozenset(chain.from_iterable(some))
        for number in range(1, len(parts) + 1)
        for some in combinations(parts, number)
    ]
    sizes = [len(some) for some in sets if can(some)]
    if not sizes and on and can(frozenset(on)):
        sizes = [len(on)]
    free = left(now, job.sizes, on).free
    if not any(free[name] >= job.sizes[member] for name in free for member in lost):
        event("no node takes one")  # that what is smaller could make room is not always seen
        assert len(moved) in (0, min(sizes, default=0))
        return
    assert len(moved) == min(sizes, default=0), (sizes, moved, str(host.scheduler.why("default/g")))
    event("moves" if moved else "waits")
    if moved:
        event("a part" if moved < on.keys() else "all")
        host.come_to_rest()
        assert job.unit.is_met(host.on), str(host.scheduler.why("default/g"))
        assert is_legal(job.unit, now, host.on)


def others_in(world: World, taken: list[str]) -> Mapping[str, list[frozenset[str]]]:
    """Return by level the domains with pods of others, and the nodes that are in none."""
    found: dict[str, list[frozenset[str]]] = {}
    for level in LEVELS:
        used = {None, *[domain(world, name, level) for name in taken]}
        found[level] = [frozenset(n for n in world.free if domain(world, n, level) in used)]
    return found
