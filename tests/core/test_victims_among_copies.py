"""What preemption takes of groups with copies, and of families, against all that could stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from attrs import evolve, frozen
from hypothesis import event, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Evict,
    NodeAdded,
    NodeName,
    Nominated,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Preemption,
    Resources,
    Role,
    gang,
    presets,
)
from gangsched.gangs import Gang
from gangsched.strategies import roles
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story
from support.trees import family, in_family, of


@frozen
class Case:
    """Pods that run, and what preempts them.

    Attributes:
        free: The free cpu of each node.
        groups: The specifications of the groups that run.
        stated: What the cluster is told instead: groups of groups for some of them.
        running: Their pods and regular ones, bound, each with its cpu.
        asked: The cpu of each pod of the preemptor, which is a gang.
    """

    free: tuple[int, ...]
    groups: tuple[PodGroup, ...]
    stated: tuple[PodGroup, ...]
    running: tuple[Pod, ...]
    asked: tuple[int, ...]


@st.composite
def jobs(draw: Any, name: str, *, more: int) -> Gang:
    """Draw a group of up to twelve pods, most with copies, or copies of copies.

    Args:
        draw: Draws.
        name: Its name.
        more: By how many its minimum may exceed those of its roles.
    """
    made = gang(name, roles=draw(roles(max_pods=12)), priority=draw(st.integers(0, 2)))
    more = min(more, draw(st.sampled_from([0, 0, 1, 2, 3])))
    least = min(made.group.min_available + more, len(made.pods))
    whole = draw(st.sampled_from([False] * 9 + [True]))
    return evolve(made, group=evolve(made.group, min_available=least, evicted_whole=whole))


@st.composite
def cases(draw: Any) -> Case:
    """Draw three nodes, one or two jobs of which some pods are lost, and a preemptor."""
    nodes, cpu = st.integers(0, 2), st.integers(1, 2)
    groups, running, stated = list[PodGroup](), list[Pod](), list[PodGroup]()
    for name in ("serve", "other")[: draw(st.integers(1, 2))]:
        depth = draw(st.sampled_from([0, 0, 1, 2]))
        # a group of groups needs no members but those that its children need
        job = draw(jobs(name, more=0 if depth else 3))
        stated += family(job.group, deep=depth == 2) if depth else [job.group]
        groups.append(job.group)
        lost = draw(st.sets(st.sampled_from([pod.name for pod in job.pods]), max_size=1))
        order = draw(st.permutations(job.pods))
        running += [pod for pod in order if pod.name not in lost]
    running += [make_pod(f"r{n}", priority=draw(st.integers(0, 3))) for n in range(2)]
    bound = [
        evolve(pod, node_name=NodeName(f"n{draw(nodes)}"), requests=Resources({"cpu": draw(cpu)}))
        for pod in running
    ]
    free = tuple(draw(st.integers(0, 1)) for _ in range(3))
    asked = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    return Case(free, tuple(groups), tuple(stated), tuple(bound), asked)


def victims(case: Case) -> list[Pod] | None:
    """Return the pods that are evicted; None if the preemptor gets no node."""
    story = Story(
        partial(presets.gang, preemption=Preemption(grace=60.0)),
        holds_binds=True,
        holds_evictions=True,
    )
    used = Counter[str]()
    for pod in case.running:
        used[str(pod.node_name)] += cpu_of(pod)
    events: list[Any] = [
        NodeAdded(make_node(f"n{n}", cpu=free + used[f"n{n}"])) for n, free in enumerate(case.free)
    ]
    events += map(PodGroupAdded, case.stated)
    events += [PodAdded(in_family(pod, case.stated)) for pod in case.running]
    size = len(case.asked)
    events += [
        PodAdded(make_pod(f"u{n}", group="u", min_available=size, cpu=cpu, priority=9))
        for n, cpu in enumerate(case.asked)
    ]
    story.tell(*events)
    story.decide()
    story.scheduler._check()
    gone = {effect.uid for effect in story.of(Evict)}
    starts = bool(story.of(Bind) or story.of(Nominated))
    return [pod for pod in case.running if pod.uid in gone] if starts else None


def cpu_of(pod: Pod) -> int:
    """Return how many CPUs a pod requests."""
    return pod.requests["cpu"] // 1000


def fits(case: Case, gone: Sequence[Pod]) -> bool:
    """Return whether the preemptor fits once some pods are gone."""
    free = {f"n{n}": cpu for n, cpu in enumerate(case.free)}
    for pod in gone:
        free[str(pod.node_name)] += cpu_of(pod)
    for choice in product(free, repeat=len(case.asked)):
        left = dict(free)
        for name, cpu in zip(choice, case.asked, strict=True):
            left[name] -= cpu
        if min(left.values()) >= 0:
            return True
    return False


def stands(role: int | Role, path: str, left: Mapping[str, int]) -> bool:
    """Return whether pods, counted by leaf, meet the minimum of a role."""
    if isinstance(role, int) or not role.roles:
        return left.get(path, 0) >= (role if isinstance(role, int) else role.needed)
    copies = [copy_stands(role, f"{path}/{number}", left) for number in range(role.count)]
    return sum(copies) >= role.needed


def copy_stands(role: Role, path: str, left: Mapping[str, int]) -> bool:
    """Return whether a copy meets its minima."""
    return all(stands(each, f"{path}/{name}", left) for name, each in role.roles.items())


def parts(roles: Mapping[str, int | Role], under: str = "") -> Iterator[tuple[str, Role, bool]]:
    """Yield the path of each copy, and of each role of pods, with the role; whether it is one."""
    for name, role in roles.items():
        if isinstance(role, int):
            continue
        if not role.roles:
            yield f"{under}{name}", role, False
        for number in range(role.count) if role.roles else ():
            path = f"{under}{name}/{number}"
            yield path, role, True
            yield from parts(role.roles, f"{path}/")


def is_sound(group: PodGroup, before: Sequence[Pod], after: Sequence[Pod]) -> bool:
    """Return whether a group may go on with what is left of it, or is gone."""
    if len(after) in (0, len(before)):
        return True
    left, ran = Counter([str(p.role) for p in after]), Counter([str(p.role) for p in before])
    if len(after) < group.min_available or group.evicted_whole:
        return False
    if not all(stands(role, name, left) for name, role in group.roles.items()):
        return False
    for path, role, is_copy in parts(group.roles):
        there, then = of(after, path), of(before, path)
        if not there or len(there) == len(then):
            continue
        if role.evicted_whole:
            return False
        if is_copy and not (copy_stands(role, path, left) and copy_stands(role, path, ran)):
            return False
    return True


def smaller(case: Case, gone: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield the victims without one that may stay: a gang, a copy, or a pod."""
    for pod in gone:
        if not pod.role:
            yield [each for each in gone if each is not pod]
    for group in case.groups:
        before = members(case.running, group)
        mine = members(gone, group)
        paths = [path for path, _role, is_copy in parts(group.roles) if is_copy]
        backs = [mine]  # that goes as a whole, although another part of it might do
        if len(mine) < len(before):
            backs += [*(of(mine, path) for path in paths), *([pod] for pod in mine)]
        for back in backs:
            left = [pod for pod in mine if pod not in back]
            if back and is_sound(group, before, [pod for pod in before if pod not in left]):
                yield [pod for pod in gone if pod not in back]


