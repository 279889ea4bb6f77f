"""The simulator: the same scheduler on virtual time.

Rules:
  R1  time jumps from one instant at which something happens to the next; nothing polls;
  R2  at one instant pods finish first, then objects arrive, then decisions are made;
  R3  the same input, seed and plan of faults give the same history, byte for byte: the seed draws
      how long binds take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, final

from gangsched.errors import InvalidValueError
from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState, Observer
from gangsched.quantity import is_seconds
from gangsched.replay import DecisionLog, Divergence, read_log
from gangsched.scheduler import Scheduler
from gangsched.simulation._log_run import LogRun
from gangsched.simulation._workload_run import WorkloadRun
from gangsched.simulation.faults import Fault, FaultPlan
from gangsched.simulation.jobs import Jobs
from gangsched.simulation.metrics import Account
from gangsched.simulation.places import Places
from gangsched.simulation.workload import Arrival, Workload

__all__ = ["Observer", "Simulator"]

_Maker = Callable[[ClusterState], Scheduler]


@final
class Simulator:
    """Runs a workload through a scheduler on virtual time.

    Args:
        workload: What arrives, and when: a workload, or arrivals in time order, such as those of
            ``Trace.arrivals``, which are read as the run advances.
        make: Makes the scheduler over the simulated cluster; a ``gangsched.replay.Recipe`` is
            written into the log.
        bind_seconds: The longest time that a bind takes; each draws its own time below it.
        seed: The seed of these draws; a whole number.
        faults: The faults to inject; None for none.
        log: Takes the lines of a decision log, such as ``file.write``; None for no log.
        observers: Objects notified of events and effects.
        delete_finished: Whether a pod is deleted when it finishes, and a group with its last pod,
            so that a long run needs the memory of the pods that live at one time. Members that join
            a group later must not depend on those that have finished.
        strict_order: Whether no job starts while one that was tried before it waits: strict FIFO,
            with an order of the queue that does not change, such as ``Order.CREATION``. Jobs of a
            higher priority go first, and a job that does not fit on the empty cluster is passed
            over once that is empty. What-if questions do not know of it.
        replace_lost: Whether a pod that is lost with its node is created again, as its controller
            does. Without it only those are whose group has a restart policy.

    Raises:
        InvalidValueError: An argument is malformed.
    """

    def __init__(
        self,
        workload: Workload | Iterable[Arrival],
        make: _Maker,
        *,
        bind_seconds: float = 0.0,
        seed: int = 0,
        faults: FaultPlan | None = None,
        log: Callable[[str], object] | None = None,
        observers: Sequence[Observer] = (),
        delete_finished: bool = False,
        strict_order: bool = False,
        replace_lost: bool = False,
    ) -> None:
        if not is_seconds(bind_seconds) or bind_seconds < 0:
            raise InvalidValueError("bind_seconds", bind_seconds, "a finite number of seconds >= 0")
        # None must be refused: Random(None) takes its seed from the machine, so runs would differ.
        if type(seed) is not int:
            raise InvalidValueError("seed", seed, "an int")
        if faults is not None and not isinstance(faults, FaultPlan):
            raise InvalidValueError("faults", faults, "a FaultPlan or None")
        if isinstance(workload, str | bytes) or not isinstance(workload, Workload | Iterable):
            raise InvalidValueError("workload", workload, "a Workload, or arrivals in time order")
        if not isinstance(delete_finished, bool):
            raise InvalidValueError("delete_finished", delete_finished, "a bool")
        if not isinstance(strict_order, bool):
            raise InvalidValueError("strict_order", strict_order, "a bool")
        if not isinstance(replace_lost, bool):
            raise InvalidValueError("replace_lost", replace_lost, "a bool")
        if not callable(make):
            raise InvalidValueError("make", make, "a callable that makes a scheduler")
        if log is not None and not callable(log):
            raise InvalidValueError("log", log, "a callable that takes lines, or None")
        plan = FaultPlan() if faults is None else faults
        self._observers = _checked_observers(observers)
        about: dict[str, Any] = {"bind_seconds": bind_seconds, "seed": seed, **plan.to_json()}
        self._run: WorkloadRun | LogRun = WorkloadRun(
            workload.arrivals if isinstance(workload, Workload) else workload,
            make if log is None else DecisionLog(log, make, about=about).scheduler,
            bind_seconds=bind_seconds,
            seed=seed,
            plan=plan,
            observers=self._observers,
            delete_finished=delete_finished,
            strict_order=strict_order,
            replace_lost=replace_lost,
        )

    @classmethod
    def from_log(
        cls,
        lines: Iterable[str],
        make: _Maker | None = None,
        *,
        file: str = "log",
        observers: Sequence[Observer] = (),
    ) -> Simulator:
        """Return a simulator that runs a decision log again, whatever program wrote it.

        The simulator makes the calls of the log at their instants and performs no effect: the
        log has what became of the effects. It ends with the log, or at the first call with
        another result: see ``divergence``. Its jobs, its capacity and its report are those of
        the logged run.

        Args:
            lines: The lines of the log, such as an open file; each is read when it is needed.
            make: Makes the scheduler; None to make it from the log's header.
            file: The name of the log for errors.
            observers: Objects notified of events and effects.

        Raises:
            DecisionLogError: The header is malformed. A malformed line is refused by the step
                that reads it.
            InvalidValueError: *make* is None and the header has no recipe, or an argument has
                a wrong type.
        """
        self = cls.__new__(cls)
        self._observers = _checked_observers(observers)
        self._run = LogRun(read_log(lines, file=file), make, observers=self._observers)
        return self

    def run(self, *, until: float = math.inf) -> float:
        """Run until nothing happens any more, or until an instant; return the last instant.

        With *until*, figures over time are counted up to that instant.

        Raises:
            InvalidValueError: *until* is neither a finite number nor infinity; nothing happened.
        """
        _check_until(until)
        while self.step(until=until) is not None:
            pass
        if until < math.inf:
            self._run.now = max(self._run.now, until)
        return self._run.now

    def step(self, *, until: float = math.inf) -> float | None:
        """Run through the next instant at which something happens; None if nothing will.

        An instant counts as not after *until* if it is so before the clock jumps.

        Raises:
            InvalidValueError: *until* is neither a finite number nor infinity; nothing happened.
        """
        _check_until(until)
        when = self._run.next()
        if when is None or when > until:
            return None
        self._run.step(when)
        for observer in self._observers:
            observer.settled(self._run.now)
        return self._run.now

    # The state of the run ------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The current instant."""
        return self._run.now

    @property
    def last_event_at(self) -> float:
        """The last instant at which anything happened."""
        return self._run.last_event_at

    @property
    def decisions(self) -> int:
        """How many decisions were made."""
        return self._run.decisions

    @property
    def cluster(self) -> InMemoryCluster:
        """The simulated cluster as it is; with faults the scheduler may see an older state."""
        return self._run.cluster

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler; after a restart, the new one."""
        return self._run.scheduler

    @property
    def jobs(self) -> Jobs:
        """The jobs, and what they hold."""
        return self._run.usage.jobs

    @property
    def capacity(self) -> Account:
        """The allocatable resources of all nodes, over time, from the first pod on."""
        return self._run.usage.capacity

    @property
    def places(self) -> Places:
        """Which pod holds which node, and what is free there."""
        return self._run.usage.places

    @property
    def first_pod_at(self) -> float | None:
        """When the first pod arrived; None before that."""
        return self._run.usage.first_pod_at

    @property
    def utilisation(self) -> dict[str, float]:
        """For each resource, the share of the capacity up to now that running jobs held."""
        return self._run.usage.utilisation(self.now)

    @property
    def utilisation_to_last_arrival(self) -> dict[str, float]:
        """The same up to the last arrival of a job, when the queue begins to run empty."""
        return dict(self._run.usage.to_last_arrival)

    @property
    def injected_faults(self) -> tuple[tuple[float, Fault], ...]:
        """The faults that have been injected, in order, each with its instant."""
        return (
            tuple(self._run.injector.injected_faults) if isinstance(self._run, WorkloadRun) else ()
        )

    @property
    def divergence(self) -> Divergence | None:
        """The first call of a log with another result; None while there is none."""
        return self._run.divergence if isinstance(self._run, LogRun) else None

    @property
    def arrived(self) -> int:
        """How many arrivals have come; 0 if a log is run again."""
        return self._run.arrivals.taken if isinstance(self._run, WorkloadRun) else 0

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing will happen any more, however long one waits."""
        return self._run.next() is None


def _checked_observers(observers: object) -> tuple[Observer, ...]:
    if not isinstance(observers, Iterable):
        raise InvalidValueError("observers", observers, "a sequence of observers")
    return tuple(cast("Iterable[Observer]", observers))


def _check_until(until: object) -> None:
    if until != math.inf and not is_seconds(until):
        raise InvalidValueError("until", until, "a finite number of seconds, or infinity")
