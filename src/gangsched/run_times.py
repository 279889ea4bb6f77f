"""RunTimes: estimates of when pods end.

Rules:
  R1  a run time is an estimate: a wrong one costs waiting time or capacity, and breaks no law;
  R2  no clock is read: the instants are arguments.
"""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import Final, Protocol, final

from attrs import field, frozen

from gangsched._fields import check_text, check_whole
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.membership import membership
from gangsched.model import Pod
from gangsched.quantity import is_seconds

__all__ = ["AnnotatedRunTimes", "RunTimes"]

_DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)


class RunTimes(Protocol):
    """Estimates when pods end; see ``Forkable`` for one that has state."""

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return the instant at which a pod is expected to end; None if that is unknown.

        For a pending pod, the answer less *now* is the time that it runs. It must not change until
        there is an event about the pod, since it is remembered. The answer for a running pod may
        change at any time.

        Args:
            pod: The pod.
            started_at: When its bind was reported, or it was first seen on its node. None for a
                pending pod: then the answer is when it would end if it started now.
            now: The current instant.
        """
        ...


def _check_wrong_by(_owner: object, _attribute: object, value: float) -> None:
    if not is_seconds(value) or value < 1:
        raise InvalidValueError("wrong_by", value, "a finite number >= 1")


@final
@frozen
class AnnotatedRunTimes:
    """Read from an annotation how many seconds a pod runs; see ``RunTimes``.

    Attributes:
        annotation: The key of the annotation; its value is decimal seconds. The run time of a pod
            without it, or with another value, is unknown.
        wrong_by: The factor by which an estimate may be wrong, either way; 1 for exact estimates.
            Each group, and each regular pod, draws its own factor.
        seed: The seed of the factors.

    Raises:
        InvalidValueError: A value is malformed.
    """

    annotation: str = field(validator=check_text)
    wrong_by: float = field(default=1.0, validator=_check_wrong_by)
    seed: int = field(default=0, validator=check_whole)

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return the pod's start, or *now*, plus the seconds of its annotation. O(1)."""
        text = pod.annotations.get(self.annotation)
        if text is None or not _DECIMAL.fullmatch(text):
            return None
        seconds = float(text)
        if self.wrong_by != 1:
            seconds *= self._factor(pod)
        end = (now if started_at is None else started_at) + seconds
        return end if math.isfinite(end) else None

    def _factor(self, pod: Pod) -> float:
        """Return a factor between 1 / wrong_by and wrong_by; below and above 1 are as likely."""
        try:
            claim = membership(pod)
        except InvalidPodGroupError:
            claim = None
        job = pod.uid if claim is None else claim.group
        digest = blake2b(f"{self.seed}/{job}".encode(), digest_size=8).digest()
        share = int.from_bytes(digest, "big") / 2**64
        return float(self.wrong_by ** (2 * share - 1))
