"""One term of a leader: reflectors, cache, scheduler and workers, put together.

Rules:
  R1  the scheduler is made when every listing is complete, and lists the cache in its first call.
      A kind that is not listed in time is left out, see ``_can_be_late``: pods that need it are
      held until it is listed, and the others are placed meanwhile;
  R2  what another project states is read before anything is watched: see ``Peers``;
  R3  PodGroups are watched in every API that serves them, and composite pod groups if they are
      served. APIs are looked for again, because a definition may be installed later;
  R4  at the end: no more decisions, binds under way end, then conditions and events for a moment.
      What decides ends at once, however many events wait. The term has ``drained`` when the binds
      have ended, before events are written: they can land wrongly nowhere. A bind that was sent and
      not answered within the drain may still be carried out, so the term does not drain then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, final

from attrs import evolve

from gangsched.configuration import Settings, make_scheduler
from gangsched.configuration.scheduler import objects_scored, releases_gangs, volume_timeout
from gangsched.errors import GangschedError
from gangsched.events import Bind, Evict
from gangsched.kubernetes._api import Api, ConnectionLost
from gangsched.kubernetes._bind import Binder
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._decision_log import logged
from gangsched.kubernetes._decode import (
    GroupDecoder,
    NodeDecoder,
    PodDecoder,
    decode_priority_class,
)
from gangsched.kubernetes._demand import DemandMeter
from gangsched.kubernetes._discovery import API_GROUPS, DiscoveryFailed, discover, watch_dialects
from gangsched.kubernetes._echoes import WithoutEchoes
from gangsched.kubernetes._effects import Effects
from gangsched.kubernetes._ending import stop_at, wait_until_written
from gangsched.kubernetes._events import UnexpectedAnswer
from gangsched.kubernetes._evict import Evictor
from gangsched.kubernetes._facts import COMPOSITE_KIND, Dialect
from gangsched.kubernetes._give_way import GiveWay
from gangsched.kubernetes._group_status import GroupStatusWriter
from gangsched.kubernetes._mark_writer import StartMarks
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._objects import ObjectDecoder, Watched, watched_for
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._partial import PartialGangs
from gangsched.kubernetes._peer_objects import cause
from gangsched.kubernetes._peers import Peers
from gangsched.kubernetes._recorder import EventRecorder
from gangsched.kubernetes._reflector import Reflector, Resource
from gangsched.kubernetes._requests import Pauses, Requests
from gangsched.kubernetes._restart_notes import RestartNotes
from gangsched.kubernetes._tasks import Tasks, end
from gangsched.kubernetes._transport import BATCH_SECONDS
from gangsched.kubernetes._unreadable import UnreadableObjects
from gangsched.kubernetes._volume_waits import WaitsForVolumes
from gangsched.kubernetes._volume_writer import VolumeWriter
from gangsched.model import GroupKey
from gangsched.scheduler import Scheduler

__all__ = ["Shell"]

_LOOK_AGAIN: Final = 1.0
"""Seconds after which the API server is asked again which APIs it serves."""

_LATE: Final = 15.0
"""Seconds after which the scheduler begins without the kinds that are not listed yet."""
_OF_ALL_PODS: Final = frozenset({"Namespace", "Node", "Pod", "PriorityClass"})
"""The kinds that decisions about any pod depend on."""
_NOT_LISTED: Final = "they are not listed yet"

_DENIALS: Final = 5
"""After how many refusals in a row, about 1.5 s, objects count as out of reach."""

_log = logging.getLogger("gangsched.kubernetes")


def _looks_at_nothing() -> None:
    """Do nothing: a kind that is not optional is awaited."""


def _is_of_composites(kind: str) -> bool:
    return kind.startswith(f"{COMPOSITE_KIND}.")


@final
class Shell:
    """The parts of ``gangsched run`` that work while this replica leads.

    Without ``run``, it only watches the cluster: for ``kubectl gang`` and the extender.

    Args:
        api: The API server.
        settings: The configuration.
        plugins: Further plugins.
        factories: By the name of a plugin, what makes it if the configuration enables it.
        measures: The metrics of the process.
        clock: Seconds since 1970 that never go back.
        may_write: Whether this replica leads at this moment.
        first_settled: Called once: the first time that no decision is left.

    Attributes:
        drained: Set at the end, once nothing that was decided can still be carried out.
        owner: Owns the scheduler, once ``run`` has begun.
        peers: What another project states.
        troubles: By kind of object, the last problem of its watch; it stays after the watch has
            recovered.
    """

    def __init__(
        self,
        api: Api,
        settings: Settings,
        *,
        plugins: Iterable[object],
        factories: Mapping[str, Callable[..., object]],
        measures: Measures,
        clock: Callable[[], float],
        may_write: Callable[[], bool],
        first_settled: Callable[[], object] | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self.peers: Final = Peers(api, settings)
        self._plugins = tuple(plugins)
        self._factories = factories
        self._measures = measures
        self._clock = clock
        self._may_write = may_write
        self._first_settled = first_settled
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._optional: dict[str, str] = {}
        self._late: set[str] = set()
        self._decode_pod = PodDecoder(settings.ignored)
        self._all_synced = asyncio.Event()
        self._binder: Binder | None = None
        self._undiscovered: GangschedError | None = None
        self.drained: Final = asyncio.Event()
        self.owner: Owner | None = None
        self.troubles: dict[str, GangschedError] = {}

    @property
    def settings(self) -> Settings:
        """The configuration, with the levels and quotas of another project once they are read."""
        return self.peers.settings

    def problems(self) -> list[str]:
        """Return why it is not ready: the resources that are not listed yet, and why.

        Resources with the same cause, such as an API server that does not answer, are one entry.
        """
        if self.owner is not None and self.owner.driver is not None:
            return []
        kinds: dict[str, list[str]] = {}
        for kind in self.waiting():
            kinds.setdefault(cause(self.troubles.get(kind)), []).append(kind)
        found = [f"{', '.join(named)} are not listed yet{why}" for why, named in kinds.items()]
        if self.peers.problem:
            return [self.peers.problem]
        if self._undiscovered is not None:
            return [f"which APIs are served is not known{cause(self._undiscovered)}"]
        return found or ["not scheduling yet"]

    def waiting(self) -> list[str]:
        """Return the kinds that are not listed yet."""
        return [kind for kind in self._reflectors if not self._is_settled(kind)]

    def _scheduler(self, cache: Cache, *, preempts: bool = True) -> Scheduler:
        return make_scheduler(
            evolve(self.settings, levels_from="", quotas_from=""),
            cache.cluster,
            plugins=self._plugins,
            factories=self._factories,
            membership=cache.membership,
            preempts=preempts,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until *stop* is set.

        Raises:
            GangschedError: The scheduler raised.
        """
        requests = Requests(self._api)
        names, ignored = self._settings.profile.scheduler_names, self._settings.ignored
        cache = Cache(names, API_GROUPS, ignored=ignored)
        unreadable = UnreadableObjects(cache.names, self._measures.unreadable)
        owner = self.owner = Owner(cache, self._clock, unreadable)
        self._scheduler(cache)  # a wrong profile fails before listing
        give_way = GiveWay(owner.binds)
        connections = self._settings.client.event_connections
        status = StatusWriter(requests, cache, give_way, workers=connections)
        events = EventRecorder(
            requests,
            give_way,
            controller=self._settings.profile.scheduler_names[0],
            clock=self._clock,
            workers=connections,
            on_drop=self._measures.dropped,
        )
        unreadable.report_to(events, status)
        tasks = Tasks()
        stop = self.peers.ending(tasks, stop)
        try:
            reflecting = self._reflect(tasks, owner, requests.pauses(), pace=BATCH_SECONDS)
            if not await tasks.until(reflecting, stop):
                return
            tasks.start(status.run())
            tasks.start(events.run())
            if not await self._until_listed(tasks, owner, stop):
                return
            await self._schedule(tasks, stop, requests, owner, status, events)
        finally:
            await tasks.cancel()
            unreadable.close()
            if self._binder is None or not self._binder.unanswered:
                self.drained.set()

    @property
    def reads_budgets(self) -> bool:
        """Whether disruption budgets can be read; known once everything is listed."""
        return not self._optional.get("PodDisruptionBudget")

    async def list_all(self, tasks: Tasks, owner: Owner, stop: asyncio.Event) -> bool:
        """Watch everything for *owner*; return whether all was listed before *stop*.

        Raises:
            Exception: One of the tasks failed.
        """
        reflecting = self._reflect(tasks, owner, Requests(self._api).pauses())
        if not await tasks.until(reflecting, stop):
            return False
        return await self._until_listed(tasks, owner, stop)

    async def _until_listed(self, tasks: Tasks, owner: Owner, stop: asyncio.Event) -> bool:
        """Return whether all was listed before *stop*, but for kinds that are late."""
        loop = asyncio.get_running_loop()
        late = loop.call_later(_LATE, self._begin_without_late_kinds, owner)
        try:
            return await tasks.until(self._all_synced.wait(), stop)
        finally:
            late.cancel()

    @asynccontextmanager
    async def watching(self, owner: Owner) -> AsyncGenerator[Callable[[], bool], None]:
        """Watch everything for *owner* without scheduling; yields whether all is listed."""
        tasks = Tasks()
        try:
            await self._reflect(tasks, owner, Requests(self._api).pauses())
            yield self._all_synced.is_set
        finally:
            await tasks.cancel()

    async def _schedule(
        self,
        tasks: Tasks,
        stop: asyncio.Event,
        requests: Requests,
        owner: Owner,
        status: StatusWriter,
        events: EventRecorder,
    ) -> None:
        knows_budgets = self.reads_budgets
        if not knows_budgets and "DefaultPreemption" in self._settings.profile.args:
            _log.warning("no pod is preempted: disruption budgets cannot be read")
        scheduler = self._scheduler(owner.cache, preempts=knows_budgets)
        scheduler.allow_evictions()
        effects: Effects
        waits: WaitsForVolumes

        async def release(evict: Evict) -> None:
            with suppress(GangschedError):  # looked at again within the bound
                await evictor(evict)
                self._measures.released()

        def report(key: GroupKey, note: str) -> None:
            effects.stays_partial(key, note)

        partial = PartialGangs(
            *(owner.cache, scheduler, release, report, self._clock),
            bound=self._settings.partial_bound,
            evicts=releases_gangs(self._settings),
        )
        marks = StartMarks(
            *(requests, owner.cache, scheduler, partial.was_whole, status, GiveWay(owner.binds)),
            workers=self._settings.client.event_connections,
        )
        tasks.start(marks.run())
        restarts = RestartNotes(requests, owner.cache)
        tasks.start(restarts.run())
        effects = Effects(
            owner.cache,
            status,
            events,
            scheduler,
            partial,
            self._first_settled,
            restarts,
            fell=self._measures.fell,
        )
        binder = self._binder = Binder(
            requests,
            owner.cache,
            self._decode_pod,
            owner.tell,
            self._may_write,
            marks=partial.marks_with_bind,
            repeated=effects.bind_is_repeated,
            refused=self._measures.refused_binds,
        )
        evictor = Evictor(
            requests,
            owner.cache,
            effects.is_victim,
            effects.evicted,
            respect_budgets=self._settings.respect_budgets,
        )
        if self._settings.write_group_status:
            groups = GroupStatusWriter(
                requests,
                owner.cache,
                scheduler,
                partial.was_whole,
                workers=self._settings.client.event_connections,
            )
            tasks.start(groups.run())
        deciding: list[asyncio.Task[None]] = []
        if self._settings.demand_interval:
            meter = DemandMeter(
                scheduler,
                owner.cache.cluster.nodes,
                self._clock,
                GiveWay(owner.binds),
                self._measures.demand,
                interval=self._settings.demand_interval,
            )
            deciding.append(tasks.start(meter.run()))

        def not_written(bind: Bind, reason: str) -> None:
            owner.tell(waits.refused(bind, reason))

        writer = VolumeWriter(requests, not_written, self._may_write)
        waits = WaitsForVolumes(
            WithoutEchoes(
                logged(
                    self.peers.with_quotas(self._measures.watch(scheduler)),
                    owner.cache.cluster,
                    owner.cache.group_of,
                ),
                owner.cache.cluster,
            ),
            owner.cache.cluster,
            owner.cache.group_of,
            writer.put,
            timeout=volume_timeout(self._settings),
        )
        deciding.append(tasks.start(writer.run()))
        driver = owner.begin(
            waits,
            bind=binder,
            evict=restarts.before(evictor),
            effects=effects,
            max_binds=self._settings.client.bind_connections,
        )
        deciding.append(tasks.start(partial.run()))
        _log.info("scheduling: %r", owner.cache.cluster)
        running = asyncio.create_task(driver.run())
        stopping = asyncio.create_task(stop_at(stop, driver))
        try:
            await tasks.until(asyncio.shield(running), stop)
            ends_at = self._clock() + self._settings.drain
            _log.info("stopping: nothing more is decided, binds under way are waited for")
            if len(waits):
                _log.info("%d binds wait for volumes; the next leader takes over", len(waits))
            await end(*deciding)
            await asyncio.wait((running,), timeout=self._settings.drain)
        finally:
            effects.close()
            await end(running, stopping)
        if not running.cancelled():
            running.result()
        status.close()
        await wait_until_written(lambda: status.under_way, ends_at - self._clock())
        if not binder.unanswered:
            self.drained.set()
        events.flush()
        await wait_until_written(lambda: len(status) + len(events), ends_at - self._clock())

    # Reflectors -----------------------------------------------------------------------------

    async def _reflect(
        self, tasks: Tasks, owner: Owner, pauses: Pauses, *, pace: float = 0.0
    ) -> None:
        """Start to watch everything; *pace* is that of the watch of pods."""
        await self.peers.read(tasks, owner)
        answered: dict[str, list[Dialect]] = {}
        while True:
            try:
                dialects = await discover(self._api, answered)
                self._undiscovered = None
                break
            except ConnectionLost as lost:
                self._is_not_discovered(lost)
                await pauses.after_loss(lost)
            except (DiscoveryFailed, UnexpectedAnswer) as error:
                self._is_not_discovered(error)
                await asyncio.sleep(_LOOK_AGAIN)
        priority_classes = Resource("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass")
        self._watch(tasks, owner, priority_classes, decode_priority_class, owner.priority_classes)
        scored = objects_scored(self._settings, plugins=self._plugins, factories=self._factories)
        for each in watched_for(scored):
            self._watch_objects(tasks, owner, each)
        self._watch(tasks, owner, Resource("/api/v1/nodes", "Node"), NodeDecoder(), owner.nodes)
        self._watch_groups(tasks, owner, dialects)
        pods = Resource("/api/v1/pods", "Pod")
        self._watch(tasks, owner, pods, self._decode_pod, owner.pods, pace=pace)

        async def changed(dialects: tuple[Dialect, ...]) -> None:
            self._watch_groups(tasks, owner, dialects)

        tasks.start(watch_dialects(self._api, dialects, changed, on_problem=_not_looked))

    def _is_not_discovered(self, error: GangschedError) -> None:
        """Note, and log once, why it is not known which APIs are served."""
        if cause(error) != cause(self._undiscovered):
            _log.warning("which APIs are served is not known%s", cause(error))
        self._undiscovered = error

    def _watch_groups(self, tasks: Tasks, owner: Owner, dialects: Iterable[Dialect]) -> None:
        """Watch the groups of each API; one that is not served any more has no groups."""
        served = tuple(dialects)
        owner.cache.served = frozenset(dialect.source for dialect in served)
        for dialect in served:
            kind = f"{dialect.kind}.{dialect.version}.{dialect.group}"
            if kind not in self._reflectors:
                _log.info("watching %s", kind)
                resource = Resource(dialect.path, kind)
                sink = owner.groups(dialect)
                names = dict(owner.cache.levels.names)
                peer = self._settings.quotas_from
                decode = GroupDecoder(dialect, self._settings.ignored, names, peer)
                # an older role lacks the right: whatever is in no tree starts all the same
                look = self._optionally(owner, kind) if dialect.is_composite else _looks_at_nothing
                self._watch(tasks, owner, resource, decode, sink, look)

    def _watch_objects(self, tasks: Tasks, owner: Owner, watched: Watched) -> None:
        """Watch what constraints refer to; an optional kind may be absent or forbidden."""
        kind = watched.kind
        look = self._optionally(owner, kind) if watched.optional else _looks_at_nothing
        resource = Resource(watched.path, kind)
        self._watch(tasks, owner, resource, ObjectDecoder(watched), owner.objects(kind), look)

    def _optionally(self, owner: Owner, kind: str) -> Callable[[], None]:
        """Return what looks whether objects of an optional kind can be read, and notes it."""
        self._optional[kind] = ""

        def look() -> None:
            reflector = self._reflectors[kind]
            if reflector.denied >= _DENIALS:
                why = "they cannot be read"
            elif reflector.denied or not reflector.synced:
                return
            else:
                why = ""
            if why != self._optional[kind]:
                self._optional[kind] = why
                log = _log.warning if why else _log.info
                log("%s: %s", kind, why or "they can be read again")
                owner.unreadable(kind, why)
                self._settle()

        return look

    def _begin_without_late_kinds(self, owner: Owner) -> None:
        """Hold the pods that need a kind that is not listed in time, so that the others start."""
        for kind in [kind for kind in self.waiting() if self._can_be_late(kind)]:
            _log.warning("%s: not listed within %g s; pods that need it are held", kind, _LATE)
            self._late.add(kind)
            owner.unreadable(kind, _NOT_LISTED)
        self._settle()

    def _can_be_late(self, kind: str) -> bool:
        """Return whether only pods that need a kind depend on it, and it was not refused.

        Preemption depends on all budgets and groups: victims are chosen by them. A right that is
        missing is said by ``problems``, or makes an optional kind out of reach.
        """
        if kind in _OF_ALL_PODS or self._reflectors[kind].denied:
            return False
        if kind in self._optional and kind != "PodDisruptionBudget" and not _is_of_composites(kind):
            return True
        return not self._plugins and "DefaultPreemption" not in self._settings.profile.args

    def _is_late_no_more(self, owner: Owner, kind: str) -> None:
        # a kind that was refused before its first listing is out of reach, see *look*
        if kind in self._late and (self._reflectors[kind].listed or kind not in self._optional):
            _log.info("%s: they are listed", kind)
            self._late.discard(kind)
            owner.unreadable(kind, self._optional.get(kind, ""))

    def _is_settled(self, kind: str) -> bool:
        """Return whether the objects of a kind are listed, or need not be awaited."""
        if kind in self._late:
            return True
        reflector = self._reflectors[kind]
        if kind not in self._optional:
            return reflector.synced
        # A refusal after the listing takes nothing back: no listing would follow that settles it.
        return bool(self._optional[kind]) or reflector.listed

    def _settle(self) -> None:
        if not self._all_synced.is_set() and all(map(self._is_settled, self._reflectors)):
            self._all_synced.set()

    def _watch(
        self,
        tasks: Tasks,
        owner: Owner,
        resource: Resource,
        decode: Callable[[bytes | memoryview], Any],
        sink: Callable[[list[Any]], None],
        look: Callable[[], None] = _looks_at_nothing,
        *,
        pace: float = 0.0,
    ) -> None:
        def take_in(deltas: list[Any]) -> None:
            sink(deltas)
            if deltas[-1].kind == "synced":
                look()
                self._is_late_no_more(owner, resource.kind)
                self._settle()

        def noted(state: Any) -> None:
            if state.problem is not None:
                self.troubles[resource.kind] = state.problem
                _log.warning("%s: %s; again in %.1f s", resource.kind, state.problem, state.delay)
                look()

        reflector: Reflector[Any] = Reflector(
            self._api, resource, decode, take_in, on_state=noted, pace=pace
        )
        self._reflectors[resource.kind] = reflector
        tasks.start(reflector.run())


def _not_looked(error: GangschedError) -> None:
    _log.warning("which APIs are served is not known: %s", error)
