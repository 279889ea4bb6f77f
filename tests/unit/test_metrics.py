"""Prometheus metrics: names of kube-scheduler, counters of calls, gauges read at a scrape."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    GroupBelowMinimum,
    GroupKey,
    GroupRestarted,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodUpdated,
    Profile,
    Quota,
    Role,
    Scheduler,
    gang,
    presets,
)
from gangsched.drivers import blocking
from gangsched.explain import PartlyRunning
from gangsched.metrics import Metrics
from gangsched.model import PodUID
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.testing import FakeClock, make_node, make_pod
from support.busy import busy_scheduler
from support.patience import HANG
from support.shown import shown

prometheus = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

both = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
TEAM = Quota(name="team", namespaces=["team"], hard={"cpu": 1})
ATTEMPTS = "scheduler_schedule_attempts_total"
KEY = GroupKey("default/g")


class Run:
    """A scheduler whose binds succeed at once, with the samples of its metrics."""

    def __init__(self, make: Any = presets.gang, **options: Any) -> None:
        self.registry: Any = prometheus.CollectorRegistry()
        self.metrics = Metrics(self.registry)
        self.cluster, self.now = InMemoryCluster(), 0.0
        self.watch(make, **options)

    def watch(self, make: Any, **options: Any) -> None:
        self.scheduler = self.metrics.watch(make(self.cluster), **options)

    def tell(self, *events: Any) -> None:
        for event in events:
            self.scheduler.handle(self.cluster.apply(event), now=self.now)

    def nodes(self, *cpus: int) -> None:
        self.tell(*(NodeAdded(make_node(f"n{cpu}", cpu=cpu)) for cpu in cpus))

    def gang(self, name: str, *, cpu: int, minimum: int = 2, size: int = 2, **pod: Any) -> None:
        namespace = pod.get("namespace", "default")
        self.tell(PodGroupAdded(PodGroup(name=name, namespace=namespace, min_available=minimum)))
        for n in range(size):
            made = Pod(name=f"{name}-{n}", pod_group=name, requests={"cpu": cpu}, **pod)
            self.tell(PodAdded(made))

    def decide(self) -> None:
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            self.tell(*(Bound(e.uid, e.node, e.attempt) for e in effects if isinstance(e, Bind)))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.scheduler.advance(now=self.now)
        self.decide()

    def value(self, name: str, **labels: str) -> float | None:
        given = {"profile": "gangsched", **labels}
        found: float | None = self.registry.get_sample_value(name, given)
        return found

    def states(self) -> dict[str, float]:
        """Return how many groups are in each state that has any."""
        names = ("incomplete", "gated", "pending", "waiting", "started", "partly_running")
        counts = {name: self.value("gangsched_groups", state=name) for name in names}
        return {name: count for name, count in counts.items() if count}

    def oldest(self) -> float | None:
        return self.value("gangsched_oldest_pending_seconds")


def three_gangs(run: Run) -> None:
    """Let a gang start, one wait for capacity, and one for members."""
    run.nodes(3)
    run.gang("a", cpu=1, minimum=3, size=3)
    run.gang("b", cpu=1)
    run.gang("c", cpu=1, size=1)


# Counters and times -----------------------------------------------------------------------------


def test_attempts_are_counted_and_timed_by_result() -> None:
    run = Run(presets.coscheduling, clock=FakeClock())
    three_gangs(run)
    run.later(1)
    for name in (ATTEMPTS, "scheduler_scheduling_attempt_duration_seconds_count"):
        results = ("waiting", "scheduled", "unschedulable", "error")
        assert [run.value(name, result=result) for result in results] == [2, 1, 1, 0]


def test_attempt_with_plugin_error_has_result_error() -> None:
    class Broken:
        name = "Broken"

        def pre_filter(self, state: Any, pod: Pod, *, now: float) -> Any:
            raise OSError("gone")

    profile = Profile(Coscheduling(), NodeResources(), Broken(), DefaultBinder())
    run = Run(lambda cluster: Scheduler(cluster, profile))
    run.tell(PodAdded(make_pod("p")))
    with pytest.raises(PluginError):
        run.decide()
    assert run.value(ATTEMPTS, result="error") == 1


def test_permit_waits_are_timed_by_result() -> None:
    run = Run(lambda cluster: presets.coscheduling(cluster, permit_timeout=5))
    wait = "scheduler_permit_wait_duration_seconds"
    run.nodes(3)
    run.gang("a", cpu=1, minimum=3, size=3)
    run.scheduler.schedule_one(now=1)
    run.scheduler.schedule_one(now=2)
    run.scheduler.advance(now=6)
    assert run.value(f"{wait}_count", result="Unschedulable") == 2
    assert run.value(f"{wait}_sum", result="Unschedulable") == 5 + 4
    assert run.value("gangsched_groups_rejected_total") == 1
    assert run.value("gangsched_group_backoff_seconds_count") == 1
    assert run.value("gangsched_group_backoff_seconds_sum") == 1
    run.now = 11
    run.decide()  # as a whole, so nothing waits
    assert run.value("gangsched_groups_started_total") == 1
    assert run.value("gangsched_group_start_duration_seconds_sum") == 11
    run.now = 12
    run.gang("b", cpu=0, minimum=3, size=3)
    run.scheduler.schedule_one(now=13)
    run.scheduler.schedule_one(now=14)
    run.now = 16
    run.decide()
    assert run.value(f"{wait}_count", result="Success") == 2
    assert run.value(f"{wait}_sum", result="Success") == 3 + 2
    assert run.value("gangsched_groups_started_total") == 2


@pytest.mark.parametrize(
    ("notice", "name"),
    [
        (GroupBelowMinimum(KEY, 1, 2), "gangsched_groups_below_minimum_total"),
        (GroupRestarted(KEY, 1, 6, 10.0), "gangsched_group_restarts_total"),
    ],
)
def test_notice_is_counted(notice: Any, name: str) -> None:
    run = Run()
    run.metrics.see([notice, notice], 0.0)
    assert run.value(name) == 2


def test_falls_are_counted_when_told_if_they_are_not_counted_as_they_come() -> None:
    run = Run()
    run.registry = prometheus.CollectorRegistry()
    metrics = Metrics(run.registry, counts_falls=False)
    metrics.see([GroupBelowMinimum(KEY, 1, 2)], 0.0)
    assert not run.value("gangsched_groups_below_minimum_total")
    metrics.fell()
    assert run.value("gangsched_groups_below_minimum_total") == 1


# Gauges -----------------------------------------------------------------------------------------


def test_queue_depths_are_read_at_the_scrape() -> None:
    """Pods are counted, not groups, as in kube-scheduler."""
    _cluster, busy = busy_scheduler()
    run = Run(lambda _cluster: busy)
    queue = busy.queue
    states = [pod.state.name for pod in shown(busy).pods.values()]
    gated = [entity for entity in queue.unschedulable if queue.is_gated(entity)]
    standing = [entity for entity in queue.unschedulable if not queue.is_gated(entity)]
    expected = {
        "active": sum(map(len, queue.active)),
        "backoff": sum(map(len, queue.backoff)),
        "gated": sum(map(len, gated)) + states.count("GATED"),
        "unschedulable": sum(map(len, standing)),
    }
    assert {name: run.value("scheduler_pending_pods", queue=name) for name in expected} == expected
    assert sum(expected.values()) == states.count("UNSCHEDULED") + states.count("GATED")
    assert states.count("GATED")
    assert sum(map(bool, expected.values())) >= 3
    assert run.states()["waiting"] == 1
    assert sum(run.states().values()) == sum(bool(info.members) for info in busy.registry)


def test_labels_name_no_pod_and_no_group() -> None:
    run = Run(presets.coscheduling)
    assert run.value("scheduler_pending_pods", queue="active") == 0
    three_gangs(run)
    run.later(1)
    labels = {
        name
        for family in run.registry.collect()
        for sample in family.samples
        for name in sample.labels
    }
    assert labels <= {"profile", "result", "queue", "state", "le"}
    assert b"default/" not in prometheus.generate_latest(run.registry)


def gang_of_two(cpu: int, *bound: str) -> Run:
    """Run a gang, some of whose members had nodes before the scheduler began."""
    run = Run()
    run.cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": cpu})))
    run.scheduler.rebuild(now=0.0)
    for name in ("a", "b"):
        node = NodeName("n") if name in bound else None
        pod = Pod(name=name, pod_group="g", min_available=2, requests={"cpu": 1})
        run.tell(PodAdded(evolve(pod, node_name=node)))
    run.decide()
    return run


@pytest.mark.parametrize(
    ("cpu", "bound", "state"),
    [
        (2, (), "started"),
        (1, (), "pending"),
        (1, ("a",), "partly_running"),  # another scheduler was killed between two binds
        (2, ("a",), "started"),
    ],
)
def test_gang_is_counted_by_its_members_on_nodes(
    cpu: int, bound: tuple[str, ...], state: str
) -> None:
    run = gang_of_two(cpu, *bound)
    assert run.states() == {state: 1}
    if state == "partly_running":
        why = run.scheduler.scheduler.why("default/g")
        assert isinstance(why, PartlyRunning)
        assert str(why).startswith("runs in part: 1 of 2 members hold nodes; the rest: ")
        assert (why.pending, why.is_below_minimum) == (1, True)


def test_started_gang_is_partly_running_if_a_member_is_lost_and_not_if_one_succeeds() -> None:
    lost, succeeded = gang_of_two(2), gang_of_two(2)
    lost.tell(PodDeleted(PodUID("default/b")))
    assert lost.states() == {"partly_running": 1}
    pod = succeeded.cluster.pod(PodUID("default/b"))
    assert isinstance(pod, Pod)
    succeeded.tell(PodUpdated(evolve(pod, phase=PodPhase.SUCCEEDED)))
    assert succeeded.states() == {"started": 1}


@both
def test_age_is_that_of_the_gang_that_waits_longest_for_capacity(make: Any) -> None:
    run = Run(make)
    run.nodes(4)
    assert run.oldest() == 0
    run.gang("a", cpu=3)
    run.later(30)
    run.gang("b", cpu=3)
    run.later(10)
    assert run.oldest() == 40
    run.nodes(5)
    run.later(20)
    assert (run.states()["started"], run.oldest()) == (1, 30)
    run.nodes(8)
    run.later(60)
    assert (run.states(), run.oldest()) == ({"started": 2}, 0)


@both
def test_gang_that_waits_for_something_else_has_no_age(make: Any) -> None:
    run = Run(lambda cluster: make(cluster, quotas=[TEAM]))
    run.nodes(4)
    run.gang("few", cpu=1, minimum=3)
    run.gang("gated", cpu=1, scheduling_gates=("hold",))
    run.gang("quota", cpu=1, namespace="team")
    both_keys = (GroupKey("default/x"), GroupKey("default/y"))
    run.tell(PodGroupAdded(PodGroup(name="x", min_available=1, bundle=both_keys)))
    run.tell(PodAdded(make_pod("x-0", group="x", cpu=1)))
    run.decide()
    run.later(30)
    assert run.states() == {"incomplete": 2, "gated": 1}
    assert run.value("gangsched_groups", state="over_quota") == 1
    assert run.oldest() == 0


def test_groups_below_a_group_are_counted_and_the_parent_is_not() -> None:
    run = Run()
    run.nodes(4)
    parent = PodGroup(name="serve", min_groups=2)
    run.tell(PodGroupAdded(parent))
    for name in ("a", "b", "c"):
        run.tell(PodGroupAdded(PodGroup(name=name, min_available=2, parent=parent.key)))
    run.tell(*(PodAdded(make_pod(f"b-{n}", group="b", cpu=1)) for n in range(2)))
    run.later(30)
    assert run.states() == {"incomplete": 1}, "it waits for a sibling"
    run.tell(*(PodAdded(make_pod(f"a-{n}", group="a", cpu=2)) for n in range(2)))
    run.later(30)
    assert run.states() == {"pending": 2}
    assert run.oldest() == 60
    run.tell(*(PodAdded(make_pod(f"c-{n}", group="c", cpu=1)) for n in range(2)))
    run.later(1)
    assert run.states() == {"started": 2, "pending": 1}


def test_complete_groups_have_no_age_while_they_wait_for_a_sibling() -> None:
    run = Run()
    run.nodes(8)
    parent = PodGroup(name="serve", min_groups=3)
    run.tell(PodGroupAdded(parent))
    for name in ("a", "b"):
        run.tell(PodGroupAdded(PodGroup(name=name, min_available=1, parent=parent.key)))
        run.tell(PodAdded(make_pod(f"{name}-0", group=name, cpu=1)))
    run.later(30)
    assert (run.states(), run.oldest()) == ({"incomplete": 2}, 0)


def test_copies_are_counted_by_state() -> None:
    run = Run()
    run.nodes(8)
    copy = Role(3, 2, roles={"leader": 1, "worker": 3})
    run.tell(*gang("serve", roles={"decode": copy}, cpu=1).events())

    def copies() -> dict[str, float | None]:
        names = ("waiting", "whole", "partial")
        return {name: run.value("gangsched_copies", state=name) for name in names}

    assert copies() == {"waiting": 3, "whole": 0, "partial": 0}
    run.decide()
    assert copies() == {"waiting": 1, "whole": 2, "partial": 0}
    run.tell(PodDeleted(PodUID("default/serve-decode-0-worker-1")))
    assert copies() == {"waiting": 1, "whole": 1, "partial": 1}
    run.metrics.forget()
    assert set(copies().values()) == {0}


def test_copies_of_copies_are_counted_with_them() -> None:
    run = Run()
    replica = Role(2, roles={"leader": 1, "worker": 1})
    blocks = {"block": Role(3, roles={"replica": replica, "router": 1})}
    run.tell(*gang("serve", roles=blocks, cpu=1).events())
    assert run.value("gangsched_copies", state="waiting") == 9


QUEUES = (
    Quota(name="org", hard={"memory": "2Gi"}),
    Quota(name="lab", parent="org", namespaces=["lab"], nominal={"cpu": 1}),
    Quota(name="desk", parent="org", namespaces=["desk"], nominal={"cpu": 3}, weight=2),
    Quota(name="idle", parent="org", namespaces=["idle"], nominal={}, weight=0),
)


def by_queue(run: Run, metric: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a gauge by the labels that follow its profile."""
    return {
        tuple(value for name, value in sample.labels.items() if name != "profile"): sample.value
        for family in run.registry.collect()
        for sample in family.samples
        if sample.name == f"gangsched_queue_{metric}"
    }


