"""A cluster and a scheduler, on which a history of steps is run."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field

from gangsched import (
    Event,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    PodUID,
    PodUpdated,
    Taint,
    Toleration,
    Topology,
    group_key,
)
from support.driver import Driver, Fate
from support.history_steps import (
    Catch,
    ChangePod,
    Decide,
    DropGroup,
    DropNode,
    HistoryStep,
    Pass,
    PutBundle,
    PutGroup,
    PutNode,
    PutPods,
    Rebuild,
    Repeat,
    Report,
    Restart,
)
from support.placement_oracle import may_be_placed

NAME = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
LABEL = "scheduling.x-k8s.io/pod-group"
ROLE = "pod-group.scheduling.sigs.k8s.io/role"
NUMBER = "batch.kubernetes.io/job-completion-index"
ROLES = (None, "ps", "worker", "evaluator")


@define(eq=False)
class World:
    """A cluster with a history.

    Attributes:
        driver: The driver of the scheduler.
        restarts: Whether ``Restart`` and ``Rebuild`` are run, or ignored.
    """

    driver: Driver
    restarts: bool = True
    late: bool = False
    told: list[Event] = field(factory=list)
    _pods: int = 0

    def live(self, *steps: HistoryStep) -> World:
        """Run steps one after the other."""
        for step in steps:
            self.do(step)
        return self

    def do(self, step: HistoryStep) -> None:
        """Run one step. A step about objects that do not exist does nothing."""
        driver = self.driver
        match step:
            case PutNode():
                self._put_node(step)
            case DropNode(index):
                name = NodeName(f"n{index}")
                if driver.cluster.node(name) is not None:
                    self._tell(NodeDeleted(name))
            case PutPods():
                self._tell(*[PodAdded(self._pod(step, n)) for n in range(step.count)])
            case PutGroup():
                self._put_group(step)
            case PutBundle(groups, minimum):
                for group in groups:
                    self._put_group(PutGroup(group, minimum, bundle=groups))
            case DropGroup(group):
                key = group_key("default", f"g{group}")
                if driver.cluster.pod_group(key) is not None:
                    self._tell(PodGroupDeleted(key))
            case ChangePod():
                pods = list(driver.cluster.pods())
                if pods:
                    self._change(pods[step.index % len(pods)], step)
            case Decide():
                self._decide(step)
            case Pass(seconds):
                due = driver.scheduler.next_deadline()
                if seconds is not None:
                    driver.advance(driver.now + seconds)
                elif due is not None:
                    driver.advance(due)
            case Report():
                self._report(step)
            case Repeat(index):
                past = [*self.told, *driver.reports]
                if past:
                    driver.tell_again(past[-1 - index % len(past)])
            case Catch(late, index):
                if index is None:
                    self.late = late
                    if not late:
                        driver.tell_untold()
                    elif not self.told:
                        # the first call lists the cluster, so make it before events are delayed
                        driver.advance(driver.now)
                elif driver.untold:
                    driver.tell_untold(index % len(driver.untold))
            case Restart(every):
                if self.restarts:
                    happened = iter(range(1, 1_000_000))
                    driver.restart(lambda _bind: next(happened) % every == 0)
            case Rebuild():
                if self.restarts:
                    driver.rebuild()

    def finish(self) -> World:
        """Finish all that is in flight, and settle the scheduler."""
        self.end_what_is_under_way()
        self.driver.settle()
        if self.driver.checked:
            self.driver.scheduler._check()
        return self

    def end_what_is_under_way(self) -> None:
        """Deliver all events, and report the true outcome of all binds."""
        driver = self.driver
        self.late = False
        driver.fate = Fate.DONE
        driver.tell_untold()
        while driver.dying:
            driver.end(0)
        while driver.under_way or driver.landing:
            while driver.under_way:
                driver.report(driver.under_way[0], Fate.DONE)
            while driver.landing:
                driver.land(0)

    def clear(self) -> World:
        """Delete all pods and groups."""
        self.finish()
        self._tell(*[PodDeleted(pod.uid) for pod in list(self.driver.cluster.pods())])
        for group in list(self.driver.cluster.pod_groups()):
            self._tell(PodGroupDeleted(group.key))
        self.driver.advance(self.driver.now + 60)  # until groups are forgotten
        return self

    # Inside ---------------------------------------------------------------------------------

    def _tell(self, *events: Event) -> None:
        self.told += events
        if self.late:
            for event in events:
                self.driver.tell_late(event)
        else:
            self.driver.tell(*events)

    def _put_node(self, step: PutNode) -> None:
        name = NodeName(f"n{step.index}")
        offers: dict[str, str | int] = {"cpu": step.cpu, "gpu": step.gpu}
        if step.pods is not None:
            offers["pods"] = step.pods
        node = Node(
            name=name,
            allocatable=offers,
            labels={"zone": step.zone, **({} if step.rack is None else {"rack": step.rack})},
            taints=(Taint("reserved"),) if step.tainted else (),
            unschedulable=step.cordoned,
        )
        known = self.driver.cluster.node(name) is not None
        self._tell(NodeUpdated(node) if known else NodeAdded(node))

    def _pod(self, step: PutPods, after: int) -> Pod:
        self._pods += 1
        labels: dict[str, str] = {}
        if step.group is not None and step.minimum is not None:
            labels = {NAME: f"g{step.group}", MINIMUM: str(step.minimum)}
        elif step.group is not None:
            labels = {LABEL: f"g{step.group}"}
        if step.role is not None:
            labels[ROLE] = step.role
        if step.number is not None:
            labels[NUMBER] = str(step.number + after)
        return Pod(
            name=f"p{self._pods}",
            uid=PodUID(f"u{self._pods}"),
            priority=step.priority,
            requests={"cpu": step.cpu, "gpu": step.gpu},
            labels=labels,
            node_selector={} if step.zone is None else {"zone": step.zone},
            tolerations=(Toleration("reserved", exists=True),) if step.tolerant else (),
            scheduling_gates=("held",) if step.gated else (),
            created_at=self.driver.now,
        )

    def _put_group(self, step: PutGroup) -> None:
        key = group_key("default", f"g{step.group}")
        before = self.driver.cluster.pod_group(key)
        near = None if step.within_zone is None else Topology("zone", step.within_zone)
        group = PodGroup(
            name=f"g{step.group}",
            min_available=max(step.minimum, sum(count for _role, count in step.roles)),
            roles=dict(step.roles),
            schedule_timeout=step.timeout,
            min_resources={"cpu": step.cpu},
            priority=step.priority,
            bundle=tuple(group_key("default", f"g{group}") for group in step.bundle),
            topology=step.topology or near,
            created_at=self.driver.now if before is None else before.created_at,
        )
        self._tell(PodGroupAdded(group) if before is None else PodGroupUpdated(group))

    def _change(self, pod: Pod, step: ChangePod) -> None:
        driver = self.driver
        if step.how == "delete":
            self._tell(PodDeleted(pod.uid))
            return
        if step.how == "recreate":
            self._pods += 1
            self._tell(PodDeleted(pod.uid))
            fresh = evolve(
                pod, uid=PodUID(f"u{self._pods}"), node_name=None, phase=PodPhase.PENDING
            )
            self._tell(PodAdded(evolve(fresh, deleted_at=None, created_at=driver.now)))
            return
        change = _CHANGES[step.how](pod, step.to, driver)
        if change != pod:
            self._tell(PodUpdated(change))

    def _decide(self, step: Decide) -> None:
        driver = self.driver
        driver.fate = step.fate
        if step.steps is None:
            driver.drain()
        for _ in range(step.steps or 0):
            driver.step()

    def _report(self, step: Report) -> None:
        driver = self.driver
        if step.landing and driver.dying:
            driver.end(step.index % len(driver.dying))
        elif step.landing and driver.landing:
            driver.land(step.index % len(driver.landing))
        elif driver.under_way and step.fate is not Fate.PENDING:
            driver.report(driver.under_way[step.index % len(driver.under_way)], step.fate)


def _seize(pod: Pod, to: int, driver: Driver) -> Pod:
    nodes = list(driver.cluster.nodes())
    if not nodes or not may_be_placed(pod):
        return pod
    return evolve(pod, node_name=nodes[to % len(nodes)].name)


def _relabel(pod: Pod, to: int, _driver: Driver) -> Pod:
    labels = {name: f"g{to}" if name in (NAME, LABEL) else v for name, v in pod.labels.items()}
    return evolve(pod, labels=labels)


def _reclaim(pod: Pod, to: int, _driver: Driver) -> Pod:
    labels = {name: str(1 + to) if name == MINIMUM else v for name, v in pod.labels.items()}
    return evolve(pod, labels=labels)


def _recast(pod: Pod, to: int, _driver: Driver) -> Pod:
    labels = {name: value for name, value in pod.labels.items() if name != ROLE}
    role = ROLES[to % len(ROLES)]
    return evolve(pod, labels=labels if role is None else {**labels, ROLE: role})


def _resize(pod: Pod, to: int, _driver: Driver) -> Pod:
    return evolve(pod, requests={"cpu": 1 + to % 2}) if pod.node_name is None else pod


def _raise(pod: Pod, to: int, _driver: Driver) -> Pod:
    return evolve(pod, priority=to)


def _end(phase: PodPhase) -> Callable[[Pod, int, Driver], Pod]:
    return lambda pod, _to, _driver: pod if pod.is_finished else evolve(pod, phase=phase)


_CHANGES: dict[str, Callable[[Pod, int, Driver], Pod]] = {
    "terminate": lambda pod, _to, driver: (
        evolve(pod, deleted_at=driver.now) if pod.deleted_at is None else pod
    ),
    "succeed": _end(PodPhase.SUCCEEDED),
    "fail": _end(PodPhase.FAILED),
    "ungate": lambda pod, _to, _driver: evolve(pod, scheduling_gates=()),
    "relabel": _relabel,
    "reclaim": _reclaim,
    "recast": _recast,
    "resize": _resize,
    "raise": _raise,
    "seize": _seize,
}
