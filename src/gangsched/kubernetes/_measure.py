"""The metrics of the running scheduler, and the pages that show them.

Rules:
  R1  metrics of decisions are those of ``gangsched.metrics``; what is added here is about the API
      server, with the names of Kubernetes where it has the metric;
  R2  without prometheus-client everything works but ``/metrics``, which says so;
  R3  metrics of decisions are there once a scheduler is watched: their module imports the
      framework, which a replica does not need before it leads;
  R4  the series of a counter are there with 0 before anything happens, see ``gangsched.metrics``.
      The codes of ``rest_client_requests_total`` are not known before, as in client-go;
  R5  without an election there is no ``leader_election_master_status``, as of kube-scheduler: 0
      would say that nothing leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, final

from gangsched.configuration import Settings
from gangsched.drivers._clock import epoch_seconds
from gangsched.kubernetes._loop_delay import measured_delays
from gangsched.kubernetes._server import Page

if TYPE_CHECKING:
    from gangsched.kubernetes._demand import PendingDemand
    from gangsched.kubernetes._peer_quotas import QuotaScheduler
    from gangsched.metrics import Metrics
    from gangsched.scheduler import Scheduler

__all__ = ["Measures"]

_VERBS: Final = ("filter", "prioritize", "preempt", "bind")
_DELAYS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_CODES: Final = ("200", "400", "499", "500", "503")
"""Of the extender's answers; those of a request that cannot be read are rarer."""


@final
class _Requests:
    """Counts requests: a counter of prometheus-client has a lock, and costs six times as much.

    Attributes:
        counts: By method and status, the number of requests; the status 0 for a lost connection.
    """

    def __init__(self, families: Any) -> None:
        self._families = families
        self.counts: dict[tuple[str, int], int] = {}

    def collect(self) -> Iterator[Any]:
        """Return the counters; called by the registry at a scrape."""
        family = self._families.CounterMetricFamily(
            "rest_client_requests_total",
            "Number of requests to the API server, by method and status code.",
            labels=("method", "code"),
        )
        for (method, status), count in self.counts.items():
            family.add_metric((method, str(status or "<error>")), count)
        yield family