def test_queues_have_their_usage_and_shares() -> None:
    run = Run(lambda cluster: presets.gang(cluster, quotas=QUEUES))
    run.tell(NodeAdded(Node(name="n", allocatable={"cpu": 9, "memory": "2Gi", "pods": 9})))
    run.gang("a", cpu=1, namespace="lab")
    run.gang("b", cpu=3, namespace="desk")
    run.tell(PodAdded(Pod(name="c", namespace="idle", requests={"cpu": 1, "memory": "1Gi"})))
    run.decide()
    used = by_queue(run, "used")
    queues = ("org", "lab", "desk", "idle")
    assert [used[name, "cpu"] for name in queues] == [3, 2, 0, 1]
    assert [used[name, "memory"] for name in queues] == [2**30, 0, 0, 2**30]
    assert by_queue(run, "nominal") == {
        ("org", "cpu"): 4,
        ("lab", "cpu"): 1,
        ("desk", "cpu"): 3,
    }
    shares = {("org",): 0, ("lab",): 0.25, ("desk",): 0, ("idle",): float("inf")}
    assert by_queue(run, "share") == shares
    assert by_queue(run, "pending") == {("org",): 1, ("lab",): 0, ("desk",): 1, ("idle",): 0}
    assert b'gangsched_queue_share{profile="gangsched",queue="idle"} +Inf' in (
        prometheus.generate_latest(run.registry)
    )