def members(pods: Sequence[Pod], group: PodGroup) -> list[Pod]:
    """Return the pods of a group."""
    return [pod for pod in pods if pod.role and pod.name.startswith(f"{group.name}-")]


@one_in(1)
@given(cases())
def test_group_meets_its_minima_after_preemption_or_is_gone(case: Case) -> None:
    gone = victims(case)
    assert (gone is not None) == fits(case, case.running)
    if not gone:
        event("fits" if gone is not None else "fits nowhere")
        return
    assert fits(case, gone)
    for group in case.groups:
        before = members(case.running, group)
        after = [pod for pod in before if pod not in gone]
        assert is_sound(group, before, after), f"{group.name} has {[pod.role for pod in after]}"
        event("gone" if not after else "in part" if len(after) < len(before) else "stays")
        copies = sum(is_copy for path, _r, is_copy in parts(group.roles) if not of(after, path))
        event(f"copies gone beside others: {bool(after and copies)}")
    for less in smaller(case, gone):
        assert not fits(case, less), f"{sorted({p.name for p in gone} - {p.name for p in less})}"


@one_in(1)
@given(cases())
def test_family_loses_what_a_group_with_copies_of_roles_does(case: Case) -> None:
    for group in case.groups:
        left = Counter([str(pod.role) for pod in members(case.running, group)])
        if not all(stands(role, name, left) for name, role in group.roles.items()):
            return  # parts of a family may have started, although it has not
    gone = victims(case)
    event(f"families: {case.stated != case.groups}, victims: {bool(gone)}")
    assert gone == victims(evolve(case, stated=case.groups))
