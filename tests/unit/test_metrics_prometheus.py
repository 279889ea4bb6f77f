"""Prometheus metrics: names of kube-scheduler, counters of calls, gauges read at a scrape."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    Coscheduling,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    Pod,
    PodAdded,
    Profile,
    Scheduler,
    presets,
)
from gangsched.drivers import blocking
from gangsched.metrics import Metrics
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.testing import FakeClock, make_pod
from support.busy import busy_scheduler
from support.patience import HANG

prometheus = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")


def made(profile: str = "gangsched") -> tuple[Any, Metrics]:
    registry: Any = prometheus.CollectorRegistry()
    return registry, Metrics(registry, profile=profile)


def value(registry: Any, name: str, **labels: str) -> float | None:
    found: float | None = registry.get_sample_value(name, {"profile": "gangsched", **labels})
    return found


def test_metrics_without_prometheus_client_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gangsched\[metrics\]'") as caught:
        Metrics()

    assert caught.value.name == "prometheus_client"


def two_gangs(cluster: InMemoryCluster) -> list[Any]:
    return [
        NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3})),
        *(PodAdded(make_pod(f"a-{n}", group="a", min_available=3, cpu=1)) for n in range(3)),
        *(PodAdded(make_pod(f"b-{n}", group="b", min_available=2, cpu=1)) for n in range(2)),
        PodAdded(make_pod("c-0", group="c", min_available=2, cpu=1)),
    ]


def drained(scheduler: Any, cluster: InMemoryCluster, now: float) -> None:
    while (effects := scheduler.schedule_one(now=now)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                report = Bound(effect.uid, effect.node, effect.attempt)
                scheduler.handle(cluster.apply(report), now=now)


# What is counted --------------------------------------------------------------------------------


def test_attempts_are_counted_and_timed_by_result() -> None:
    registry, metrics = made()
    cluster, clock = InMemoryCluster(), FakeClock()
    scheduler = metrics.watch(presets.coscheduling(cluster), clock=clock)
    for event in two_gangs(cluster):
        scheduler.handle(cluster.apply(event), now=0)
    drained(scheduler, cluster, now=1)
    attempts = "scheduler_schedule_attempts_total"
    seconds = "scheduler_scheduling_attempt_duration_seconds_count"
    for name in (attempts, seconds):
        assert value(registry, name, result="waiting") == 2
        assert value(registry, name, result="scheduled") == 1
        assert value(registry, name, result="unschedulable") == 1
        assert value(registry, name, result="error") == 0


def test_attempt_with_plugin_error_has_result_error() -> None:
    class Broken:
        name = "Broken"

        def pre_filter(self, state: Any, pod: Pod, *, now: float) -> Any:
            raise OSError("gone")

    registry, metrics = made()
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(), NodeResources(), Broken(), DefaultBinder())
    scheduler = metrics.watch(Scheduler(cluster, profile))
    scheduler.handle(cluster.apply(PodAdded(make_pod("p"))), now=0)
    with pytest.raises(PluginError):
        scheduler.schedule_one(now=0)
    assert value(registry, "scheduler_schedule_attempts_total", result="error") == 1


def test_permit_waits_are_timed_by_result() -> None:
    registry, metrics = made()
    cluster = InMemoryCluster()
    scheduler = metrics.watch(presets.coscheduling(cluster, permit_timeout=5))
    scheduler.handle(
        cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3}))), now=0
    )
    for n in range(3):
        pod = make_pod(f"a-{n}", group="a", min_available=3, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0)
    scheduler.schedule_one(now=1)
    scheduler.schedule_one(now=2)
    scheduler.advance(now=6)
    name = "scheduler_permit_wait_duration_seconds"
    assert value(registry, f"{name}_count", result="Unschedulable") == 2
    assert value(registry, f"{name}_sum", result="Unschedulable") == 5 + 4
    assert value(registry, "gangsched_groups_rejected_total") == 1
    assert value(registry, "gangsched_group_backoff_seconds_count") == 1
    assert value(registry, "gangsched_group_backoff_seconds_sum") == 1
    for now in (8, 9, 11):
        drained(scheduler, cluster, now) if now == 11 else scheduler.schedule_one(now=now)
    assert value(registry, f"{name}_count", result="Success") == 2
    assert value(registry, f"{name}_sum", result="Success") == 3 + 2
    assert value(registry, "gangsched_groups_started_total") == 1
    assert value(registry, "gangsched_group_start_duration_seconds_sum") == 11
    assert metrics._waits == {}


def test_queue_depths_are_read_at_the_scrape() -> None:
    """Pods are counted, not groups, as in kube-scheduler."""
    registry, metrics = made()
    _cluster, busy = busy_scheduler()
    metrics.watch(busy)
    counted = {
        queue: value(registry, "scheduler_pending_pods", queue=queue)
        for queue in ("active", "backoff", "unschedulable", "gated")
    }
    queue = busy.queue
    gated = [entity for entity in queue.unschedulable if queue.is_gated(entity)]
    standing = [entity for entity in queue.unschedulable if not queue.is_gated(entity)]
    states = [member.state.name for member in busy._state.pods.members.values()]
    assert states.count("GATED")
    assert counted == {
        "active": sum(map(len, queue.active)),
        "backoff": sum(map(len, queue.backoff)),
        "gated": sum(map(len, gated)) + states.count("GATED"),
        "unschedulable": sum(map(len, standing)),
    }
    pending = states.count("UNSCHEDULED") + states.count("GATED")
    assert sum(value or 0 for value in counted.values()) == pending
    assert all(counted.values())


def test_groups_are_counted_by_state() -> None:
    registry, metrics = made()
    _cluster, busy = busy_scheduler()
    metrics.watch(busy)
    states = ("incomplete", "gated", "pending", "waiting", "started", "partly_running")
    counted = {state: value(registry, "gangsched_groups", state=state) for state in states}
    assert counted["waiting"] == 1
    assert sum(value or 0 for value in counted.values()) == sum(
        bool(info.members) for info in busy.registry
    )


def test_depths_are_zero_without_scheduler() -> None:
    registry, _metrics = made()
    assert value(registry, "scheduler_pending_pods", queue="active") == 0


def test_labels_name_no_pod_and_no_group() -> None:
    registry, metrics = made()
    cluster = InMemoryCluster()
    scheduler = metrics.watch(presets.coscheduling(cluster))
    for event in two_gangs(cluster):
        scheduler.handle(cluster.apply(event), now=0)
    drained(scheduler, cluster, now=1)
    labels = {
        name for family in registry.collect() for sample in family.samples for name in sample.labels
    }
    assert labels <= {"profile", "result", "queue", "state", "le"}
    assert b"default/" not in prometheus.generate_latest(registry)


# Measured schedulers ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [presets.coscheduling, presets.gang, presets.pod_by_pod])
def test_measuring_does_not_change_decisions(
    make: Callable[..., Scheduler],
) -> None:
    logs: list[list[str]] = [[], []]
    for lines, measured in zip(logs, (False, True), strict=True):
        cluster = InMemoryCluster()
        recorded = DecisionLog(lines.append, Recipe(make.__name__)).scheduler(cluster)
        scheduler = made()[1].watch(recorded) if measured else recorded
        for event in two_gangs(cluster):
            scheduler.handle(cluster.apply(event), now=0)
        drained(scheduler, cluster, now=1)
        scheduler.advance(now=30)
        assert scheduler.rebuild(now=31) == ()
        scheduler.next_deadline()
    assert logs[0] == logs[1]
    assert replay(logs[1]) is None


def test_watch_of_a_new_scheduler_continues_counters() -> None:
    registry, metrics = made()
    cluster = InMemoryCluster()
    for _turn in range(2):
        scheduler = metrics.watch(presets.coscheduling(cluster))
        for event in two_gangs(cluster):
            scheduler.handle(cluster.apply(event), now=0)
        scheduler.schedule_one(now=1)
    assert value(registry, "scheduler_schedule_attempts_total", result="waiting") == 2
    assert value(registry, "scheduler_pending_pods", queue="gated") == 1


def test_registry_holds_one_metrics_per_profile() -> None:
    registry, _metrics = made()
    with pytest.raises(ValueError, match="Duplicated"):
        Metrics(registry)


def test_scrape_from_another_thread_is_safe() -> None:
    registry, metrics = made()
    cluster = InMemoryCluster()
    driver = blocking.Driver(
        metrics.watch(presets.coscheduling(cluster)),
        apply=cluster.apply,
        bind=lambda _bind: None,
        clock=lambda: 0.0,
    )
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 400})))
    running = threading.Thread(target=driver.run)
    running.start()
    for n in range(300):
        pod = make_pod(f"p{n}", group=f"g{n % 60}", min_available=5, cpu=1)
        driver.tell(PodAdded(pod))
        if n % 10 == 0:
            assert b"scheduler_pending_pods" in prometheus.generate_latest(registry)
    driver.stop()
    running.join(HANG)
    assert not running.is_alive()
    assert value(registry, "gangsched_groups_started_total") == 60
    assert value(registry, "gangsched_groups", state="started") == 60
    assert value(registry, "scheduler_pending_pods", queue="active") == 0


def test_import_does_not_load_prometheus_client() -> None:
    program = (
        "import sys, gangsched, gangsched.metrics, gangsched.drivers.blocking;"
        "sys.exit('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, env=_env())
    assert done.returncode == 0


def _env() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
