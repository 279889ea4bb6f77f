"""The groups of a cluster as rows: what each needs, has and lacks.

Rules:
  R1  counts are those of the API server's objects; the reason is what a scheduler answers that has
      read the same objects;
  R2  a row is a value, and the same in a table, as JSON and as YAML.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, cast, final

from attrs import asdict, fields, frozen

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.explain import NotEnoughMembers, PartlyRunning, Running, Why
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._parents import members_needed, parent_tree, phase_of_parent
from gangsched.kubernetes._sentences import reason_beside, sentence_of
from gangsched.kubernetes._survey import Survey
from gangsched.kubernetes._unknown_minimum import unknown_minimum
from gangsched.model import GroupKey, Pod, PodGroup, PodPhase
from gangsched.scheduler import Scheduler
from gangsched.status import PodGroupPhase, pod_group_status
from gangsched.trees import Tree, TreeRow

__all__ = [
    "GangRow",
    "MemberRow",
    "Observed",
    "gang_row",
    "gang_rows",
    "group_keys",
    "member_rows",
    "read_gang_row",
]

NO_TREE: Final = Tree()
GATED: Final = "Gated"
"""The phase of a group that waits for the scheduling gates of its members alone."""
REFUSED: Final = "Refused"
"""The phase of a group that only pods with malformed labels name."""


class Observed(Protocol):
    """A scheduler and what it has read, at one instant: a ``Survey``, or the running one."""

    @property
    def cache(self) -> Cache:
        """The objects of the cluster."""
        ...

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler."""
        ...

    @property
    def now(self) -> float:
        """The instant, in seconds since 1970."""
        ...

    def members_of(self, key: GroupKey) -> list[Pod]:
        """Return the pods of a group."""
        ...

    def reason(self, why: Why, pods: Collection[Pod]) -> str:
        """Return why a group does not run, given the answer of the scheduler and its pods."""
        ...


@final
@frozen(kw_only=True)
class GangRow:
    """A pod group.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        phase: Its phase, by its members; ``Gated`` if only scheduling gates keep it from being
            tried; ``Refused`` if all its pods have malformed labels.
        needed: How many members start together; None while the minimum is unknown. Of a group of
            groups, the least that do.
        have: How many pods name it, with those whose labels are malformed. The members of a group
            of groups are those of the groups below it.
        held: How many members hold a node.
        running: How many members run.
        succeeded: How many members have succeeded.
        failed: How many members have failed.
        age: Seconds since it was created.
        reason: Why it does not run, or why some of its members do not while it runs; empty if all
            do, or it has ended.
        priority: Its priority.
        api: API group and version of its object; empty if it has none.
        nodes: The nodes of its members, each once.
        message: What the running scheduler wrote of it; empty if it wrote nothing.
        restarts: How often it was restarted.
        tree: How it stands part by part, if it has copies of a role, or groups below it.
    """

    namespace: str
    name: str
    phase: str
    needed: int | None
    have: int
    held: int
    running: int
    succeeded: int
    failed: int
    age: float
    reason: str
    priority: int
    api: str
    nodes: tuple[str, ...]
    message: str
    restarts: int
    tree: Tree = NO_TREE

    @property
    def key(self) -> GroupKey:
        """``namespace/name``."""
        return GroupKey(f"{self.namespace}/{self.name}")

    @property
    def is_quorate(self) -> bool:
        """Whether as many members hold a node, or have ended, as start together."""
        return self.needed is not None and (self.held + self.succeeded + self.failed >= self.needed)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        names = ("namespace", "name", "phase", "needed", "have", "held", "running", "succeeded")
        rest = ("failed", "restarts", "reason", "priority", "api", "message")
        found = {name: getattr(self, name) for name in (*names, *rest)}
        tree = [asdict(row) for row in self.tree]
        return {**found, "age": round(self.age), "nodes": list(self.nodes), "tree": tree}


