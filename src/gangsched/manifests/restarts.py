"""The restart policy of a pod group, and how often it was restarted, as annotations.

No dialect has fields for them. The annotations are read from PodGroups of every dialect.

Rules:
  R1  a group is restarted only if ``RESTART_POLICY`` says so;
  R2  the last two annotations are status: the scheduler writes them, and reads them when it begins.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.model import RestartPolicy

__all__ = [
    "LONGEST_BACKOFF",
    "MAX_RESTARTS",
    "RESTARTING_UNTIL",
    "RESTARTS",
    "RESTART_BACKOFF",
    "RESTART_POLICY",
    "restart_annotations",
    "restarts_of",
]

RESTART_POLICY: Final = "gangsched.io/restart-policy"
"""``BelowMinimum``: it is restarted when it falls below its minimum. ``Never`` is the default."""

MAX_RESTARTS: Final = "gangsched.io/max-restarts"
"""The number of restarts, at least 1; 6 by default."""

RESTART_BACKOFF: Final = "gangsched.io/restart-backoff-seconds"
"""The backoff of the first restart in whole seconds; 10 by default."""

LONGEST_BACKOFF: Final = "gangsched.io/longest-restart-backoff-seconds"
"""The longest backoff in whole seconds; 360 by default."""

RESTARTS: Final = "gangsched.io/restarts"
"""How often the group was restarted."""

RESTARTING_UNTIL: Final = "gangsched.io/restarting-until"
"""While a restart is under way, the end of its backoff, in seconds since 1970."""

_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_WORDS: Final = ("BelowMinimum", "Never")


def restarts_of(manifest: Manifest) -> dict[str, Any]:
    """Return what the annotations of a group say, as attributes of ``PodGroup``.

    Raises:
        ManifestError: An annotation is malformed.
    """
    notes = manifest.document["metadata"]["annotations"]
    policy = notes[RESTART_POLICY].word(_WORDS, "Never")
    found: dict[str, Any] = {}
    if policy == "BelowMinimum":
        backoff = _whole(notes[RESTART_BACKOFF], 10)
        longest = _whole(notes[LONGEST_BACKOFF], max(360, backoff))
        try:
            found["restart"] = RestartPolicy(
                max_restarts=_whole(notes[MAX_RESTARTS], 6),
                backoff=float(backoff),
                longest_backoff=float(longest),
            )
        except InvalidValueError as error:
            raise notes[LONGEST_BACKOFF].refuse_as(error) from error
    if notes[RESTARTS].text():
        found["restarts"] = _whole(notes[RESTARTS], 0, least=0)
    if notes[RESTARTING_UNTIL].text():
        found["restarting_until"] = _instant(notes[RESTARTING_UNTIL])
    return found


def restart_annotations(restarts: int, until: float | None) -> dict[str, str | None]:
    """Return the annotations that say how often a group was restarted, for a merge patch.

    Args:
        restarts: How often it was restarted.
        until: The end of the backoff while a restart is under way; None removes the annotation.
    """
    if until is None:
        return {RESTARTS: str(restarts), RESTARTING_UNTIL: None}
    return {RESTARTS: str(restarts), RESTARTING_UNTIL: str(math.ceil(until))}


def _whole(field: Field, default: int, *, least: int = 1) -> int:
    text = field.text()
    if not text:
        return default
    if not _WHOLE.fullmatch(text) or int(text) < least:
        raise field.refuse(f"a whole number >= {least}, in quotes")
    return int(text)


def _instant(field: Field) -> float:
    if not _SECONDS.fullmatch(field.text()):
        raise field.refuse("a whole number of seconds since 1970, in quotes")
    return float(field.text())
