"""Pod groups of KAI Scheduler: a tree of sub groups in one object.

Theory of operation. A sub group without children has pods, of which it needs ``minMember``. One
with children needs ``minSubGroup`` of them, or all. The group itself needs as many of the sub
groups without a parent; ``minMember`` counts only in a group without sub groups. Here a sub group
is a role: one with pods is a minimum, and one of which all children are needed is a role with one
copy. If k of n children are needed, they are the copies of a role, so they must be alike. A pod
names its sub group in a label, and the group says which path that is (``LabelledRole``).

Rules:
  R1  sub groups are alike if they need the same, whatever they are called. The roles within copies
      have the names of the first copy, without the number at their end;
  R2  a sub group that needs no pod is no role: its pods are elastic members;
  R3  a pod that names no sub group is in the one called ``default``. A pod of a sub group that does
      not exist, or has children, is refused: KAI Scheduler does not schedule it either;
  R4  k of n sub groups that are not alike hold the pods of the group, and so do 0 of n, and more
      sub groups than there are;
  R5  what the webhook of KAI Scheduler refuses is malformed;
  R6  a topology constraint is that of the role of its sub group; of copies, that of each copy, so
      copies are alike only if theirs are equal. One of all k of n children together is that of a
      role with one copy, which consists of them;
  R7  the levels of a constraint are keys of labels, so it needs no ``Topology`` object. KAI
      Scheduler ignores levels without the name of one; here they count;
  R8  a required level of a sub group that needs no pod holds the pods of the group, since by R2
      there is no role that could have it.

Source: pkg/scheduler/api/podgroup_info, pkg/scheduler/plugins/topology, and podgroup_webhook.go of
v2alpha2, of KAI Scheduler 0.17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from attrs import define, field

from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import held, hold
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.notes import NoteKind
from gangsched.manifests.own_topology import with_own_topology
from gangsched.manifests.peer_quotas.named import queue_of_group
from gangsched.manifests.podgroups import bundle_of, check_manifest
from gangsched.manifests.restarts import restarts_of
from gangsched.manifests.sub_groups import MEMBER
from gangsched.model import (
    LabelledRole,
    LabelSelector,
    LabelSelectorRequirement,
    PodGroup,
    Role,
    Topology,
)

__all__ = ["SUB_GROUP", "read_kai_group"]

SUB_GROUP: Final = "kai.scheduler/subgroup-name"
"""The label of a pod with the name of its sub group."""

_DEFAULT: Final = "default"
_NUMBERS: Final = "-0123456789"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LEVELS: Final = 16
_TOO_MANY: Final = "it needs more sub groups than there are"
_NO_PODS: Final = "of a sub group that needs no pods"
_ABSENT: Final = LabelSelector({}, [LabelSelectorRequirement(SUB_GROUP, "DoesNotExist")])
_OTHERS: Final = LabelSelector(
    {},
    [
        LabelSelectorRequirement(SUB_GROUP, "Exists"),
        LabelSelectorRequirement(SUB_GROUP, "NotIn", [_DEFAULT]),
    ],
)


@define(eq=False)
class _SubGroup:
    """A sub group, or the group itself; *wanted* is how many of its children it needs."""

    document: Field
    name: str = ""
    minimum: int = 0
    topology: Topology | None = None
    wanted: int = 0
    children: list[_SubGroup] = field(factory=list["_SubGroup"])

    @property
    def needs_all(self) -> bool:
        return self.wanted == len(self.children)

    @property
    def needs_pods(self) -> bool:
        """Whether it needs a pod. O(sub groups below)."""
        return self.minimum > 0 or any(child.needs_pods for child in self.children)

    @property
    def has_level_without_role(self) -> bool:
        """Whether it has a required level, and no role that could have it."""
        return self.topology is not None and self.topology.required and not self.needs_pods

    @property
    def shape(self) -> tuple[Any, ...]:
        """Equal for sub groups that need the same. O(sub groups below)."""
        of, below = self.topology, sorted(child.shape for child in self.children)
        levels = (of.key, of.required, of.prefer or "") if of else ()
        return (self.minimum, self.wanted, below, levels)

    @property
    def ordered(self) -> list[_SubGroup]:
        """Its children, so that those of sub groups that are alike correspond."""
        return sorted(self.children, key=lambda child: child.shape)

    def below(self) -> Iterator[_SubGroup]:
        """Yield the sub groups below it."""
        for child in self.children:
            yield child
            yield from child.below()


def read_kai_group(manifest: Manifest) -> PodGroup:
    """Return the group of a ``PodGroup`` document of KAI Scheduler.

    Raises:
        ManifestError: A field is malformed.
        InvalidValueError: *manifest* is not a Manifest.
    """
    check_manifest(manifest)
    spec = manifest.document["spec"]
    _check_one_minimum(spec)
    root, reasons = _tree(manifest), [*held(manifest, kai=True)]
    tree = _Roles()
    roles: dict[str, int | Role] = {}
    if root.children:
        roles = tree.of_group(root)
    elif root.wanted > 1:
        tree.unclear.append((spec["minSubGroup"], _TOO_MANY))
    for sub in root.below():
        if sub.has_level_without_role:
            tree.unclear.append((sub.document["topologyConstraint"], _NO_PODS))
    for unclear, why in tree.unclear:
        reasons += hold(manifest, unclear, why)
    labelled = tree.labelled()
    if tree.unclear or manifest.ignores("spec.subGroups"):
        roles, labelled = {}, ()
    elif not roles and not root.minimum:
        manifest.note("it needs no pods, so it is not a gang: its pods start one by one")
    group = PodGroup(
        name=manifest.name,
        namespace=manifest.namespace,
        **({"roles": roles} if roles else {"min_available": root.minimum or 1}),
        priority=manifest.classes.asked_by(spec),
        queue=queue_of_group(manifest, dialect="kai"),
        created_at=manifest.at,
        topology=root.topology,
        bundle=bundle_of(manifest),
        labelled_roles=labelled,
        unmodelled=reasons,
        **restarts_of(manifest),
    )
    return with_own_topology(manifest, group)


def _check_one_minimum(of: Field) -> None:
    if of["minMember"].given and of["minSubGroup"].given:
        raise of["minSubGroup"].problem("expected one of minMember and minSubGroup")


def _topology(manifest: Manifest, of: Field) -> Topology | None:
    """Return the constraint of a group or a sub group; None if it has none, or to ignore it."""
    field = of["topologyConstraint"]
    required = field["requiredTopologyLevel"].text()
    preferred = field["preferredTopologyLevel"].text()
    if not required and not preferred:
        return None
    if manifest.ignores(field.path):
        sentence = f"{field.path} was ignored"
        manifest.note(sentence, path=field.path, kind=NoteKind.IGNORED)
        return None
    if not required:
        return Topology(preferred, required=False)
    return Topology(required, prefer=preferred if preferred not in ("", required) else None)


def _tree(manifest: Manifest) -> _SubGroup:
    """Return the group with its sub groups.

    Raises:
        ManifestError: A field is malformed, a parent is missing, or parents form a circle.
    """
    spec = manifest.document["spec"]
    root = _SubGroup(spec, "", spec["minMember"].whole(1, least=0))
    known = {"": root}
    parents: dict[str, str] = {}
    for each in spec["subGroups"].elements():
        _check_one_minimum(each)
        name = each["name"].name()
        if not _NAME.fullmatch(name):
            raise each["name"].refuse("a DNS label")
        if name in known:
            raise each["name"].refuse("a name that no other sub group has")
        known[name] = _SubGroup(each, name, each["minMember"].whole(0, least=0))
        parents[name] = each["parent"].text()
    for name, parent in parents.items():
        above, levels = parent, 1
        while above in parents and levels <= _LEVELS:
            above, levels = parents[above], levels + 1
        if above:
            wrong = known[name].document["parent"]
            raise wrong.refuse(f"another sub group, and at most {_LEVELS} levels without a circle")
        known[parent].children.append(known[name])
    for sub in known.values():
        _take_minima(manifest, sub)
        sub.topology = _topology(manifest, sub.document)
    return root


def _take_minima(manifest: Manifest, sub: _SubGroup) -> None:
    """Enter which minima of a sub group count."""
    of = sub.document
    sub.wanted = of["minSubGroup"].whole(len(sub.children), least=0)
    if sub.children:
        sub.minimum = 0
        if sub.name and of["minMember"].given:
            manifest.note(f"{of['minMember'].path} is of a sub group with children: ignored")
    elif sub.name and of["minSubGroup"].given:
        raise of["minSubGroup"].refuse("no value, as it has no sub groups")


@define(eq=False)
class _Roles:
    """The roles of a group; ``paths``: the path of each sub group that has pods."""

    paths: dict[str, str] = field(factory=dict[str, str])
    unclear: list[tuple[Field, str]] = field(factory=list[tuple[Field, str]])

    def labelled(self) -> tuple[LabelledRole, ...]:
        """Return which pods have which role."""
        if not self.paths:
            return (LabelledRole(None, _OTHERS),)
        found = [
            LabelledRole(path, LabelSelector({SUB_GROUP: name}))
            for name, path in self.paths.items()
        ]
        if _DEFAULT in self.paths:
            found.append(LabelledRole(self.paths[_DEFAULT], _ABSENT))
        return (*found, LabelledRole(None))

    def of_group(self, root: _SubGroup) -> dict[str, int | Role]:
        """Return the roles of a group."""
        if root.needs_all:
            return self._children(root, root, "")
        names = {child.name.rstrip(_NUMBERS) for child in root.children}
        name = (names.pop() if len(names) == 1 else "") or "copy"
        role = self._copies(root, root, name)
        return {} if role is None else {name: role}

    def _children(
        self, sub: _SubGroup, like: _SubGroup, above: str, *, in_copy: bool = False
    ) -> dict[str, int | Role]:
        """Return the roles of the children of a sub group that needs all of them.

        Args:
            sub: The sub group.
            like: The one like it that gives the names: itself, or that of the first copy.
            above: The beginning of their paths.
            in_copy: Whether it is in a copy of a role.
        """
        names = [child.name for child in like.ordered]
        short = [name.rstrip(_NUMBERS) for name in names]
        if in_copy and all(short) and len({*short}) == len(short):
            names = short
        found: dict[str, int | Role] = {}
        for child, alike, name in zip(sub.ordered, like.ordered, names, strict=True):
            role = self._role(child, alike, f"{above}{name}", in_copy=in_copy)
            if role is not None:
                found[name] = role
        return found

    def _role(
        self, sub: _SubGroup, like: _SubGroup, path: str, *, in_copy: bool
    ) -> int | Role | None:
        """Return the role of a sub group; None if it needs no pods."""
        topology = sub.topology
        role: int | Role | None
        if not sub.children:
            self.paths[sub.name] = path
            role = sub.minimum or None
            if role and topology is not None:
                role = Role(role, topology=topology)
        elif sub.needs_all or topology is not None:
            roles = self._copy(sub, like, f"{path}/0/", in_copy=in_copy)
            role = Role(1, roles=roles, topology=topology) if roles else None
        else:
            role = self._copies(sub, like, path)
        return role

    def _copies(self, sub: _SubGroup, like: _SubGroup, path: str) -> Role | None:
        """Return a role of which the children of a sub group are the copies."""
        count, wanted = len(sub.children), sub.wanted
        if why := _not_copies(sub):
            self.unclear.append((sub.document["minSubGroup"], why))
            return None
        first = like.children[0]
        roles: dict[str, int | Role] = {}
        for number, child in enumerate(sub.children):
            roles = self._copy(child, first, f"{path}/{number}/", in_copy=True)
        if not roles:
            return None
        return Role(count, minimum=wanted, roles=roles, topology=first.topology)

    def _copy(
        self, sub: _SubGroup, like: _SubGroup, above: str, *, in_copy: bool
    ) -> dict[str, int | Role]:
        """Return what a copy consists of. The constraint of the sub group is that of the copy."""
        if sub.children and sub.needs_all:
            return self._children(sub, like, above, in_copy=in_copy)
        path = f"{above}{MEMBER}"
        role: int | Role | None
        if sub.children:
            role = self._copies(sub, like, path)
        else:
            self.paths[sub.name] = path
            role = sub.minimum or None
        return {} if role is None else {MEMBER: role}


def _not_copies(sub: _SubGroup) -> str:
    """Return why the children of a sub group are not the copies of a role; empty if they are."""
    count, wanted, first = len(sub.children), sub.wanted, sub.children[0].shape
    if wanted > count:
        return _TOO_MANY
    if not wanted:
        return "0 needs none of its sub groups"
    if any(child.shape != first for child in sub.children):
        return f"{wanted} of {count} sub groups that are not alike"
    return ""
