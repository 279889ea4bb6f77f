"""Pod groups from documents: several dialects, one meaning.

Rules:
  R1  ``minMember`` (scheduler-plugins, Volcano, kube-batch), ``minMembers`` (KEP-34) and
      ``minCount`` (Kubernetes) are all the quorum, and at least 1. ``minCount`` is required. The
      others are ``omitempty`` in the API of their projects: one that is left out is 1;
  R2  Kubernetes' ``basic`` policy is not a gang: the group is kept with a quorum of 1, so its
      pods start one by one, and a note says so;
  R3  ``scheduleTimeoutSeconds: 0`` means no timeout, as in scheduler-plugins;
  R4  Volcano's ``minTaskMember`` gives the minima of roles. If they add up to more than
      ``minMember``, they are ignored, as Volcano does; a note says so;
      ``subGroupPolicy`` gives roles of copies: see ``sub_groups``. If they need more pods than
      ``minMember``, this is the minimum, since Volcano starts a group by both;
  R5  a field that is not modelled holds the pods of the group: see ``group_fields``;
  R6  Koordinator's annotation of groups is the bundle, on a group of any dialect;
  R7  the restart policy is annotations on a group of any dialect: see ``restarts``;
  R8  the disruption mode of Kubernetes is a union since 1.37, ``{single: {}}`` or ``{all: {}}``.
      The words of 1.36, ``Pod`` and ``PodGroup``, mean the same;
  R9  a ``CompositePodGroup`` is a group of groups, and ``minGroupCount`` is how many of its
      children start together. It and a ``PodGroup`` of one name and namespace would be one group
      here, so a group cannot have a parent of its own name;
  R10 three annotations of a group of any dialect add to its topology: see ``own_topology``;
  R11 the queue is a label on a group of any dialect: see ``queues``.
"""

from __future__ import annotations

import json
import re
from typing import Final, cast

from attrs import evolve

from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import held, hold, is_composite, is_in_tree
from gangsched.manifests.manifest import Manifest, read_name
from gangsched.manifests.network_topology import read_network_topology
from gangsched.manifests.own_topology import with_own_topology
from gangsched.manifests.peer_quotas.named import queue_of_group
from gangsched.manifests.restarts import restarts_of
from gangsched.manifests.sub_groups import read_sub_groups
from gangsched.model import GroupKey, PodGroup, PreemptionPolicy, Topology, group_key

__all__ = ["bundle_of", "check_manifest", "group_of", "read_core_group", "read_group"]

_PREEMPTION: Final = tuple(policy.value for policy in PreemptionPolicy)
_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
_KEY: Final = re.compile(r"[^/\s]+/[^/\s]+")


def read_group(manifest: Manifest) -> PodGroup:
    """Return the group of a ``PodGroup`` document of scheduler-plugins, Volcano or kube-batch.

    Raises:
        ManifestError: A field is malformed.
        InvalidValueError: *manifest* is not a Manifest.
    """
    check_manifest(manifest)
    spec = manifest.document["spec"]
    minimum = spec["minMembers"] if spec["minMembers"].given else spec["minMember"]
    group = group_of(manifest, minimum, spec, default=1, priority=manifest.classes.asked_by(spec))
    tasks = spec["minTaskMember"]
    counts = {task: field.whole(least=0) for task, field in tasks.entries()}
    if any(not task or "/" in task for task in counts):
        raise tasks.refuse("non-empty names of tasks without a slash")
    roles = {task: count for task, count in counts.items() if count}
    if sum(roles.values()) > group.min_available:
        manifest.note(f"{tasks.path} adds up to more than {spec['minMember'].path} and was ignored")
        roles = {}
    subs = read_sub_groups(manifest, group.min_available, roles)
    network = read_network_topology(manifest, spec["networkTopology"])
    unclear = () if network.unclear is None else hold(manifest, *network.unclear)
    group = evolve(
        group,
        topology=network.topology,
        roles=subs.roles,
        min_available=max(group.min_available, subs.needed),
        labelled_roles=subs.labelled,
        bundle=bundle_of(manifest),
        queue=queue_of_group(manifest, dialect="volcano"),
        unmodelled=(*held(manifest), *subs.reasons, *unclear),
        **restarts_of(manifest),
    )
    return with_own_topology(manifest, group)


