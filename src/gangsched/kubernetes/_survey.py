"""A cluster as its API server lists it, and a scheduler that has read it and decides nothing.

Theory of operation. What the running scheduler watches is listed here too, by the same reflectors,
so that a look from outside sees what the scheduler sees. A new scheduler reads the listing. It is
asked only what leaves it as it is: ``what_if`` runs a fork, whose binds are made on an overlay. So
"it fits now" is said of a gang that such a fork starts, and nothing is written anywhere.

Rules:
  R1  only GET and watch requests are sent;
  R2  each question has a scheduler of its own: nothing is remembered from one look to the next.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, Final, final

from attrs import define, evolve, field

from gangsched.configuration import Settings, make_scheduler
from gangsched.drivers._clock import epoch_seconds
from gangsched.errors import GangschedError, InvalidPodGroupError
from gangsched.explain import PartlyRunning, Queued, Running, Why, in_utc
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._discovery import API_GROUPS
from gangsched.kubernetes._measure import Measures
from gangsched.kubernetes._owner import Owner
from gangsched.kubernetes._parents import groups_with_pods
from gangsched.kubernetes._shell import Shell
from gangsched.listings import PendingRow
from gangsched.model import GroupKey, Pod
from gangsched.scheduler import Scheduler

__all__ = ["FITS_NOW", "NotListedError", "Survey", "survey"]

FITS_NOW: Final = "fits now, and waits for its scheduler"
"""The reason of a group that a scheduler would start."""

_REFUSED: Final = (401, 403)
_PATIENCE: Final = 1.5
"""Seconds for which 401 and 403 are taken for those of an API server that has just started."""


@final
class NotListedError(GangschedError):
    """The cluster could not be listed in time.

    Attributes:
        kinds: The kinds that are not listed.
        problem: What the API server said last.
    """

    def __init__(self, kinds: tuple[str, ...], problem: str) -> None:
        super().__init__(kinds, problem)
        self.kinds = kinds
        self.problem = problem

    def __str__(self) -> str:
        return f"not listed: {', '.join(self.kinds)}: {self.problem}"


@final
@define(eq=False)
class Survey:
    """What is known of a cluster at one instant, and a scheduler that has read it.

    Attributes:
        cache: What is listed.
        settings: The configuration by which the scheduler decides.
        now: The instant, in seconds since 1970.
        factories: By the name of a plugin of one's own, what makes it.
        scheduler: The scheduler.
    """

    cache: Cache
    settings: Settings
    now: float
    factories: Mapping[str, Callable[..., object]] = field(factory=dict[str, Any])
    scheduler: Scheduler = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.scheduler = make_scheduler(
            self.settings,
            self.cache.cluster,
            factories=self.factories,
            membership=self.cache.membership,
        )
        self.scheduler.rebuild(now=self.now)

    @cached_property
    def members(self) -> Mapping[GroupKey, list[Pod]]:
        """The pods of each group, in the order of their names."""
        found: defaultdict[GroupKey, list[Pod]] = defaultdict(list)
        for pod in sorted(self.cache.cluster.pods(), key=lambda pod: pod.key):
            try:
                claim = self.cache.membership(pod)
            except InvalidPodGroupError:
                continue  # the scheduler holds such a pod and says why
            if claim is not None:
                found[claim.group].append(pod)
        return found

    def members_of(self, key: GroupKey) -> list[Pod]:
        """Return the pods of a group, or of the groups below it, in the order of their names."""
        groups = groups_with_pods(self.scheduler.registry, key)
        found = [pod for each in groups for pod in self.members.get(each, ())]
        return found if len(groups) == 1 else sorted(found, key=lambda pod: pod.key)

    def reason(self, why: Why, pods: Collection[Pod]) -> str:
        """Return why a group does not run."""
        if not isinstance(why, Running):
            return in_utc(why)
        foreign = self.foreign(pods)
        return f"fits now; {foreign}" if foreign else FITS_NOW

    def foreign(self, pods: Iterable[Pod]) -> str:
        """Return which other scheduler pending pods name; empty if there is none."""
        known = self.cache.schedulers
        named = {known[pod.uid] for pod in pods if pod.uid in known and not pod.is_finished}
        ours = self.settings.profile.scheduler_names
        others = sorted(named.difference(ours))
        if not others:
            return ""
        schedulers, verb = ("scheduler", "is") if len(others) == 1 else ("schedulers", "are")
        names = ", ".join(others)
        return f"its pods name the {schedulers} {names}, which {verb} not {' or '.join(ours)}"

    def pending(self) -> list[PendingRow]:
        """Return what waits; places count the pods and groups of the same scheduler alone."""
        places: defaultdict[str, int] = defaultdict(int)
        found: list[PendingRow] = []
        for row in self.scheduler.pending():
            if row.position is None:
                found.append(row)
                continue
            name = self._scheduler_of(row)
            why = _with_place(row.why, places[name])
            found.append(evolve(row, position=places[name], why=why))
            places[name] += 1
        return found

    def _scheduler_of(self, row: PendingRow) -> str:
        """Return the scheduler that the pods of a row name; empty if that is not known."""
        known = self.cache.schedulers
        if row.uid is not None:
            return known.get(row.uid, "")
        members = () if row.group is None else self.members_of(row.group)
        return next((known[pod.uid] for pod in members if pod.uid in known), "")


def _with_place(why: Why, ahead: int) -> Why:
    """Return an answer with another place in the queue, if it has one."""
    if isinstance(why, PartlyRunning) and why.rest is not None:
        return evolve(why, rest=_with_place(why.rest, ahead))
    return evolve(why, ahead=ahead) if isinstance(why, Queued) else why


@asynccontextmanager
async def survey(
    api: Api,
    settings: Settings,
    *,
    scheduler_names: Collection[str] | None = None,
    factories: Mapping[str, Callable[..., object]] | None = None,
    timeout: float = 30.0,
) -> AsyncGenerator[Callable[[], Survey], None]:
    """List a cluster and watch it; yields what returns the survey of this moment.

    Args:
        api: The API server.
        settings: The configuration by which the scheduler decides.
        scheduler_names: The pods of these schedulers are to be placed; None for those of any.
        factories: By the name of a plugin of one's own, what makes it.
        timeout: Seconds that the listing may take.

    Raises:
        NotListedError: A kind was not listed in time, or must not be listed.
        GangschedError: The configuration is malformed.
    """
    shell = Shell(
        api,
        settings,
        plugins=(),
        factories=factories or {},
        measures=Measures(settings),
        clock=epoch_seconds,
        may_write=lambda: False,
    )
    cache = Cache(scheduler_names, API_GROUPS, ignored=settings.ignored)
    began = time.monotonic()
    try:
        async with (
            asyncio.timeout(timeout) as limit,
            shell.watching(Owner(cache, epoch_seconds)) as is_listed,
        ):
            while not is_listed():
                _refuse_what_is_forbidden(shell, time.monotonic() - began)
                await asyncio.sleep(0.01)
            limit.reschedule(None)
            yield lambda: Survey(cache, shell.settings, epoch_seconds(), factories or {})
    except TimeoutError:
        raise _not_listed(shell) from None


def _refuse_what_is_forbidden(shell: Shell, waited: float) -> None:
    waiting = set(_waiting(shell))
    troubles = [each for kind, each in shell.troubles.items() if kind in waiting]
    codes = [getattr(getattr(each, "status", None), "code", 0) for each in troubles]
    if waited > _PATIENCE and any(code in _REFUSED for code in codes):
        raise _not_listed(shell)


def _waiting(shell: Shell) -> tuple[str, ...]:
    return tuple(shell.waiting()) or ("not scheduling yet",)


def _not_listed(shell: Shell) -> NotListedError:
    if shell.peers.problem:  # nothing is listed before these are read
        return NotListedError(("pods and groups",), shell.peers.problem)
    kinds = _waiting(shell)
    said = [str(problem) for kind, problem in shell.troubles.items() if kind in kinds]
    return NotListedError(kinds, said[0] if said else "no answer in time")
