"""Estimates of how long pods run, for reservations and backfill.

Rules:
  R1  a run time is an estimate. A wrong estimate costs waiting time or unused capacity; no law of
      the scheduler depends on it;
  R2  nothing here reads a clock: instants are arguments.
"""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import Final, Protocol, final

from attrs import field, frozen

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.membership import membership
from gangsched.model import Pod
from gangsched.quantity import is_seconds
from gangsched.values.fields import check_text, check_whole

__all__ = ["AnnotatedRunTimes", "RunTimes"]

_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)


class RunTimes(Protocol):
    """A source of expected end times of pods.

    If it has state, it also needs ``fork`` for ``Scheduler.what_if``; see
    ``gangsched.protocols.StateExtensions``.
    """

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return the instant at which a pod is expected to end; None if it is unknown.

        For a pending pod, the answer minus *now* is its run time. It must stay the same until an
        event about the pod arrives, because the scheduler keeps it. For a pod that has started,
        the answer may change at any time.

        Args:
            pod: The pod.
            started_at: The instant at which its bind was reported, or at which it was first seen
                on its node. None for a pending pod: the pod is then taken to start at *now*.
            now: The current instant.
        """
        ...


def _check_wrong_by(_owner: object, _attribute: object, value: float) -> None:
    if not is_seconds(value) or value < 1:
        raise InvalidValueError("wrong_by", value, "a finite number >= 1")


@final
@frozen
class AnnotatedRunTimes:
    """Run times that are read from an annotation of the pod; see ``RunTimes``.

    Attributes:
        annotation: The key of the annotation. Its value is the run time in decimal seconds. Without
            the annotation, or with another value, the run time is unknown.
        wrong_by: The largest factor by which an estimate is wrong, in either direction; 1 for
            exact estimates. The factor is drawn for each group and for each pod without a group.
        seed: The seed of these factors.

    Raises:
        InvalidValueError: A value is malformed.
    """

    annotation: str = field(validator=check_text)
    wrong_by: float = field(default=1.0, validator=_check_wrong_by)
    seed: int = field(default=0, validator=check_whole)

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return the start of the pod, or *now* if it is pending, plus its run time. O(1)."""
        text = pod.annotations.get(self.annotation)
        if text is None or not _DECIMAL.fullmatch(text):
            return None
        seconds = float(text)
        if self.wrong_by != 1:
            seconds *= self._factor(pod)
        end = (now if started_at is None else started_at) + seconds
        return end if math.isfinite(end) else None

    def _factor(self, pod: Pod) -> float:
        """Return the factor of a pod, log-uniform between 1 / wrong_by and wrong_by."""
        try:
            claim = membership(pod)
        except InvalidPodGroupError:
            claim = None
        job = pod.uid if claim is None else claim.group
        digest = blake2b(f"{self.seed}/{job}".encode(), digest_size=8).digest()
        share = int.from_bytes(digest, "big") / 2**64
        return float(self.wrong_by ** (2 * share - 1))
