"""The simulator: the same scheduler on virtual time.

Rules:
  R1  time jumps from one instant at which something happens to the next; nothing polls;
  R2  at one instant: first what ends, then what arrives, then decisions until none is left;
  R3  one input, one seed and one plan of faults give one history, byte for byte: the seed draws
      how long binds take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from gangsched.errors import InvalidValueError
from gangsched.framework import Scheduler
from gangsched.memory import InMemoryCluster
from gangsched.protocols import ClusterState, Observer
from gangsched.quantity import is_seconds
from gangsched.replay import DecisionLog, Divergence, read_log
from gangsched.simulation._live import Live
from gangsched.simulation._retold import Retold
from gangsched.simulation.faults import Fault, FaultPlan
from gangsched.simulation.jobs import Jobs
from gangsched.simulation.metrics import Account
from gangsched.simulation.workload import Workload

__all__ = ["Observer", "Simulator"]

_Maker = Callable[[ClusterState], Scheduler]


@final
class Simulator:
    """Runs a workload through a scheduler on virtual time.

    Args:
        workload: What arrives, and when.
        make: Makes the scheduler over the simulated cluster; a ``gangsched.replay.Recipe`` is
            written into the log.
        bind_seconds: How long a bind takes at most; each draws its own time below.
        seed: What the draws come from; a whole number.
        faults: What goes wrong; None for nothing.
        log: Takes the lines of a decision log, such as ``file.write``; None for no log.
        observers: Who watches.

    Raises:
        InvalidValueError: An argument is malformed.
    """

    def __init__(
        self,
        workload: Workload,
        make: _Maker,
        *,
        bind_seconds: float = 0.0,
        seed: int = 0,
        faults: FaultPlan | None = None,
        log: Callable[[str], object] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        if not is_seconds(bind_seconds) or bind_seconds < 0:
            raise InvalidValueError("bind_seconds", bind_seconds, "a finite number of seconds >= 0")
        # by type: of None a seed would be drawn from the machine, and no run would be like another
        if type(seed) is not int:
            raise InvalidValueError("seed", seed, "an int")
        if faults is not None and not isinstance(faults, FaultPlan):
            raise InvalidValueError("faults", faults, "a FaultPlan or None")
        plan = FaultPlan() if faults is None else faults
        self._observers = tuple(observers)
        about: dict[str, Any] = {"bind_seconds": bind_seconds, "seed": seed, **plan.to_json()}
        self._run: Live | Retold = Live(
            workload,
            make if log is None else DecisionLog(log, make, about=about).scheduler,
            bind_seconds=bind_seconds,
            seed=seed,
            plan=plan,
            observers=self._observers,
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
        """Return a simulator that runs a decision log again, whatever wrote it.

        It makes the calls of the log at their instants, and performs nothing: what became of the
        effects is in the log. It ends with the log, or with the first call that returns something
        else: see ``divergence``. Its jobs, its capacity and a report of it are those of that run.

        Args:
            lines: The lines of the log, such as an open file; read as the run goes on.
            make: Makes the scheduler; None for as the log's header says.
            file: What to call the log in errors.
            observers: Who watches.

        Raises:
            DecisionLogError: The header is malformed. A line that is malformed is refused by the
                step that comes to it.
            InvalidValueError: *make* is None, and the header does not say.
        """
        self = cls.__new__(cls)
        self._observers = tuple(observers)
        self._run = Retold(read_log(lines, file=file), make, observers=self._observers)
        return self

    def run(self, *, until: float = math.inf) -> float:
        """Run until nothing happens any more, or until an instant; return the last instant.

        With *until*, what the run counts over time is counted to that instant.

        Raises:
            InvalidValueError: *until* is no instant, and not infinite; nothing has happened.
        """
        _check_until(until)
        while self.step(until=until) is not None:
            pass
        if until < math.inf:
            self._run.now = max(self._run.now, until)
        return self._run.now

    def step(self, *, until: float = math.inf) -> float | None:
        """Run through the next instant at which something happens; None when there is none.

        An instant at which the clock jumps is one that begins not after *until*.

        Raises:
            InvalidValueError: *until* is no instant, and not infinite; nothing has happened.
        """
        _check_until(until)
        when = self._run.next()
        if when is None or when > until:
            return None
        self._run.step(when)
        for observer in self._observers:
            observer.settled(self._run.now)
        return self._run.now

    # What is known of the run ---------------------------------------------------------------

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
        """The simulated cluster, as it is; with faults the scheduler may be shown another."""
        return self._run.cluster

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler; after a restart, the new one."""
        return self._run.scheduler

    @property
    def jobs(self) -> Jobs:
        """The jobs, and what they hold."""
        return self._run.books.jobs

    @property
    def capacity(self) -> Account:
        """What the nodes offer, over time."""
        return self._run.books.capacity

    @property
    def struck(self) -> tuple[tuple[float, Fault], ...]:
        """The faults that have struck, in order: at which instant, and which."""
        return tuple(self._run.strikes.struck) if isinstance(self._run, Live) else ()

    @property
    def divergence(self) -> Divergence | None:
        """Of a log that is run again, the first call that did something else; None for none."""
        return self._run.divergence if isinstance(self._run, Retold) else None

    @property
    def arrivals_left(self) -> int:
        """How many arrivals are still to come; 0 where a log is run again."""
        return len(self._run.arrivals) if isinstance(self._run, Live) else 0

    @property
    def is_quiescent(self) -> bool:
        """Whether nothing happens any more, however long one waits."""
        return self._run.next() is None


def _check_until(until: object) -> None:
    if until != math.inf and not is_seconds(until):
        raise InvalidValueError("until", until, "a number of seconds or infinity")
