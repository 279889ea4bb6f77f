"""A small synchronous driver: a cluster, a scheduler, and the oracle that watches it.

Every event is applied to the cluster before the scheduler handles it. Every bind is performed in
order, with the current fate. After every call, the oracle and ``_check`` of the scheduler run.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ClusterState,
    Effect,
    Event,
    Evict,
    InMemoryCluster,
    MatchPolicy,
    NodeAdded,
    NodeDeleted,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodUID,
    PodUpdated,
    Scheduler,
    ungrouped,
)
from support.account import claim_of
from support.oracle import LawOracle
from support.units import coscheduling

__all__ = ["Driver", "Fate", "Told", "list_to"]

Maker = Callable[[ClusterState], Scheduler]


class Fate(enum.Enum):
    """The outcome of a bind."""

    DONE = "done"
    """The bind succeeds, and is reported so."""
    FAILED = "failed"
    """The bind fails, and is reported so."""
    LOST = "lost"
    """The bind succeeds, and is reported as failed: the answer was lost."""
    LATE = "late"
    """The bind is reported as failed, and takes effect later."""
    PENDING = "pending"
    """The bind is in flight, and reported later."""


@frozen
class Told:
    """The effects of one call."""

    now: float
    call: str
    effects: tuple[Effect, ...]


@define(eq=False)
class Driver:
    """Drives a scheduler by hand.

    Attributes:
        make: Creates the scheduler, at first and after a restart.
        permit_timeout: The policy's timeout, for the oracle.
        match: The policy's match policy, for the oracle.
        checked: Whether ``_check`` of the scheduler runs.
        check_each: After how many calls it runs: what it finds wrong stays wrong.
        watched: Whether the oracle runs after every call.
        logged: Whether the effects of all calls are kept.
        grouped: Whether the scheduler knows groups.
        fate: The outcome of binds from now on.
        under_way: The binds in flight.
        landing: The binds that were reported as failed and will take effect.
        dying: The pods whose eviction was requested and is still to come.
        reports: The bind reports that the scheduler has handled.
        untold: The delayed events.
        log: The effects of every call.
    """

    make: Maker = coscheduling
    permit_timeout: float = 10.0
    match: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    checked: bool = True
    check_each: int = 1
    watched: bool = True
    logged: bool = True
    grouped: bool = True
    together: bool = False
    fate: Fate = Fate.DONE
    now: float = 0.0
    cluster: InMemoryCluster = field(factory=InMemoryCluster)
    under_way: list[Bind] = field(factory=list)
    landing: list[Bind] = field(factory=list)
    dying: list[PodUID] = field(factory=list)
    reports: list[Event] = field(factory=list)
    untold: list[Event] = field(factory=list)
    log: list[Told] = field(factory=list)
    decisions: int = 0
    calls: int = 0
    scheduler: Scheduler = field(init=False)
    oracle: LawOracle = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._begin()

    # Facts ----------------------------------------------------------------------------------

    def tell(self, *events: Event) -> None:
        """Apply events, and deliver each at once, or all of them ``together``."""
        if self.together and len(events) > 1:
            for event in events:
                self.cluster.apply(event)
            self.tell_again(*events)
            return
        for event in events:
            self.cluster.apply(event)
            self.tell_again(event)

    def tell_again(self, *events: Event) -> None:
        """Deliver events that were applied before, in one call."""
        for event in events if self.watched else ():
            self.oracle.event(event, self.now)
        self._took("handle", self.scheduler.handle(*events, now=self.now))

    def tell_late(self, event: Event) -> None:
        """Apply an event, and deliver it later."""
        self.untold.append(self.cluster.apply(event))

    def tell_untold(self, index: int | None = None) -> None:
        """Deliver a delayed event; None for all of them, in order."""
        if index is not None:
            self.tell_again(self.untold.pop(index))
            return
        while self.untold:
            number = len(self.untold) if self.together else 1
            told, self.untold = self.untold[:number], self.untold[number:]
            self.tell_again(*told)

    def add(self, *pods: Pod) -> None:
        """Add pods."""
        self.tell(*(PodAdded(pod) for pod in pods))

    def delete(self, *uids: str) -> None:
        """Delete pods."""
        self.tell(*(PodDeleted(PodUID(uid)) for uid in uids))

    # What was done --------------------------------------------------------------------------

    def effects(self, kind: Any = object) -> list[Any]:
        """Return the logged effects of some classes."""
        return [e for told in self.log for e in told.effects if isinstance(e, kind)]

    def running(self) -> set[str]:
        """Return the names of the pods that have a node."""
        return {pod.name for pod in self.cluster.pods() if pod.node_name}

    # Decisions ------------------------------------------------------------------------------

    def step(self) -> bool:
        """Make one decision; return whether there was one."""
        self.decisions += 1
        effects = self.scheduler.schedule_one(now=self.now)
        self._took("schedule_one", effects or ())
        return effects is not None

    def drain(self) -> int:
        """Make all decisions at this instant; return the number of steps.

        Law 5: this number is bounded by the number of pending pods.
        """
        bound = self.step_bound()
        for steps in range(bound):
            if not self.step():
                return steps
        raise AssertionError(f"law 5: still deciding at {self.now:g}, after {bound} steps")

    def advance(self, now: float) -> None:
        """Let time pass until *now*."""
        self.now = max(self.now, now)
        self._took("advance", self.scheduler.advance(now=self.now))

    def settle(self) -> int:
        """Decide, and let deadlines pass, until only an event can change anything.

        Return the number of deadlines. Law 5: nothing polls, so it is bounded.
        """
        bound = self.step_bound()
        for deadlines in range(bound):
            self.drain()
            due = self.scheduler.next_deadline()
            if due is None:
                return deadlines
            self.advance(due)
        raise AssertionError(f"law 5: not at rest after {bound} deadlines, at {self.now:g}")

    def step_bound(self) -> int:
        """Return a bound on the number of steps that can follow without an event."""
        pods = sum(1 for _pod in self.cluster.pods())
        groups = sum(1 for _group in self.cluster.pod_groups())
        return 8 * (pods + groups) + 32

    # Binds ----------------------------------------------------------------------------------

    def report(self, bind: Bind, fate: Fate) -> None:
        """Report the outcome of a bind in flight."""
        self.under_way.remove(bind)
        self._perform(bind, fate)

    def land(self, index: int) -> None:
        """Let a bind that was reported as failed take effect."""
        bind = self.landing.pop(index)
        if self._bind(bind):
            pod = self.cluster.pod(bind.uid)
            assert pod is not None
            self.tell_again(PodUpdated(pod))

    def end(self, index: int) -> None:
        """Let an evicted pod end."""
        uid = self.dying.pop(index)
        if self.cluster.pod(uid) is not None:
            self.tell(PodDeleted(uid))

    def _perform(self, bind: Bind, fate: Fate) -> None:
        if fate is Fate.PENDING:
            self.under_way.append(bind)
            return
        done = fate in (Fate.DONE, Fate.LOST) and self._bind(bind)
        if fate is Fate.LATE:
            self.landing.append(bind)
        report: Event = BindFailed(bind.uid, bind.attempt, "no answer")
        if done and fate is Fate.DONE:
            report = Bound(bind.uid, bind.node, bind.attempt)
        self.reports.append(report)
        self.tell_again(report)

    def _bind(self, bind: Bind) -> bool:
        """Bind as an API server does: only an existing, unfinished pod without a node."""
        pod = self.cluster.pod(bind.uid)
        if pod is None or pod.is_finished or pod.deleted_at is not None or pod.node_name:
            return False
        self.cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        return True

    # Restart --------------------------------------------------------------------------------

    def restart(self, happened: Callable[[Bind], bool]) -> None:
        """Replace the scheduler; some binds in flight have succeeded."""
        for bind in self.under_way:
            if happened(bind):
                self._bind(bind)
        self.under_way.clear()
        self.reports.clear()
        self.untold.clear()
        self._begin()
        self.advance(self.now)

    def rebuild(self) -> None:
        """Call ``rebuild``, as after a lost watch."""
        self.untold.clear()
        self._list()
        self._took("rebuild", self.scheduler.rebuild(now=self.now))

    def _begin(self) -> None:
        self.scheduler = self.make(self.cluster)
        self.oracle = LawOracle(
            permit_timeout=self.permit_timeout,
            match=self.match,
            group_of=claim_of if self.grouped else ungrouped,
            cluster=self.cluster,
        )
        self._list()

    def _list(self) -> None:
        list_to(self.oracle, self.cluster, self.now)

    # Inside ---------------------------------------------------------------------------------

    def _took(self, call: str, effects: tuple[Effect, ...]) -> None:
        if self.logged:
            self.log.append(Told(self.now, call, effects))
        if self.watched:
            self.oracle.effects(effects, self.now)
        self.calls += 1
        if self.checked and self.calls % self.check_each == 0:
            self.scheduler._check()
        for effect in effects:
            if isinstance(effect, Bind):
                self._perform(effect, self.fate)
        self.dying += [effect.uid for effect in effects if isinstance(effect, Evict)]
        while self.dying and self.fate is not Fate.PENDING:
            self.end(0)


def list_to(oracle: LawOracle, cluster: ClusterState, now: float) -> None:
    """Pass the whole cluster state to an oracle, with deletions of what is gone."""
    for node in cluster.nodes():
        oracle.event(NodeAdded(node), now)
    for group in cluster.pod_groups():
        oracle.event(PodGroupAdded(group), now)
    for pod in cluster.pods():
        oracle.event(PodAdded(pod), now)
    account = oracle.account
    gone: list[Event] = [NodeDeleted(n) for n in account.nodes if cluster.node(n) is None]
    gone += [PodGroupDeleted(k) for k in account.groups if cluster.pod_group(k) is None]
    gone += [PodDeleted(uid) for uid in account.pods if cluster.pod(uid) is None]
    for event in gone:
        oracle.event(event, now)
