"""Quotas of Koordinator: ``ElasticQuota`` of ``scheduling.sigs.k8s.io``, with its labels.

Rules:
  R1  ``min`` is what a quota has, with those below it, and ``max`` its limit. One that does not
      allow its resources to be lent keeps all of ``min``;
  R2  a pod that names no quota is in that of its namespace: the one in it that has its name, else
      the one that states the namespace. A quota with others below it has no pods;
  R3  a quota without a parent is below that of the cluster, unless it is the root of a tree;
  R4  a quota has a weight for each resource, which is ``max`` if it states none. The weight here is
      that of the first resource for which all quotas have one.

Source: ``apis/extension/elastic_quota.go`` of Koordinator 1.8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from gangsched.manifests.fields import Field
from gangsched.manifests.peer_quotas._draft import Draft, Drafts
from gangsched.quantity import MILLI

__all__ = ["DEFAULT_QUOTA", "PREFIX", "read_koordinator"]

PREFIX: Final = "quota.scheduling.koordinator.sh/"
_ROOT: Final = "koordinator-root-quota"
_SYSTEM: Final = "koordinator-system-quota"
_FIRST: Final = ("nvidia.com/gpu", "cpu", "memory")
DEFAULT_QUOTA: Final = "koordinator-default-quota"
"""The quota of pods that are in no other."""


def read_koordinator(objects: Iterable[Field]) -> Drafts:
    """Return the queues.

    Raises:
        ManifestError: A field is malformed.
    """
    drafts = Drafts()
    documents = [each for each in objects if each["metadata"]["name"].text() != _SYSTEM]
    for document in documents:
        drafts.put(_quota(document, drafts))
    if documents and _ROOT not in drafts.by_name:
        drafts.put(Draft(_ROOT, documents[0]))
    drafts.leave_out_lost()
    _put_namespaces(drafts)
    _put_weights(drafts)
    for draft in drafts.by_name.values():
        if draft.parent is None and draft.nominal is None and not drafts.children(draft.name):
            draft.nominal = {}  # it has pods of its own, so it is a queue and no cap
    drafts.give_part()
    drafts.subtract_children()
    return drafts


def _quota(document: Field, drafts: Drafts) -> Draft:
    metadata, spec = document["metadata"], document["spec"]
    labels, name = metadata["labels"], metadata["name"].name()
    is_root = name == _ROOT or labels[f"{PREFIX}is-root"].text() == "true"
    draft = Draft(
        name,
        document,
        parent=None if is_root else labels[f"{PREFIX}parent"].text(_ROOT),
        nominal=spec["min"].amounts() if spec["min"].given else None,
        hard=spec["max"].amounts(),
    )
    if labels[f"{PREFIX}allow-lent-resource"].text() == "false":
        draft.lend = dict.fromkeys(draft.nominal or (), 0)
    drafts.note_rest(spec, document, "min", "max")
    return draft


def _put_namespaces(drafts: Drafts) -> None:
    """Give each namespace its quota."""
    taken: set[str] = set()
    leaves = [
        each
        for _name, each in sorted(drafts.by_name.items())
        if not drafts.children(each.name)
        and each.name != _ROOT
        and each.document["metadata"]["labels"][f"{PREFIX}is-parent"].text() != "true"
    ]
    for draft in leaves:
        if draft.document["metadata"]["namespace"].text("default") == draft.name:
            _take(draft, [draft.name], taken)
    for draft in leaves:
        annotation = draft.document["metadata"]["annotations"][f"{PREFIX}namespaces"]
        _take(draft, [each.name() for each in _json(annotation).elements()], taken)


def _put_weights(drafts: Drafts) -> None:
    """Give each quota the weight of a resource for which all have one."""
    weights = {name: _weights(each) for name, each in drafts.by_name.items()}
    stated = [each for each in weights.values() if each]
    common = [resource for resource in _resources(stated) if all(resource in w for w in stated)]
    for name, draft in drafts.by_name.items():
        weighed = weights[name]
        if common and weighed:
            draft.weight = weighed[common[0]] / MILLI
    several = [name for name, each in weights.items() if len(set(each.values())) > 1]
    if several:
        counts = f"that of {common[0]} counts" if common else "none counts"
        sentence = f"a queue has one weight here, and of {PREFIX}shared-weight {counts}"
        drafts.note(drafts.by_name[several[0]].document, sentence)


def _weights(draft: Draft) -> dict[str, int]:
    if draft.name in (_ROOT, DEFAULT_QUOTA):
        return {}
    given = _json(draft.document["metadata"]["annotations"][f"{PREFIX}shared-weight"])
    weights = {resource: each.quantity(resource) for resource, each in given.entries()}
    return weights if any(weights.values()) else draft.hard


def _resources(weights: Iterable[dict[str, int]]) -> list[str]:
    named = {resource for each in weights for resource in each}
    first = [resource for resource in _FIRST if resource in named]
    return [*first, *sorted(named.difference(first))]


def _take(draft: Draft, namespaces: Iterable[str], taken: set[str]) -> None:
    new = [each for each in dict.fromkeys(namespaces) if each not in taken]
    taken.update(new)
    draft.namespaces += tuple(new)


def _json(field: Field) -> Field:
    """Return the value of an annotation that is JSON; an absent one if it is absent."""
    try:
        value = json.loads(field.text()) if field.given else None
    except (ValueError, RecursionError) as error:
        raise field.refuse("JSON") from error
    return Field(field.source, field.path, value)
