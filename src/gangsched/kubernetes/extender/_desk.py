"""Between the server, the scheduler and the API server: what ``_answers`` says is done here.

Theory of operation. The driver calls ``Desk`` as its bind function, once for each member of a
decision. That call waits until the gang is released or withdrawn, then sends the bind, and its end
is reported to the scheduler as any other. A request of kube-scheduler to bind a member waits for
the same end. Everything runs on one event loop, and between two calls of the scheduler.

Rules:
  R1  a held bind takes no connection and no turn: only requests are counted against the limit;
  R2  a member counts as arrived while at least one of its requests is open;
  R3  at the end every request that waits gets an answer;
  R4  a pod is bound only if it is one of ours. That is a member that was decided, or a pod of which
      the API server says that it has one of our scheduler names. What ``filter`` was told of it
      proves nothing: a stranger could have asked.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import Final, final

from gangsched.errors import GangschedError, InvalidValueError
from gangsched.events import Bind, Effect, Event, NodeDeleted, PodDeleted
from gangsched.kubernetes._bind import Binder, BindRefusedError
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import PodDecoder
from gangsched.kubernetes.extender._answers import (
    Asked,
    Extender,
    ExtenderEffect,
    HowToBind,
    PauseNode,
    ResumeNode,
)
from gangsched.kubernetes.extender._messages import (
    BindingArgs,
    encode_bound,
    encode_filtered,
    encode_priorities,
    encode_victims,
    read_binding_args,
    read_extender_args,
    read_preemption_args,
)
from gangsched.kubernetes.extender._nominator import Nominator
from gangsched.kubernetes.extender._ordinary import OrdinaryBinder
from gangsched.kubernetes.extender._plans import Nominate, NotDecided, Release, Withdraw
from gangsched.model import PodUID
from gangsched.values.seconds import format_duration

__all__ = ["Desk"]

_GO: Final = ""
_STOPPED: Final = "the extender stops"
_AGAIN: Final = 60.0
"""Seconds between two warnings of the same."""

_log = logging.getLogger("gangsched.kubernetes.extender")


@final
class Desk:
    """The verbs of the extender, and the bind function of its driver.

    Args:
        extender: The answers.
        cache: The cluster state.
        names: The values of ``spec.schedulerName`` whose gangs are decided here.
        binder: Binds members.
        ordinary: Binds other pods.
        nominator: Writes nominations.
        tell: Hands an event to the scheduler.
        clock: The clock of the driver.
        max_binds: How many members are being bound at once at most.
        grace: For how many seconds ``filter`` waits for the scheduler at most, about a member of
            which it has said nothing yet.
        ignored: Constraints that are not modelled and are ignored, as paths without indices.
    """

    def __init__(
        self,
        extender: Extender,
        cache: Cache,
        names: Iterable[str],
        binder: Binder,
        ordinary: OrdinaryBinder,
        nominator: Nominator,
        tell: Callable[[Event | None], object],
        clock: Callable[[], float],
        *,
        max_binds: int,
        grace: float,
        ignored: Iterable[str] = (),
    ) -> None:
        self._extender = extender
        self._cache = cache
        self._names = frozenset(names)
        self._binder = binder
        self._ordinary = ordinary
        self._nominator = nominator
        self._tell = tell
        self._clock = clock
        self._grace = grace
        self._turns = asyncio.Semaphore(max_binds)
        self._requested = 0
        self._decode = PodDecoder(ignored)
        self._going: dict[Bind, asyncio.Future[str]] = {}
        self._clients: dict[PodUID, set[asyncio.Future[str]]] = {}
        self._given_up_at = -math.inf
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()

    @property
    def held(self) -> int:
        """How many members have arrived and wait for others."""
        return self._extender.plans.held

    # As an observer of the driver ---------------------------------------------------------------

    def event(self, event: Event, now: float) -> None:
        """Withdraw what needs a pod or a node that is gone."""
        match event:
            case PodDeleted(uid):
                self._nominator.forget(uid)
                self._perform(self._extender.pod_is_gone(uid))
            case NodeDeleted(name):
                self._perform(self._extender.node_is_gone(name))
            case _:
                pass

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        """Take in decisions."""
        loop = asyncio.get_running_loop()
        for effect in effects:
            if isinstance(effect, Bind):
                self._going[effect] = loop.create_future()
        self._perform(self._extender.observe(effects, now))
        self._settled.set()

    def settled(self, now: float) -> None:
        """Let the requests go on that wait for the scheduler."""
        self._settled.set()

    # As the bind function of the driver ---------------------------------------------------------

    async def __call__(self, bind: Bind, /) -> None:
        """Bind a member when its gang is released.

        Raises:
            BindRefusedError: The gang was withdrawn, or the API server refused the bind.
        """
        problem, is_bound = _STOPPED, False
        try:
            problem = await self._going[bind]
            if problem != _GO:
                raise BindRefusedError(problem)
            problem = _STOPPED
            self._requested += 1
            try:
                async with self._turns:
                    await self._binder(bind)
            finally:
                self._requested -= 1
            is_bound = True
        except BindRefusedError as error:
            problem = str(error)
            raise
        finally:
            self._going.pop(bind, None)
            self._extender.ended(bind, self._clock(), is_bound=is_bound)
            if is_bound:
                self._nominator.forget(bind.uid)
            self._answer(bind.uid, "" if is_bound else problem)

    def __len__(self) -> int:
        """Return how many members are being bound, or wait for their turn."""
        return self._requested

    # The verbs ----------------------------------------------------------------------------------

    async def filter(self, raw: bytes) -> bytes:
        """Answer ``filter``.

        Raises:
            InvalidValueError: A field of the request is absent or malformed.
        """
        pod, names = read_extender_args(raw)
        asked = self._read(pod)
        found = self._extender.filter(asked, names, self._clock())
        if found.is_new and self._grace:
            # The watch or the scheduler may be a moment behind, and a refusal costs a second
            # attempt. It does not wait for a gang that was tried: kube-scheduler stands still.
            self._settled.clear()
            try:
                async with asyncio.timeout(self._grace):
                    while found.is_new:
                        await self._settled.wait()
                        self._settled.clear()
                        found = self._extender.filter(asked, names, self._clock())
            except TimeoutError:
                pass
        self._perform(found.effects)
        return encode_filtered(found.names, found.failed)

    async def prioritize(self, raw: bytes) -> bytes:
        """Answer ``prioritize``.

        Raises:
            InvalidValueError: A field of the request is absent or malformed.
        """
        pod, names = read_extender_args(raw)
        return encode_priorities(self._extender.prioritize(self._read(pod), names))

    async def preempt(self, raw: bytes) -> bytes:
        """Answer ``preempt``.

        Raises:
            InvalidValueError: A field of the request is absent or malformed.
        """
        pod, victims = read_preemption_args(raw)
        return encode_victims(self._extender.preempt(self._read(pod), victims))

    async def bind(self, raw: bytes) -> bytes:
        """Answer ``bind`` when the end of the bind is known.

        Raises:
            InvalidValueError: A field of the request is absent or malformed.
        """
        args = read_binding_args(raw)
        try:
            how, effects = self._extender.bind(PodUID(args.uid), args.node, self._clock())
        except NotDecided as error:
            return encode_bound(str(error))
        match how:
            case HowToBind.DONE:
                return encode_bound()
            case HowToBind.HELD:
                return encode_bound(await self._wait(PodUID(args.uid), effects))
            case HowToBind.AT_ONCE | HowToBind.UNKNOWN:
                problem = await self._look(args)
        return encode_bound(problem or await self._ordinary(args))

    async def _wait(self, uid: PodUID, effects: Iterable[ExtenderEffect]) -> str:
        """Wait for the end of the bind of a member; return the problem, empty for none."""
        client: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        began = self._clock()
        self._clients.setdefault(uid, set()).add(client)
        self._perform(effects)
        try:
            return await client
        finally:
            others = self._clients.get(uid, set())
            others.discard(client)
            if not others:
                self._clients.pop(uid, None)
                if not client.done() or client.cancelled():
                    self._extender.plans.leave(uid, self._clock())
                    self._given_up(uid, self._clock() - began)

    def _given_up(self, uid: PodUID, seconds: float) -> None:
        """Log that kube-scheduler waits for too short a time, at most once a minute."""
        if self._clock() < self._given_up_at + _AGAIN:
            return
        self._given_up_at = self._clock()
        pod = self._cache.cluster.pod(uid)
        _log.warning(
            "kube-scheduler gave up the bind of %s after %s s, before its gang had arrived: if it"
            " was not stopped, httpTimeout is too short in its configuration of this extender",
            uid if pod is None else pod.key,
            format_duration(round(seconds, 1)),
        )

    async def _look(self, args: BindingArgs) -> str:
        """Look at a pod that is no known member; return why it must not be bound, if so (R4)."""
        found = await self._ordinary.read(args)
        if isinstance(found, str):
            return found
        facts = self._decode(found)
        if facts.pod.uid != args.uid:
            return f"pod {facts.pod.key} has the UID {facts.pod.uid}, not {args.uid}"
        if facts.scheduler_name not in self._names:
            return (
                f"pod {facts.pod.key} has the schedulerName {facts.scheduler_name!r}, and this"
                f" extender binds pods of {', '.join(sorted(self._names))}: see --scheduler-name"
            )
        if not self._extender.is_ordinary(Asked(facts.pod)):
            return f"nothing is decided about pod {args.uid}"
        return ""

    def _read(self, pod: bytes) -> Asked:
        try:
            return self._asked(pod)
        except (GangschedError, UnicodeDecodeError, RecursionError) as error:
            start = pod[:100].decode("utf-8", "replace")
            raise InvalidValueError("Pod", start, f"a pod: {error}") from error

    def _asked(self, pod: bytes) -> Asked:
        facts = self._decode(pod)
        return Asked(facts.pod, facts.scheduler_name in self._names, facts.nominated_node)

    # What follows -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Perform what is due, until cancelled."""
        while True:
            self._changed.clear()
            at = self._extender.next_deadline()
            seconds = None if at is None else max(at - self._clock(), 0.0)
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                self._perform(self._extender.advance(self._clock()))

    def close(self) -> None:
        """Withdraw what is not released, and answer every request that waits."""
        self._perform(self._extender.plans.withdraw_all(_STOPPED))
        for uid in list(self._clients):
            if self._extender.plans.bind_of(uid) is None:
                self._answer(uid, _STOPPED)

    def _perform(self, effects: Iterable[ExtenderEffect]) -> None:
        for effect in effects:
            match effect:
                case Release(binds):
                    for bind in binds:
                        self._going[bind].set_result(_GO)
                case Withdraw(binds, reason):
                    _log.info("%d members are withdrawn: %s", len(binds), reason)
                    for bind in binds:
                        self._going[bind].set_result(reason)
                        self._nominator.put(bind.uid, None)
                        self._answer(bind.uid, reason)
                case Nominate(uid, node):
                    self._nominator.put(uid, node)
                case PauseNode(node):
                    _log.info("node %s is paused: kube-scheduler refuses it", node)
                    self._tell(self._cache.pause_node(node))
                case ResumeNode(node):
                    self._tell(self._cache.resume_node(node))
        self._changed.set()

    def _answer(self, uid: PodUID, problem: str) -> None:
        for client in self._clients.pop(uid, ()):
            if not client.done():
                client.set_result(problem)
