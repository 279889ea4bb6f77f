"""What goes wrong, and when: a plan of faults that depends on a seed only.

Rules:
  R1  the fault of a request follows from the seed, its method, its path, and how many such
      requests came before. So it does not depend on how concurrent requests interleave;
  R2  an order for particular requests goes before the rates;
  R3  a fault is something that a real API server, or the network before it, does. An answer that
      says no comes from a request that was not performed, unless its name says otherwise.
"""

from __future__ import annotations

import enum
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from attrs import define, frozen

__all__ = ["Fault", "Order", "Plan", "Rates", "Request"]


class Fault(enum.Enum):
    """Something that goes wrong with one request, or with one event of a watch."""

    CUT = "cut"
    """The connection ends before the request is performed."""
    LOST_ANSWER = "lost answer"
    """The request is performed, and the connection ends instead of the answer."""
    LATE_ERROR = "late error"
    """The request is performed, and the answer is 504, as after a timeout."""
    DELAY = "delay"
    """The request is performed late."""
    CONFLICT = "409"
    """A write is refused as a conflict, although there is none."""
    TOO_MANY_REQUESTS = "429"
    """The server asks to come back after a second."""
    INTERNAL_ERROR = "500"
    UNAVAILABLE = "503"
    GONE = "410"
    """A watch ends with the event of an expired resource version; a list is refused so."""
    WATCH_CUT = "watch cut"
    """The connection of a watch ends, between two events or within one."""
    DUPLICATE = "duplicate"
    """An event of a watch comes twice."""
    REORDER = "reorder"
    """An event of a watch comes after the next one, if that is about another object."""
    STALL = "stall"
    """A watch is silent for a while."""


ON_WRITES: Final = (Fault.CONFLICT,)
ON_REQUESTS: Final = (
    *(Fault.CUT, Fault.LOST_ANSWER, Fault.LATE_ERROR, Fault.DELAY),
    *(Fault.TOO_MANY_REQUESTS, Fault.INTERNAL_ERROR, Fault.UNAVAILABLE),
)
ON_EVENTS: Final = (Fault.GONE, Fault.WATCH_CUT, Fault.DUPLICATE, Fault.REORDER, Fault.STALL)


@frozen
class Request:
    """A request that passes.

    Attributes:
        method: ``GET``, ``POST`` …
        path: The path, without the query.
        query: The query.
    """

    method: str
    path: str
    query: str = ""

    @property
    def is_watch(self) -> bool:
        """Whether it asks for a stream of events."""
        return "watch=true" in self.query or "watch=1" in self.query

    @property
    def is_write(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"

    @property
    def is_binding(self) -> bool:
        """Whether it binds a pod."""
        return self.method == "POST" and self.path.endswith("/binding")


@frozen
class Rates:
    """How likely each kind of fault is, from 0 to 1.

    Attributes:
        requests: That one of the faults of a request happens to a request.
        watches: That a watch that is opened, or a list, is answered 410.
        events: That one of the faults of a watch happens to an event.
        longest_delay: The longest delay and the longest silence, in seconds.
    """

    requests: float = 0.0
    watches: float = 0.0
    events: float = 0.0
    longest_delay: float = 0.2


@define
class Order:
    """A fault that was ordered for the next requests that match.

    Attributes:
        matches: Which requests.
        fault: The fault.
        times: How many requests it is still for.
    """

    matches: Callable[[Request], bool]
    fault: Fault
    times: int = 1


class Plan:
    """The faults of a run.

    Args:
        seed: Two plans of one seed and equal rates are equal.
        rates: How likely faults are; may be changed at any time.

    Attributes:
        happened: How often each fault has happened.
        watched: The paths that were watched so far.
    """

    def __init__(self, seed: int, rates: Rates) -> None:
        self.rates = rates
        self.happened: Final[Counter[Fault]] = Counter()
        self.watched: Final[set[str]] = set()
        self._seed: Final = seed
        self._asked: Final[Counter[str]] = Counter()
        self._orders: Final[list[Order]] = []
        self._lock: Final = threading.Lock()

    def order(self, order: Order) -> None:
        """Let a fault happen to the next requests that match."""
        with self._lock:
            self._orders.append(order)

    def for_request(self, request: Request) -> tuple[Fault | None, float]:
        """Return the fault of a request, and how long a delay is."""
        chance = self._chance(f"{request.method} {request.path} {request.is_watch}")
        if request.is_watch:
            self.watched.add(request.path)
        fault = self._ordered(request)
        if fault is None and (request.is_watch or not request.is_write):
            fault = Fault.GONE if chance.random() < self.rates.watches else None
        if fault is None and chance.random() < self.rates.requests:
            fault = chance.choice(ON_REQUESTS + ON_WRITES if request.is_write else ON_REQUESTS)
        return self._noted(fault), chance.uniform(0, self.rates.longest_delay)

    def for_event(self, request: Request) -> tuple[Fault | None, float]:
        """Return the fault of the next event of a watch, and how long a silence is."""
        chance = self._chance(f"event {request.path}")
        fault = chance.choice(ON_EVENTS) if chance.random() < self.rates.events else None
        return self._noted(fault), chance.uniform(0, self.rates.longest_delay)

    def _chance(self, what: str) -> random.Random:
        with self._lock:
            self._asked[what] += 1
            return random.Random(f"{self._seed} {what} {self._asked[what]}")

    def _ordered(self, request: Request) -> Fault | None:
        with self._lock:
            for order in self._orders:
                if order.times > 0 and order.matches(request):
                    order.times -= 1
                    return order.fault
        return None

    def _noted(self, fault: Fault | None) -> Fault | None:
        if fault is not None:
            with self._lock:
                self.happened[fault] += 1
        return fault