@final
class Measures:
    """The metrics of one process.

    Args:
        settings: The configuration; its scheduler name is the label ``profile``.
    """

    def __init__(self, settings: Settings) -> None:
        self._name = settings.leader_election.resource_name
        self._registry: Any = None
        self._client: Any = None
        self._metrics: Metrics | None = None
        self._requests: _Requests | None = None
        self._master: Any = None
        self._dropped: Any = None
        self._refused: Any = None
        self._unreadable: Any = None
        self._demand: Any = None
        self._demand_of: Any = None
        self._verbs: Any = None
        self._delays: Any = None
        self._held: Any = None
        self._ready: Any = None
        try:
            import prometheus_client  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError:
            return
        client: Any = prometheus_client
        self._client = client
        registry = self._registry = client.CollectorRegistry()
        client.ProcessCollector(registry=registry)
        client.GCCollector(registry=registry)
        self._requests = _Requests(client.metrics_core)
        registry.register(self._requests)
        if settings.leader_election.leader_elect:
            self._master = client.Gauge(
                "leader_election_master_status",
                "1 if this replica leads, 0 if it waits.",
                labelnames=("name",),
                registry=registry,
            )
            self._master.labels(self._name).set(0)
        self._ready = client.Gauge(
            "gangsched_ready",
            "1 if this replica schedules, or waits to lead; 0 if it leads and cannot schedule yet.",
            registry=registry,
        )
        self._delays = client.Histogram(
            "gangsched_loop_delay_seconds",
            "By how much the event loop is late, sampled four times a second.",
            buckets=_DELAYS,
            registry=registry,
        )
        self._dropped = client.Counter(
            "gangsched_kubernetes_events_dropped_total",
            "Number of events that were not recorded.",
            registry=registry,
        )
        self._refused = client.Gauge(
            "gangsched_kubernetes_refused_binds",
            "Number of pods whose bind the API server refuses or does not answer.",
            registry=registry,
        )
        self._unreadable = client.Gauge(
            "gangsched_kubernetes_unreadable_objects",
            "Number of objects that exist and cannot be read, by kind.",
            labelnames=("kind",),
            registry=registry,
        )
        self._profile = settings.profile.scheduler_names[0]
        self._demand = client.Gauge(
            "gangsched_pending_demand",
            "Number of further nodes of a shape that would start pending gangs.",
            labelnames=("profile", "shape", "like"),
            registry=registry,
        )
        self._demand_of = client.Gauge(
            "gangsched_pending_demand_by_group",
            "Number of further nodes of a shape that a gang needs beside those of gangs before it.",
            labelnames=("profile", "shape", "like", "group"),
            registry=registry,
        )

    def watch(self, scheduler: Scheduler) -> QuotaScheduler:
        """Return a scheduler whose calls are measured."""
        if self._registry is None:
            return scheduler
        if self._metrics is None:
            from gangsched.metrics import Metrics

            # the same notice comes when a job is deleted: what is reported is counted
            self._metrics = Metrics(self._registry, profile=self._profile, counts_falls=False)
        return self._metrics.watch(scheduler, instant=epoch_seconds)

    def ended(self) -> None:
        """Measure nothing of a term that has ended: another replica may lead."""
        if self._metrics is not None:
            self._metrics.forget()
        self.demand(())
        self.held(lambda: 0.0)

    def fell(self) -> None:
        """Count a group that was reported to have fallen below its minimum."""
        if self._metrics is not None:
            self._metrics.fell()

    def released(self) -> None:
        """Count a pod that is evicted because its gang stays partly on nodes."""
        if self._metrics is not None:
            self._metrics.released()

    @property
    def served(self) -> str:
        """The pages of the process, for its log."""
        if self._registry is None:
            return "/healthz and /readyz, and no metrics without the extra gangsched[metrics],"
        return "/healthz, /readyz and /metrics"

    def loop_delays(self) -> AbstractContextManager[None]:
        """Measure how late the running event loop is."""
        if self._delays is None:
            return nullcontext()
        return measured_delays(self._delays.observe)

    def leads(self, leads: bool) -> None:
        """Note whether this replica leads."""
        if self._master is not None:
            self._master.labels(self._name).set(int(leads))

    def request(self, method: str, status: int) -> None:
        """Count a request to the API server."""
        if self._requests is not None:
            counts = self._requests.counts
            counts[method, status] = counts.get((method, status), 0) + 1

    def dropped(self) -> None:
        """Count an event that was not recorded."""
        if self._dropped is not None:
            self._dropped.inc()

    def refused_binds(self, count: int) -> None:
        """Show how many binds are repeated because they are refused or not answered."""
        if self._refused is not None:
            self._refused.set(count)

    def unreadable(self, kind: str, count: int) -> None:
        """Show how many objects of a kind cannot be read."""
        if self._unreadable is not None:
            self._unreadable.labels(kind).set(count)

    def serves_verbs(self) -> None:
        """Show the requests to the extender, each series from 0 on."""
        if self._client is None or self._verbs is not None:
            return
        self._verbs = self._client.Counter(
            "gangsched_extender_requests_total",
            "Number of requests to the extender, by verb and status code.",
            labelnames=("verb", "code"),
            registry=self._registry,
        )
        self._held = self._client.Gauge(
            "gangsched_extender_held_binds",
            "Number of members whose bind is held back until their gang has arrived.",
            registry=self._registry,
        )
        for verb in _VERBS:
            for code in _CODES:
                self._verbs.labels(verb, code)

    def verb(self, verb: str, status: int) -> None:
        """Count an answer of the extender."""
        if self._verbs is not None:
            self._verbs.labels(verb, str(status)).inc()

    def held(self, read: Callable[[], float]) -> None:
        """Read from now on how many binds the extender holds back."""
        if self._held is not None:
            self._held.set_function(read)

    def demand(self, found: Sequence[PendingDemand]) -> None:
        """Show how many nodes would start which gangs; shapes without demand are left out.

        The number of series is bounded, because the number of gangs in *found* is.
        """
        if self._demand is None:
            return
        self._demand.clear()
        self._demand_of.clear()
        for each in found:
            like = each.like.name.removesuffix("-more")
            self._demand.labels(self._profile, each.shape, like).set(each.nodes)
            for key, nodes in each.gangs:
                self._demand_of.labels(self._profile, each.shape, like, key).set(nodes)

    def pages(
        self,
        problems: Callable[[], list[str]],
        *,
        of_replica: Callable[[], list[str]] | None = None,
    ) -> Mapping[str, Callable[[], Page]]:
        """Return the pages of the process.

        Args:
            problems: Returns why it is not ready.
            of_replica: The same for ``gangsched_ready``, for which a replica that waits to lead is
                ready; None if *problems* is that.
        """
        lacks = problems if of_replica is None else of_replica
        if self._ready is not None:
            self._ready.set_function(lambda: int(not lacks()))

        def ready() -> Page:
            found = problems()
            if found:
                return Page("".join(f"[-] {each}\n" for each in found).encode(), 503)
            return Page(b"ok")

        return {
            "/healthz": lambda: Page(b"ok"),
            "/livez": lambda: Page(b"ok"),
            "/readyz": ready,
            "/metrics": self._page,
        }

    def _page(self) -> Page:
        if self._registry is None:
            return Page(b"metrics need: pip install 'gangsched[metrics]'\n", 404)
        import prometheus_client  # pyright: ignore[reportMissingImports]

        client: Any = prometheus_client
        body: bytes = client.generate_latest(self._registry)
        return Page(body, content_type=client.CONTENT_TYPE_LATEST)
