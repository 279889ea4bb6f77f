"""The cluster state of a scheduler on Kubernetes: what the watches show, and what it bound itself.

The watches of pods, nodes, groups and priority classes are independent: a pod may come before its
group, or on a node that is not there yet. Each object is stored when it comes, and an event tells
the scheduler to read it. Nothing waits for anything else.

Rules:
  R1  only pods of our scheduler names are to be placed. A pod of another scheduler is hidden until
      it is bound; then it uses its node, but it is never a member of a group. Once it has finished
      it is dropped;
  R2  a pod never loses its node, as in the API server. A watch that is behind our own bind shows
      the pod without a node; the bind is newer;
  R3  a pod that was looked at with GET may be newer here than in the watch. Older versions of it
      are ignored until the watch has caught up. Only versions of one pod are compared;
  R4  a change that no decision depends on gives no event. The echo of our own bind is one;
  R5  what a pod claims is read once for all pods with the same labels and annotations. A malformed
      claim is read each time, since its error names the pod;
  R6  groups of several APIs may have one key. The API that is first in *dialects* counts. A
      composite pod group of the same key is another object, not another version of the same
      group: the group of pods counts, and is held, so that none of the two starts as the other;
  R7  if objects of a kind cannot be read, pending pods that need them are held, see ``_held``: no
      object would be taken for "there is none". So are the pending pods of a group whose object
      cannot be read: the field may be a constraint, whatever their labels say beside it;
  R8  with *gangs_only*, a pod without a group is treated as a pod of another scheduler: another
      program decides about it;
  R9  a paused node takes no new pod; what the watch shows of it is kept meanwhile;
  R10 the specification of a group is its object with the topologies that its members ask for, see
      ``MemberTopologies``. So it may change with a pod: ``take_restated`` has these events.

Everything here runs in the task that owns the scheduler, between two calls of it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, cast, final

from attrs import evolve

from gangsched.cluster_objects import KINDS
from gangsched.errors import InvalidPodGroupError
from gangsched.events import (
    Bound,
    Event,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectChanged,
    ObjectDeleted,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUpdated,
)
from gangsched.kubernetes._facts import (
    COMPOSITE_KIND,
    COMPOSITES,
    GroupFacts,
    NodeFacts,
    ObjectFacts,
    PodFacts,
    PriorityClassFacts,
    UnreadableGroup,
    UnreadableGroupError,
)
from gangsched.kubernetes._malformed import MalformedClaims
from gangsched.kubernetes._objects import objects_needed
from gangsched.kubernetes._reflector import Delta
from gangsched.kubernetes._start_marks import differ_by_marks
from gangsched.manifests.member_topologies import MemberTopologies, held_alone
from gangsched.manifests.peer_levels import PeerLevels
from gangsched.manifests.peer_quotas import PeerQuotas
from gangsched.manifests.queues import QUEUE
from gangsched.membership import Membership, membership
from gangsched.memory import InMemoryCluster
from gangsched.model import GroupKey, Node, NodeName, Pod, PodGroup, PodUID, PreemptionPolicy
from gangsched.model._pod_copy import pod_with_fields

__all__ = ["Cache", "reason_of"]


_MOST_CLAIMS: Final = 4096
_UNREAD: Final = object()
_GROUP_KINDS: Final = "PodGroup."
"""The beginning of the kinds of groups, which go on with version and API group."""
_NEEDS: Final = "needs "
"""The beginning of the reasons to hold a pod for objects that cannot be read."""
_UNREADABLE: Final = "a PodGroup that can be read: "
_SAME_NAME: Final = f"a {COMPOSITE_KIND} of the same name, one of them has to be renamed"


@final
class Cache:
    """The cluster state, fed by reflectors.

    Args:
        scheduler_names: The values of ``spec.schedulerName`` that are ours; None for all values.
        dialects: The API groups of PodGroups, the first has the highest precedence.
        gangs_only: Whether only pods of groups are to be placed.
        ignored: Constraints that are not modelled and are ignored.

    Attributes:
        cluster: What the scheduler reads.
        names: The values of ``spec.schedulerName`` that are ours; None for all values.
        conditions: By pending pod of ours, the message of its condition ``PodScheduled=False``.
        nominated: By pending pod of ours, its ``status.nominatedNodeName``.
        schedulers: By pending pod, its ``spec.schedulerName``; only if all names are ours.
        bind_problems: By pod whose bind is repeated, what the API server answered last.
        malformed: The pods of ours whose claim to be in a group is malformed.
        served: The sources of groups that are served, see ``Dialect``; None before the API server
            was asked.
        levels: The levels of another project, which nodes have the labels of.
        quotas: The quotas of another project, whose queues pods and groups name.
        touched: The groups of which an object or a member has changed. Readers take keys out.
        moved: The same, for another reader.
    """

    def __init__(
        self,
        scheduler_names: Collection[str] | None,
        dialects: Collection[str] = (),
        *,
        gangs_only: bool = False,
        ignored: Collection[str] = (),
    ) -> None:
        self.cluster: Final = InMemoryCluster()
        self.conditions: Final[dict[PodUID, str]] = {}
        self.nominated: Final[dict[PodUID, str]] = {}
        self.schedulers: Final[dict[PodUID, str]] = {}
        self.bind_problems: Final[dict[PodUID, str]] = {}
        self.malformed: Final = MalformedClaims()
        self.served: frozenset[str] | None = None
        self.levels = PeerLevels()
        self.quotas = PeerQuotas()
        self.touched: Final[set[GroupKey]] = set()
        self.moved: Final[set[GroupKey]] = set()
        self.names: Final = None if scheduler_names is None else frozenset(scheduler_names)
        self._dialects = tuple(dialects)
        self._gangs_only = gangs_only
        self._topologies = MemberTopologies(ignored)
        self._restated: list[Event] = []
        self._paused: dict[NodeName, Node] = {}
        self._labelled: dict[NodeName, tuple[Node, Node]] = {}
        self._foreign: set[PodUID] = set()
        self._newer: dict[PodUID, int] = {}
        self._claims: dict[Hashable, object] = {}
        self._groups: dict[GroupKey, dict[str, GroupFacts]] = {}
        self._unreadable_groups: dict[GroupKey, dict[str, UnreadableGroup]] = {}
        self._classes: dict[str, PriorityClassFacts] = {}
        self._of_class: dict[str, set[GroupKey]] = {}
        self._unreadable: dict[str, str] = {}

    # For the scheduler ----------------------------------------------------------------------

    def membership(self, pod: Pod) -> Membership | None:
        """Return the claim of a pod to be in a group; None for a pod of another scheduler.

        Raises:
            InvalidPodGroupError: The claim is malformed.
        """
        return None if pod.uid in self._foreign else self._claim(pod)

    def group_of(self, pod: Pod | None) -> GroupKey | None:
        """Return the group of a pod; None for a pod in none, or whose claim is malformed."""
        claim = None if pod is None else self._valid_claim(pod)
        return None if claim is None else claim.group

    def _claim(self, pod: Pod) -> Membership | None:
        key = (pod.namespace, pod.pod_group, pod.labels, pod.annotations)
        claim = self._claims.get(key, _UNREAD)
        if claim is _UNREAD:
            claim = membership(pod)
            self._claims[key] = claim
            if len(self._claims) > _MOST_CLAIMS:
                del self._claims[next(iter(self._claims))]
        return cast("Membership | None", claim)

    def apply(self, event: Event) -> Event:
        """Make the report of a bind true; all other events are stored already.

        Raises:
            ClusterStateError: The pod is gone, or is on another node.
        """
        if isinstance(event, Bound):
            self.conditions.pop(event.uid, None)
            self.nominated.pop(event.uid, None)
            pod = self.cluster.pod(event.uid)
            if pod is not None and pod.node_name is None:
                self.cluster.apply(PodUpdated(pod_with_fields(pod, node_name=event.node)))
            elif pod is None or pod.node_name != event.node:  # otherwise the echo came first
                self.cluster.apply(event)
                self._touch(pod)
        return event

    def group_facts(self, key: GroupKey) -> GroupFacts | None:
        """Return the object of a group; None if the group has no specification. O(1)."""
        known = self._groups.get(key)
        return None if not known else known[self._first(known)]

    def namesake(self, key: GroupKey) -> GroupFacts | None:
        """Return the composite pod group that has the key of a group of pods. O(1)."""
        known = self._groups.get(key, {})
        return known.get(COMPOSITES) if len(known) > 1 else None

    def unreadable_group(self, key: GroupKey) -> UnreadableGroup | None:
        """Return the object of a group if it cannot be read; None if it can, or is absent. O(1)."""
        refused = self._unreadable_groups.get(key)
        if not refused:
            return None
        return refused.get(self._first({**self._groups.get(key, {}), **refused}))

    # Pods -----------------------------------------------------------------------------------

    def pod(self, delta: Delta[PodFacts]) -> Event | None:
        """Store a change of a pod; return the event, None if no decision depends on it."""
        assert delta.identity is not None
        if delta.value is None:
            return self._forget(PodUID(delta.identity.uid))
        facts = delta.value
        uid = facts.pod.uid
        if uid in self._newer:
            if _version(facts) < self._newer[uid]:
                return None
            del self._newer[uid]
        return self._show(facts)

    def look(self, facts: PodFacts) -> Event | None:
        """Store a pod as GET has returned it; return the event, None if nothing changed."""
        self._newer[facts.pod.uid] = _version(facts)
        return self._show(facts)

    def _show(self, facts: PodFacts) -> Event | None:
        pod = self.quotas.queued(facts.pod)
        known = self.cluster.pod(pod.uid)
        said = self._said(known)
        if self._is_foreign(facts):
            if pod.is_finished or (pod.node_name is None and known is None):
                return None if known is None else self._forget(pod.uid)
            self._foreign.add(pod.uid)
        self._gather(said, self._said(pod))
        if pod.node_name is None and known is not None and known.node_name is not None:
            pod = pod_with_fields(pod, node_name=known.node_name)
        elif pod.node_name is None:
            pod = self._held_without_group(pod)
            pod = self._held(pod) if self._unreadable or self._unreadable_groups else pod
            self._note(self.conditions, pod.uid, _unschedulable(facts, reason_of(pod)))
            self._note(self.nominated, pod.uid, facts.nominated_node or "")
            if self.names is None:
                self._note(self.schedulers, pod.uid, facts.scheduler_name)
        else:
            self.conditions.pop(pod.uid, None)
            self.nominated.pop(pod.uid, None)
            self.schedulers.pop(pod.uid, None)
        if known is None:
            self._touch(pod)
            return self.cluster.apply(PodAdded(pod))
        if known is pod or known == pod:
            return None
        self._touch(known)  # its labels may have named another group
        self._touch(pod)
        self.cluster.apply(PodUpdated(pod))
        is_same = _runs_on(known, pod) or differ_by_marks(known, pod)
        return None if is_same else PodUpdated(pod)

    def _is_foreign(self, facts: PodFacts) -> bool:
        if self.names is not None and facts.scheduler_name not in self.names:
            return True
        try:
            return self._gangs_only and self._claim(facts.pod) is None
        except InvalidPodGroupError:
            return False  # the scheduler says what is wrong with it

    def take_restated(self) -> list[Event]:
        """Return the events of the groups that changed with their members, each once."""
        taken, self._restated = self._restated, []
        return taken

    def _said(self, pod: Pod | None) -> tuple[Membership, Pod] | None:
        """Return a pod with its claim to be in a group; None for a pod in none."""
        claim = None if pod is None else self._valid_claim(pod)
        return None if claim is None or pod is None else (claim, pod)

    def _gather(
        self, before: tuple[Membership, Pod] | None, after: tuple[Membership, Pod] | None
    ) -> None:
        """State the groups anew whose members ask for another topology now."""
        for key in self._topologies.change(before, after):
            if (event := self._restate(key)) is not None:
                self._restated.append(event)

    def _valid_claim(self, pod: Pod) -> Membership | None:
        """Return the claim of a pod of ours to be in a group; None if it is malformed."""
        with suppress(InvalidPodGroupError):
            return self.membership(pod)
        return None

    def _held_without_group(self, pod: Pod) -> Pod:
        """Return a pending pod; held if it is in no group, and asks what only a group can have."""
        asked = self._topologies.asked_by(pod)
        if asked is None or pod.uid in self._foreign or self.group_of(pod) is not None:
            return pod
        return held_alone(pod, asked)

    def _forget(self, uid: PodUID) -> Event | None:
        known = self.cluster.pod(uid)
        self._gather(self._said(known), None)
        self._touch(known)
        self.malformed.discard(uid)
        self._foreign.discard(uid)
        self._newer.pop(uid, None)
        self.conditions.pop(uid, None)
        self.nominated.pop(uid, None)
        self.schedulers.pop(uid, None)
        return None if known is None else self.cluster.apply(PodDeleted(uid))

    def _touch(self, pod: Pod | None) -> None:
        """Note that the status of a pod's group may have to be written again."""
        if pod is None:
            return
        try:
            claim = self.membership(pod)
        except InvalidPodGroupError as error:
            self.malformed.put(pod, error)
            return
        self.malformed.discard(pod.uid)
        if claim is not None:
            self.touched.add(claim.group)
            self.moved.add(claim.group)

    @staticmethod
    def _note(notes: dict[PodUID, str], uid: PodUID, text: str) -> None:
        if text:
            notes[uid] = text
        else:
            notes.pop(uid, None)

    # Queues ---------------------------------------------------------------------------------

    def requeue(self, quotas: PeerQuotas) -> None:
        """Put pods and groups into the queues of other quotas; the caller rebuilds. O(pods)."""
        self.quotas = quotas
        for pod in [*self.cluster.pods()]:
            queued = quotas.queued(pod_with_fields(pod, queue=pod.labels.get(QUEUE) or None))
            if queued.queue != pod.queue:
                self.cluster.apply(PodUpdated(queued))
        for key in [*self._groups]:
            self._restate(key)

    # Nodes ----------------------------------------------------------------------------------

    def node(self, delta: Delta[NodeFacts]) -> Event | None:
        """Store a change of a node; return the event, None if no decision depends on it."""
        assert delta.identity is not None
        if delta.value is None:
            self._paused.pop(NodeName(delta.identity.key), None)
            self._labelled.pop(NodeName(delta.identity.key), None)
            known = self.cluster.node(delta.identity.key)
            return None if known is None else self.cluster.apply(NodeDeleted(known.name))
        return self._show_node(self._with_labels(delta.value.node))

    def relabel(self, levels: PeerLevels) -> list[Event]:
        """Give the nodes the labels of other levels; return what that changes. O(nodes)."""
        self.levels = levels
        given = [node for node, _labelled in self._labelled.values()]
        self._labelled.clear()
        events = (self._show_node(self._with_labels(node)) for node in given)
        return [event for event in events if event is not None]

    def _with_labels(self, node: Node) -> Node:
        """Return a node with the labels of levels that it does not have itself. O(1) mostly."""
        if self.levels.hyper_nodes is None:
            return node
        known = self._labelled.get(node.name)
        if known is None or known[0] is not node:
            known = self._labelled[node.name] = (node, self.levels.labelled(node))
        return known[1]

    def pause_node(self, name: NodeName) -> Event | None:
        """Let a node take no new pod; return the event, None if it is not known."""
        node = self.cluster.node(name)
        if node is None or name in self._paused:
            return None
        self._paused[name] = node
        return self._show_node(node)

    def resume_node(self, name: NodeName) -> Event | None:
        """Let a paused node take pods again; return the event, None if it was not paused."""
        node = self._paused.pop(name, None)
        return None if node is None else self._show_node(node)

    def _show_node(self, node: Node) -> Event | None:
        if node.name in self._paused:
            self._paused[node.name] = node
            node = evolve(node, unschedulable=True)
        known = self.cluster.node(node.name)
        if known is None:
            return self.cluster.apply(NodeAdded(node))
        return None if known == node else self.cluster.apply(NodeUpdated(node))

    # Groups ---------------------------------------------------------------------------------

    def group(self, delta: Delta[GroupFacts], dialect: str) -> list[Event]:
        """Store a change of a group of one API; return the events.

        O(1); O(pods) if the object can be read no longer, or again.

        Args:
            delta: The change.
            dialect: The source of the object, see ``Dialect``.
        """
        assert delta.identity is not None
        key = GroupKey(delta.identity.key)
        known = self._groups.setdefault(key, {})
        before = known.pop(dialect, None)
        if before is not None:
            self._of_class.get(before.priority_class, set()).discard(key)
        if delta.value is not None:
            known[dialect] = delta.value
            if delta.value.priority_class:
                self._of_class.setdefault(delta.value.priority_class, set()).add(key)
        if not known:
            del self._groups[key]
        self.touched.add(key)
        self.moved.add(key)
        pods = self._note_unreadable(key, delta, dialect)
        restated = self._restate(key)
        group = [] if restated is None else [restated]
        # no pod is free to be placed before its group is known
        return group + pods if self.unreadable_group(key) is None else pods + group

    def _note_unreadable(
        self, key: GroupKey, delta: Delta[GroupFacts], dialect: str
    ) -> list[Event]:
        """Note whether an object of a group can be read; return what that changes."""
        assert delta.identity is not None
        before = self.unreadable_group(key)
        refused = self._unreadable_groups.setdefault(key, {})
        refused.pop(dialect, None)
        error = delta.error
        if isinstance(error, UnreadableGroupError):
            refused[dialect] = UnreadableGroup(
                delta.identity, error.dialect, error.field, error.problem
            )
        if not refused:
            del self._unreadable_groups[key]
        after = self.unreadable_group(key)
        if str(before) == str(after):
            return []
        return self._hold_again(pod for pod in self.cluster.pods() if self.group_of(pod) == key)

    def priority_class(self, delta: Delta[PriorityClassFacts]) -> list[Event]:
        """Store a change of a priority class; return the events of the groups that name it."""
        assert delta.identity is not None
        name = delta.identity.key
        if delta.value is None:
            self._classes.pop(name, None)
        else:
            self._classes[name] = delta.value
        events = (self._restate(key) for key in sorted(self._of_class.get(name, ())))
        return [event for event in events if event is not None]

    def _restate(self, key: GroupKey) -> Event | None:
        facts, shown = self.group_facts(key), self.cluster.pod_group(key)
        group = None if facts is None else self._with_priority(facts)
        group = self._topologies.stated(key, group)
        group = None if group is None else self.quotas.queued_group(group)
        if group is None:
            return None if shown is None else self.cluster.apply(PodGroupDeleted(key))
        if self.namesake(key) is not None:
            group = evolve(group, unmodelled=(*group.unmodelled, _SAME_NAME))
        if shown is None:
            return self.cluster.apply(PodGroupAdded(group))
        return None if shown == group else self.cluster.apply(PodGroupUpdated(group))

    def _with_priority(self, facts: GroupFacts) -> PodGroup:
        """Return a group with what its priority class says; the members decide without one."""
        named = self._classes.get(facts.priority_class)
        if named is None or facts.group.priority is not None:
            return facts.group
        changes: dict[str, Any] = {"priority": named.value}
        if named.preemption_policy:
            changes["preemption_policy"] = PreemptionPolicy(named.preemption_policy)
        return evolve(facts.group, **changes)

    def _first(self, known: Mapping[str, object]) -> str:
        return next((each for each in self._dialects if each in known), next(iter(known)))

    # What constraints refer to -----------------------------------------------------------------

    def object(self, kind: str, delta: Delta[ObjectFacts]) -> Event | None:
        """Store a change of such an object; return the event, None if nothing is read of it."""
        assert delta.identity is not None
        key = delta.identity.key
        known = self.cluster.objects.get(KINDS[kind], key)
        if delta.value is None:
            return None if known is None else self.cluster.apply(ObjectDeleted(kind, key))
        shown = delta.value.value
        return None if shown == known else self.cluster.apply(ObjectChanged(shown))

    def unreadable(self, kind: str, why: str) -> list[Event]:
        """Note that objects of a kind cannot be read, or can again; return what that changes.

        Args:
            kind: The kind.
            why: The reason; empty if they can be read.
        """
        if self._unreadable.get(kind, "") == why:
            return []
        if why:
            self._unreadable[kind] = why
        else:
            del self._unreadable[kind]
        return self._hold_again(self.cluster.pods())

    def unread_groups(self) -> tuple[str, str] | None:
        """Return a kind of PodGroups that cannot be read, and why; None if all can. O(kinds)."""
        kinds = ((k, why) for k, why in self._unreadable.items() if k.startswith(_GROUP_KINDS))
        return next(kinds, None)

    def unread_composites(self) -> str:
        """Return why no composite pod group can be read; empty if all can. O(kinds)."""
        if self.served is not None and COMPOSITES not in self.served:
            return (
                f"the API server serves no {COMPOSITE_KIND}s: that takes the feature gate"
                f" {COMPOSITE_KIND} and the version v1alpha3 of scheduling.k8s.io"
            )
        kinds = self._unreadable.items()
        of_kind = ((k, why) for k, why in kinds if k.startswith(f"{COMPOSITE_KIND}."))
        return next((f"{k} objects: {why}" for k, why in of_kind), "")

    def _hold_again(self, pods: Iterable[Pod]) -> list[Event]:
        """Hold the pending ones of *pods*, or not, by what can be read now; return the events."""
        events: list[Event] = []
        for pod in [pod for pod in pods if pod.node_name is None]:
            held = self._held(pod)
            if held != pod:
                events.append(self.cluster.apply(PodUpdated(held)))
        return events

    def _held(self, pod: Pod) -> Pod:
        """Return a pending pod with a reason to hold it, if it needs what cannot be read."""
        others = tuple(each for each in pod.unmodelled if not each.startswith(_NEEDS))
        needs = self._needs(pod) if self._unreadable else frozenset[str]()
        lacks = [f"{_NEEDS}{k} objects: {v}" for k, v in self._unreadable.items() if k in needs]
        key = self.group_of(pod) if self._unreadable_groups else None
        group = None if key is None else self.unreadable_group(key)
        if group is not None:
            lacks.append(f"{_NEEDS}{_UNREADABLE}{group}")
        reasons = (*others, *lacks)
        return pod if reasons == pod.unmodelled else evolve(pod, unmodelled=reasons)

    def _needs(self, pod: Pod) -> frozenset[str]:
        """Return the kinds that a pod needs; each kind of groups if it is in an unknown one."""
        needs = objects_needed(pod)
        group = self.group_of(pod)
        if group is None or group in self._groups:
            return needs
        return needs.union(kind for kind in self._unreadable if kind.startswith(_GROUP_KINDS))


def _runs_on(before: Pod, after: Pod) -> bool:
    """Return whether a bound pod has changed nothing but its phase, and has not finished."""
    if before.phase is after.phase or before.node_name is None or after.is_finished:
        return False
    return not before.is_finished and pod_with_fields(before, phase=after.phase) == after


def _version(facts: PodFacts) -> int:
    """Return the resource version as a number; 0 for one that is none."""
    text = facts.identity.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0


def reason_of(pod: Pod) -> str:
    """Return the reason of ``PodScheduled=False`` for a pod: more nodes do not help a gated one."""
    return "SchedulingGated" if pod.scheduling_gates else "Unschedulable"


def _unschedulable(facts: PodFacts, reason: str) -> str:
    """Return the message of ``PodScheduled=False`` with a reason; empty if there is none."""
    for condition in facts.conditions:
        if condition.type == "PodScheduled" and condition.reason == reason:
            return condition.message
    return ""
