"""Quotas of Kueue: cohorts and cluster queues, and the local queues that lead to them.

Rules:
  R1  a cohort is named ``cohort:NAME``, since a cluster queue may have the same name. One that is
      only named exists, and has nothing by itself;
  R2  flavors of one resource are added up: a quota knows no flavors;
  R3  a cluster queue takes no pods that request what it does not cover, if its tree knows it;
  R4  pods name a local queue. It leads to its cluster queue, unless one of the two is stopped or
      the cluster queue does not select the namespace: then it leads nowhere, and its pods are held.

Source: ``apis/kueue/v1beta2`` and ``v1beta1`` of Kueue; KEP-79 for the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gangsched.constraints import LabelSelector
from gangsched.manifests.fields import Field
from gangsched.manifests.peer_quotas._draft import Draft, Drafts, cluster_key
from gangsched.manifests.selectors import read_label_selector
from gangsched.options.quota import ReclaimFrom
from gangsched.quantity import MILLI

__all__ = ["read_kueue"]

_COHORT: Final = "cohort:"
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_RECLAIM: Final = {
    "Never": ReclaimFrom.NEVER,
    "LowerPriority": ReclaimFrom.LOWER,
    "Any": ReclaimFrom.ANY,
}
_STOPPED: Final = ("None", "Hold", "HoldAndDrain")
_NO_LABELS: Final[Mapping[str, str]] = {}


def read_kueue(objects: Iterable[Field]) -> tuple[Drafts, dict[str, str]]:
    """Return the cohorts and cluster queues, and the cluster queue of each local queue.

    Args:
        objects: Cohorts, cluster queues, local queues and namespaces.

    Raises:
        ManifestError: A field is malformed.
    """
    by_kind: dict[str, list[Field]] = {}
    for each in objects:
        by_kind.setdefault(each["kind"].text(), []).append(each)
    drafts = Drafts()
    for each in by_kind.get("Cohort", ()):
        drafts.put(_cohort(each, drafts))
    selectors: dict[str, LabelSelector | None] = {}
    refused: list[tuple[str, str]] = []
    for each in by_kind.get("ClusterQueue", ()):
        draft = _cluster_queue(each, drafts)
        drafts.put(draft)
        selectors[draft.name] = read_label_selector(each["spec"]["namespaceSelector"])
        if problem := _why_held(each["spec"]):
            refused.append((draft.name, problem))
    _add_named_cohorts(drafts)
    for name, problem in refused:
        drafts.leave_out(name, problem)
    drafts.leave_out_lost()
    _limit_what_is_not_covered(drafts)
    labels = {
        each["metadata"]["name"].name(): each["metadata"]["labels"].texts()
        for each in by_kind.get("Namespace", ())
    }
    leads: dict[str, str] = {}
    for each in by_kind.get("LocalQueue", ()):
        target = each["spec"]["clusterQueue"].text()
        problem = _why_closed(each, target, drafts, selectors, labels)
        if problem:
            drafts.hold(cluster_key(each), each, problem)
        else:
            leads[cluster_key(each)] = target
        drafts.note_rest(each["spec"], each, "clusterQueue", "stopPolicy")
    return drafts, leads


def _cohort(document: Field, drafts: Drafts) -> Draft:
    spec = document["spec"]
    parent = spec["parentName"].text() or spec["parent"].text()
    draft = Draft(
        f"{_COHORT}{document['metadata']['name'].name()}",
        document,
        parent=f"{_COHORT}{parent}" if parent else None,
        weight=_weight(spec),
    )
    _read_groups(draft, drafts)
    drafts.note_rest(spec, document, "parentName", "parent", "resourceGroups", "fairSharing")
    return draft


def _cluster_queue(document: Field, drafts: Drafts) -> Draft:
    spec = document["spec"]
    parent = spec["cohortName"].text() or spec["cohort"].text()
    preemption = spec["preemption"]
    draft = Draft(
        document["metadata"]["name"].name(),
        document,
        parent=f"{_COHORT}{parent}" if parent else None,
        nominal={},
        weight=_weight(spec),
        reclaim_from=_RECLAIM[preemption["reclaimWithinCohort"].word(tuple(_RECLAIM), "Never")],
    )
    _read_groups(draft, drafts)
    if preemption["withinClusterQueue"].text() == "LowerOrNewerEqualPriority":
        path = preemption["withinClusterQueue"].path
        drafts.note(document, f"{path} has no meaning here: priority decides within a queue")
    if preemption["borrowWithinCohort"]["policy"].text("Never") != "Never":
        path = preemption["borrowWithinCohort"].path
        drafts.note(document, f"{path} has no meaning here: a queue that borrows evicts no pods")
    drafts.note_rest(
        spec,
        document,
        *("cohortName", "cohort", "resourceGroups", "fairSharing", "preemption"),
        *("namespaceSelector", "stopPolicy", "admissionChecks", "admissionChecksStrategy"),
        *("queueingStrategy", "flavorFungibility"),
    )
    if spec["queueingStrategy"].text() == "StrictFIFO":
        path = spec["queueingStrategy"].path
        drafts.note(document, f"{path} has no meaning here: a smaller gang may pass a larger one")
    return draft


def _weight(spec: Field) -> float:
    weight = spec["fairSharing"]["weight"]
    return weight.quantity("weight") / MILLI if weight.given else 1.0


def _read_groups(draft: Draft, drafts: Drafts) -> None:
    """Read what the flavors of a queue have together, of each resource."""
    flavors: dict[str, list[Field]] = {}
    for group in draft.document["spec"]["resourceGroups"].elements():
        for flavor in group["flavors"].elements():
            for resource in flavor["resources"].elements():
                flavors.setdefault(resource["name"].name(), []).append(resource)
    for name, found in flavors.items():
        if draft.nominal is None:
            draft.nominal = {}
        nominal = [each["nominalQuota"].required().quantity(name) for each in found]
        draft.nominal[name] = sum(nominal)
        if all(each["borrowingLimit"].given for each in found):
            draft.borrow[name] = sum(each["borrowingLimit"].quantity(name) for each in found)
        if any(each["lendingLimit"].given for each in found):
            draft.lend[name] = sum(
                each["lendingLimit"].quantity(name) if each["lendingLimit"].given else amount
                for each, amount in zip(found, nominal, strict=True)
            )
        if len(found) > 1:
            drafts.note(
                draft.document,
                f"its {len(found)} flavors of {name} are added up: a quota knows no flavors",
            )


def _why_held(spec: Field) -> str:
    """Return why the pods of a cluster queue cannot be run as it says; empty if they can."""
    stop = spec["stopPolicy"].word(_STOPPED, "None")
    if stop != "None":
        return f"{spec['stopPolicy'].path} is {stop}"
    if not any(spec["resourceGroups"].elements()):
        return f"{spec['resourceGroups'].path} is empty"
    for name in ("admissionChecks", "admissionChecksStrategy"):
        if spec[name].value not in (None, [], {}):
            return f"{spec[name].path} is not modelled"
    return ""


def _add_named_cohorts(drafts: Drafts) -> None:
    for draft in [*drafts.by_name.values()]:
        if draft.parent is not None and draft.parent not in drafts.by_name:
            drafts.put(Draft(draft.parent, draft.document))


def _limit_what_is_not_covered(drafts: Drafts) -> None:
    """Let no pod of a cluster queue have what only others of its tree cover."""
    trees: dict[str, list[Draft]] = {}
    for draft in drafts.by_name.values():
        *_path, root = drafts.path(draft)
        trees.setdefault(root.name, []).append(draft)
    for tree in trees.values():
        known = {name: 0 for draft in tree for name in draft.nominal or ()}
        for draft in tree:
            if not draft.name.startswith(_COHORT):
                covered = draft.nominal or {}
                draft.hard = {name: 0 for name in known if name not in covered}


def _why_closed(
    document: Field,
    target: str,
    drafts: Drafts,
    selectors: Mapping[str, LabelSelector | None],
    labels: Mapping[str, Mapping[str, str]],
) -> str:
    """Return why a local queue leads nowhere; empty if it leads to its cluster queue."""
    stop = document["spec"]["stopPolicy"].word(_STOPPED, "None")
    if stop != "None":
        return f"spec.stopPolicy is {stop}"
    if target in drafts.held:
        return f"the ClusterQueue {target} is held: {drafts.held[target]}"
    if target not in selectors:
        return f"the ClusterQueue {target} does not exist"
    namespace = document["metadata"]["namespace"].text("default")
    selector = selectors[target]
    known = {_NAMESPACE_NAME: namespace, **labels.get(namespace, _NO_LABELS)}
    if selector is None or not selector.matches(known):
        return f"spec.namespaceSelector of the ClusterQueue {target} does not match {namespace}"
    return ""
