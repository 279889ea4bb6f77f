"""The public API as a user's code would use it: never run, only type-checked.

``mypy --strict tests/typing/api.py`` and ``pyright tests/typing/api.py`` accept every line.
``assert_type`` says what they must see; a line that must not pass is ignored by its error code,
and strictness reports an ignore that nothing needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import assert_never, assert_type

from gangsched import (
    Backoff,
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    CopyBound,
    Coscheduling,
    CycleState,
    Effect,
    Event,
    Evict,
    EvictGroup,
    GangschedError,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupKey,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    HeapHandle,
    HoldGroup,
    InMemoryCluster,
    InvalidPodGroupError,
    MatchPolicy,
    Membership,
    MemberState,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Nominated,
    NominationLapsed,
    Order,
    Outcome,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupCounters,
    PodGroupDeleted,
    PodGroupInfo,
    PodGroupPhase,
    PodGroupRegistry,
    PodGroupStatus,
    PodNotAdmitted,
    PodPhase,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    PodWaiting,
    PriorityHeap,
    PriorityOverruled,
    Profile,
    QOSClass,
    QueuedPod,
    QueueEntry,
    QueuePlace,
    RejectGroup,
    Release,
    Resources,
    RestartLimitReached,
    Role,
    Scheduler,
    SchedulingQueue,
    Skip,
    SmallestChange,
    SortKey,
    StateKey,
    Success,
    Taint,
    TaintEffect,
    Toleration,
    Unschedulable,
    Verdict,
    VictimSearchExhausted,
    Wait,
    WaitingMap,
    WaitingPod,
    WhenBindFails,
    WhenBlocked,
    Why,
    group_key,
    less,
    membership,
    pod_group_status,
    presets,
    resource_gap,
    sort_key,
    ungrouped,
)
from gangsched.explain import NotEnoughMembers, Refused
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort, Strategy
from gangsched.protocols import (
    BindPlugin,
    CycleView,
    EntityView,
    FilterPlugin,
    GroupView,
    NodeView,
    PermitPlugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortKey,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)

# Nouns ----------------------------------------------------------------------------------------


def nouns() -> tuple[Pod, PodGroup, Node]:
    pod = Pod(
        name="worker-0",
        namespace="ml",
        priority=10,
        requests={"cpu": "500m", "nvidia.com/gpu": 1},
        limits=Resources({"cpu": 1}),
        labels={"pod-group/name": "job", "pod-group/min-available": "4"},
        node_selector={"zone": "a"},
        affinity=[NodeSelectorTerm([NodeSelectorRequirement("disk", "In", ["ssd"])])],
        tolerations=[Toleration("gpu", exists=True)],
        phase=PodPhase.PENDING,
        owners=["job"],
        created_at=12.5,
    )
    group = PodGroup(name="job", namespace="ml", min_available=4, schedule_timeout=30)
    node = Node(
        name="n1",
        allocatable={"cpu": 8, "nvidia.com/gpu": 4, "pods": 110},
        taints=[Taint("gpu", "yes", TaintEffect.NO_SCHEDULE)],
    )
    assert_type(pod.uid, PodUID)
    assert_type(Pod(name="w", uid="u", node_name="n1").node_name, NodeName | None)
    assert_type(PodGroup(name="g", min_available=1, bundle=["ml/job"]).bundle, tuple[GroupKey, ...])
    assert_type(node.name, NodeName)
    assert_type(Resources(dict(pod.requests)), Resources)
    assert_type(pod.requests.to_milli(), dict[str, int])
    assert_type(Bound("u", "n1", 1).node, NodeName)
    assert_type(BindFailed("u", 1, "no answer").uid, PodUID)
    assert_type(PodDeleted("u").uid, PodUID)
    assert_type(NodeDeleted("n1").name, NodeName)
    assert_type(PodGroupDeleted("ml/job").key, GroupKey)
    assert_type(pod.qos_class, QOSClass)
    assert_type(pod.requests + pod.limits, Resources)
    assert_type(pod.requests.amount("cpu"), int)
    assert_type(pod.labels["app"], str)
    assert_type(group.key, GroupKey)
    assert_type(group_key("ml", "job"), GroupKey)
    assert_type(membership(pod), Membership | None)
    return pod, group, node


def plain_strings(cluster: InMemoryCluster, scheduler: Scheduler, shape: Node) -> None:
    assert_type(cluster.pod("u"), Pod | None)
    assert_type(cluster.node("n1"), Node | None)
    assert_type(cluster.pod_group("ml/job"), PodGroup | None)
    assert_type(cluster.pods_on("n1"), Iterable[Pod])
    assert_type(scheduler.why("ml/job"), Why)
    assert_type(scheduler.smallest_change("ml/job", shape), SmallestChange)
    state: ClusterState = cluster
    scheduler.handle(cluster.apply(Bound("u", "n1", 1)), now=0.0)
    del state


def status(pods: Iterable[Pod], group: PodGroup) -> str:
    before = pod_group_status(group, pods)
    after = pod_group_status(group, pods, before=before, membership=ungrouped)
    assert_type(after, PodGroupStatus)
    assert_type(after.running + after.succeeded + after.failed, int)
    match after.phase:
        case PodGroupPhase.PENDING | PodGroupPhase.SCHEDULING:
            return "not yet"
        case PodGroupPhase.RUNNING | PodGroupPhase.FINISHED | PodGroupPhase.FAILED:
            return after.occupied_by
        case _:
            assert_never(after.phase)


def a_name_is_no_identity(waiting: WaitingMap) -> None:
    waiting.remove("worker-0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_group_has_a_minimum_in_all_or_per_role() -> PodGroup:
    group = PodGroup(name="job", roles={"ps": 1, "worker": 4})
    assert_type(group.min_available, int)
    assert_type(group.roles["ps"], int | Role)
    return PodGroup(name="job", min_available=4, roles={"ps": "1"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]


# The four calls -------------------------------------------------------------------------------


def perform(effect: Effect) -> Event | None:
    """Match over every effect: one that is added must be added here."""
    match effect:
        case Bind(uid, node, attempt):
            assert_type(node, NodeName)
            return Bound(uid, node, attempt)
        case Release(group, members):
            assert_type(group, GroupKey)
            assert_type(members, tuple[PodUID, ...])
        case PodWaiting(uid, node, deadline, remaining, attempt, plugins):
            print(uid, node, deadline, remaining)
            assert_type(attempt, int)
            assert_type(plugins, tuple[str, ...])
        case GroupScheduled(group, attempt, scheduled, waited):
            print(group, attempt, scheduled, waited)
        case GroupRejected(group, attempt, reason, retry_after):
            print(group, attempt, reason, retry_after)
        case GroupIncomplete(group, present, min_available):
            assert_type(min_available, int | None)
            print(group, present)
        case PodRefused(uid, reason) | PodNotAdmitted(uid, reason) | PodUnschedulable(uid, reason):
            print(uid, reason)
        case PriorityOverruled(uid, overruling, priority, used):
            assert_type(overruling, GroupKey)
            print(uid, priority, used)
        case PodRejected(uid, node, reason) | Evict(uid, node, reason):
            print(uid, node, reason)
        case PodScheduled(uid, node):
            print(uid, node)
        case GroupPartlyBound() | GroupBound() | CopyBound() | GroupBelowMinimum() | GroupRemoved():
            assert_type(effect.group, GroupKey)
        case GroupRestarted(group, restarts, limit, until):
            print(group, restarts, limit, until)
        case RestartLimitReached(group, restarts):
            print(group, restarts)
        case Nominated(group, priority, places, victims, deadline):
            assert_type(group, GroupKey | None)
            assert_type(places, tuple[tuple[PodUID, NodeName], ...])
            print(priority, victims, deadline)
        case NominationLapsed(group, pods, reason):
            assert_type(pods, tuple[PodUID, ...])
            print(group, reason)
        case VictimSearchExhausted(group, uid, steps, is_found):
            assert_type(is_found, bool)
            print(group, uid, steps)
        case _:
            assert_never(effect)
    return None


def drive(cluster: InMemoryCluster, scheduler: Scheduler, facts: Iterable[Event]) -> float | None:
    now = 0.0
    for fact in facts:
        for effect in scheduler.handle(cluster.apply(fact), now=now):
            perform(effect)
    while (effects := scheduler.schedule_one(now=now)) is not None:
        assert_type(effects, tuple[Effect, ...])
        for effect in effects:
            report = perform(effect)
            if report is not None:
                scheduler.handle(cluster.apply(report), now=now)
    scheduler.advance(now=now)
    scheduler.rebuild(now=now)
    scheduler.handle(BindFailed(PodUID("u"), 1, "refused"), now=now)
    assert_type(scheduler.queue, SchedulingQueue)
    assert_type(scheduler.queue.active, tuple[QueueEntry, ...])
    shown: EntityView = scheduler.queue.active[0]
    assert_type(scheduler.queue.active[0].place, QueuePlace)
    assert_type(shown.seq, int)
    assert_type(scheduler.registry, PodGroupRegistry)
    assert_type(scheduler.waiting, WaitingMap)
    why = scheduler.why(PodUID("u"))
    assert_type(why, Why)
    if isinstance(why, NotEnoughMembers):
        assert_type(why.refused, tuple[Refused, ...])
    assert_type(resource_gap(Resources({"cpu": 1}), [{"cpu": 500}]), Resources)
    return scheduler.next_deadline()


def ready_made(cluster: ClusterState) -> tuple[Scheduler, Scheduler]:
    gangs = presets.coscheduling(
        cluster,
        permit_timeout=30,
        order=Order.CREATION,
        when_blocked=WhenBlocked.AT_ONCE,
        reject_percentage=10,
        match_policy=MatchPolicy.ONLY_WAITING,
        when_bind_fails=WhenBindFails.RELEASE_GROUP,
        backoff=Backoff(1, 60),
    )
    return gangs, presets.pod_by_pod(cluster)


def time_is_a_keyword(scheduler: Scheduler) -> None:
    scheduler.advance(1.0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def from_facts() -> float | None:
    pod, group, node = nouns()
    cluster = InMemoryCluster()
    port: ClusterState = cluster
    scheduler = Scheduler(port, presets.coscheduling_profile(), backoff=Backoff())
    return drive(cluster, scheduler, [NodeAdded(node), PodGroupAdded(group), PodAdded(pod)])


# Decisions ------------------------------------------------------------------------------------


def explain(outcome: Outcome) -> str:
    match outcome:
        case Success() | Skip():
            return "go on"
        case Wait(timeout):
            return f"wait for {timeout:g}s"
        case Unschedulable(reasons, resolvable):
            return reasons[0] if resolvable else f"{reasons[0]}, whatever room there is"
        case _:
            assert_never(outcome)


def carry_out(verdict: Verdict) -> GroupKey:
    match verdict:
        case RejectGroup(group, _) | HoldGroup(group, _) | EvictGroup(group, _):
            return group
        case _:
            assert_never(verdict)


# Primitives, each alone -----------------------------------------------------------------------


def primitives() -> None:
    heap: PriorityHeap[str] = PriorityHeap()
    handle = heap.push((0, 1.0), "item")
    assert_type(handle, HeapHandle)
    assert_type(heap.rekey(handle, (1, 1.0)), HeapHandle)
    assert_type(heap.pop(), str)
    assert_type(list(heap), list[str])

    waiting = WaitingMap()
    pod = waiting.wait(PodUID("u"), node=NodeName("n"), timeout=5, now=0, group=GroupKey("a/b"))
    assert_type(pod, WaitingPod)
    assert_type(waiting.expire(now=5.0), tuple[WaitingPod, ...])
    assert_type(waiting.next_deadline(), float | None)

    registry = PodGroupRegistry()
    info = registry.set_spec(PodGroup(name="g", min_available=2))
    assert_type(info, PodGroupInfo)
    assert_type(registry.get(info.key), PodGroupInfo | None)
    view: GroupView = info
    assert_type(view.min_available, int | None)

    counters = PodGroupCounters()
    assert_type(counters.set(PodUID("u"), MemberState.WAITING), MemberState | None)
    assert_type(Backoff(1, 10).delay(3), float)

    first = QueuedPod(pod=Pod(name="a"), seq=1, queued_at=0.0)
    second = QueuedPod(pod=Pod(name="b"), seq=2, queued_at=0.0, group=info)
    entity: EntityView = second
    assert_type(sort_key(entity), SortKey)
    assert_type(less(first, second, order=Order.CREATION), bool)


# A plugin of another library ------------------------------------------------------------------

LICENSES = StateKey[int]("licenses")


@dataclass
class Licenses:
    """Lets no more pods run than there are licenses; any object with the methods will do."""

    total: int
    taken: int = 0

    @property
    def name(self) -> str:
        return "Licenses"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        state.write(LICENSES, self.total - self.taken)
        assert_type(state.read(LICENSES), int | None)
        return Success() if self.taken < self.total else Unschedulable("no license is free")

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success() if node.free.get("cpu", 0) > 0 else Unschedulable("node(s) had no cpu")

    def pod_signature(self, pod: Pod) -> Hashable:
        return ()

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 100 - node.pod_count

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        self.taken += 1
        return Success()

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> RejectGroup | None:
        self.taken -= 1
        group = state.group
        return None if group is None else RejectGroup(group.key, "its license is gone")


def a_plugin_needs_no_base_class() -> None:
    plugin = Licenses(3)
    pre_filter: PreFilterPlugin = plugin
    judge: FilterPlugin = plugin
    signs: Callable[[Pod], Hashable] = plugin.pod_signature
    scored: ScorePlugin = plugin
    reserved: ReservePlugin = plugin
    print(pre_filter, judge, signs, scored, reserved)
    profile = Profile(
        PrioritySort(), plugin, NodeResources(Strategy.MOST_ALLOCATED), DefaultBinder()
    )
    scheduler = Scheduler(InMemoryCluster(), profile, membership=ungrouped)
    assert_type(profile.permit, tuple[PermitPlugin, ...])
    assert_type(scheduler.next_deadline(), float | None)


def the_policy_is_a_plugin_like_any_other() -> QueueSortKey:
    policy = Coscheduling(permit_timeout=20)
    sort: QueueSortPlugin = policy
    before: PreEnqueuePlugin = policy
    after: PostFilterPlugin = policy
    gate: PermitPlugin = policy
    binder: BindPlugin = DefaultBinder()
    state: CycleView = CycleState(None, {})
    print(before, after, gate, binder)
    print(policy.permit(state, Pod(name="p"), NodeName("n"), now=0.0))
    return sort.queue_sort(QueuedPod(pod=Pod(name="p"), seq=1, queued_at=0.0))


# Errors ---------------------------------------------------------------------------------------


def errors(pod: Pod) -> str:
    try:
        membership(pod)
    except InvalidPodGroupError as error:
        assert_type(error.subject, str)
        assert_type(error.field, str)
        assert_type(error.value, object)
        return error.expected
    except PluginError as error:
        return error.plugin
    except GangschedError as error:
        return str(error)
    return ""
