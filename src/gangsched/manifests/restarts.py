"""The restart policy of a pod group, and how often it was restarted, as annotations.

No dialect has fields for them. The annotations are read from PodGroups of every dialect.

Rules:
  R1  a group is restarted only if ``RESTART_POLICY`` says so;
  R2  the last three annotations are status: the scheduler writes them, and reads them when it
      begins.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, cast

from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.model import PodGroup, RestartPolicy

__all__ = [
    "COPY_RESTARTS",
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
"""``BelowMinimum``: it is restarted when it falls below its minimum. ``Repair``: lost members are
replaced first (``RestartPolicy.repair``). ``Never`` is the default."""

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

COPY_RESTARTS: Final = "gangsched.io/copy-restarts"
"""The same for each copy or role that was restarted alone, as JSON, such as
``{"decode/1": [1, 1767225600]}``. The instant is null while no restart is under way."""

_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_WORDS: Final = ("BelowMinimum", "Repair", "Never")


def restarts_of(manifest: Manifest) -> dict[str, Any]:
    """Return what the annotations of a group say, as attributes of ``PodGroup``.

    Raises:
        ManifestError: An annotation is malformed.
    """
    notes = manifest.document["metadata"]["annotations"]
    policy = notes[RESTART_POLICY].word(_WORDS, "Never")
    found: dict[str, Any] = {}
    if policy != "Never":
        backoff = _whole(notes[RESTART_BACKOFF], 10)
        longest = _whole(notes[LONGEST_BACKOFF], max(360, backoff))
        try:
            found["restart"] = RestartPolicy(
                max_restarts=_whole(notes[MAX_RESTARTS], 6),
                backoff=float(backoff),
                longest_backoff=float(longest),
                repair=policy == "Repair",
            )
        except InvalidValueError as error:
            raise notes[LONGEST_BACKOFF].refuse_as(error) from error
    if notes[RESTARTS].text():
        found["restarts"] = _whole(notes[RESTARTS], 0, least=0)
    if notes[RESTARTING_UNTIL].text():
        found["restarting_until"] = _instant(notes[RESTARTING_UNTIL])
    if notes[COPY_RESTARTS].text():
        found["copy_restarts"] = _of_copies(notes[COPY_RESTARTS])
    return found


def restart_annotations(group: PodGroup) -> dict[str, str | None]:
    """Return the annotations that say how often a group was restarted, for a merge patch.

    Without a restart under way, or without restarts of copies, None removes the annotation.
    """
    until = group.restarting_until
    copies = {
        path: (restarts, None if until is None else math.ceil(until))
        for path, (restarts, until) in group.copy_restarts.items()
    }
    return {
        RESTARTS: str(group.restarts),
        RESTARTING_UNTIL: None if until is None else str(math.ceil(until)),
        COPY_RESTARTS: json.dumps(copies) if copies else None,
    }


def _of_copies(field: Field) -> dict[str, tuple[int, float | None]]:
    expected = "a JSON object with a whole number >= 1 and an instant or null for each path"
    try:
        found = json.loads(field.text())
    except ValueError:
        raise field.refuse(expected) from None
    if not isinstance(found, dict):
        raise field.refuse(expected)
    copies = cast("dict[str, Any]", found)
    if not all(path and _is_of_copy(pair) for path, pair in copies.items()):
        raise field.refuse(expected)
    return {path: (pair[0], pair[1]) for path, pair in copies.items()}


def _is_of_copy(pair: object) -> bool:
    if not isinstance(pair, list):
        return False
    values = cast("Sequence[Any]", pair)
    if len(values) != 2 or type(values[0]) is not int or values[0] < 1:
        return False
    until = values[1]
    return until is None or (type(until) is int and abs(until) < 10**12)


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
