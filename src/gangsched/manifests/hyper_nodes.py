"""HyperNodes of Volcano: a tree of nodes that no label spells, read as one label for each tier.

Theory of operation. A HyperNode has a tier, and members: nodes by name, by a pattern or by labels,
or other HyperNodes. A tier is a level here: tier 1 is the finest. Each node gets a label for each
tier that it is in, ``volcano.sh/tier-2``, with the name of the HyperNode. Nobody else sees it.

Rules:
  R1  a node that two HyperNodes of one tier have is in the first one by name;
  R2  a HyperNode has one parent, of a higher tier. Anything else is malformed, since tiers would
      be no tree;
  R3  patterns are those of Go, which finds them anywhere in a name. One that Python cannot read is
      malformed.

Source: ``GetMembers`` and ``setParent`` in pkg/scheduler/api of Volcano 1.15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

from attrs import evolve, field, frozen

from gangsched.manifests.fields import Field
from gangsched.manifests.selectors import read_label_selector
from gangsched.model import LabelSelector, Node
from gangsched.resources import FrozenMap

__all__ = ["HyperNodes", "read_hyper_nodes"]

_LABEL: Final = "volcano.sh/tier-"
_MATCHES: Final = ("exactMatch", "regexMatch", "labelMatch")
_MOST_TIER: Final = 999


@frozen
class _Group:
    """One HyperNode; *nodes* says which nodes are its members."""

    name: str
    tier: int
    names: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()
    selectors: tuple[LabelSelector, ...] = ()

    def has(self, node: Node) -> bool:
        """Return whether a node is a member. O(members that are no names)."""
        if node.name in self.names or any(each.search(node.name) for each in self.patterns):
            return True
        return any(each.matches(node.labels) for each in self.selectors)


@final
@frozen
class HyperNodes:
    """The HyperNodes of a cluster.

    Attributes:
        levels: The labels of the tiers, the coarsest first.
        names: The label of each tier by its number, and by its name; the coarsest first.
    """

    levels: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    _groups: tuple[_Group, ...] = ()
    _parents: FrozenMap[str] = field(factory=FrozenMap[str])

    def labelled(self, node: Node) -> Node:
        """Return a node with a label for each tier that it is in. O(HyperNodes)."""
        tiers = {group.name: group.tier for group in self._groups}
        labels: dict[str, str] = {}
        for group in self._groups:
            above = group.name if group.has(node) else None
            while above is not None:
                labels.setdefault(f"{_LABEL}{tiers[above]}", above)
                above = self._parents.get(above)
        return evolve(node, labels={**node.labels, **labels}) if labels else node


def read_hyper_nodes(objects: Iterable[Field]) -> HyperNodes:
    """Return the HyperNodes of documents. O(HyperNodes).

    Raises:
        ManifestError: A field is malformed, or tiers are no tree.
    """
    documents = {each["metadata"]["name"].name(): each for each in objects}
    groups: dict[str, _Group] = {}
    names: dict[str, str] = {}
    for name, document in sorted(documents.items()):
        spec = document["spec"]
        tier = spec["tier"].whole(least=0, most=_MOST_TIER)
        groups[name] = _members(_Group(name, tier), spec["members"])
        names[str(tier)] = f"{_LABEL}{tier}"
        called = spec["tierName"].text()
        if called and names.setdefault(called, f"{_LABEL}{tier}") != f"{_LABEL}{tier}":
            raise spec["tierName"].refuse("a name of one tier")
    tiers = sorted({group.tier for group in groups.values()}, reverse=True)
    levels = tuple(f"{_LABEL}{tier}" for tier in tiers)
    return HyperNodes(
        levels,
        tuple(sorted(names.items(), key=lambda one: (levels.index(one[1]), one[0]))),
        tuple(groups.values()),
        FrozenMap(_parents(documents, groups)),
    )


def _members(group: _Group, members: Field) -> _Group:
    names: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    selectors: list[LabelSelector] = []
    for selector in _selectors(members, "Node"):
        _only_one(selector)
        if selector["exactMatch"].given:
            names.add(selector["exactMatch"]["name"].name())
        elif selector["regexMatch"].given:
            patterns.append(_pattern(selector["regexMatch"]["pattern"]))
        else:
            found = read_label_selector(selector["labelMatch"])
            if found is not None and not found.is_empty:  # an empty one has no members
                selectors.append(found)
    return evolve(
        group, names=frozenset(names), patterns=tuple(patterns), selectors=tuple(selectors)
    )


def _selectors(members: Field, kind: str) -> Iterator[Field]:
    for each in members.elements():
        if each["type"].word(("Node", "HyperNode")) == kind:
            yield each["selector"]


def _only_one(selector: Field) -> None:
    if sum(selector[name].given for name in _MATCHES) != 1:
        raise selector.problem(f"expected one of {', '.join(_MATCHES)}")


def _pattern(field: Field) -> re.Pattern[str]:
    try:
        return re.compile(field.name())
    except re.error as error:
        raise field.refuse(f"a regular expression: {error}") from error


def _parents(documents: Mapping[str, Field], groups: Mapping[str, _Group]) -> dict[str, str]:
    parents: dict[str, str] = {}
    for name, document in sorted(documents.items()):
        for selector in _selectors(document["spec"]["members"], "HyperNode"):
            _only_one(selector)
            if selector["labelMatch"].given:
                raise selector["labelMatch"].problem("expected only for nodes")
            exact = selector["exactMatch"]["name"]
            pattern = selector["regexMatch"]["pattern"]
            children = [exact.name()] if exact.given else []
            if pattern.given:
                found = _pattern(pattern)
                children = [child for child in groups if child != name and found.search(child)]
            for child in children:
                if parents.setdefault(child, name) != name:
                    raise selector.problem(f"{child} has another parent, {parents[child]}")
                if child in groups and groups[child].tier >= groups[name].tier:
                    raise selector.problem(f"{child} is of no lower tier than {name}")
    return {child: parent for child, parent in parents.items() if child in groups}