@final
@frozen(kw_only=True)
class MemberRow:
    """A pod of a group.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        group: The name of its group.
        role: Its role; empty for none.
        phase: Its phase.
        node: Its node; empty if it has none.
        age: Seconds since it was created.
        message: What the running scheduler wrote of it; empty if it wrote nothing.
    """

    namespace: str
    name: str
    group: str
    role: str
    phase: str
    node: str
    age: float
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        names = ("namespace", "name", "group", "role", "phase", "node", "message")
        return {**{name: getattr(self, name) for name in names}, "age": round(self.age)}


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "int | None": (int, type(None)),
    "float": (int, float),
    "tuple[str, ...]": (list,),
    "bool": (bool,),
    "GroupKey": (str,),
}


def read_gang_row(data: Mapping[str, Any]) -> GangRow:
    """Return the row that ``GangRow.to_dict`` has written.

    Raises:
        InvalidValueError: A field is missing, or has another type.
    """
    given = _typed(GangRow, data)
    given["nodes"] = tuple(map(str, given["nodes"]))
    given["tree"] = _read_tree(data.get("tree", []))
    return GangRow(**given)


def _read_tree(data: object) -> Tree:
    rows: list[TreeRow] = []
    for each in cast("list[object]", data) if isinstance(data, list) else [data]:
        if not isinstance(each, dict):
            raise InvalidValueError("tree", each, "a row of a tree")
        row = TreeRow(**_typed(TreeRow, cast("dict[str, Any]", each)))
        if not 0 <= row.depth <= (rows[-1].depth + 1 if rows else 0) or (rows and not row.depth):
            raise InvalidValueError("depth", row.depth, "at most one more than the row above has")
        rows.append(row)
    return Tree(rows)


