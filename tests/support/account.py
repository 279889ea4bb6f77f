"""What an observer outside the scheduler knows of pods, groups and nodes.

Rules:
  R1  it receives events and effects, and remembers their content. It calls no scheduler, and
      shares no code with it;
  R2  every step costs O(1), or O(members) for a change of a specification, so that a run over a
      real trace can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from gangsched import (
    ClusterState,
    GroupKey,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodPhase,
    PodUID,
    Resources,
)
from support.minima import minima

_LABELS = (
    ("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("pod-group/name", "pod-group/min-available"),
    ("scheduling.x-k8s.io/pod-group", ""),
    ("pod-group.scheduling.sigs.k8s.io", ""),
)

_ROLES = (
    "pod-group.scheduling.sigs.k8s.io/role",
    "pod-group/role",
    "training.kubeflow.org/replica-type",
)

Claim = tuple[GroupKey, int | None]


def role_of(pod: Pod) -> str | None:
    """Return the role that the labels of a well-formed member give."""
    return next((pod.labels[label] for label in _ROLES if label in pod.labels), None)


def claim_of(pod: Pod) -> Claim | None:
    """Return the group of a well-formed pod, and the minimum that its labels give."""
    if pod.pod_group is not None:
        return GroupKey(f"{pod.namespace}/{pod.pod_group}"), None
    for name, minimum in _LABELS:
        if name in pod.labels:
            said = pod.labels.get(minimum)
            return GroupKey(f"{pod.namespace}/{pod.labels[name]}"), (said and int(said)) or None
    return None


@define(eq=False)
class Hold:
    """A node that an effect gave to a pod, and that no event has confirmed yet."""

    node: NodeName
    requests: Resources
    deadline: float | None = None
    """Until when it waits; None once it was released."""
    attempt: int = 0
    """The attempt of its bind."""
    since: float = 0.0
    """The instant of the effect."""


@define(eq=False)
class Group:
    """A pod group."""

    key: GroupKey
    members: dict[PodUID, Record] = field(factory=dict)
    spec: PodGroup | None = None
    claims: set[int] = field(factory=set)
    waiting: int = 0
    ran: int = 0
    """The number of members that are bound, or were bound and have finished."""
    since: float | None = None
    """When the first waiting member began to wait."""
    started: bool = False
    attempt: int = 0
    """The attempt by which members were released last; 0 if that is not known."""

    @property
    def need(self) -> int | None:
        """The quorum; if members contradict each other, the smallest claim."""
        return self.spec.min_available if self.spec else min(self.claims, default=None)

    @property
    def roles(self) -> Mapping[str, int]:
        """The minimum for each role of the quorum."""
        return minima(self.spec) if self.spec else {}

    def settle(self) -> None:
        """Mark the group as started if a quorum runs, by whatever scheduler."""
        need = self.need
        if self.started or need is None or self.ran < need:
            return
        ran = [role_of(member.pod) for member in self.members.values() if member.ran]
        self.started = all(ran.count(role) >= least for role, least in self.roles.items())


@define(eq=False)
class Record:
    """A pod."""

    pod: Pod
    group: Group | None = None
    hold: Hold | None = None
    gone: bool = False
    attempt: int = 0
    """The attempt of its last bind."""
    places: Mapping[NodeName, Resources] = field(factory=dict)
    """Its requests by node: on the node that it is bound to, and the one that it holds."""
    ran: bool = False
    evicted: bool = False
    """Whether its eviction was requested."""
    leaving: bool = False
    """Whether it is to be evicted when its bind, which is under way, has ended."""
    went_as: str | None = None
    """Its role at its last release."""
    landed: bool = False
    """Whether a bind that was reported as failed has bound it since its group started."""

    @property
    def bound(self) -> NodeName | None:
        """The node that events show it on, until it has finished."""
        return None if self.gone or self.pod.is_finished else self.pod.node_name

    @property
    def has_succeeded(self) -> bool:
        """Whether it has run to its end, and was not told to stop (KEP-34)."""
        ended = self.pod.phase is PodPhase.SUCCEEDED and self.pod.node_name is not None
        return ended and not (self.gone or self.evicted or self.pod.deleted_at is not None)

    @property
    def is_pending(self) -> bool:
        """Whether it may still get a node."""
        pod = self.pod
        free = not (pod.node_name or pod.scheduling_gates or pod.is_finished or pod.deleted_at)
        return free and self.hold is None and not self.gone and not self.evicted

    @property
    def is_being_bound(self) -> bool:
        """Whether it was released, and its bind is not reported yet."""
        return self.hold is not None and self.hold.deadline is None and not self.pod.node_name

    @property
    def counts(self) -> bool:
        """Whether it holds a node and counts for its group's quorum."""
        on_node = self.bound is not None and self.pod.deleted_at is None
        stays = not (self.evicted or self.leaving)
        return stays and (self.hold is not None or on_node)


