"""Quotas of KAI Scheduler: ``Queue`` of ``scheduling.run.ai``.

Rules:
  R1  CPUs are in thousandths, memory in megabytes (10**6 bytes) and GPUs in whole or parts;
  R2  a quota or a limit of -1 is none. Without one, a resource that others name is to be borrowed;
  R3  queues without a parent share the cluster there, so they have a root here;
  R4  a number that is not stated is 0: no quota, a limit of nothing, and no weight. The weight of a
      queue is that of the first resource that it may use: GPUs, CPUs, memory.

Source: ``pkg/apis/scheduling/v2`` of KAI Scheduler 0.17.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from gangsched.manifests.fields import Field
from gangsched.manifests.peer_quotas._draft import Draft, Drafts
from gangsched.manifests.scalars import Number
from gangsched.quantity import MILLI

__all__ = ["read_kai"]

ROOT: Final = "kai:root"
_UNITS: Final = {
    "gpu": ("nvidia.com/gpu", MILLI),
    "cpu": ("cpu", 1),
    "memory": ("memory", 10**6 * MILLI),
}
"""The name of each resource, and how many thousandths a unit of it is."""


def read_kai(objects: Iterable[Field]) -> Drafts:
    """Return the queues.

    Raises:
        ManifestError: A field is malformed.
    """
    drafts = Drafts()
    for document in objects:
        drafts.by_name.setdefault(ROOT, Draft(ROOT, document))
        drafts.put(_queue(document, drafts))
    drafts.leave_out_lost()
    drafts.subtract_children()
    return drafts


def _queue(document: Field, drafts: Drafts) -> Draft:
    spec = document["spec"]
    draft = Draft(
        document["metadata"]["name"].name(),
        document,
        parent=spec["parentQueue"].text(ROOT),
        nominal={},
    )
    resources = spec["resources"]
    weights: list[float] = []
    for name, (resource, unit) in _UNITS.items():
        each = resources[name]
        quota = _amount(each["quota"])
        if quota is None:
            path = each["quota"].path
            drafts.note(document, f"{path} is unlimited: it borrows what its siblings lend")
        else:
            assert draft.nominal is not None
            draft.nominal[resource] = int(quota * unit)
        limit = _amount(each["limit"])
        if limit is not None:
            draft.hard[resource] = int(limit * unit)
        if limit != 0:
            weights.append(float(_amount(each["overQuotaWeight"]) or 0))
        drafts.note_rest(each, document, "quota", "limit", "overQuotaWeight")
    if weights:
        draft.weight = weights[0]
        if len(set(weights)) > 1:
            first = str(draft.weight).removesuffix(".0")
            drafts.note(document, f"overQuotaWeight is {first} for all resources here")
    drafts.note_rest(resources, document, *_UNITS)
    drafts.note_rest(spec, document, "displayName", "parentQueue", "resources")
    return draft


def _amount(field: Field) -> Fraction | None:
    """Return a number that is 0 if it is absent; None for -1."""
    value = field.value
    if value is None:
        return Fraction(0)
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        raise field.refuse("a number >= 0, or -1")
    try:
        number = Fraction(repr(value))
    except ValueError as error:
        raise field.refuse("a number >= 0, or -1") from error
    if number == -1:
        return None
    if number < 0:
        raise field.refuse("a number >= 0, or -1")
    return number
