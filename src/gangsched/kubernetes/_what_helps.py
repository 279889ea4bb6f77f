"""What would help a gang that waits for something else than nodes.

Rules:
  R1  a running scheduler and a listing say the same. No node is tried: more nodes do not help;
  R2  no queue is named but the one that the gang names: those of others may not be for its reader.
"""

from __future__ import annotations

from collections.abc import Collection

from gangsched.explain import NotAdmitted, PartlyRunning, Why
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._unknown_minimum import remedy
from gangsched.model import GroupKey, Pod
from gangsched.options.quota import EXCEEDED, NO_QUEUE, PARENT_QUEUE, TOO_LARGE

__all__ = ["refusal", "what_helps"]


def refusal(why: Why | None) -> str:
    """Return why a group, or what is left of it, is not admitted; empty if it is."""
    why = why.rest or why if isinstance(why, PartlyRunning) else why
    return why.reason if isinstance(why, NotAdmitted) else ""


def what_helps(cache: Cache, key: GroupKey, pods: Collection[Pod], why: Why | None) -> str:
    """Return what would help a group; empty if only nodes may, or if it is not known.

    Args:
        cache: The objects of the cluster.
        key: The group.
        pods: Its pods.
        why: Why it does not run, as the scheduler says; None if that does not know it.
    """
    reason = refusal(why)
    return _in_its_queue(cache, reason) if reason else remedy(cache, key, pods, why)


def _in_its_queue(cache: Cache, reason: str) -> str:
    if reason.startswith(EXCEEDED):
        quota = reason.removeprefix(EXCEEDED).partition(":")[0]
        if reason.endswith(TOO_LARGE):
            return f"the quota {quota} is raised, or the gang requests less"
        return f"other pods of the quota {quota} end, or the quota is raised"
    if _named(PARENT_QUEUE, reason) is not None:
        return "the pods name a queue below it"
    name = _named(NO_QUEUE, reason)
    if name is None:
        return ""
    why = cache.quotas.held.get(name)
    if why is None:
        return f"a queue {name} is made, or the pods name one that exists"
    return f"the pods name another queue, since those of {name} are held: {why}"


def _named(sentence: str, reason: str) -> str | None:
    """Return the name in a reason of the form of a sentence; None if it has another form."""
    before, after = sentence.split("{}")
    if not (reason.startswith(before) and reason.endswith(after)):
        return None
    return reason.removeprefix(before).removesuffix(after)
