"""Cases of the suites of other schedulers, in the format of ``testdata/judges``.

Rules:
  R1  a level stands for its whole path: rack r1 of block b1 is not rack r1 of block b2. The
      scheduler is given the levels of the case;
  R2  a tree is spelled as a family of groups, and as the roles of one group if they can say it;
  R3  words are checked on what runs at the end of a step, by the nodes of the case alone;
  R4  what cannot be spelled is refused, and never left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import evolve, frozen

from gangsched import (
    ClusterState,
    Effect,
    Event,
    Evict,
    GroupKey,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Role,
    Scheduler,
    Taint,
    Toleration,
    Topology,
)
from support.immediate_host import ImmediateHost

__all__ = ["CASES", "Case", "Spelled", "Tree", "World", "families", "levels_of", "roles", "wrong"]

Case: TypeAlias = dict[str, Any]
Tree: TypeAlias = dict[str, Any]
Spelled: TypeAlias = tuple[list[PodGroup], list[tuple[str, Pod]]]
"""The groups, and each pod with the path of its leaf in the case."""

HERE: Final = Path(__file__).parents[1] / "testdata" / "judges"
HOST: Final = "host"
_KEYS: Final = {HOST: "kubernetes.io/hostname"}
_NAMES: Final = {"gpu": "nvidia.com/gpu", "mem": "memory"}
_FIELDS: Final = {
    *("name", "min", "within", "slices", "apart", "exclusive"),
    *("priority", "children", "pods"),
}
_TRIES: Final = 8
"""Attempts after a failed one, each when its backoff ends."""


def _cases() -> Iterator[Case]:
    for file in sorted(HERE.glob("*.json")):
        yield from json.loads(file.read_text())


CASES: Final = tuple(_cases())


# Spelling -----------------------------------------------------------------------------------------


def _amounts(given: Mapping[str, float]) -> dict[str, str | int]:
    """Return amounts as a manifest states them: thousandths if one is no whole number."""
    return {
        _NAMES.get(name, name): amount if isinstance(amount, int) else f"{round(amount * 1000)}m"
        for name, amount in given.items()
    }


def _topology(tree: Tree) -> Topology | None:
    _check(tree)
    within = {word: _KEYS.get(key, key) for word, key in tree.get("within", {}).items()}
    required, preferred = within.get("required"), within.get("preferred")
    slices = {_KEYS.get(level, level): size for level, size in tree.get("slices", ())}
    slices.pop(required or "", None)  # those of the level that all members share ask for no more
    more: dict[str, Any] = {
        word: _KEYS.get(tree[word], tree[word]) for word in ("apart", "exclusive") if word in tree
    }
    more |= {"slices": slices} if slices else {}
    if within.get("balanced"):
        more["balanced"] = True
    if required is not None:
        return Topology(required, prefer=preferred, **more)
    if preferred is not None:
        return Topology(preferred, required=False, **more)
    return Topology(**more) if more else None


def levels_of(case: Case) -> list[list[str]]:
    """Return the levels of a case as the scheduler is given them, each coarse to fine."""
    keys = [[key for key in some if key != HOST] for some in _Levels.of(case).topologies]
    return [[*keys[0], _KEYS[HOST]], *keys[1:]]


def _check(tree: Tree) -> None:
    if unknown := tree.keys() - _FIELDS:
        raise ValueError(f"{tree['name']}: expected no fields but {sorted(_FIELDS)}, got {unknown}")
    within = tree.get("within", {})
    if unknown := within.keys() - {"required", "preferred", "balanced"}:
        raise ValueError(f"{tree['name']}: within has {unknown}")


def _pods(tree: Tree) -> list[Tree]:
    """Return the pods of a leaf, one by one."""
    return [
        {**pod, "name": f"{pod['name']}-{n}"} if "count" in pod else pod
        for pod in tree["pods"]
        for n in range(pod.get("count", 1))
    ]


def _pod(given: Tree, priority: int, **more: Any) -> Pod:
    tolerations = [Toleration(key=key, exists=True) for key in given.get("tolerates", ())]
    return Pod(
        name=given["name"],
        requests=_amounts(given["requests"]),
        node_selector=given.get("selector", {}),
        tolerations=tolerations,
        node_name=given.get("node"),
        priority=given.get("priority", priority),
        **more,
    )


def _wanted(tree: Tree) -> int:
    """Return how many of its pods, or of its children, a node of a tree needs."""
    return int(tree.get("min", len(tree["children"] if "children" in tree else _pods(tree))))


def families(root: Tree) -> Spelled:
    """Spell a tree as a family: a group of groups for each node with children."""
    groups: list[PodGroup] = []
    pods: list[tuple[str, Pod]] = []

    def add(tree: Tree, path: str, parent: GroupKey | None) -> None:
        name = path.replace("/", "-")
        only: dict[str, Any] = {"name": name, "parent": parent, "topology": _topology(tree)}
        if "children" not in tree:
            groups.append(PodGroup(min_available=_wanted(tree), **only))
            priority = root.get("priority", 0)
            pods.extend((path, _pod(each, priority, pod_group=name)) for each in _pods(tree))
            return
        groups.append(PodGroup(min_groups=_wanted(tree), **only))
        for child in tree["children"]:
            add(child, f"{path}/{child['name']}", GroupKey(f"default/{name}"))

    add(root, root["name"], None)
    return groups, pods


def _shape(tree: Tree) -> Any:
    """Return what is equal for children that can be copies of one role."""
    below = [_shape(each) for each in tree.get("children", ())]
    return (below or len(_pods(tree)), _wanted(tree), tree.get("within"))


def _are_alike(trees: Iterable[Tree]) -> bool:
    return len({repr(_shape(tree)) for tree in trees}) == 1


def roles(root: Tree) -> Spelled | None:
    """Spell a tree as the roles of one group; None if it has no children, or roles cannot say it.

    Some of the children can be wanted only if all are alike, since copies of a role are.
    """
    if "children" not in root or not _is_of_roles(root):
        return None
    pods: list[tuple[str, Pod]] = []

    def leaf(tree: Tree, path: str, role: str, topology: Topology | None) -> Role:
        priority, members = root.get("priority", 0), _pods(tree)
        more = {"pod_group": root["name"], "role": role}
        pods.extend([(path, _pod(each, priority, **more)) for each in members])
        return Role(len(members), _wanted(tree), topology=topology)

    def below(tree: Tree, path: str, role: str) -> dict[str, int | Role]:
        """Return what a node with children consists of, all of them or copies."""
        children = [(f"{path}/{each['name']}", each) for each in tree["children"]]
        if _wanted(tree) < len(children):
            copies = [
                inside(each, where, f"{role}copy/{n}/") for n, (where, each) in enumerate(children)
            ]
            first = _topology(tree["children"][0])
            return {"copy": Role(len(copies), _wanted(tree), roles=copies[0], topology=first)}
        return {
            each["name"]: Role(
                1, roles=below(each, where, f"{role}{each['name']}/0/"), topology=_topology(each)
            )
            if "children" in each
            else leaf(each, where, f"{role}{each['name']}", _topology(each))
            for where, each in children
        }

    def inside(tree: Tree, path: str, role: str) -> dict[str, int | Role]:
        """Return what a copy consists of; its topology is that of the copies."""
        if "children" in tree:
            return below(tree, path, role)
        return {"member": leaf(tree, path, f"{role}member", None)}

    found = below(root, root["name"], "")
    return [PodGroup(name=root["name"], roles=found, topology=_topology(root))], pods


def _is_of_roles(tree: Tree) -> bool:
    children = tree.get("children", ())
    is_one_of_some = _wanted(tree) < len(children)
    return all(map(_is_of_roles, children)) and (not is_one_of_some or _are_alike(children))


# Running ------------------------------------------------------------------------------------------


@frozen
class _Levels:
    """The levels of a case: one topology or several, each with its keys coarse to fine."""

    topologies: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, case: Case) -> _Levels:
        levels = case["levels"]
        return cls(
            tuple(map(tuple, levels if levels and levels[0] != str(levels[0]) else [levels]))
        )

    def domain(self, node: Tree, level: str) -> str | None:
        """Return the path of a node down to a level; None if it lacks a label of the path."""
        names = {**node["labels"], HOST: node["name"]}
        keys = next((keys for keys in self.topologies if level in keys), (level,))
        path = [names.get(key) for key in keys[: keys.index(level) + 1]]
        return None if None in path else "/".join(map(str, path))


class World(ImmediateHost):
    """A scheduler that plays a case; victims leave at once.

    Args:
        case: The case.
        preset: Creates the scheduler.
        spell: Spells a tree; None for one that it cannot spell.
    """

    def __init__(
        self,
        case: Case,
        preset: Callable[[ClusterState], Scheduler],
        spell: Callable[[Tree], Spelled | None],
    ) -> None:
        super().__init__()
        self.preset = preset
        self.scheduler = preset(self.cluster)
        self.spell = spell
        self.levels = _Levels.of(case)
        self.nodes: dict[str, Tree] = {}
        self.leaf: dict[str, str] = {}
        self.evicted: list[str] = []
        self.step(case)

    def step(self, step: Mapping[str, Any]) -> None:
        """Play the case, or a further step of it."""
        self.evicted = []
        self.end(*step.get("delete", ()))
        events: list[Event] = [NodeAdded(self._node(node)) for node in step.get("nodes", ())]
        for running in step.get("running", ()):
            self.leaf[running["name"]] = ""
            events.append(PodAdded(_pod(running, 0)))
        for path, pods in step.get("pods", {}).items():
            first = next(name for name, leaf in self.leaf.items() if leaf == path)
            sibling = self.cluster.pod(PodUID(f"default/{first}"))
            assert sibling is not None
            for given in pods:
                own = _pod(given, sibling.priority)
                more = evolve(sibling, name=own.name, uid=own.uid, requests=own.requests)
                self.leaf[own.name] = path
                events.append(PodAdded(evolve(more, node_name=None)))
        self._play([*events, *self._gangs(step.get("gangs", ()))])

    def _node(self, given: Tree) -> Node:
        self.nodes[given["name"]] = given
        return Node(
            name=NodeName(given["name"]),
            labels={**given["labels"], _KEYS[HOST]: given["name"]},
            allocatable=_amounts(given["alloc"]),
            taints=[Taint(key=key) for key in given.get("taints", ())],
            unschedulable=given.get("unschedulable", False),
        )

    def _gangs(self, trees: Sequence[Tree]) -> Iterator[PodGroupAdded | PodAdded]:
        for tree in trees:
            groups, pods = self.spell(tree) or families(tree)
            yield from map(PodGroupAdded, groups)
            for path, pod in pods:
                self.leaf[pod.name] = path
                yield PodAdded(pod)

    def _play(self, events: Sequence[Event]) -> None:
        """Hand in events that come together, decide, and try again after each backoff."""
        known = [self.cluster.apply(event) for event in events]
        self._take(self.scheduler.handle(*known, now=self.now))
        self.decide()
        for _try in range(_TRIES):
            if (deadline := self.scheduler.next_deadline()) is None:
                break
            self.at(max(deadline, self.now))

    def _take(self, effects: tuple[Effect, ...]) -> None:
        super()._take(effects)
        for effect in effects:
            if isinstance(effect, Evict):
                self.evicted.append(effect.uid.partition("/")[2])
                self.tell(PodDeleted(effect.uid))

    @property
    def on(self) -> dict[str, str]:
        """The node of each running pod, by name."""
        return {pod.name: pod.node_name for pod in self.cluster.pods() if pod.node_name}

    def running(self, path: str) -> list[str]:
        """Return the nodes of the running pods below a path, one for each pod."""
        return [
            node for name, node in self.on.items() if f"{self.leaf[name]}/".startswith(f"{path}/")
        ]

    def domains(self, path: str, level: str) -> Counter[str | None]:
        """Return how many running pods below a path each domain of a level has."""
        nodes = self.running(path)
        return Counter(self.levels.domain(self.nodes[node], level) for node in nodes)


# Checking -----------------------------------------------------------------------------------------


def wrong(world: World, words: Mapping[str, Any]) -> list[str]:
    """Return which of the words of a step do not hold, each as what is instead."""
    return [each for word, value in words.items() for each in _CHECKS[word](world, value)]


def _runs(world: World, value: Mapping[str, int | list[int]]) -> Iterator[str]:
    for path, number in value.items():
        low, high = (number, number) if isinstance(number, int) else number
        if not low <= (now := len(world.running(path))) <= high:
            yield f"{now} pods of {path} run, not {number}"


def _pending(world: World, value: Sequence[str]) -> Iterator[str]:
    yield from _runs(world, dict.fromkeys(value, 0))


def _same(world: World, value: Sequence[Any]) -> Iterator[str]:
    for path, level in value:
        if len(found := world.domains(path, level)) != 1 or None in found:
            yield f"{path} runs in these of {level}: {dict(found)}"


def _inside(world: World, value: Sequence[Any]) -> Iterator[str]:
    for path, level, domains in value:
        if not (found := world.domains(path, level)).keys() <= set(domains):
            yield f"{path} runs in these of {level}: {dict(found)}, not inside {domains}"


def _uses(world: World, value: Sequence[Any]) -> Iterator[str]:
    for path, level, number in value:
        if len(found := world.domains(path, level)) != number:
            yield f"{path} runs in these of {level}: {dict(found)}, not in {number}"


def _counts(world: World, value: Sequence[Any]) -> Iterator[str]:
    for path, level, numbers in value:
        if sorted((found := world.domains(path, level)).values()) != sorted(numbers):
            yield f"{path} runs in these of {level}: {dict(found)}, not {numbers}"


def _at(world: World, value: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, nodes in value.items():
        if (node := world.on.get(name)) not in nodes:
            yield f"{name} runs on {node}, not on one of {nodes}"


def _not_at(world: World, value: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, nodes in value.items():
        if (node := world.on.get(name)) in nodes:
            yield f"{name} runs on {node}"


def _evicted(world: World, value: Sequence[str]) -> Iterator[str]:
    if sorted(world.evicted) != sorted(value):
        yield f"{sorted(world.evicted)} were evicted, not {sorted(value)}"


def _evicted_count(world: World, value: int) -> Iterator[str]:
    if len(world.evicted) != value:
        yield f"{sorted(world.evicted)} were evicted, not {value}"


def _evicted_from(world: World, value: Sequence[str]) -> Iterator[str]:
    if not set(world.evicted) <= set(value):
        yield f"{sorted(world.evicted)} were evicted, not some of {sorted(value)}"


_CHECKS: Final[Mapping[str, Callable[[World, Any], Iterator[str]]]] = {
    "runs": _runs,
    "pending": _pending,
    "same": _same,
    "inside": _inside,
    "uses": _uses,
    "counts": _counts,
    "at": _at,
    "not_at": _not_at,
    "evicted": _evicted,
    "evicted_count": _evicted_count,
    "evicted_from": _evicted_from,
}
