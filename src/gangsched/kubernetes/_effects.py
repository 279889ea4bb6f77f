"""What the notices of the scheduler become: conditions and events in the API server.

- ``PodScheduled``: event ``Scheduled`` of the pod.
- ``PodUnschedulable``, ``PodRefused``: event ``FailedScheduling`` of the pod, and its condition
  ``PodScheduled=False``. The same for ``PodNotAdmitted``, if a constraint is not modelled, or if a
  regular pod exceeds a quota or names no queue that it can be in.
- A bind that is refused and repeated: event ``FailedScheduling`` of the pod, see ``_bind``.
- ``GroupScheduled``: event ``Scheduled`` of the group.
- ``GroupBound``: condition ``PodGroupInitiallyScheduled=True`` of the group, so that it says what
  is true. That of a composite pod group is in ``_mark_writer``.
- ``GroupPartlyBound``: event ``PartlyBound`` of the group. The same for a gang that stays partly on
  nodes and is not evicted, see ``_partial``; of a member, if the group has no object.
- ``GroupBelowMinimum``: event ``BelowMinimum`` of the group, see ``_below_minimum``. The same for
  a gang that was whole, and that lost a member before this scheduler listed it, or whose minimum
  is raised.
- ``GroupRestarted``: event ``Restarted`` of the group, and its annotations; the same for a copy.
- ``CopyBound``: event ``Bound`` of the group, and its annotations.
- ``RestartLimitReached``: event ``RestartLimitReached`` of the group.
- ``GroupRejected``: event ``FailedScheduling`` of the group and of each pending member that is
  told, the condition ``PodGroupInitiallyScheduled=False``, and ``PodScheduled=False`` of each
  pending member. The same of each parent that is not placed, since its groups start together.
- ``PodNotAdmitted`` of a member whose group exceeds a quota, names no queue that it can be in,
  cannot be read, or has a constraint that is not modelled, as have its members: the same, at once.
- ``GroupIncomplete``: the same, if it still is after 10 s, with the event ``Incomplete``. If only
  scheduling gates of other members keep it from being tried, the event is ``SchedulingGated``.
- ``Nominated``: ``nominatedNodeName`` of the pods, and event ``Preempted`` of each victim.
- ``VictimSearchExhausted``: event of the same name, of the group or pod that preempts.
- ``NominationLapsed``: no ``nominatedNodeName`` any more, and event of the same name, of the group
  or pod that preempts.
- ``Evict``: event ``GangReleased`` of the pod when it is deleted, unless it is a victim.

Rules:
  R1  nothing here waits: what is to be posted is queued for workers;
  R2  why a gang waits is one sentence, on each pending member and on the group, see ``_sentences``.
      So an autoscaler sees every pod that needs a node, and nobody has to compare two reasons;
  R3  a member has an event when its condition changes, and a gang that was tried one for each
      attempt. Reasons that differ in numbers of nodes alone are not told to all members again;
  R4  with *of_pods* false, pods get neither events nor conditions for decisions: another program
      writes them, as kube-scheduler does for the pods of an extender. That a bind is repeated is
      no decision, and only this program knows it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from typing import Final, final

from gangsched.events import (
    Bind,
    CopyBound,
    Effect,
    Event,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupPartlyBound,
    GroupRejected,
    GroupRestarted,
    GroupScheduled,
    Nominated,
    NominationLapsed,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodRefused,
    PodScheduled,
    PodUnschedulable,
    RestartLimitReached,
    VictimSearchExhausted,
)
from gangsched.kubernetes import _decision_log
from gangsched.kubernetes._absent_parents import why_absent
from gangsched.kubernetes._below_minimum import BelowMinimumReports, is_below_minimum
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter, is_scheduled
from gangsched.kubernetes._facts import GroupFacts, UnreadableGroup
from gangsched.kubernetes._instants import whole_seconds
from gangsched.kubernetes._partial import PartialGangs
from gangsched.kubernetes._placed import children_of, groups_below, is_parent, is_whole, parents_of
from gangsched.kubernetes._recorder import EventRecorder, Regarding
from gangsched.kubernetes._restart_notes import RestartNotes
from gangsched.kubernetes._sentences import FAILED, Sentence, sentence_of
from gangsched.model import GroupKey, NodeName, Pod, PodUID
from gangsched.options.quota import EXCEEDED
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.scheduler import Scheduler

__all__ = ["Effects"]

_log = logging.getLogger("gangsched.kubernetes.effects")
_decisions = logging.getLogger(_decision_log.LOGGER)

_HELD: Final = " constraints that "
"""In the reason of a pod that is held for a constraint."""
_NO_QUEUE: Final = re.compile(r"queue \S+ (?:does not exist|has queues below it)")
"""The reason of a pod or a gang that names a queue in which no pod can be."""
_INCOMPLETE_AFTER: Final = 10.0
"""Seconds after which a group that lacks members is reported: pods are created one by one."""
_MOST_SAID: Final = 4096


@final
class Effects:
    """Observes the scheduler, and queues what follows for the API server.

    Args:
        cache: The cluster state.
        status: Writes conditions.
        events: Creates events.
        scheduler: The scheduler that is observed.
        partial: Knows which gangs are whole.
        first_settled: Called once, when there is nothing left to decide for the first time.
        restarts: Writes how often groups were restarted.
        of_pods: Whether decisions about pods are written to the pods.
        fell: Called for each group that is reported to have fallen below its minimum.
    """

    def __init__(
        self,
        cache: Cache,
        status: StatusWriter,
        events: EventRecorder,
        scheduler: Scheduler,
        partial: PartialGangs,
        first_settled: Callable[[], object] | None = None,
        restarts: RestartNotes | None = None,
        *,
        of_pods: bool = True,
        fell: Callable[[], object] = lambda: None,
    ) -> None:
        self._report_fall = fell
        self._of_pods = of_pods
        self._cache = cache
        self._status = status
        self._events = events
        self._scheduler = scheduler
        self._partial = partial
        self._first_settled = first_settled
        self._restarts = restarts
        self._victims: set[PodUID] = set()
        self._incomplete: dict[GroupKey, asyncio.TimerHandle] = {}
        self._said: dict[GroupKey, Sentence] = {}
        self._below_minimum = BelowMinimumReports(self._members, self._fell)
        self._is_settled = False
        self._fallen: set[GroupKey] = set()
        self._changing: GroupKey | None = None
        self._told: dict[GroupKey, str] = {}  # in one call, with the reason of an attempt

    def is_victim(self, uid: PodUID) -> bool:
        """Return whether a pod is evicted for a preemptor. O(1)."""
        return uid in self._victims

    def close(self) -> None:
        """Cancel the timers; what they would have reported for certain is queued."""
        self._below_minimum.close()
        for timer in self._incomplete.values():
            timer.cancel()
        self._incomplete.clear()

    # As an observer -------------------------------------------------------------------------

    def event(self, event: Event, now: float) -> None:
        """Forget what is gone, and look at groups that change; called before the scheduler."""
        if isinstance(event, PodDeleted):
            self._victims.discard(event.uid)
        elif isinstance(event, PodGroupDeleted):
            self._status.forget_group(event.key)
            self._said.pop(event.key, None)
            self._forget_timer(event.key)
            self._note_whole(event.key)
            if self._restarts is not None:
                self._restarts.forget(event.key)
        elif isinstance(event, PodGroupAdded | PodGroupUpdated):
            self._note_whole(event.group.key)
            self._tell_namesake(event.group.key)

    def _note_whole(self, key: GroupKey) -> None:
        """Note a gang that is whole and whose minimum may become larger in this call."""
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        is_met = info is not None and info.assigned and not is_below_minimum(info)
        if self._is_settled and is_met and self._partial.was_whole(key):
            self._changing = key

    def settled(self, now: float) -> None:
        """Say so, the first time. Conditions do not depend on whether more is to come."""
        if self._is_settled:
            return
        self._is_settled = True
        self._partial.settled()
        for info in self._scheduler.registry:
            self._note_found(info)
            self._tell_namesake(info.key)
        self._fallen.clear()
        if self._first_settled is not None:
            self._first_settled()

    def _note_found(self, info: PodGroupInfo) -> None:
        """Report a gang that lost a member while no scheduler ran; take back what was left of it.

        An earlier leader may have ended before it wrote that a gang runs again.
        """
        if info.key not in self._fallen and self._partial.was_whole(info.key):
            self._below_minimum.found(info)
        children = children_of(self._scheduler.registry, info.key)
        runs = children.placed and children.is_met if is_parent(info.spec) else is_whole(info)
        if self._restarts is not None and runs:
            self._restarts.bound(info.key)

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Queue what follows from the effects of one call."""
        changed, self._changing = self._changing, None
        info = None if changed is None else self._scheduler.registry.get(changed)
        if info is not None:
            self._below_minimum.raised(info)
        of_gangs = self._what_gangs_say(effects)
        for effect in effects:
            key = self._key_of(effect.uid) if isinstance(effect, PodUnschedulable) else None
            if key is None or not isinstance(effect, PodUnschedulable):
                self._effect(effect)
            elif key not in of_gangs:
                if self._waits(key):
                    continue
                if self._is_child_that_waits(key):
                    self._tell(key, Sentence(FAILED, effect.reason))
                else:
                    self._effect(effect)
            elif said := of_gangs[key]:
                self._unschedulable(effect.uid, said)
        self._tell_parents()

    def _what_gangs_say(self, effects: Iterable[Effect]) -> dict[GroupKey, str]:
        """Return what is said of gangs in one call; empty for one that is not tried."""
        found: dict[GroupKey, str] = {}
        for effect in effects:
            if isinstance(effect, GroupRejected):
                found[effect.group] = effect.reason
            elif isinstance(effect, GroupIncomplete):
                found[effect.group] = ""
            elif isinstance(effect, PodNotAdmitted):
                key = self._key_of(effect.uid)
                if key is not None and _is_of_quota(effect.reason):
                    found[key] = ""
        return found

    def _effect(self, effect: Effect) -> None:
        match effect:
            case PodScheduled(uid, node):
                self._scheduled(uid, node)
            case PodUnschedulable(uid, reason) | PodRefused(uid, reason):
                self._unschedulable(uid, reason)
            case PodNotAdmitted(uid, reason):
                self._not_admitted(uid, reason)
            case GroupScheduled():
                self._group_scheduled(effect)
            case GroupBound():
                self._group_bound(effect)
            case GroupPartlyBound():
                self._group_partly_bound(effect)
            case GroupBelowMinimum():
                if not effect.path:  # a copy is reported when it is restarted
                    if not self._is_settled:
                        self._fallen.add(effect.group)
                    self._below_minimum.fell(effect)
            case GroupRestarted():
                self._group_restarted(effect)
            case CopyBound():
                self._copy_bound(effect)
            case RestartLimitReached(key, restarts, path):
                note = (
                    f"{path or 'It'} was restarted {restarts} times, its limit,"
                    " and fell below its minimum"
                )
                self._warn(key, "RestartLimitReached", note)
            case GroupRejected():
                self._group_rejected(effect)
            case GroupIncomplete():
                self._group_incomplete(effect.group)
            case Nominated():
                self._nominated(effect)
            case NominationLapsed():
                self._nomination_lapsed(effect)
            case VictimSearchExhausted():
                self._victims_not_searched(effect)
            case _:
                pass

    # Pods -----------------------------------------------------------------------------------

    def _scheduled(self, uid: PodUID, node: NodeName) -> None:
        pod = self._cache.cluster.pod(uid)
        if pod is not None and self._of_pods:
            note = f"Successfully assigned {pod.key} to {node}"
            self._events.record(_regarding(pod), "Normal", "Scheduled", "Binding", note)

    def _unschedulable(self, uid: PodUID, reason: str) -> None:
        pod = self._cache.cluster.pod(uid)
        if pod is not None and pod.node_name is None and self._of_pods:
            self._failed(_regarding(pod), reason)
            self._status.unschedulable(uid, reason)

    def _not_admitted(self, uid: PodUID, reason: str) -> None:
        pod = self._cache.cluster.pod(uid)
        key = self._cache.group_of(pod)
        if pod is None:
            return
        if _is_of_quota(reason):
            if key is None:
                self._unschedulable(uid, reason)
                return
            self._forget_timer(key)
            self._tell(key, Sentence(FAILED, reason))
        elif key is not None and self._waits_for_others(key):
            self._waits(key)
        # a scheduling gate is no failure: the API server has set the condition already
        elif not pod.scheduling_gates and _HELD in reason and not (key and self._waits(key)):
            self._unschedulable(uid, f"held: {reason}")

    def evicted(self, pod: Pod, evict: Evict) -> None:
        """Record why a pod was evicted, unless it is a victim."""
        if evict.uid not in self._victims:
            note = f"Evicted from {evict.node}: {evict.reason}"
            self._events.record(_regarding(pod), "Warning", "GangReleased", "Evicting", note)

    def stays_partial(self, key: GroupKey, note: str) -> None:
        """Record that a gang is partly on nodes and is not evicted."""
        _log.warning("%s", note)
        regarding = self._regarding_group_or(key, self._bound_members(key))
        if regarding is not None:
            self._events.record(regarding, "Warning", "PartlyBound", "Scheduling", note)

    def bind_is_repeated(self, bind: Bind, problem: str) -> None:
        """Record why a bind is repeated, such as what the API server says to it."""
        pod = self._cache.cluster.pod(bind.uid)
        if pod is not None:
            self._failed(_regarding(pod), problem)

    def _nominated(self, nominated: Nominated) -> None:
        preemptor = nominated.group or ", ".join(uid for uid, _node in nominated.places)
        for uid, node in nominated.places:
            self._status.nominate(uid, node)
        for uid in nominated.victims:
            self._victims.add(uid)
            pod = self._cache.cluster.pod(uid)
            if pod is not None:
                note = f"Preempted by {preemptor} on node {pod.node_name}"
                self._events.record(_regarding(pod), "Normal", "Preempted", "Preempting", note)

    def _nomination_lapsed(self, lapsed: NominationLapsed) -> None:
        for uid in lapsed.pods:
            self._status.nominate(uid, None)
        regarding = self._regarding_preemptor(lapsed.group, next(iter(lapsed.pods), None))
        if regarding is not None:
            note = f"Its nodes are nominated no longer: {lapsed.reason}"
            self._events.record(regarding, "Warning", "NominationLapsed", "Preempting", note)

    def _victims_not_searched(self, spent: VictimSearchExhausted) -> None:
        found = "fewer victims may be enough" if spent.is_found else "no victims were found"
        note = f"The search for victims used up its budget of {spent.steps} steps: {found}"
        regarding = self._regarding_preemptor(spent.group, spent.uid)
        if regarding is not None:
            reason = type(spent).__name__
            self._events.record(regarding, "Warning", reason, "Preempting", note)

    def _regarding_preemptor(self, key: GroupKey | None, uid: PodUID | None) -> Regarding | None:
        """Return what an event about a preemptor is about; None for a group without an object."""
        if key is not None:
            return self._regarding_group(key)
        pod = None if uid is None else self._cache.cluster.pod(uid)
        return _regarding(pod) if pod is not None and self._of_pods else None

    # Groups ---------------------------------------------------------------------------------

    def _group_scheduled(self, started: GroupScheduled) -> None:
        self._forget_timer(started.group)
        self._said.pop(started.group, None)
        note = f"{started.scheduled} members have nodes, and are being bound"
        self._partial.begun(started.group)
        regarding = self._regarding_group(started.group)
        if regarding is not None:
            self._events.record(regarding, "Normal", "Scheduled", "Binding", note)

    def _group_bound(self, bound: GroupBound) -> None:
        self._partial.whole(bound.group)
        self._cache.moved.add(bound.group)
        if self._restarts is not None:
            self._restarts.bound(bound.group)
        message = f"{bound.bound} members are assigned to nodes"
        self._status.group(bound.group, scheduled=True, message=message)

    def _group_partly_bound(self, part: GroupPartlyBound) -> None:
        regarding = self._regarding_group_or(part.group, self._bound_members(part.group))
        if regarding is not None:
            note = f"{part.scheduled} of {part.min_available} members are on nodes: {part.reason}"
            self._events.record(regarding, "Warning", "PartlyBound", "Binding", note)

    def _group_restarted(self, restarted: GroupRestarted) -> None:
        if not restarted.path:
            self._partial.restarted(restarted.group)
            self._below_minimum.restarted(restarted.group)
        if self._restarts is not None:
            self._restarts.note(restarted)
        of_copy = f"{restarted.path} fell below its minimum: " if restarted.path else ""
        note = (
            f"{of_copy}{'r' if of_copy else 'R'}estart {restarted.restarts} of"
            f" {restarted.limit}: its other members are evicted,"
            f" and it starts again not before {whole_seconds(restarted.until)}"
        )
        self._warn(restarted.group, "Restarted", note)

    def _copy_bound(self, bound: CopyBound) -> None:
        if self._restarts is not None:
            self._restarts.note(bound)
        regarding = self._regarding_group(bound.group)
        if regarding is not None:
            note = f"{bound.path} runs again: {bound.bound} members are bound"
            self._events.record(regarding, "Normal", "Bound", "Binding", note)

    def _fell(self, key: GroupKey, note: str) -> None:
        self._report_fall()
        regarding = self._regarding_group_or(key, self._members_that_stay(key))
        if regarding is not None:
            self._events.record(regarding, "Warning", "BelowMinimum", "Scheduling", note)

    def _warn(self, key: GroupKey, reason: str, note: str) -> None:
        regarding = self._regarding_group(key)
        if regarding is not None:
            self._events.record(regarding, "Warning", reason, "Restarting", note)

    def _group_rejected(self, rejected: GroupRejected) -> None:
        reason = rejected.reason
        self._said.pop(rejected.group, None)
        self._told[rejected.group] = reason
        self._status.group(rejected.group, scheduled=False, message=reason)
        regarding = self._regarding_group(rejected.group)
        if regarding is not None:
            self._failed(regarding, reason)

    def _waits(self, key: GroupKey) -> bool:
        """Tell why a gang waits that is not tried; return False if it is in another state.

        What has counts of members is told later: members come one by one.
        """
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        if info is None or (info.is_complete and not self._waits_for_others(key)):
            return False  # it is tried, so the pod has a reason of its own
        sentence = self._sentence(key)
        if sentence is not None and sentence.reason == FAILED:
            self._tell(key, sentence)
        return sentence is not None

    def _waits_for_others(self, key: GroupKey) -> bool:
        """Return whether a group may wait for others although its own members are complete."""
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        spec = None if info is None else info.spec
        return spec is not None and (bool(spec.bundle) or spec.parent is not None)

    def _is_child_that_waits(self, key: GroupKey) -> bool:
        """Return whether a group was tried as a whole, beyond what the tree above it needs.

        There is no notice of it: the tree as a whole has not failed.
        """
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        if info is None or info.spec is None or info.spec.parent is None:
            return False
        return info.is_complete and not info.scheduled

    def _sentence(self, key: GroupKey) -> Sentence | None:
        info: PodGroupInfo | None = self._scheduler.registry.get(key)
        if info is None or info.was_scheduled:
            return None
        why = self._scheduler.why(key, budget=0)
        return sentence_of(self._cache, key, list(self._members(key)), why)

    def _tell_namesake(self, key: GroupKey) -> None:
        """Tell a composite pod group that a group of pods has its name, which has precedence."""
        facts = self._cache.namesake(key)
        if facts is not None:
            note = f"a PodGroup is called {facts.group.name}, too: the pods of both wait"
            self._failed(_regarding_object(facts), note)

    def _tell(self, key: GroupKey, sentence: Sentence) -> None:
        """Write why a gang waits wherever it is looked for; see ``_sentences``."""
        pending = [pod for pod in self._members(key) if pod.node_name is None]
        regarding = self._regarding_group(key)
        self._told.setdefault(key, "")
        for pod in pending if self._of_pods else ():
            if self._status.unschedulable(pod.uid, sentence.text):
                self._record(_regarding(pod), sentence)
        if not self._is_news(key, sentence):
            return
        _decisions.info("gang waits", extra={"group": key, "reason": sentence.text})
        self._status.group(key, scheduled=False, message=sentence.text)
        if regarding is None and pending and not self._of_pods:
            regarding = _regarding(pending[0])
        if regarding is not None:
            self._record(regarding, sentence)

    def _is_news(self, key: GroupKey, sentence: Sentence) -> bool:
        """Note what is said of a group; return False if it was said last."""
        if self._said.get(key) == sentence:
            return False
        self._said.pop(key, None)
        self._said[key] = sentence
        if len(self._said) > _MOST_SAID:
            del self._said[next(iter(self._said))]
        return True

    def _tell_parents(self) -> None:
        """Write why the parents of the groups wait of which it was said in this call."""
        told, self._told = self._told, {}
        registry = self._scheduler.registry
        for parent in parents_of(registry, told):
            facts = self._cache.group_facts(parent)
            if facts is None or is_scheduled(facts) or children_of(registry, parent).is_met:
                continue  # it runs, and what waits is beyond its minimum
            tried = next(
                (told[key] for key in told if told[key] and self._is_below(key, parent)), ""
            )
            sentence = Sentence(FAILED, tried) if tried else self._sentence(parent)
            if sentence is not None and self._is_news(parent, sentence):
                self._status.group(parent, scheduled=False, message=sentence.text)
                regarding = self._regarding_group(parent)
                if regarding is not None:
                    self._record(regarding, sentence)

        for key in told:
            self._tell_unreadable_parent(key)

    def _tell_unreadable_parent(self, key: GroupKey) -> None:
        parent, _more = why_absent(self._cache, key) or (None, "")
        unreadable = None if parent is None else self._cache.unreadable_group(parent)
        if parent is None or unreadable is None:
            return
        sentence = Sentence(FAILED, f"its {unreadable.dialect.kind} cannot be read: {unreadable}")
        if self._is_news(parent, sentence):
            self._status.group(parent, scheduled=False, message=sentence.text)
            self._record(_regarding_object(unreadable), sentence)

    def _is_below(self, key: GroupKey, parent: GroupKey) -> bool:
        return any(group.key == parent for group in self._scheduler.registry.above(key))

    def _record(self, regarding: Regarding, sentence: Sentence) -> None:
        self._events.record(regarding, sentence.kind, sentence.reason, "Scheduling", sentence.text)

    def _group_incomplete(self, key: GroupKey) -> None:
        if key not in self._incomplete:
            loop = asyncio.get_running_loop()
            self._incomplete[key] = loop.call_later(_INCOMPLETE_AFTER, self._still_incomplete, key)

    def _still_incomplete(self, key: GroupKey) -> None:
        self._incomplete.pop(key, None)
        info = self._scheduler.registry.get(key)
        if info is None or not info.members or info.is_complete or info.was_scheduled:
            return
        sentence = self._sentence(key)
        if sentence is not None:
            self._tell(key, sentence)
            self._tell_parents()

    def _key_of(self, uid: PodUID) -> GroupKey | None:
        return self._cache.group_of(self._cache.cluster.pod(uid))

    def _members(self, key: GroupKey) -> Iterable[Pod]:
        """Return the pods of a group, or of all groups below it."""
        groups = groups_below(self._scheduler.registry, key)
        pods = (self._cache.cluster.pod(uid) for info in groups for uid in info.members)
        return [pod for pod in pods if pod is not None]

    def _bound_members(self, key: GroupKey) -> Iterable[Pod]:
        return [pod for pod in self._members_that_stay(key) if pod.node_name is not None]

    def _members_that_stay(self, key: GroupKey) -> Iterable[Pod]:
        """Return the members, those first that are not being deleted."""
        return sorted(self._members(key), key=lambda pod: pod.deleted_at is not None)

    def _forget_timer(self, key: GroupKey) -> None:
        timer = self._incomplete.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _failed(self, regarding: Regarding, note: str) -> None:
        self._events.record(regarding, "Warning", "FailedScheduling", "Scheduling", note)

    def _regarding_group_or(self, key: GroupKey, pods: Iterable[Pod]) -> Regarding | None:
        """Return what an event about a group is about: without an object, the first of *pods*."""
        regarding, first = self._regarding_group(key), next(iter(pods), None)
        return _regarding(first) if regarding is None and first is not None else regarding

    def _regarding_group(self, key: GroupKey) -> Regarding | None:
        known = self._cache.unreadable_group(key) or self._cache.group_facts(key)
        return None if known is None else _regarding_object(known)


def _regarding_object(known: GroupFacts | UnreadableGroup) -> Regarding:
    dialect, uid = known.dialect, known.identity.uid
    namespace, _slash, name = known.identity.key.partition("/")
    return Regarding(f"{dialect.group}/{dialect.version}", dialect.kind, namespace, name, uid)


def _regarding(pod: Pod) -> Regarding:
    return Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)


def _is_of_quota(reason: str) -> bool:
    """Return whether a pod waits for a quota, or names a queue in which it cannot be."""
    return reason.startswith(EXCEEDED) or _NO_QUEUE.fullmatch(reason) is not None
