"""Prometheus metrics of a scheduler, with the names of kube-scheduler where it has the metric.

Rules:
  R1  counters are derived from the calls and their results; measuring does not change decisions;
  R2  queue depths are read at a scrape, between two calls. A lock makes a scrape in another
      thread wait for the current call, and a call wait for a scrape;
  R3  no label contains a pod or a group, so that the number of time series is bounded. Quotas are
      named, since the configuration has them. Metrics of ``gangsched run`` may name a few gangs,
      see ``gangsched_pending_demand_by_group``;
  R4  prometheus-client is imported only when ``Metrics`` is created;
  R5  every series is there with 0 before anything happens. ``rate`` of Prometheus does not see the
      increment that makes a series.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final, TypeVar, final

from gangsched.events import (
    Bind,
    Effect,
    Event,
    Evict,
    GroupBelowMinimum,
    GroupRejected,
    GroupRestarted,
    GroupScheduled,
    PodRejected,
    PodScheduled,
    PodUnschedulable,
    PodWaiting,
    Release,
)
from gangsched.listings import QuotaRow
from gangsched.model import GroupKey, PodUID
from gangsched.options.quota import EXCEEDED, Quota
from gangsched.primitives import quorum
from gangsched.primitives.families import AWAITS_GROUPS
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.quantity import MILLI
from gangsched.replay import RecordedScheduler
from gangsched.resources import NOTHING
from gangsched.scheduler import Scheduler
from gangsched.trees import Tree

__all__ = ["MeasuredScheduler", "Metrics"]

T = TypeVar("T")

# kube-scheduler's: 1 ms to 16 s for attempts and for waits
_ATTEMPT_SECONDS = tuple(0.0001 * 2**n for n in range(18))
_WAIT_SECONDS = tuple(0.001 * 2**n for n in range(20))
_QUEUES: Final[tuple[str, ...]] = ("active", "backoff", "unschedulable", "gated")
_RESULTS: Final[tuple[str, ...]] = ("scheduled", "waiting", "unschedulable", "error")
_ENDS: Final[tuple[str, ...]] = ("Success", "Unschedulable")
_STATES: Final[tuple[str, ...]] = (
    *("incomplete", "gated", "over_quota", "pending", "waiting", "binding", "started"),
    "partly_running",
)
_COPIES: Final[tuple[str, ...]] = ("waiting", "whole", "partial")


@final
class Metrics:
    """The metrics of one scheduler, in a registry of prometheus-client.

    A registry holds one ``Metrics`` for each *profile*. It measures the scheduler that was passed
    to ``watch`` last, so that counters continue when a process creates a new scheduler.

    Args:
        registry: The ``CollectorRegistry``; None for the default registry of prometheus-client.
        profile: The value of the label ``profile``.
        counts_falls: Whether each ``GroupBelowMinimum`` is counted. If not, call ``fell`` for those
            that are reported: the deletion of a running job gives the same notice.

    Raises:
        ModuleNotFoundError: prometheus-client is not installed. The message names the extra.
        ValueError: The registry has metrics of these names already.
    """

    def __init__(
        self, registry: Any = None, *, profile: str = "gangsched", counts_falls: bool = True
    ) -> None:
        try:
            import prometheus_client  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "gangsched.metrics.Metrics needs: pip install 'gangsched[metrics]'",
                name="prometheus_client",
            ) from error

        client: Any = prometheus_client
        self._families: Any = client.metrics_core
        registry = client.REGISTRY if registry is None else registry
        self._profile = profile
        self._lock = threading.RLock()
        self._counts_falls = counts_falls
        self._scheduler: Scheduler | None = None
        self._instant: Callable[[], float] | None = None
        self._last_call = 0.0
        self._waits: dict[PodUID, float] = {}
        self._of_result: dict[str, tuple[Any, Any]] = {}
        by_result = {"labelnames": ("profile", "result"), "registry": registry}
        plain = {"labelnames": ("profile",), "registry": registry}
        self._attempts = client.Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            **by_result,
        )
        self._attempt_seconds = client.Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds, by the result.",
            buckets=_ATTEMPT_SECONDS,
            **by_result,
        )
        self._wait_seconds = client.Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit, by the result.",
            buckets=_WAIT_SECONDS,
            **by_result,
        )
        self._started = client.Counter(
            "gangsched_groups_started_total", "Number of gangs that were released.", **plain
        )
        self._rejected = client.Counter(
            "gangsched_groups_rejected_total",
            "Number of attempts of gangs that were rejected.",
            **plain,
        )
        self._start_seconds = client.Histogram(
            "gangsched_group_start_duration_seconds",
            "From the instant a gang had enough members until it was released.",
            buckets=_WAIT_SECONDS,
            **plain,
        )
        self._backoff_seconds = client.Histogram(
            "gangsched_group_backoff_seconds",
            "Backoff of gangs after a rejected attempt.",
            buckets=(0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256),
            **plain,
        )
        self._evicted = client.Counter(
            "gangsched_evictions_total", "Number of evicted pods.", **plain
        )
        self._fallen = client.Counter(
            "gangsched_groups_below_minimum_total",
            "Number of times that a running gang fell below its minimum.",
            **plain,
        )
        self._restarted = client.Counter(
            "gangsched_group_restarts_total", "Number of restarts of gangs.", **plain
        )
        self._begin()
        registry.register(self)

    def _begin(self) -> None:
        """Let every series begin with 0, as R5 says."""
        for metric in (
            *(self._started, self._rejected, self._start_seconds, self._backoff_seconds),
            *(self._evicted, self._fallen, self._restarted),
        ):
            metric.labels(self._profile)
        for result in _RESULTS:
            self._of(result)
        for result in _ENDS:
            self._wait_seconds.labels(self._profile, result)

    def watch(
        self,
        scheduler: Scheduler | RecordedScheduler,
        *,
        clock: Callable[[], float] = time.perf_counter,
        instant: Callable[[], float] | None = None,
    ) -> MeasuredScheduler:
        """Return a wrapper that measures the calls of a scheduler.

        From now on, call the wrapper only: calls of *scheduler* itself are not measured, and not
        locked against a scrape.

        Args:
            scheduler: The scheduler, or a recorded scheduler.
            clock: Returns seconds, to measure the duration of calls.
            instant: Returns the current instant, as the ``now`` of calls; None for the ``now`` of
                the last call, which is older while nothing happens.
        """
        with self._lock:
            self._waits.clear()
            inner = scheduler.scheduler if isinstance(scheduler, RecordedScheduler) else scheduler
            self._scheduler = inner
            self._instant = instant
        return MeasuredScheduler(self, scheduler, inner, self._lock, clock)

    def forget(self) -> None:
        """Measure no scheduler until the next ``watch``; all gauges are 0."""
        with self._lock:
            self._waits.clear()
            self._scheduler = None

    def called(self, now: float) -> None:
        """Note the instant of a call; called by ``MeasuredScheduler``."""
        self._last_call = now

    def fell(self) -> None:
        """Count a running gang that fell below its minimum."""
        self._fallen.labels(self._profile).inc()

    def released(self) -> None:
        """Count a pod that a host evicts by itself, since its gang stays partly on nodes."""
        self._evicted.labels(self._profile).inc()

    def see(self, effects: Iterable[Effect], now: float) -> None:
        """Count the effects of a call; called by ``MeasuredScheduler``."""
        for effect in effects:
            self._see(effect, now)

    def attempt(self, result: str, seconds: float) -> None:
        """Count an attempt; called by ``MeasuredScheduler``.

        Args:
            result: ``scheduled``, ``waiting``, ``unschedulable`` or ``error``.
            seconds: The duration of the attempt.
        """
        attempts, attempt_seconds = self._of(result)
        attempts.inc()
        attempt_seconds.observe(seconds)

    def collect(self) -> Iterator[Any]:
        """Return the current queue depths and usage; called by the registry at a scrape.

        Runtime complexity: O(n log n) for n queued entities, O(pods), O(copies of roles), and
        O(quotas x resources).
        """
        pods, groups, copies, oldest = self._depths()
        queued = self._families.GaugeMetricFamily(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue.",
            labels=("profile", "queue"),
        )
        for name in _QUEUES:
            queued.add_metric((self._profile, name), pods[name])
        yield queued
        known = self._families.GaugeMetricFamily(
            "gangsched_groups", "Number of gangs, by state.", labels=("profile", "state")
        )
        for name in _STATES:
            known.add_metric((self._profile, name), groups[name])
        yield known
        parts = self._families.GaugeMetricFamily(
            "gangsched_copies",
            "Number of copies of roles, by state.",
            labels=("profile", "state"),
        )
        for name in _COPIES:
            parts.add_metric((self._profile, name), copies[name])
        yield parts
        age = self._families.GaugeMetricFamily(
            "gangsched_oldest_pending_seconds",
            "For how long the oldest complete gang has waited for capacity; 0 if none waits.",
            labels=("profile",),
        )
        age.add_metric((self._profile,), oldest)
        yield age
        yield from self._of_quotas()

    # Inside ---------------------------------------------------------------------------------

    def _of_quotas(self) -> Iterator[Any]:
        """Yield the gauges of the quotas, which have no series without quotas."""
        with self._lock:
            rows = () if self._scheduler is None else tuple(self._scheduler.quotas())
        labels, family = ("profile", "queue"), self._families.GaugeMetricFamily
        used = family(
            "gangsched_queue_used",
            "Amount that is charged to a quota, by resource.",
            labels=(*labels, "resource"),
        )
        nominal = family(
            "gangsched_queue_nominal",
            "Amount that a queue may use without borrowing, by resource.",
            labels=(*labels, "resource"),
        )
        share = family(
            "gangsched_queue_share", "Share of a queue among its siblings.", labels=labels
        )
        pending = family(
            "gangsched_queue_pending",
            "Number of pods and groups without nodes that are charged to a quota.",
            labels=labels,
        )
        # a resource that is limited anywhere has a series in every queue, also while none is used
        limited = dict.fromkeys(name for row in rows for name in _limited(row))
        for row in rows:
            key = (self._profile, row.name)
            for name in dict.fromkeys((*limited, *row.used)):
                used.add_metric((*key, name), row.used.amount(name) / MILLI)
            for name in (own := NOTHING if row.nominal is None else row.nominal):
                nominal.add_metric((*key, name), own.amount(name) / MILLI)
            share.add_metric(key, row.share)
            pending.add_metric(key, row.pending)
        yield from (used, nominal, share, pending)

    def _of(self, result: str) -> tuple[Any, Any]:
        """Return the counter and the histogram of the attempts with a result."""
        found = self._of_result.get(result)
        if found is None:  # looked up once: labels() costs more than what it returns
            found = self._of_result[result] = (
                self._attempts.labels(self._profile, result),
                self._attempt_seconds.labels(self._profile, result),
            )
        return found

    def _depths(self) -> tuple[dict[str, int], dict[str, int], dict[str, int], float]:
        """Return pods by queue, groups and copies by state, and the age of the oldest gang."""
        pods: dict[str, int] = dict.fromkeys(_QUEUES, 0)
        groups: dict[str, int] = dict.fromkeys(_STATES, 0)
        copies: dict[str, int] = dict.fromkeys(_COPIES, 0)
        held: dict[GroupKey, str] = {}  # groups that are not tried, and why
        since = math.inf
        with self._lock:
            if self._scheduler is None:
                return pods, groups, copies, 0.0
            queue = self._scheduler.queue
            pods["active"] = _pods(queue.active)
            pods["backoff"] = _pods(queue.backoff)
            for entity in queue.unschedulable:
                name = "gated" if queue.is_gated(entity) else "unschedulable"
                pods[name] += len(entity)
                if name == "gated":
                    held |= {group.key: entity.denial for group in entity.groups}
            # a gated pod is not in the queue; kube-scheduler counts it under this name
            pods["gated"] += self._scheduler.gated_pods
            for info in self._scheduler.registry:
                if not info.members:
                    continue
                state = _state(info)
                reason = held.get(info.key)
                if state == "pending" and reason is not None:
                    if reason.startswith(EXCEEDED):
                        state = "over_quota"
                    elif reason.startswith(AWAITS_GROUPS):
                        state = "incomplete"  # others that start with it are
                groups[state] += 1
                if info.has_copies:
                    for name in _states_of_copies(self._scheduler.tree(info.key)):
                        copies[name] += 1
                if state == "pending" and reason is None and info.complete_at is not None:
                    since = min(since, info.complete_at)
            now = self._last_call if self._instant is None else self._instant()
        return pods, groups, copies, 0.0 if since == math.inf else max(now - since, 0.0)

    def _see(self, effect: Effect, now: float) -> None:
        match effect:
            case PodWaiting(uid):
                self._waits[uid] = now
            case Release():
                for uid in effect.members:
                    self._waited(uid, "Success", now)
            case Bind(uid) | PodScheduled(uid):
                self._waited(uid, "Success", now)
            case PodRejected(uid):
                self._waited(uid, "Unschedulable", now)
            case GroupScheduled():
                self._started.labels(self._profile).inc()
                self._start_seconds.labels(self._profile).observe(effect.waited)
            case GroupRejected():
                self._rejected.labels(self._profile).inc()
                if effect.retry_after > now:
                    self._backoff_seconds.labels(self._profile).observe(effect.retry_after - now)
            case GroupBelowMinimum():
                if self._counts_falls and not effect.path:
                    self.fell()
            case GroupRestarted():
                self._restarted.labels(self._profile).inc()
            case Evict():
                self._evicted.labels(self._profile).inc()
            case _:
                pass

    def _waited(self, uid: PodUID, result: str, now: float) -> None:
        since = self._waits.pop(uid, None)
        if since is not None:
            self._wait_seconds.labels(self._profile, result).observe(now - since)


@final
class MeasuredScheduler:
    """A scheduler whose calls are measured; made by ``Metrics.watch``.

    It has the calls that a driver makes, and ``ask`` for all other questions. Only one thread at a
    time may make them, but a scrape may come from any thread.

    Attributes:
        scheduler: The scheduler itself. Do not call it beside a driver: its lock is not taken.
    """

    __slots__ = ("_calls", "_clock", "_lock", "_metrics", "scheduler")

    def __init__(
        self,
        metrics: Metrics,
        calls: Scheduler | RecordedScheduler,
        scheduler: Scheduler,
        lock: threading.RLock,
        clock: Callable[[], float],
    ) -> None:
        self._metrics = metrics
        self._calls = calls
        self._lock = lock
        self._clock = clock
        self.scheduler: Scheduler = scheduler

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.handle``."""
        with self._lock:
            self._metrics.called(now)
            effects = self._calls.handle(*events, now=now)
            if effects:
                self._metrics.see(effects, now)
            return effects

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.advance``."""
        return self._seen(lambda: self._calls.advance(now=now), now)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.rebuild``."""
        return self._seen(lambda: self._calls.rebuild(now=now), now)

    def set_quotas(self, quotas: Iterable[Quota], *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.set_quotas``; a recorded scheduler does not record it."""
        return self._seen(lambda: self.scheduler.set_quotas(quotas, now=now), now)

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        """See ``Scheduler.schedule_one``."""
        with self._lock:
            self._metrics.called(now)
            began = self._clock()
            try:
                effects = self._calls.schedule_one(now=now)
            except Exception:
                self._metrics.attempt("error", self._clock() - began)
                raise
            if effects is not None:
                self._metrics.attempt(_result(effects), self._clock() - began)
                self._metrics.see(effects, now)
            return effects

    def next_deadline(self) -> float | None:
        """See ``Scheduler.next_deadline``."""
        return self._calls.next_deadline()

    def allow_evictions(self) -> None:
        """See ``Scheduler.allow_evictions``."""
        with self._lock:
            self._calls.allow_evictions()

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """Return what a question about the scheduler returns; a scrape waits meanwhile.

        Args:
            question: Reads the scheduler, by ``why``, ``what_if`` or ``snapshot``; it must not
                change it.
        """
        with self._lock:
            return question(self.scheduler)

    def _seen(self, call: Callable[[], tuple[Effect, ...]], now: float) -> tuple[Effect, ...]:
        with self._lock:
            self._metrics.called(now)
            effects = call()
            self._metrics.see(effects, now)
            return effects


def _result(effects: tuple[Effect, ...]) -> str:
    """Return the result of an attempt: the best one that its effects contain."""
    if len(effects) == 1 and type(effects[0]) is Bind:
        return "scheduled"
    kinds = {type(effect) for effect in effects}
    if Bind in kinds:
        return "scheduled"
    if PodWaiting in kinds:
        return "waiting"
    return "unschedulable" if kinds & {PodUnschedulable, GroupRejected} else "scheduled"


def _pods(entities: Iterable[Sized]) -> int:
    return sum(len(entity) for entity in entities)


def _limited(row: QuotaRow) -> Iterator[str]:
    """Yield the resources that a quota names, or has a nominal of."""
    yield from row.hard
    yield from row.nominal or ()


def _state(info: PodGroupInfo) -> str:
    """Return the state label of a group with members."""
    if info.waiting:
        return "waiting"
    if info.scheduled and quorum.lacks_members(info):
        return "partly_running"  # released by this scheduler, or found so at its start
    if info.is_binding:
        return "binding"  # its nodes are assumed: no member may be on one yet
    if info.was_scheduled:
        return "started"
    if info.is_complete:
        return "pending"
    return "gated" if info.is_gated else "incomplete"


def _states_of_copies(tree: Tree) -> Iterator[str]:
    """Yield the state label of each copy of a role; of copies in copies, of both."""
    of_copies = {row.path for row in tree if row.of == "copies"}
    for row in tree:
        if row.path.rpartition("/")[0] in of_copies:
            yield "whole" if not row.lacks else "partial" if row.held else "waiting"
