"""Gangs of a few members, drawn in every shape that levels have: pods, slices, roles, copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen
from hypothesis import event
from hypothesis import strategies as st

from gangsched import GroupKey, NodeName, Pod, PodGroup, Role, Topology
from gangsched.testing import make_pod
from support.level_worlds import BLOCK, HOST, LEVELS, RACK, Unit

__all__ = ["KEY", "Job", "jobs"]

_DEPTH: Final = {None: 0, BLOCK: 1, RACK: 2, HOST: 3}
KEY: Final = GroupKey("default/g")


@frozen
class Job:
    """A gang, as groups and as a unit.

    Attributes:
        groups: The specifications; the pods of other groups than ``g`` are those of a child.
        unit: What it needs.
        sizes: The CPUs of each member, by number.
        roles: The role and the group of each member.
    """

    groups: tuple[PodGroup, ...]
    unit: Unit
    sizes: tuple[int, ...]
    roles: tuple[tuple[str | None, str], ...]

    def pods(self, on: Mapping[int, str]) -> Iterator[Pod]:
        """Yield the members, some of them on nodes."""
        for number, (role, group) in enumerate(self.roles):
            pod = make_pod(f"g-{number}", group=group, cpu=self.sizes[number])
            name = NodeName(on[number]) if number in on else None
            yield evolve(pod, role=role, node_name=name)


def finer(draw: st.DrawFn, than: str | None, *, least: int = 0) -> str | None:
    """Draw a level below another one, or none."""
    return draw(st.sampled_from([None, *LEVELS[max(_DEPTH[than], least) :]]))


@st.composite
def jobs(draw: st.DrawFn, *, most: int = 6) -> Job:
    """Draw a gang of one to *most* members."""
    kind = draw(st.sampled_from(["pods", "slices", "nested", "roles", "copies", "children"]))
    made = {"pods": _pods, "slices": _slices, "nested": _nested, "roles": _roles}
    key, exclusive = draw(st.sampled_from([None, None, BLOCK, RACK])), finer(draw, None)
    if draw(st.booleans()):
        exclusive = None
    if kind == "nested" and key == RACK:
        key = None
    job = made.get(kind, _copies)(draw, key, exclusive, most, kind)
    event(kind)
    is_like = draw(st.booleans())
    one, sizes = draw(st.integers(1, 2)), st.integers(1, 3)
    return evolve(job, sizes=tuple([one if is_like else draw(sizes) for _ in job.roles]))


def _soft(draw: st.DrawFn, key: str | None) -> dict[str, Any]:
    """Draw what decides only which of several placements is taken."""
    if key is None:
        return {}
    prefer = draw(st.sampled_from([None, *LEVELS[_DEPTH[key] :]]))
    return {"prefer": prefer, "balanced": draw(st.sampled_from([False, False, True]))}


def _topology(
    draw: st.DrawFn, key: str | None, exclusive: str | None, **more: Any
) -> Topology | None:
    found = {name: value for name, value in more.items() if value}
    if key is None and exclusive is None and not found:
        return None
    return Topology(key, exclusive=exclusive, **found, **_soft(draw, key))


def _pods(draw: st.DrawFn, key: str | None, exclusive: str | None, most: int, _kind: str) -> Job:
    number = draw(st.integers(1, most))
    least, apart = draw(st.integers(1, number)), finer(draw, key)
    topology = _topology(draw, key, exclusive, apart=apart)
    unit = Unit(tuple(range(number)), least, level=key, apart=apart, exclusive=exclusive)
    group = PodGroup(name="g", min_available=least, topology=topology)
    return Job((group,), evolve(unit, is_whole=True), (), ((None, "g"),) * number)


def _slices(draw: st.DrawFn, key: str | None, exclusive: str | None, most: int, _kind: str) -> Job:
    number, level = draw(st.integers(1, most)), draw(st.sampled_from(LEVELS[_DEPTH[key] :]))
    least, size = draw(st.integers(1, number)), draw(st.integers(1, 3))
    above = [each for each in LEVELS[_DEPTH[key] :] if _DEPTH[each] <= _DEPTH[level]]
    apart = draw(st.sampled_from([None, *above]))
    return _cut(draw, number, least, ((level, size),), key, exclusive, apart)


def _nested(draw: st.DrawFn, key: str | None, exclusive: str | None, most: int, _kind: str) -> Job:
    number = draw(st.integers(2, most))
    least, inner = draw(st.integers(2, number)), draw(st.integers(1, 2))
    above = [each for each in (BLOCK, RACK) if _DEPTH[each] > _DEPTH[key]]
    apart = draw(st.sampled_from([None, *above]))
    return _cut(draw, number, least, ((RACK, 2 * inner), (HOST, inner)), key, exclusive, apart)


def _cut(
    draw: st.DrawFn,
    number: int,
    least: int,
    slices: tuple[tuple[str, int], ...],
    key: str | None,
    exclusive: str | None,
    apart: str | None,
) -> Job:
    topology = _topology(draw, key, exclusive, apart=apart, slices=slices)
    cuts = tuple(_cuts(range(least), slices))
    whole = Unit(children=cuts, wanted=len(cuts), apart=apart)
    others = Unit(tuple(range(least, number)))
    unit = Unit(children=(whole, others), wanted=2, level=key, exclusive=exclusive, is_whole=True)
    group = PodGroup(name="g", min_available=least, topology=topology)
    return Job((group,), unit, (), ((None, "g"),) * number)


def _cuts(numbers: Sequence[int], slices: Sequence[tuple[str, int]]) -> Iterator[Unit]:
    (level, size), inner = slices[0], slices[1:]
    for first in range(0, len(numbers), size):
        mine = numbers[first : first + size]
        below = tuple(_cuts(mine, inner)) if inner else ()
        if below:
            yield Unit(children=below, wanted=len(below), level=level)
        else:
            yield Unit(tuple(mine), len(mine), level=level)


def _roles(draw: st.DrawFn, key: str | None, exclusive: str | None, most: int, _kind: str) -> Job:
    stated: dict[str, Role | int] = {}
    children: list[Unit] = []
    roles: list[tuple[str | None, str]] = []
    for name in ("a", "b"):
        number = draw(st.integers(1, most // 2))
        least = draw(st.integers(1, number))
        own, alone = finer(draw, key), draw(st.sampled_from([None, None, BLOCK, RACK, HOST]))
        apart = finer(draw, own or key)
        mine = tuple(range(len(roles), len(roles) + number))
        roles += [(name, "g")] * number
        topology = _topology(draw, own, alone, apart=apart)
        stated[name] = Role(number, least, topology=topology)
        children.append(Unit(mine, least, level=own, apart=apart, exclusive=alone))
    top = _topology(draw, key, exclusive)
    unit = Unit(children=tuple(children), wanted=2, level=key, exclusive=exclusive, is_whole=True)
    return Job((PodGroup(name="g", roles=stated, topology=top),), unit, (), tuple(roles))


def _copies(draw: st.DrawFn, key: str | None, exclusive: str | None, most: int, kind: str) -> Job:
    """Return k of n copies of a role, or children of a group of groups."""
    number = draw(st.integers(1, 4 if kind == "copies" else 3))
    wanted, size = draw(st.integers(1, number)), draw(st.integers(1, max(most // number, 1)))
    apart, alone = finer(draw, key), draw(st.sampled_from([None, None, BLOCK, RACK, HOST]))
    own = finer(draw, apart or key, least=_DEPTH[apart] - 1 if apart else 0)
    members = [tuple(range(n * size, (n + 1) * size)) for n in range(number)]
    groups: tuple[PodGroup, ...]
    roles: list[tuple[str | None, str]]
    if kind == "copies":
        topology = _topology(draw, own, alone, apart=apart)
        role = Role(number, wanted, roles={"w": size}, topology=topology)
        groups = (PodGroup(name="g", roles={"r": role}, topology=_topology(draw, key, exclusive)),)
        roles = [(f"r/{n}/w", "g") for n in range(number) for _ in range(size)]
        above, inner = None, apart
    else:
        top = PodGroup(
            name="g",
            min_groups=wanted,
            topology=_topology(draw, key, exclusive, apart=apart),
        )
        child = PodGroup(
            name="c", parent=KEY, min_available=size, topology=_topology(draw, own, alone)
        )
        groups = (top, *[evolve(child, name=f"c{n}") for n in range(number)])
        roles = [(None, f"c{n}") for n in range(number) for _ in range(size)]
        above, inner = apart, None
    level = own or above or inner
    copies = [Unit(m, size, level=level, exclusive=alone, is_whole=True) for m in members]
    made = Unit(children=tuple(copies), wanted=wanted, apart=apart)
    unit = Unit(children=(made,), wanted=1, level=key, exclusive=exclusive, is_whole=True)
    return Job(groups, unit, (), tuple(roles))
