"""A computation that is given up after some seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["within"]

T = TypeVar("T")


def within(seconds: float, compute: Callable[[], T]) -> T:
    """Return what a function returns, or raises, if it ends in time.

    It runs in a thread of its own, which nothing can stop. So the thread ends with the process.

    Raises:
        TimeoutError: It has not ended within *seconds*.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(compute())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(max(seconds, 0.0))