def _typed(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row but its tree, each of the type that it should have."""
    given = dict[str, Any]()
    for each in fields(kind):
        if each.name == "tree":  # an older scheduler does not send one
            continue
        value = data.get(each.name)
        expected = _TYPES[str(each.type)]
        is_flag = isinstance(value, bool) and bool not in expected
        if each.name not in data or is_flag or not isinstance(value, expected):
            raise InvalidValueError(each.name, value, f"a value of the type {each.type}")
        given[each.name] = value
    return given


def gang_rows(survey: Survey, namespace: str | None = None) -> list[GangRow]:
    """Return the groups of a namespace, or of all, by namespace and name.

    Runs a fork of the scheduler until it has decided about every pending pod.
    """
    answers = survey.scheduler.what_if(now=survey.now).why
    rows = (gang_row(survey, key, answers) for key in group_keys(survey))
    found = [row for row in rows if namespace in (None, row.namespace)]
    return sorted(found, key=lambda row: (row.namespace, row.name))


def member_rows(survey: Survey, namespace: str | None = None) -> list[MemberRow]:
    """Return the pods of groups of a namespace, or of all, by group and name."""
    keys = sorted({*survey.members, *survey.cache.malformed.groups()})
    return [
        _member(survey, key, pod)
        for key in keys
        for pod in sorted(
            (*survey.members_of(key), *_malformed(survey.cache, key)), key=lambda pod: pod.key
        )
        if namespace in (None, pod.namespace)
    ]


def group_keys(survey: Survey) -> Iterable[GroupKey]:
    """Return the keys of the groups that have an object or pods, each once."""
    groups = (group.key for group in survey.cache.cluster.pod_groups())
    return dict.fromkeys((*groups, *survey.members, *survey.cache.malformed.groups()))


def _malformed(cache: Cache, key: GroupKey) -> list[Pod]:
    """Return the pods that name a group beside malformed labels."""
    pods = (cache.cluster.pod(uid) for uid in cache.malformed.of(key))
    return [pod for pod in pods if pod is not None]


def gang_row(survey: Observed, key: GroupKey, answers: Mapping[str, Why]) -> GangRow:
    """Return one group.

    Args:
        survey: The cluster, and a scheduler that has read it.
        key: The group.
        answers: By key, why groups do not run.
    """
    namespace, _, name = key.partition("/")
    pods = survey.members_of(key)
    malformed = _malformed(survey.cache, key)
    info = survey.scheduler.registry.get(key)
    group = survey.cache.cluster.pod_group(key)
    facts = survey.cache.group_facts(key)
    above = parent_tree(survey.scheduler.registry, key)
    needed = None if info is None else info.min_available
    if above is not None:
        needed = members_needed(above)
    live = [pod for pod in pods if not pod.is_finished]
    held = [pod for pod in live if pod.node_name is not None]
    ended = len(pods) - len(live)
    phase = PodGroupPhase.PENDING
    stated = group
    why = answers.get(key)
    runs = isinstance(why, Running) and all(pod.node_name is not None for pod in live)
    least = len(held) if needed is None and runs else needed  # its PodGroup may be deleted
    if stated is None and least:  # labels alone say what the group needs
        stated = PodGroup(namespace=namespace, name=name, min_available=least)
    if stated is not None:
        phase = pod_group_status(stated, pods, membership=survey.cache.membership).phase
    if above is not None:
        phase = phase_of_parent(above, pods, survey.cache.membership)
    has_ended = phase in (PodGroupPhase.FINISHED, PodGroupPhase.FAILED)
    has_quorum = needed is not None and len(held) + ended >= needed
    is_whole = has_quorum and not isinstance(why, PartlyRunning)
    reason = "" if why is None or is_whole else survey.reason(why, pods)
    if why is not None and runs and needed is None:
        reason = f"{why}; {unknown_minimum(survey.cache, key, pods).cause}"
    sentence = sentence_of(survey.cache, key, pods, why)
    if sentence is not None:
        reason = reason_beside(sentence, why)
    is_refused = bool(malformed) and not pods
    said = "" if is_refused and group is None else reason
    reason = "; ".join(filter(None, (said, _refusal(survey.cache, key))))
    began = [group.created_at] if group is not None else [p.created_at for p in (*pods, *malformed)]
    shown = REFUSED if is_refused else GATED if _is_gated(why) else phase.value
    return GangRow(
        namespace=namespace,
        name=name,
        phase=phase.value if has_ended else shown,
        needed=needed,
        have=len(pods) + len(malformed),
        held=len(held),
        running=_count(pods, PodPhase.RUNNING),
        succeeded=_count(pods, PodPhase.SUCCEEDED),
        failed=_count(pods, PodPhase.FAILED),
        age=max(survey.now - min(began, default=survey.now), 0.0),
        reason="" if has_ended else reason,
        priority=0 if info is None else info.priority,
        api="" if facts is None else f"{facts.dialect.group}/{facts.dialect.version}",
        nodes=tuple(dict.fromkeys(str(pod.node_name) for pod in held)),
        message=next(_messages(survey, key, (*pods, *malformed)), ""),
        restarts=0 if group is None else group.restarts,
        tree=NO_TREE if info is None else _nested(survey.scheduler.tree(key)),
    )


def _nested(tree: Tree) -> Tree:
    return tree if tree.is_nested else NO_TREE


def _refusal(cache: Cache, key: GroupKey) -> str:
    """Return why pods are refused that name a group; empty if there is none."""
    errors = [str(error) for error in cache.malformed.of(key).values()]
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"refused: {errors[0]}{more}" if errors else ""


def _is_gated(why: Why | None) -> bool:
    return isinstance(why, NotEnoughMembers) and bool(why.gates)


def _messages(survey: Observed, key: GroupKey, pods: Iterable[Pod]) -> Iterator[str]:
    facts = survey.cache.group_facts(key)
    for condition in () if facts is None else facts.conditions:
        if condition.status == "False" and condition.message:
            yield condition.message
    for pod in pods:
        said = survey.cache.conditions.get(pod.uid)
        if said:
            yield said


def _member(survey: Survey, key: GroupKey, pod: Pod) -> MemberRow:
    claim = None
    with suppress(InvalidPodGroupError):
        claim = survey.cache.membership(pod)
    return MemberRow(
        namespace=pod.namespace,
        name=pod.name,
        group=key.partition("/")[2],
        role="" if claim is None or claim.role is None else claim.role,
        phase="Terminating" if pod.deleted_at is not None else pod.phase.value,
        node=pod.node_name or "",
        age=max(survey.now - pod.created_at, 0.0),
        message=survey.cache.conditions.get(pod.uid, ""),
    )


def _count(pods: Iterable[Pod], phase: PodPhase) -> int:
    return sum(pod.phase is phase for pod in pods)
