"""Topologies that the members of groups ask for, made one of the group.

Theory of operation. Kueue has a constraint for each template of pods, ``pod_topologies``; the
scheduler has one for each group and each role. The pods of a template are the members of one role,
or the whole group if it has no roles. So the constraint of a group is what all members ask for, and
otherwise each role has its own. The constraint of a role needs its minimum. A group that states
none has as many members of a role as it has had at one time: the group starts only when they make
its minimum, so nothing starts with fewer.

Rules:
  R1  a group that states a topology itself is not changed. If its members ask for another one, it
      is held, since two programs disagree about it. What its annotations add is added, see
      ``own_topology``;
  R2  sets of pods with one name share a domain: their constraint is that of the group, and slices
      are those of each role;
  R3  several jobs of a JobSet, and sub groups of a LeaderWorkerSet, are copies of a role, if each
      has a domain of its own. So they are if there are slices: pods are numbered by job, so Kueue's
      slices are cut within each job, if they divide it;
  R4  what has no meaning here holds the members of the group, with a reason that names the
      annotation. So does a pod in no group, if its constraint is hard: a set of pods is not known
      by what a pod says;
  R5  a group without an object is stated here, if its members give a minimum.

Source: the pod sets of Kueue, and ``podset-group-name`` in KEP-2724; exclusive placement of JobSet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, final

from attrs import evolve, frozen

from gangsched.errors import InvalidValueError
from gangsched.manifests.pod_topologies import TOGETHER, Copies, PodTopology, asked_by
from gangsched.manifests.sub_groups import MEMBER
from gangsched.membership import Membership
from gangsched.model import (
    GroupKey,
    LabelledRole,
    LabelSelector,
    Pod,
    PodGroup,
    PodPhase,
    Role,
    Topology,
)

__all__ = ["MemberTopologies", "held_alone"]

_PATH: Final = "metadata.annotations."


@final
@frozen
class _Said:
    """What a member says; members that say the same are counted together."""

    role: str | None
    minimum: int | None
    asked: PodTopology | None


class _NoMeaningError(Exception):
    """Members ask for what has no meaning here: annotation and reason."""

    def __init__(self, word: str, why: str) -> None:
        super().__init__(f"{_PATH}{word} ({why})" if why else f"{_PATH}{word}")


@final
class MemberTopologies:
    """What members say, by group. Pods that have failed or are deleted do not count.

    Args:
        ignore: Annotations that are ignored, with or without ``metadata.annotations`` before them.
    """

    def __init__(self, ignore: Collection[str] = ()) -> None:
        self._ignore = frozenset(each.removeprefix(_PATH) for each in ignore)
        self._said: dict[GroupKey, dict[_Said, int]] = {}
        self._most: dict[GroupKey, dict[str | None, int]] = {}

    def asked_by(self, pod: Pod) -> PodTopology | None:
        """Return what a pod asks for that is not ignored. O(annotations)."""
        asked = asked_by(pod)
        return None if asked is None or not self._ignore.isdisjoint(asked.words) else asked

    def change(
        self,
        before: tuple[Membership, Pod] | None,
        after: tuple[Membership, Pod] | None,
    ) -> tuple[GroupKey, ...]:
        """Count a pod as it is now, and not as it was; return the groups to state anew. O(1)."""
        old, new = self._read(before), self._read(after)
        if old == new:
            return ()
        changed: dict[GroupKey, None] = {}
        for found, number in ((old, -1), (new, 1)):
            if found is None:
                continue
            key, said = found
            counts = self._said.setdefault(key, {})
            counts[said] = counts.get(said, 0) + number
            if not counts[said]:
                del counts[said]
            if any(each.asked for each in (*counts, said)):
                self._count(key, counts)
                changed[key] = None
            if not counts:
                del self._said[key]
                self._most.pop(key, None)
        return tuple(changed)

    def _read(self, given: tuple[Membership, Pod] | None) -> tuple[GroupKey, _Said] | None:
        if given is None:
            return None
        claim, pod = given
        if pod.phase is PodPhase.FAILED or pod.deleted_at is not None:
            return None
        return claim.group, _Said(claim.role, claim.min_available, self.asked_by(pod))

    def _count(self, key: GroupKey, counts: Mapping[_Said, int]) -> None:
        most, now = self._most.setdefault(key, {}), dict[str | None, int]()
        for said, number in counts.items():
            now[said.role] = now.get(said.role, 0) + number
        for role, number in now.items():
            most[role] = max(most.get(role, 0), number)

    def stated(self, key: GroupKey, group: PodGroup | None) -> PodGroup | None:
        """Return a group with what its members ask for.

        O(what members say).

        Args:
            key: Its key.
            group: Its specification; None if it has no object.
        """
        said = list(self._said.get(key, ()))
        if not any(each.asked for each in said):
            return group
        if group is None:
            minimum = next((each.minimum for each in said if each.minimum is not None), None)
            if minimum is None:
                return None
            namespace, _slash, name = key.partition("/")
            group = PodGroup(name=name, namespace=namespace, min_available=minimum)
        try:
            return _with(group, said, self._most.get(key, {}))
        except _NoMeaningError as error:
            return evolve(group, unmodelled=(*group.unmodelled, str(error)))

    def _check(self) -> None:
        assert all(number > 0 for counts in self._said.values() for number in counts.values())
        assert self._most.keys() <= self._said.keys()


def held_alone(pod: Pod, asked: PodTopology | None, why: str = "of a pod in no group") -> Pod:
    """Return a pod of no known group, held if it asks for what only a set of pods has. O(1)."""
    if asked is None or not asked.is_hard:
        return pod
    reason = _NoMeaningError(*(asked.problem or (asked.words[0], why)))
    return evolve(pod, unmodelled=(*pod.unmodelled, str(reason)))


def _with(group: PodGroup, said: list[_Said], most: Mapping[str | None, int]) -> PodGroup:
    by_role: dict[str | None, PodTopology | None] = {}
    for each in sorted(said, key=lambda one: (one.role or "", one.asked is None)):
        before = by_role.setdefault(each.role, each.asked)
        if before != each.asked:
            raise _NoMeaningError(
                _first(before, each.asked).words[0], "of some members and not of others"
            )
    for asked in by_role.values():
        if asked is not None and asked.problem:
            raise _NoMeaningError(*asked.problem)
    asked = _first(*by_role.values())
    if not any(each is not None and _asks(each) for each in by_role.values()):
        return group
    own = group.topology
    adds = own is not None and own.key is None and not own.slices
    if (own is not None and not adds) or any(map(_has_topology, group.roles.values())):
        if {each and (each.topology, each.each) for each in by_role.values()} == {(own, None)}:
            return group
        raise _NoMeaningError(asked.words[0], "its group has a topology")
    if sum(each is not None and each.each is not None for each in by_role.values()) > 1:
        raise _NoMeaningError(asked.words[0], "of jobs of several roles")
    whole, parts = _split(by_role)
    if own is not None and whole is not None:
        exclusive = own.exclusive or whole.exclusive
        whole = evolve(whole, apart=own.apart or whole.apart, exclusive=exclusive)
    elif own is not None:
        whole = own
    if whole is not None and not parts:
        return _of_group(group, asked, whole)
    return _of_roles(group, asked, whole, parts, most)


def _first(*asked: PodTopology | None) -> PodTopology:
    return next(each for each in asked if each is not None)


def _has_topology(role: int | Role) -> bool:
    if isinstance(role, int):
        return False
    return role.topology is not None or any(map(_has_topology, role.roles.values()))


def _split(
    by_role: Mapping[str | None, PodTopology | None],
) -> tuple[Topology | None, dict[str | None, PodTopology]]:
    """Return the constraint of all members together, and what is left for single roles."""
    parts = {role: asked for role, asked in by_role.items() if asked is not None and _asks(asked)}
    if len(parts) < len(by_role):
        return None, parts
    wholes = {_without_slices(asked.topology) for asked in parts.values()}
    together = {asked.together for asked in parts.values()}
    if len(wholes) > 1 or (len(parts) > 1 and (len(together) > 1 or "" in together)):
        return None, parts
    (whole,) = wholes
    if len(parts) == 1:
        (asked,) = parts.values()
        if not _needs_copies(asked):
            return asked.topology, {}
    left = {
        role: evolve(asked, topology=_slices_of(asked.topology)) for role, asked in parts.items()
    }
    return whole, {role: asked for role, asked in left.items() if _asks(asked)}


def _asks(asked: PodTopology) -> bool:
    return asked.topology is not None or asked.each is not None


def _needs_copies(asked: PodTopology) -> bool:
    slices = asked.topology is not None and bool(asked.topology.slices)
    return asked.each is not None or (asked.copies is not None and slices)


def _without_slices(topology: Topology | None) -> Topology | None:
    return None if topology is None or topology.key is None else evolve(topology, slices=())


def _slices_of(topology: Topology | None) -> Topology | None:
    return Topology(slices=topology.slices) if topology is not None and topology.slices else None


def _of_group(group: PodGroup, asked: PodTopology, topology: Topology) -> PodGroup:
    if not topology.slices or not group.roles:
        return evolve(group, topology=topology)
    raise _NoMeaningError(asked.words[0], "slices of a group with roles")


def _of_roles(
    group: PodGroup,
    asked: PodTopology,
    whole: Topology | None,
    parts: Mapping[str | None, PodTopology],
    most: Mapping[str | None, int],
) -> PodGroup:
    if any(isinstance(role, Role) for role in group.roles.values()) or group.labelled_roles:
        raise _NoMeaningError(asked.words[0], "its group has a tree of roles")
    roles: dict[str, int | Role] = dict(group.roles)
    labelled: list[LabelledRole] = []
    for role, part in parts.items():
        name, count = _name_and_count(group, role, parts, most)
        if part.together and whole is None:
            raise _NoMeaningError(TOGETHER, "a domain that only some members share")
        if not count:
            raise _NoMeaningError(part.words[0], "of a role without a minimum")
        if not name:
            raise _NoMeaningError(part.words[0], "of members without a role")
        if _needs_copies(part) and part.copies is not None:
            roles[name] = _copies(part, part.copies, count)
            selector = LabelSelector(part.copies.labels)
            path = f"{name}/*/{MEMBER}"
            labelled.append(LabelledRole(path, selector, number=part.copies.number))
        else:
            roles[name] = Role(count, topology=part.topology)
    try:
        return evolve(group, topology=whole, roles=roles, labelled_roles=labelled)
    except InvalidValueError:  # more members of some role than the minimum of the group
        raise _NoMeaningError(asked.words[0], "its group needs fewer pods than have it") from None


def _name_and_count(
    group: PodGroup,
    role: str | None,
    parts: Mapping[str | None, PodTopology],
    most: Mapping[str | None, int],
) -> tuple[str, int]:
    """Return the name of a role, and how many members it needs; empty and 0 if unknown."""
    if len(most) == len(parts) == 1:
        return role or MEMBER, group.min_available
    known = group.roles.get(role or "")
    return role or "", known if isinstance(known, int) else most.get(role, 0)


def _copies(asked: PodTopology, copies: Copies, count: int) -> Role:
    """Return a role with a copy for each job, or for each sub group."""
    word, topology = asked.words[0], asked.topology
    size = copies.size or count // copies.count
    if not copies.size and count % copies.count:
        raise _NoMeaningError(word, f"{count} pods are not {copies.count} jobs of one size")
    if topology is None:
        return Role(copies.count, roles={MEMBER: size}, topology=asked.each)
    if topology.key is not None:
        raise _NoMeaningError(word, "several jobs within a domain of one of several roles")
    if size % topology.slices[0][1]:
        raise _NoMeaningError(word, f"its slices do not divide jobs of {size} pods")
    member = Role(size, topology=topology)
    return Role(copies.count, roles={MEMBER: member}, topology=asked.each)