def read_core_group(manifest: Manifest) -> PodGroup:
    """Return the group of a document of Kubernetes' own ``scheduling.k8s.io``.

    Args:
        manifest: A ``PodGroup`` or a ``CompositePodGroup``.

    Raises:
        ManifestError: A field is malformed.
        InvalidValueError: *manifest* is not a Manifest.
    """
    check_manifest(manifest)
    spec = manifest.document["spec"]
    policy = spec["schedulingPolicy"]
    if policy["gang"].given == policy["basic"].given:
        raise policy.problem("expected exactly one of gang and basic")
    composite = is_composite(manifest)
    members, count = ("groups", "minGroupCount") if composite else ("pods", "minCount")
    minimum = 1
    if policy["basic"].given:
        manifest.note(f"{policy['basic'].path} is not a gang: its {members} start one by one")
    else:
        minimum = policy["gang"][count].whole(least=1)
    topology = spec["schedulingConstraints"]["topology"]
    labels = [element["key"].name() for element in topology.elements()]
    policy_of_preemption = spec["preemptionPolicy"].word(_PREEMPTION, "")
    group = PodGroup(
        name=manifest.name,
        namespace=manifest.namespace,
        parent=_parent_of(manifest),
        min_groups=minimum if composite else None,
        min_available=0 if composite else minimum,
        priority=manifest.classes.asked_by(spec),
        queue=queue_of_group(manifest),
        created_at=manifest.at,
        topology=Topology(labels[0]) if len(labels) == 1 else None,
        bundle=() if is_in_tree(manifest) else bundle_of(manifest),
        preemption_policy=PreemptionPolicy(policy_of_preemption) if policy_of_preemption else None,
        evicted_whole=_is_evicted_whole(spec["disruptionMode"]),
        unmodelled=tuple(held(manifest, core=True)),
        **restarts_of(manifest),
    )
    return with_own_topology(manifest, group)


def group_of(
    manifest: Manifest,
    minimum: Field,
    policy: Field,
    *,
    default: int | None = None,
    priority: int | None = None,
) -> PodGroup:
    """Return the group that has the name of *manifest*.

    Args:
        manifest: The document of the group.
        minimum: The field with its quorum.
        policy: The mapping with ``scheduleTimeoutSeconds`` and ``minResources``: the ``spec`` of
            the group.
        default: The quorum if the field is left out; None if it is required.
        priority: Its priority; None to take that of its members.

    Raises:
        ManifestError: A field is malformed.
    """
    return PodGroup(
        name=manifest.name,
        namespace=manifest.namespace,
        min_available=minimum.whole(default, least=1),
        schedule_timeout=policy["scheduleTimeoutSeconds"].whole(0, least=0) or None,
        min_resources=policy["minResources"].resources(),
        priority=priority,
        created_at=manifest.at,
    )


def _parent_of(manifest: Manifest) -> GroupKey | None:
    """Return the composite pod group that a group is below; None for a root."""
    field = manifest.document["spec"]["parentCompositePodGroupName"]
    if not field.text():
        return None
    name = read_name(field)
    if name == manifest.name:
        raise field.refuse("the name of another group")
    return group_key(manifest.namespace, name)


def _is_evicted_whole(mode: Field) -> bool:
    """Return whether preemption evicts all members of a group or none."""
    if isinstance(mode.value, dict):
        if mode["single"].given == mode["all"].given:
            raise mode.problem("expected exactly one of single and all")
        return mode["all"].given
    if mode.value is not None and mode.value not in ("", "Pod", "PodGroup"):
        raise mode.refuse("{single: {}}, {all: {}}, Pod or PodGroup")
    return mode.value == "PodGroup"


def check_manifest(manifest: object) -> None:
    """Require a manifest.

    Raises:
        InvalidValueError: *manifest* is not a Manifest.
    """
    if not isinstance(manifest, Manifest):
        raise InvalidValueError("manifest", manifest, "a Manifest, see read_manifest")


def bundle_of(manifest: Manifest) -> tuple[GroupKey, ...]:
    """Return the groups in Koordinator's annotation; none if it is absent.

    Raises:
        ManifestError: It is no list of keys.
    """
    field = manifest.document["metadata"]["annotations"][_GROUPS]
    text, expected = field.text(), 'a JSON list such as ["namespace/name"]'
    try:
        keys: object = json.loads(text) if text else []
    except (ValueError, RecursionError) as error:
        raise field.refuse(expected) from error
    if not isinstance(keys, list):
        raise field.refuse(expected)
    found: list[GroupKey] = []
    for key in cast("list[object]", keys):
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise field.refuse(expected)
        found.append(GroupKey(key))
    return tuple(found)
