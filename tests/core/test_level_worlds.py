"""Gangs in worlds with levels, against every placement that there is.

A gang starts exactly if it can, nothing that fits beside it waits, and what is said of one that
does not start is counted again. Members may run before it is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen
from hypothesis import event, given
from hypothesis import strategies as st

from gangsched import (
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Topology,
)
from gangsched.explain import BackingOff, NoNodeFits, SearchBudgetExhausted, Shortage
from gangsched.testing import make_pod
from support.level_jobs import KEY, Job, jobs
from support.level_worlds import (
    LEVELS,
    Unit,
    World,
    WorldHost,
    domain,
    domains,
    fits,
    is_legal,
    near,
    units,
    worlds,
)


@frozen
class Case:
    """A job in a world.

    Attributes:
        world: What others leave free.
        others: Pods of others that run: the node, and the level that their gang has for itself.
        job: The job.
        on: The nodes of the members that run.
    """

    world: World
    others: tuple[tuple[str, str | None], ...]
    job: Job
    on: Mapping[int, str]


@st.composite
def cases(draw: st.DrawFn, *, runs: bool = False) -> Case:
    """Draw a world, and a job; *runs*: some members of it run already."""
    large = draw(st.booleans())
    world = draw(worlds(most=10 if large else 6))
    job = draw(jobs(most=4 if large else 8))
    busy = draw(st.lists(st.sampled_from(sorted(world.free)), max_size=2, unique=True))
    others = [(name, draw(st.sampled_from([None, None, None, *LEVELS]))) for name in busy]
    on: dict[int, str] = {}
    world = _beside(world, others)
    for member in draw(st.sets(st.integers(0, len(job.roles) - 1), max_size=3)) if runs else ():
        more = {**on, member: draw(st.sampled_from(sorted(world.free)))}
        is_fine = is_legal(job.unit, world, more) and not job.unit.is_met(more)
        on = more if is_fine and more[member] not in _closed(world, others) else on
    return Case(world, tuple(others), job, on)


def _beside(world: World, others: Sequence[tuple[str, str | None]]) -> World:
    """Return a world in which pods of others run, of which some gangs have domains."""
    taken = [name for name, _level in others]
    shut: dict[str, frozenset[str]] = {}
    for level in LEVELS:
        used = {None, *[domain(world, name, level) for name in taken]}
        shut[level] = frozenset(n for n in world.free if domain(world, n, level) in used)
    closed = _closed(world, others)
    return evolve(
        world,
        free={name: 0 if name in closed else cpu for name, cpu in world.free.items()},
        shut=shut,
    )


def _closed(world: World, others: Sequence[tuple[str, str | None]]) -> set[str]:
    """Return the nodes in domains that other gangs have for themselves."""
    owned = {(level, domain(world, name, level)) for name, level in others if level}
    return {
        name
        for name in world.free
        for level, path in owned
        if path is not None and domain(world, name, level) == path
    }


def play(case: Case, cpus: Mapping[str, int]) -> WorldHost:
    """Let others run, then members, then decide.

    Args:
        case: The case.
        cpus: The CPUs of each node.
    """
    nodes = evolve(case.world, free=cpus)
    host = WorldHost(nodes, search_budget=20_000)
    # in one call of the cluster, as if all had been there before
    for number, (name, level) in enumerate(case.others):
        group = f"o{number}" if level else None
        if level:
            spec = PodGroup(name=f"o{number}", min_available=1, topology=_alone(level))
            host.tell(PodGroupAdded(spec))
        pod = make_pod(f"o{number}-0", group=group, cpu=1)
        host.tell(PodAdded(evolve(pod, node_name=NodeName(name))))
    host.tell(*map(PodGroupAdded, case.job.groups))
    host.tell(*map(PodAdded, case.job.pods(case.on)))
    host.decide()
    return host


def _alone(level: str) -> Topology:
    return Topology(exclusive=level)


def offered(case: Case) -> dict[str, int]:
    """Return the CPUs of each node: what is free, and what pods take that run."""
    cpus = dict(case.world.free)
    for name, _level in case.others:
        cpus[name] += 1
    for member, name in case.on.items():
        cpus[name] += case.job.sizes[member]
    # a node that is closed to everybody has capacity all the same
    closed = _closed(case.world, case.others)
    return {name: cpu + (4 if name in closed else 0) for name, cpu in cpus.items()}


def after(case: Case, on: Mapping[int, str]) -> World:
    """Return what members leave free, some of which ran before."""
    free = dict(case.world.free)
    for member, name in on.items():
        free[name] -= case.job.sizes[member] if member not in case.on else 0
    return evolve(case.world, free=free)


def check_start(case: Case, host: WorldHost) -> None:
    """Require that the gang has started exactly if it could, and that nothing that fits waits."""
    unit, sizes, on = case.job.unit, case.job.sizes, host.on
    could = fits(unit, case.world, sizes, case.on)
    event("starts" if could else "waits")
    assert unit.is_met(on) == could, (on, str(host.scheduler.why(KEY)))
    if not could:
        assert on == case.on, "something starts before a minimum"
        return
    left = after(case, on)
    assert min(left.free.values()) >= 0
    assert is_legal(unit, case.world, on), on
    for whole in units(unit):
        allowed = near(unit, whole, left, on)
        if whole.is_whole and not whole.below & on.keys():
            assert not fits(whole, left, sizes, on, allowed), (whole, on)
    for leaf in units(unit):
        is_running = all(
            each.is_met(on) for each in units(unit) if each.is_whole and leaf.below <= each.below
        )
        for member in leaf.members if is_running and not leaf.children else ():
            if member not in on:
                one = evolve(leaf, least=sum(each in on for each in leaf.members) + 1)
                only = evolve(one, members=tuple([m for m in leaf.members if m in on] + [member]))
                allowed = near(unit, leaf, left, on)
                assert not fits(only, left, sizes, on, allowed), (member, on)


def check_reason(case: Case, host: WorldHost) -> None:
    """Require that no more fit than is said, and as many if it is said that so many do."""
    why = host.scheduler.why(KEY)
    if not isinstance(why, NoNodeFits | BackingOff) or why.unschedulable_member is None:
        return
    proof = why.unschedulable_member.proof
    assert not isinstance(proof, SearchBudgetExhausted)
    if not isinstance(proof, Shortage) or proof.beside_others:
        return
    unit, sizes, on = case.job.unit, case.job.sizes, case.on

    def can(part: Unit, number: int) -> bool:
        """Return whether so many copies, or members, fit: each part of them as it wants it."""
        made = (
            [evolve(part, wanted=number)] if proof.is_of_copies else _with_members(part, number, on)
        )
        return any(fits(_with(unit, part, more), case.world, sizes, on) for more in made)

    event("copies" if proof.is_of_copies else "members")
    parts = [each for each in units(unit) if _is_of(proof, each, case)]
    assert 0 <= proof.fits < proof.needed, str(proof)
    assert parts, f"of what: {proof}"
    assert any(not can(part, proof.fits + 1) for part in parts), f"more fit: {proof}"
    if proof.exact and proof.fits and len(parts) == 1 and _is_plain(unit):
        assert can(parts[0], proof.fits), f"fewer fit: {proof}"


def _is_of(proof: Shortage, unit: Unit, case: Case) -> bool:
    """Return whether a shortage may be of a unit; a sentence does not name it."""
    job = case.job
    if proof.is_of_copies:
        return proof.needed in (unit.wanted, len(unit.children))
    level = proof.within.partition("=")[0] or None
    if proof.role in ("a", "b") and unit is not job.unit.children["ab".index(proof.role)]:
        return False
    # without any domain of a level, a part stands for what it is part of
    is_there = level in (None, unit.level, job.unit.level) or not domains(case.world, level)
    return is_there and _lacks(unit, case.on) == proof.needed


def _with_members(unit: Unit, number: int, on: Mapping[int, str]) -> Iterator[Unit]:
    """Yield a unit with each way to want so many more members of it, and no minimum besides."""
    if not unit.children:
        held = sum(member in on for member in unit.members)
        if held + number <= len(unit.members):
            yield evolve(unit, least=held + number)
        return
    for parts in _split(unit.children, number, on):
        yield evolve(unit, children=parts, wanted=len(parts))


def _split(
    units_: Sequence[Unit], number: int, on: Mapping[int, str]
) -> Iterator[tuple[Unit, ...]]:
    if not units_:
        if not number:
            yield ()
        return
    for first in range(number + 1):
        for one in _with_members(units_[0], first, on):
            for others in _split(units_[1:], number - first, on):
                yield (one, *others)


def _lacks(unit: Unit, on: Mapping[int, str]) -> int:
    """Return how many members a unit lacks at least."""
    if not unit.children:
        return max(unit.least - sum(member in on for member in unit.members), 0)
    return sum(sorted(_lacks(child, on) for child in unit.children)[: unit.wanted])


def _is_plain(unit: Unit) -> bool:
    """Return whether each part is counted by itself: there is one, or nothing around it."""
    return sum(bool(each.members) for each in units(unit)) == 1


def _with(unit: Unit, part: Unit, more: Unit) -> Unit:
    """Return only a part of a unit, within what is above it."""
    if unit is part:
        return more
    for child in unit.children:
        if any(part is each for each in units(child)):
            return evolve(unit, children=(_with(child, part, more),), wanted=1)
    raise AssertionError(part)


@given(cases())
def test_gang_starts_exactly_if_it_can_and_nothing_that_fits_waits(case: Case) -> None:
    host = play(case, offered(case))
    check_start(case, host)
    check_reason(case, host)


@given(cases(runs=True))
def test_gang_of_which_some_run_starts_exactly_if_the_rest_fits(case: Case) -> None:
    host = play(case, offered(case))
    check_start(case, host)
    check_reason(case, host)