@define(eq=False)
class Usage:
    """The used capacity of a node, and the pods that use it."""

    taken: dict[str, int] = field(factory=dict)
    holders: dict[PodUID, Record] = field(factory=dict)


@define(eq=False)
class Account:
    """The pods, the groups and the nodes.

    Attributes:
        claim_of: Returns the group of a pod.
        cluster: The cluster state, if events may come late or twice; None to use the content of
            each event.
    """

    claim_of: Callable[[Pod], Claim | None] = claim_of
    cluster: ClusterState | None = None
    pods: dict[PodUID, Record] = field(factory=dict)
    groups: dict[GroupKey, Group] = field(factory=dict)
    nodes: dict[NodeName, list[Node]] = field(factory=dict)
    """The accepted versions of each node: as delivered, and as read since."""
    usage: dict[NodeName, Usage] = field(factory=dict)

    def see_node(self, name: NodeName, told: Node | None) -> None:
        """Record an event about a node."""
        node = told if self.cluster is None else self.cluster.node(name)
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = [node]

    def see_group(self, key: GroupKey, told: PodGroup | None) -> list[Record]:
        """Record an event about a pod group; return its members."""
        spec = told if self.cluster is None else self.cluster.pod_group(key)
        group = self._group(key)
        if group.spec == spec:
            self._drop(group)
            return []
        group.spec = spec
        seen = [self.see_pod(uid, record.pod) for uid, record in list(group.members.items())]
        group.settle()
        self._drop(group)
        return [record for record in seen if record is not None]

    def see_pod(self, uid: PodUID, told: Pod | None) -> Record | None:
        """Record an event about a pod."""
        pod = told if self.cluster is None else self.cluster.pod(uid)
        record = self.pods.get(uid)
        if pod is None:
            if record is not None:
                record.gone = True
                self._glance(record.pod.node_name)
                self.place(record)
            return record
        if record is None:
            record = self.pods[uid] = Record(pod)
        if pod.node_name is not None and record.pod.node_name is None:
            record.landed = record.attempt > 0 and record.hold is None
        record.pod = pod
        self._glance(pod.node_name)
        claim = self.claim_of(pod)
        key = None if claim is None else claim[0]
        own = None if record.group is None else record.group.key
        # until its bind is reported, it belongs to the group that released it
        stays = record.is_being_bound and not pod.is_finished
        if key != own and not stays:
            self._leave(record)
            if key is not None:
                record.group = self._group(key)
                record.group.members[uid] = record
                record.group.waiting += record.hold is not None and record.hold.deadline is not None
        self.place(record)
        if record.group is not None:
            if claim is not None and claim[1] is not None and record.group.key == key:
                record.group.claims.add(claim[1])
            record.group.settle()
        return record

    def forget(self, record: Record) -> None:
        """Drop a pod that is gone."""
        self.pods.pop(record.pod.uid, None)
        self._leave(record)

    def place(self, record: Record) -> None:
        """Count a pod on its nodes. O(resources)."""
        uid = record.pod.uid
        before, record.places = record.places, self._places(record)
        for name, requests in before.items():
            usage = self.usage[name]
            del usage.holders[uid]
            for resource, amount in requests.items():
                usage.taken[resource] -= amount
            if not usage.holders:
                del self.usage[name]
        for name, requests in record.places.items():
            usage = self.usage.setdefault(name, Usage())
            usage.holders[uid] = record
            for resource, amount in requests.items():
                usage.taken[resource] = usage.taken.get(resource, 0) + amount
        pod = record.pod
        runs = pod.is_finished or (
            pod.deleted_at is None and not (record.evicted or record.leaving)
        )
        if record.group is not None:
            ran = runs and not record.gone and pod.node_name is not None
            record.group.ran += ran - record.ran
            record.ran = ran

    @staticmethod
    def _places(record: Record) -> dict[NodeName, Resources]:
        places = {} if record.hold is None else {record.hold.node: record.hold.requests}
        if record.bound is not None:
            places[record.bound] = record.pod.requests
        return places

    def _glance(self, name: NodeName | None) -> None:
        """Record the current version of a node: the scheduler may have read it, too."""
        node = None if name is None or self.cluster is None else self.cluster.node(name)
        if node is not None and node not in self.nodes.setdefault(node.name, []):
            self.nodes[node.name].append(node)

    def _group(self, key: GroupKey) -> Group:
        return self.groups.setdefault(key, Group(key))

    def _leave(self, record: Record) -> None:
        group, record.group = record.group, None
        if group is None:
            return
        del group.members[record.pod.uid]
        group.ran -= record.ran
        record.ran = False
        if record.hold is not None and record.hold.deadline is not None:
            group.waiting -= 1
        if not group.waiting:
            group.since = None
        if not group.members:
            # later members form a new group, even under the same name
            group.started, group.attempt = False, 0
            group.claims.clear()
        self._drop(group)

    def _drop(self, group: Group) -> None:
        if not group.members and group.spec is None:
            self.groups.pop(group.key, None)