@pytest.mark.parametrize("is_watched", [True, False])
def test_queues_have_no_series_without_quotas(is_watched: bool) -> None:
    run = Run(lambda cluster: presets.gang(cluster, quotas=() if is_watched else QUEUES))
    if not is_watched:
        assert by_queue(run, "used")
        run.metrics.forget()
    for metric in ("used", "nominal", "share", "pending"):
        assert by_queue(run, metric) == {}
        assert f"# TYPE gangsched_queue_{metric} gauge" in shown_metrics(run)


def shown_metrics(run: Run) -> str:
    text: bytes = prometheus.generate_latest(run.registry)
    return text.decode()


def test_age_goes_on_between_calls_if_the_instant_is_known() -> None:
    now = [0.0]
    run = Run(instant=lambda: now[0])
    run.nodes(4)
    run.gang("a", cpu=3)
    run.decide()
    assert run.oldest() == 0
    now[0] = 7.0
    assert run.oldest() == 7


# Measured schedulers ----------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["coscheduling", "gang", "pod_by_pod"])
def test_measuring_does_not_change_decisions(preset: str) -> None:
    logs: list[list[str]] = [[], []]
    for lines, measured in zip(logs, (False, True), strict=True):
        recorded: list[Any] = []

        def make(cluster: Any, lines: list[str] = lines, recorded: list[Any] = recorded) -> Any:
            recorded.append(DecisionLog(lines.append, Recipe(preset)).scheduler(cluster))
            return recorded[0]

        run = Run(make)
        if not measured:
            run.scheduler = recorded[0]
        three_gangs(run)
        run.later(1)
        run.later(30)
        assert run.scheduler.rebuild(now=32) == ()
        run.scheduler.next_deadline()
    assert logs[0] == logs[1]
    assert replay(logs[1]) is None


