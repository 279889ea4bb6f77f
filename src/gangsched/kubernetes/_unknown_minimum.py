"""Why the minimum of a group is unknown, and what to do about it.

A group has a minimum if a PodGroup of its name exists, or if its pods claim one beside the name. If
neither is so, the pods wait, and more nodes do not help. Four mistakes look alike: a misspelt
label, a PodGroup that is missing, one that cannot be read, and an API of PodGroups that the cluster
does not serve.

Rules:
  R1  a label with the prefix of a spelling that is not read is named first: it was meant;
  R2  a PodGroup that cannot be read is named before anything else: it holds the pods, whatever
      their labels say;
  R3  an API is called absent only if the API server was asked which ones it serves. It may have
      been installed since the last look, so the sentence says when it will be found;
  R4  while PodGroups cannot be read, none is called missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import Final, final

from attrs import frozen

from gangsched.explain import NotEnoughMembers, Why
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._discovery import LOOK_INTERVAL
from gangsched.membership import ROLE_SPELLINGS, SPELLINGS, Source, Spelling
from gangsched.model import GroupKey, Pod
from gangsched.values.seconds import format_duration

__all__ = ["UnknownMinimum", "is_unknown", "remedy", "unknown_minimum"]

_PREFIX: Final = "pod-group.scheduling.sigs.k8s.io/"
_PREFIXES: Final = (_PREFIX, "pod-group/")
_LABELS: Final = f"{_PREFIX}name and {_PREFIX}min-available"
_READ: Final = frozenset(
    key
    for spelling in (*SPELLINGS, *ROLE_SPELLINGS)
    for key in (spelling.name, spelling.minimum)
    if key is not None
)
_APIS: Final = {
    "spec.schedulingGroup.podGroupName": "scheduling.k8s.io",
    "scheduling.x-k8s.io/pod-group": "scheduling.x-k8s.io",
    "pod-group.scheduling.sigs.k8s.io": "scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/name": "scheduling.sigs.k8s.io",
    "scheduling.k8s.io/group-name": "scheduling.volcano.sh",
    "scheduling.volcano.sh/group-name": "scheduling.volcano.sh",
    "pod-group-name": "scheduling.run.ai",
}
"""By the name of a spelling, the API of the PodGroup that its project creates."""


@final
@frozen
class UnknownMinimum:
    """What keeps a minimum from being known.

    Attributes:
        cause: What is missing or misspelt, as a clause; empty if nothing more is known.
        helps: What to do.
    """

    cause: str
    helps: str


def is_unknown(why: Why | None) -> bool:
    """Return whether a group with members waits because its minimum is unknown."""
    if not isinstance(why, NotEnoughMembers) or why.forgotten_at is not None:
        return False
    return why.min_available is None


def remedy(cache: Cache, key: GroupKey, pods: Collection[Pod], why: Why | None) -> str:
    """Return what to change in the labels or the objects of a group; empty if that helps not.

    Args:
        cache: The objects of the cluster, and which APIs are served.
        key: The group.
        pods: Its members.
        why: Why it does not run; None if the scheduler does not know it.
    """
    if is_unknown(why) or cache.unreadable_group(key) is not None:
        return unknown_minimum(cache, key, pods).helps
    error = next(iter(cache.malformed.of(key).values()), None)
    if error is None or pods:
        return ""
    return f"pods whose {error.field} is {error.expected}"


def unknown_minimum(cache: Cache, key: GroupKey, pods: Collection[Pod]) -> UnknownMinimum:
    """Return why the minimum of a group with *pods* is unknown. O(pods * labels).

    Args:
        cache: The objects of the cluster, and which APIs are served.
        key: The group, which has no PodGroup.
        pods: Its pods.
    """
    name = key.partition("/")[2]
    unreadable = cache.unreadable_group(key)
    if unreadable is not None:
        cause = f"its PodGroup cannot be read: {unreadable}"
        return UnknownMinimum(cause, f"correct the PodGroup {name}: {unreadable}")
    unread = cache.unread_groups()
    if unread is not None:
        kind, why = unread
        cause = f"needs {kind} objects: {why}"
        return UnknownMinimum(cause, f"let the scheduler read {kind} objects")
    spelling = next(_spellings(cache, pods), None)
    minimum = f"{_PREFIX}min-available"
    if spelling is not None and spelling.source is not Source.FIELD and spelling.minimum:
        minimum = spelling.minimum
    misspelt = _misspelt(pods)
    if misspelt is not None:
        near = get_close_matches(misspelt, sorted(_READ), n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        cause = f"the label {misspelt} of its pods is not read{meant}"
        return UnknownMinimum(cause, f"label its pods with {minimum}, or create a PodGroup {name}")
    api = "" if spelling is None else _APIS.get(spelling.name, "")
    if not api:
        cause = f"its pods have no {_kind(spelling)} {minimum}, and there is no PodGroup {name}"
        helps = f"{_verb(spelling)} its pods with {minimum}, or create a PodGroup {name}"
        return UnknownMinimum(cause, helps)
    if cache.served is not None and api not in cache.served:
        cause = (
            f"{api}, the API of its PodGroup, was not found; if it was installed since, it is found"
            f" within {format_duration(LOOK_INTERVAL)} s"
        )
        helps = f"install the CRD of {api} and create the PodGroup {name}"
        if api == "scheduling.k8s.io":  # built into the API server
            helps = f"enable {api} in the API server and create the PodGroup {name}"
        return UnknownMinimum(cause, f"{helps}, or label its pods with {_LABELS}")
    cause = f"there is no PodGroup {name} of {api}"
    helps = f"create a PodGroup {name} of {api}, or label its pods with {_LABELS}"
    return UnknownMinimum(cause, helps)


def _spellings(cache: Cache, pods: Iterable[Pod]) -> Iterator[Spelling]:
    for pod in pods:
        claim = cache.membership(pod)
        if claim is not None:
            yield claim.spelling


def _misspelt(pods: Iterable[Pod]) -> str | None:
    """Return a label that has the prefix of a spelling, and is none."""
    for pod in pods:
        for key in sorted(pod.labels):
            if key.startswith(_PREFIXES) and key not in _READ:
                return key
    return None


def _kind(spelling: Spelling | None) -> str:
    is_annotation = spelling is not None and spelling.source is Source.ANNOTATION
    return "annotation" if is_annotation else "label"


def _verb(spelling: Spelling | None) -> str:
    return "annotate" if _kind(spelling) == "annotation" else "label"
