"""How long pods run, for who knows it.

Rules:
  R1  a run time is an estimate: what is wrong with it costs waiting or room, never a law;
  R2  nothing here reads a clock: the instants are arguments.
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
    """What says when pods end; see also ``Forkable``, for one that keeps something."""

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return the instant at which a pod is expected to end; None where nobody knows.

        The answer for a pending pod less *now* must stay the same until there is a fact about the
        pod: it is for how long the pod runs, and is not asked for again at every instant. The
        answer for a pod that has started may be another at any time.

        Args:
            pod: The pod.
            started_at: When its bind was reported, or it was first seen on its node; None for a
                pod that is pending: the answer is when it would end if it started now.
            now: The current instant.
        """
        ...


def _check_wrong_by(_owner: object, _attribute: object, value: float) -> None:
    if not is_seconds(value) or value < 1:
        raise InvalidValueError("wrong_by", value, "a finite number >= 1")


@final
@frozen
class AnnotatedRunTimes:
    """Reads from an annotation for how many seconds a pod runs; see ``RunTimes``.

    Attributes:
        annotation: The key of the annotation; its value is decimal seconds. A pod without it, or
            with something else there, runs for nobody knows how long.
        wrong_by: By which factor an estimate may be off, either way; 1 for exact ones. Each group,
            and each regular pod, draws its own factor.
        seed: What the factors are drawn from.

    Raises:
        InvalidValueError: A value is malformed.
    """

    annotation: str = field(validator=check_text)
    wrong_by: float = field(default=1.0, validator=_check_wrong_by)
    seed: int = field(default=0, validator=check_whole)

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        """Return its start, or now, and the seconds that are written on it. O(1)."""
        text = pod.annotations.get(self.annotation)
        if text is None or not _DECIMAL.fullmatch(text):
            return None
        seconds = float(text)
        if self.wrong_by != 1:
            seconds *= self._factor(pod)
        end = (now if started_at is None else started_at) + seconds
        return end if math.isfinite(end) else None

    def _factor(self, pod: Pod) -> float:
        """Return a factor between 1 / wrong_by and wrong_by, as likely too small as too large."""
        try:
            claim = membership(pod)
        except InvalidPodGroupError:
            claim = None
        job = pod.uid if claim is None else claim.group
        digest = blake2b(f"{self.seed}/{job}".encode(), digest_size=8).digest()
        share = int.from_bytes(digest, "big") / 2**64
        return float(self.wrong_by ** (2 * share - 1))
