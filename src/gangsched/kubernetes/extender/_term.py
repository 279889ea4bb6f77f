"""One term of the extender: the watches, the scheduler and the desk, put together.

As ``gangsched.kubernetes._shell``, with these differences: only pods of groups are decided about;
binds wait for kube-scheduler; kube-scheduler binds volumes, and writes events and conditions of
pods. Nothing of the core differs.

Rules:
  R1  no request is answered before every listing is complete;
  R2  at the end held members are withdrawn first, so that nothing waits for kube-scheduler; then
      the term ends as that of ``gangsched run``, see ``gangsched.kubernetes._ending``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, final

from attrs import define, evolve, field, frozen

from gangsched.configuration import Settings, make_scheduler
from gangsched.configuration.scheduler import releases_gangs
from gangsched.errors import GangschedError
from gangsched.events import Evict
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._bind import Binder
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes._demand import DemandMeter
from gangsched.kubernetes._discovery import API_GROUPS
from gangsched.kubernetes._echoes import WithoutEchoes
from gangsched.kubernetes._effects import Effects
from gangsched.kubernetes._ending import stop_at, wait_until_written
from gangsched.kubernetes._evict import Evictor
from gangsched.kubernetes._give_way import GiveWay
from gangsched.kubernetes._group_status import GroupStatusWriter
from gangsched.kubernetes._mark_writer import StartMarks
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._partial import PartialGangs
from gangsched.kubernetes._recorder import EventRecorder
from gangsched.kubernetes._requests import Requests
from gangsched.kubernetes._restart_notes import RestartNotes
from gangsched.kubernetes._shell import Shell
from gangsched.kubernetes._tasks import Tasks, end
from gangsched.kubernetes._unreadable import UnreadableObjects
from gangsched.kubernetes.extender._answers import Extender
from gangsched.kubernetes.extender._desk import Desk
from gangsched.kubernetes.extender._nominator import Nominator
from gangsched.kubernetes.extender._ordinary import OrdinaryBinder
from gangsched.model import GroupKey, Pod
from gangsched.scheduler import Scheduler

__all__ = ["ExtenderTerm", "Holding"]

_NO_LIMIT: Final = 1_000_000
"""Held binds count as under way for the driver; the desk limits those that are sent."""

_log = logging.getLogger("gangsched.kubernetes.extender")


@final
@frozen(kw_only=True)
class Holding:
    """How long requests are held back.

    Attributes:
        timeout: For how many seconds a gang waits for the next of its members to be bound.
        grace: For how many seconds ``filter`` waits for the scheduler at most, about a member of
            which it has said nothing yet. kube-scheduler places no pod meanwhile.
    """

    timeout: float = 20.0
    grace: float = 0.01


@final
@define(eq=False)
class ExtenderTerm:
    """Everything that works while this replica leads.

    Attributes:
        api: The API server.
        settings: The configuration.
        holding: How long requests are held back.
        plugins: Further plugins of the scheduler.
        factories: By the name of a plugin, what makes it.
        measures: The metrics of the process.
        clock: Seconds since 1970 that never go back.
        may_write: Whether this replica leads at this moment.
        first_settled: Called once, when nothing is left to decide for the first time.
        desk: Answers the verbs; None before every listing is complete.
        binder: Binds members; None before every listing is complete.
        drained: Set at the end, once nothing that was decided can still be carried out.
    """

    api: Api
    settings: Settings
    holding: Holding
    plugins: Iterable[object]
    factories: Mapping[str, Callable[..., object]]
    measures: Measures
    clock: Callable[[], float]
    may_write: Callable[[], bool]
    first_settled: Callable[[], object] | None = None
    desk: Desk | None = None
    binder: Binder | None = None
    drained: asyncio.Event = field(factory=asyncio.Event)
    _watches: Shell | None = field(default=None, init=False)

    def problems(self) -> list[str]:
        """Return why it is not ready."""
        if self.desk is not None:
            return []
        found = [] if self._watches is None else self._watches.problems()
        return found or ["not every resource is listed yet"]

    async def run(self, stop: asyncio.Event, /) -> None:
        """Answer until *stop* is set.

        Raises:
            GangschedError: The scheduler raised.
        """
        settings = self.settings
        names, ignored = settings.profile.scheduler_names, settings.ignored
        cache = Cache(names, API_GROUPS, gangs_only=True, ignored=ignored)
        unreadable = UnreadableObjects(cache.names, self.measures.unreadable)
        owner = Owner(cache, self.clock, unreadable)
        self._scheduler(cache)  # a wrong profile fails before listing
        watches = self._watches = Shell(
            self.api,
            settings,
            plugins=self.plugins,
            factories=self.factories,
            measures=self.measures,
            clock=self.clock,
            may_write=self.may_write,
        )
        tasks = Tasks()
        stop = watches.peers.ending(tasks, stop)
        try:
            if await watches.list_all(tasks, owner, stop):
                self.settings = watches.settings
                await self._decide(tasks, stop, owner, unreadable, watches)
        finally:
            self.desk = None
            await tasks.cancel()
            unreadable.close()
            self._note_drained()

    def _note_drained(self) -> None:
        """Say that the lease may be given up, unless a bind may still be carried out."""
        if self.binder is None or not self.binder.unanswered:
            self.drained.set()

    def _scheduler(self, cache: Cache, *, preempts: bool = True) -> Scheduler:
        return make_scheduler(
            evolve(self.settings, levels_from="", quotas_from=""),
            cache.cluster,
            plugins=self.plugins,
            factories=self.factories,
            membership=cache.membership,
            preempts=preempts,
        )

    async def _decide(
        self,
        tasks: Tasks,
        stop: asyncio.Event,
        owner: Owner,
        unreadable: UnreadableObjects,
        watches: Shell,
    ) -> None:
        settings, cache = self.settings, owner.cache
        connections = settings.client.event_connections
        requests = Requests(self.api)
        give_way = GiveWay(owner.binds)
        status = StatusWriter(requests, cache, give_way, workers=connections)
        events = EventRecorder(
            requests,
            give_way,
            controller=settings.profile.scheduler_names[0],
            clock=self.clock,
            workers=connections,
            on_drop=self.measures.dropped,
        )
        unreadable.report_to(events)  # the conditions of pods are kube-scheduler's
        scheduler = self._scheduler(cache, preempts=watches.reads_budgets)

        async def release(evict: Evict) -> None:
            with suppress(GangschedError):  # looked at again within the bound
                await evictor(evict)
                self.measures.released()

        def report(key: GroupKey, note: str) -> None:
            effects.stays_partial(key, note)

        partial = PartialGangs(
            *(cache, scheduler, release, report, self.clock),
            bound=settings.partial_bound,
            evicts=releases_gangs(settings),
        )
        restarts = RestartNotes(requests, cache)
        effects = Effects(
            cache,
            status,
            events,
            scheduler,
            partial,
            self.first_settled,
            restarts,
            of_pods=False,
            fell=self.measures.fell,
        )
        evictor = Evictor(
            requests,
            cache,
            effects.is_victim,
            effects.evicted,
            respect_budgets=settings.respect_budgets,
        )
        nominator = Nominator(requests, cache, workers=settings.client.bind_connections)
        desk = self._desk(requests, owner, nominator, effects, partial)
        watched = self.measures.watch(scheduler)
        driver = owner.begin(
            WithoutEchoes(watches.peers.with_quotas(watched), cache.cluster),
            bind=desk,
            evict=restarts.before(evictor),
            effects=effects,
            max_binds=_NO_LIMIT,
            observers=(desk,),
        )
        marks = StartMarks(
            *(requests, cache, scheduler, partial.was_whole, status, give_way), workers=connections
        )
        for work in (status.run(), events.run(), restarts.run(), nominator.run(), desk.run()):
            tasks.start(work)
        tasks.start(marks.run())
        if settings.write_group_status:
            groups = GroupStatusWriter(
                *(requests, cache, scheduler, partial.was_whole), workers=connections
            )
            tasks.start(groups.run())
        deciding: list[asyncio.Task[None]] = []
        if settings.demand_interval:
            meter = DemandMeter(
                scheduler,
                cache.cluster.nodes,
                self.clock,
                give_way,
                self.measures.demand,
                interval=settings.demand_interval,
            )
            deciding.append(tasks.start(meter.run()))
        deciding.append(tasks.start(partial.run()))
        self.measures.held(lambda: desk.held)
        self.desk = desk
        _log.info("answering: %r", cache.cluster)
        running = asyncio.create_task(driver.run())
        stopping = asyncio.create_task(stop_at(stop, driver))
        try:
            await tasks.until(asyncio.shield(running), stop)
            ends_at = self.clock() + settings.drain
            _log.info("stopping: nothing more is decided, binds under way are waited for")
            self.desk = None
            desk.close()
            await end(*deciding)
            await asyncio.wait((running,), timeout=settings.drain)
        finally:
            effects.close()
            desk.close()
            await end(running, stopping)
        if not running.cancelled():
            running.result()
        await wait_until_written(lambda: status.under_way + len(nominator), ends_at - self.clock())
        self._note_drained()
        events.flush()
        await wait_until_written(lambda: len(status) + len(events), ends_at - self.clock())

    def _desk(
        self,
        requests: Requests,
        owner: Owner,
        nominator: Nominator,
        effects: Effects,
        partial: PartialGangs,
    ) -> Desk:
        cache = owner.cache

        def group(pod: Pod) -> GroupKey | None:
            claim = cache.membership(pod)
            return None if claim is None else claim.group

        extender = Extender(cache.cluster, group, timeout=self.holding.timeout)
        for uid in cache.conditions:
            extender.plans.refuse(uid)  # refused by an earlier process: the decision wakes it
        binder = self.binder = Binder(
            requests,
            cache,
            PodDecoder(self.settings.ignored),
            owner.tell,
            self.may_write,
            marks=partial.marks_with_bind,
            repeated=effects.bind_is_repeated,
            refused=self.measures.refused_binds,
        )
        return Desk(
            extender,
            cache,
            self.settings.profile.scheduler_names,
            binder,
            OrdinaryBinder(requests),
            nominator,
            owner.tell,
            self.clock,
            max_binds=self.settings.client.bind_connections,
            grace=self.holding.grace,
            ignored=self.settings.ignored,
        )
