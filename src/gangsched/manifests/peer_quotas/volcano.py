"""Quotas of Volcano: ``Queue`` of ``scheduling.volcano.sh``.

Rules:
  R1  ``deserved`` is what a queue has, and ``guarantee`` the part of it that it does not lend;
  R2  a queue with neither is limited by ``capability`` alone: its weight divides what the cluster
      has, which is not known here;
  R3  a queue without a parent is below ``root``, which exists there without an object;
  R4  a queue that is closed, or has nodes of its own, is left out: its pods are held.

Source: ``scheduling/v1beta1`` of Volcano 1.15, and its plugin ``capacity``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.manifests.fields import Field
from gangsched.manifests.peer_quotas._draft import Draft, Drafts

__all__ = ["read_volcano"]

_ROOT: Final = "root"
_CLOSED: Final = ("Closed", "Closing", "Unknown")


def read_volcano(objects: Iterable[Field]) -> Drafts:
    """Return the queues.

    Raises:
        ManifestError: A field is malformed.
    """
    drafts = Drafts()
    documents = list(objects)
    for document in documents:
        drafts.put(_queue(document, drafts))
    if documents and _ROOT not in drafts.by_name:
        drafts.put(Draft(_ROOT, documents[0]))
    for document in documents:
        if problem := _why_held(document):
            drafts.leave_out(document["metadata"]["name"].name(), problem)
    drafts.leave_out_lost()
    drafts.give_part()
    drafts.subtract_children()
    return drafts


def _queue(document: Field, drafts: Drafts) -> Draft:
    spec, name = document["spec"], document["metadata"]["name"].name()
    deserved, guarantee = spec["deserved"], spec["guarantee"]["resource"].amounts()
    draft = Draft(
        name,
        document,
        parent=None if name == _ROOT else spec["parent"].text(_ROOT),
        hard=spec["capability"].amounts(),
    )
    if deserved.value or guarantee:
        has = deserved.amounts()
        draft.nominal = {r: max(has.get(r, 0), guarantee.get(r, 0)) for r in {**has, **guarantee}}
        draft.lend = {r: draft.nominal[r] - amount for r, amount in guarantee.items()}
    elif spec["weight"].value not in (None, 1) and name != _ROOT:
        drafts.note(document, "spec.weight has no meaning here without spec.deserved")
    if spec["reclaimable"].value is False:
        drafts.note(document, "spec.reclaimable has no meaning here: what it borrows is taken back")
    drafts.note_rest(
        spec,
        document,
        *("parent", "deserved", "capability", "guarantee", "weight", "reclaimable", "affinity"),
        "dequeueStrategy",
    )
    if spec["dequeueStrategy"].text() == "fifo":
        path = spec["dequeueStrategy"].path
        drafts.note(document, f"{path} has no meaning here: a smaller gang may pass a larger one")
    return draft


def _why_held(document: Field) -> str:
    """Return why the pods of a queue cannot be run as it says; empty if they can."""
    state = document["status"]["state"].text()
    if state in _CLOSED:
        return f"status.state is {state}"
    return "spec.affinity is not modelled" if document["spec"]["affinity"].value else ""