def test_watch_of_a_new_scheduler_continues_counters() -> None:
    run = Run(presets.coscheduling)
    for _turn in range(2):
        run.cluster = InMemoryCluster()
        run.watch(presets.coscheduling)
        three_gangs(run)
        run.scheduler.schedule_one(now=1)
    assert run.value(ATTEMPTS, result="waiting") == 2
    assert run.value("scheduler_pending_pods", queue="gated") == 1


def test_registry_holds_one_metrics_per_profile() -> None:
    registry: Any = prometheus.CollectorRegistry()
    Metrics(registry)
    active = {"profile": "gangsched", "queue": "active"}
    assert registry.get_sample_value("scheduler_pending_pods", active) == 0
    with pytest.raises(ValueError, match="Duplicated"):
        Metrics(registry)


def test_scrape_from_another_thread_is_safe() -> None:
    run = Run(presets.coscheduling)
    driver = blocking.Driver(
        run.scheduler, apply=run.cluster.apply, bind=lambda _bind: None, clock=lambda: 0.0
    )
    driver.tell(NodeAdded(make_node("n", cpu=400)))
    running = threading.Thread(target=driver.run)
    running.start()
    for n in range(300):
        driver.tell(PodAdded(make_pod(f"p{n}", group=f"g{n % 60}", min_available=5, cpu=1)))
        if n % 10 == 0:
            assert b"scheduler_pending_pods" in prometheus.generate_latest(run.registry)
    driver.stop()
    running.join(HANG)
    assert not running.is_alive()
    assert run.value("gangsched_groups_started_total") == 60
    assert run.states() == {"started": 60}
    assert run.value("scheduler_pending_pods", queue="active") == 0


def test_prometheus_client_is_loaded_for_metrics_only_and_its_absence_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = (
        "import sys, gangsched, gangsched.metrics, gangsched.drivers.blocking;"
        "sys.exit('prometheus_client' in sys.modules)"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], check=False, env=path).returncode == 0
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gangsched\[metrics\]'") as caught:
        Metrics()
    assert caught.value.name == "prometheus_client"
