"""What the running scheduler answers over HTTP: its gangs, queue, quotas, and why a gang waits.

Theory of operation. The pages of ``gangsched run`` are served on the event loop that decides, so an
answer takes time from decisions. It is made in steps: one question to the scheduler, then some rows
at a time. Before each step the binds go first. After a step of t seconds none is made for 9 t
seconds, for all requests together. So all answers take at most a tenth of the time, and a decision
waits for one step at most. The longest step is a listing: 54 ms of CPU time for 6,000 groups with
48,000 pods. It is kept for a second, so that many readers cost as much as one.

Rules:
  R1  a question changes nothing: ``groups``, ``pending``, ``quotas`` and ``why`` of the scheduler
      are asked;
  R2  one request is answered at a time. At most 16 wait, each for 4 s at most, then the status is
      503. An answer has at most 1,000 rows, and says how many there are: the next ones are asked
      for with the number of rows to skip. Groups that are named are looked up, not listed;
  R3  only the leader answers. Another replica has no cluster state, and says which one leads;
  R4  an answer names pods and groups of the namespaces that the asker may read, see ``_scope``.
      Nodes, and how many entities are before one in the queue, are of the whole cluster. So are
      quotas, which are for those alone who may read all namespaces.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

from attrs import define, evolve, field, frozen

from gangsched._version import __version__
from gangsched.cluster_objects import Namespace
from gangsched.configuration import ProfileSettings, Settings
from gangsched.errors import UnknownPodError
from gangsched.explain import Why, in_utc
from gangsched.kubernetes._ask import API_VERSION
from gangsched.kubernetes._gang_rows import GangRow, gang_row
from gangsched.kubernetes._give_way import GiveWay
from gangsched.kubernetes._instants import micro_time
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._queue_rows import queue_item
from gangsched.kubernetes._quota_rows import quota_item
from gangsched.kubernetes._reviews import Asker
from gangsched.kubernetes._running import ObservedScheduler
from gangsched.kubernetes._scope import NotReadableError, Scope, among, scope_of, whole_cluster
from gangsched.kubernetes._server import Answer, Page
from gangsched.listings import GroupRow, Listing, PendingRow, QuotaRow
from gangsched.model import GroupKey
from gangsched.scheduler import Scheduler

__all__ = ["MOST_ROWS", "Answers", "Term"]

MOST_ROWS: Final = 1_000
_MOST_WAITING: Final = 16
_PATIENCE: Final = 4.0
"""Seconds that a request waits for its answer; less than the server gives it."""
_PAUSES: Final = 9.0
"""How many times as long as a step the pause after it is."""
_KEPT: Final = 1.0
"""Seconds for which a listing is kept."""
_ROWS_OF_A_STEP: Final = 20
_JSON: Final = "application/json"

_Row = TypeVar("_Row")
_Document: TypeAlias = dict[str, Any]
_Steps: TypeAlias = Generator[None, None, _Document]
_Make: TypeAlias = Callable[[Owner, Scheduler, Scope], _Steps]


class Term(Protocol):
    """The term of a leader, as far as it is asked."""

    @property
    def owner(self) -> Owner | None:
        """Owns the scheduler; None before it is made."""
        ...


@final
@frozen
class _Listed(Generic[_Row]):
    """What the scheduler has listed at one instant."""

    owner: Owner
    at: float
    until: float
    rows: Listing[_Row]


@final
@define(eq=False)
class Answers:
    """The pages ``/gangs``, ``/queue``, ``/quotas``, ``/why`` and ``/configuration``.

    Attributes:
        settings: The configuration; its scheduler names are in each answer.
        term: Returns the term of this leader; None while this replica does not lead.
        leader: Returns the identity of the replica that leads; empty if it is not known.
        clock: Seconds since 1970.
        problems: Returns why this replica does not schedule yet, if it leads.
    """

    settings: Settings
    term: Callable[[], Term | None]
    leader: Callable[[], str]
    clock: Callable[[], float]
    problems: Callable[[], list[str]] = list
    _lock: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _waiting: int = field(default=0, init=False)
    _free_at: float = field(default=0.0, init=False)
    _groups: _Listed[GroupRow] | None = field(default=None, init=False)
    _queued: _Listed[PendingRow] | None = field(default=None, init=False)
    _charged: _Listed[QuotaRow] | None = field(default=None, init=False)

    def pages(self) -> Mapping[str, Answer]:
        """Return what makes the pages."""
        return {
            "/gangs": self._gangs,
            "/queue": self._queue,
            "/quotas": self._quotas,
            "/why": self._why,
            "/configuration": self._configuration,
        }

    def forget(self) -> None:
        """Keep no listing of a term that has ended."""
        self._groups = self._queued = self._charged = None

    async def _gangs(self, query: Mapping[str, str], asker: Asker) -> Page:
        keys = [GroupKey(key) for key in query.get("groups", "").split(",") if key]
        return await self._answer(query, asker, partial(self._all, keys, _skipped(query)))

    async def _queue(self, query: Mapping[str, str], asker: Asker) -> Page:
        return await self._answer(query, asker, partial(self._pending, _skipped(query)))

    async def _quotas(self, query: Mapping[str, str], asker: Asker) -> Page:
        try:
            scope = await whole_cluster(asker)
        except NotReadableError as error:
            return _problem(403, str(error))
        return await self._made(partial(self._tree, _skipped(query)), scope)

    async def _why(self, query: Mapping[str, str], asker: Asker) -> Page:
        key = query.get("group", "")
        namespace, slash, _ = key.partition("/")
        if not slash:
            return _problem(400, f"group: expected NAMESPACE/NAME, got {key!r}")

        def one(owner: Owner, scheduler: Scheduler, scope: Scope) -> _Steps:
            return self._one(owner, scheduler, GroupKey(key), scope)

        return await self._answer({"namespace": namespace}, asker, one)

    async def _configuration(self, query: Mapping[str, str], asker: Asker) -> Page:
        def configured(_owner: Owner, _scheduler: Scheduler, scope: Scope) -> _Steps:
            return self._configured()

        return await self._answer(query, asker, configured)

    async def _answer(self, query: Mapping[str, str], asker: Asker, make: _Make) -> Page:
        """Make an answer about what the asker may read."""
        try:
            scope = await scope_of(asker, query.get("namespace"))
            if scope is None:
                found = await self._at_its_turn(self._namespaces)
                if isinstance(found, Page):
                    return found
                scope = await among(asker, found["items"])
        except NotReadableError as error:
            return _problem(403, str(error))
        return await self._made(make, scope)

    async def _made(self, make: _Make, scope: Scope) -> Page:
        """Make an answer within a scope."""
        document = await self._at_its_turn(partial(_within, make, scope))
        if isinstance(document, Page):
            return document
        return Page(json.dumps(document).encode(), content_type=_JSON)

    async def _at_its_turn(self, make: Callable[[Owner, Scheduler], _Steps]) -> _Document | Page:
        """Make a document in steps, when it is its turn; return the problem if there is one."""
        if self._waiting >= _MOST_WAITING:
            return _problem(503, "too many questions wait for an answer")
        self._waiting += 1
        try:
            async with asyncio.timeout(_PATIENCE), self._lock:
                return await self._in_steps(make)
        except TimeoutError:
            return _problem(503, f"the scheduler had no time within {_PATIENCE:.0f} s")
        except UnknownPodError as unknown:
            return _problem(404, str(unknown))
        finally:
            self._waiting -= 1

    async def _in_steps(self, make: Callable[[Owner, Scheduler], _Steps]) -> _Document | Page:
        owner = self._owner()
        steps: _Steps | None = None

        def step(scheduler: Scheduler) -> None:
            nonlocal steps
            assert owner is not None
            steps = make(owner, scheduler) if steps is None else steps
            next(steps)

        while True:
            await asyncio.sleep(self._free_at - time.monotonic())
            if owner is None or owner.driver is None or owner is not self._owner():
                return self._not_leading()
            await GiveWay(owner.binds)(time.monotonic())
            began = time.monotonic()
            try:
                owner.driver.ask(step)
            except StopIteration as end:
                document: _Document = end.value
                return document
            finally:
                now = time.monotonic()
                self._free_at = now + _PAUSES * (now - began)

    def _owner(self) -> Owner | None:
        term = self.term()
        return None if term is None else term.owner

    def _not_leading(self) -> Page:
        leader = self.leader()
        if leader:
            return _problem(503, f"{leader} leads")
        return _problem(503, ": ".join(("it does not schedule yet", *self._reasons())))

    def _reasons(self) -> list[str]:
        found = self.problems()
        return ["; ".join(found)] if found and found != ["not scheduling yet"] else []

    # The steps of each answer ---------------------------------------------------------------

    def _namespaces(self, owner: Owner, scheduler: Scheduler) -> _Steps:
        """List the namespaces of what waits or has a row."""
        groups = self._groups = self._list(self._groups, owner, scheduler.groups)
        yield
        queued = self._queued = self._list(self._queued, owner, scheduler.pending)
        keys = (
            *(row.key for row in groups.rows),
            *(row.name for row in queued.rows),
            *owner.cache.malformed.groups(),
        )
        return {"items": sorted({key.partition("/")[0] for key in keys})}

    def _all(
        self,
        keys: Collection[GroupKey],
        skip: int,
        owner: Owner,
        scheduler: Scheduler,
        scope: Scope,
    ) -> _Steps:
        """Make the rows of the groups that are named, or of all."""
        whys: dict[GroupKey, Why | None] = {}
        if keys:
            yield from ()
            at = self.clock()
            running = ObservedScheduler(owner.cache, scheduler, at)
            for key in keys:
                if scope.has(key) and not running.has_ended(key):
                    is_known = scheduler.registry.get(key) is not None
                    whys[key] = scheduler.why(key, budget=0) if is_known else None
        else:
            listed = self._groups = self._list(self._groups, owner, scheduler.groups)
            yield
            at = listed.at
            running = ObservedScheduler(owner.cache, scheduler, at)
            whys = {
                row.key: row.why
                for row in listed.rows
                if scope.has(row.key) and (row.members or not running.has_ended(row.key))
            }
            for key in owner.cache.malformed.groups():
                if scope.has(key):
                    whys.setdefault(key)
        rows = sorted(whys)
        items: list[_Document] = []
        for n, key in enumerate(rows[skip : skip + MOST_ROWS]):
            if n % _ROWS_OF_A_STEP == _ROWS_OF_A_STEP - 1:
                yield
            why = whys[key]
            why = None if why is None else scope.without_queues(why)
            items.append(self._item(gang_row(running, key, _answers(key, why))))
        items = _without_others(items, scope, owner, scheduler)
        return self._document("GangList", at, items, len(rows))

    def _pending(self, skip: int, owner: Owner, scheduler: Scheduler, scope: Scope) -> _Steps:
        listed = self._queued = self._list(self._queued, owner, scheduler.pending)
        yield
        rows = [row for row in listed.rows if scope.has(row.name)]
        shown = rows[skip : skip + MOST_ROWS]
        running = ObservedScheduler(owner.cache, scheduler, listed.at)
        items = [
            queue_item(evolve(row, why=scope.without_queues(row.why)), age=running.age_of(row))
            for row in shown
        ]
        reserved = scheduler.reservation
        for row, item in zip(shown, items, strict=True):
            if reserved is not None and (row.group or row.name) == (reserved.group or reserved.pod):
                item["state"] += f"; {reserved.in_utc()}"
        items = _without_others(items, scope, owner, scheduler)
        return self._document("QueueList", listed.at, items, len(rows))

    def _tree(self, skip: int, owner: Owner, scheduler: Scheduler, _scope: Scope) -> _Steps:
        listed = self._charged = self._list(self._charged, owner, scheduler.quotas)
        yield
        items: list[_Document] = []
        for n, row in enumerate(listed.rows[skip : skip + MOST_ROWS]):
            if n % _ROWS_OF_A_STEP == _ROWS_OF_A_STEP - 1:
                yield
            items.append(quota_item(row))
        return self._document("QuotaList", listed.at, items, len(listed.rows))

    def _one(self, owner: Owner, scheduler: Scheduler, key: GroupKey, scope: Scope) -> _Steps:
        yield from ()
        is_known = scheduler.registry.get(key) is not None  # ``why`` would take a UID, too
        if not is_known and not owner.cache.malformed.of(key):
            raise UnknownPodError(key)
        why, now = scheduler.why(key, budget=0) if is_known else None, self.clock()
        why = None if why is None else scope.without_queues(why)
        running = ObservedScheduler(owner.cache, scheduler, now)
        item = self._item(gang_row(running, key, _answers(key, why)))
        if running.has_ended(key):
            names = ", ".join(self.settings.profile.scheduler_names)
            item["reason"] = f"it has no pods with the schedulerName {names}"
        said = "" if why is None else in_utc(why)
        item |= {"why": item["reason"] or said, **running.notes_of(key, why)}
        item["isConfigured"] = _is_configured(self.settings)
        items = _without_others([item], scope, owner, scheduler)
        return self._document("GangList", now, items, 1)

    def _configured(self) -> _Steps:
        yield from ()
        item = {"isConfigured": _is_configured(self.settings)}
        return self._document("Configuration", self.clock(), [item], 1)

    def _list(
        self, known: _Listed[_Row] | None, owner: Owner, rows: Callable[[], Listing[_Row]]
    ) -> _Listed[_Row]:
        """Return the listing of this second."""
        if known is None or known.owner is not owner or time.monotonic() >= known.until:
            found = rows()
            return _Listed(owner, self.clock(), time.monotonic() + _KEPT, found)
        return known

    def _item(self, row: GangRow) -> _Document:
        found = row.to_dict()
        if not row.have:
            # pods of other schedulers without a node are not read here, so they may be there
            names = ", ".join(self.settings.profile.scheduler_names)
            found |= {"phase": "", "reason": f"no pod with the schedulerName {names} is a member"}
        return found

    def _document(self, kind: str, at: float, items: list[_Document], total: int) -> _Document:
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "schedulerNames": list(self.settings.profile.scheduler_names),
            "version": __version__,
            "at": micro_time(at),
            "total": total,
            "items": items,
        }


def _within(make: _Make, scope: Scope, owner: Owner, scheduler: Scheduler) -> _Steps:
    return make(owner, scheduler, scope)


def _skipped(query: Mapping[str, str]) -> int:
    """Return how many rows a question skips; none if it does not say so."""
    text = query.get("skip", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _answers(key: GroupKey, why: Why | None) -> dict[str, Why]:
    return {} if why is None else {key: why}


def _is_configured(settings: Settings) -> bool:
    """Return whether decisions follow from more than the defaults of a configuration."""
    names = settings.profile.scheduler_names
    is_default = settings.profile == ProfileSettings(scheduler_names=names)
    has_levels = bool(settings.levels.topologies or settings.levels_from)
    has_quotas = bool(settings.quotas or settings.quotas_from)
    is_more = has_levels or has_quotas or settings.ignored
    return bool(is_more) or not is_default


def _without_others(
    items: list[_Document], scope: Scope, owner: Owner, scheduler: Scheduler
) -> list[_Document]:
    """Return rows without the names of what the asker may not read."""
    objects = owner.cache.cluster.objects

    def exists(key: str) -> bool:
        is_known = objects.get(Namespace, key.partition("/")[0]) is not None
        return is_known or scheduler.registry.get(GroupKey(key)) is not None

    cleaned: list[_Document] = scope.without_others(items, exists)
    return cleaned


def _problem(status: int, message: str) -> Page:
    body = {"apiVersion": API_VERSION, "kind": "Problem", "message": message}
    return Page(json.dumps(body).encode(), status, _JSON)
