"""``subGroupPolicy`` of Volcano: pods of a group that are alike in some labels start together.

Theory of operation. Volcano puts a pod in a sub group of the first policy that selects it: the
policy's ``labelSelector`` matches, and the pod has each label of ``matchLabelKeys``, not empty.
Pods with the same values are one sub group. It starts with ``subGroupSize`` pods, and the group
with ``minSubGroups`` sub groups of each policy, ``minMember`` pods, and what ``minTaskMember``
says. Here a policy is a role of copies, and the value of the label is the number of the copy.

Rules:
  R1  a policy of which the selector fixes all labels has one sub group: it is a role of pods;
  R2  what ``minTaskMember`` says of the pods that a policy selects by their task is a number of
      sub groups, rounded up. If it may be about the pods of a policy in part, the group is held;
  R3  ``minSubGroups`` is 0 if it is left out: any sub groups that make ``minMember`` will do. This
      is a minimum of sub groups if the group has no other pods. Otherwise the group is held;
  R4  what has no meaning here holds the pods of the group, each with its reason: a label that does
      not number sub groups is refused for each pod (see ``LabelledRole``), several labels together,
      and a policy that selects no pod;
  R5  a network topology is that of each sub group: see ``network_topology``.

Source: ``getSubJobMatchValues`` in pkg/scheduler/api/sub_job_info.go, and ``CheckSubJobReady`` in
job_info.go, of Volcano 1.15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import define, frozen

from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import hold
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.network_topology import NetworkTopology, read_network_topology
from gangsched.manifests.pod_fields import Schema, unknown
from gangsched.manifests.selectors import read_label_selector
from gangsched.model import LabelledRole, LabelSelector, Role

__all__ = ["MEMBER", "SubGroups", "read_sub_groups"]

MEMBER: Final = "member"
"""The role of the pods of a sub group, which Volcano gives no name."""

_TASK: Final = "volcano.sh/task-spec"
_SCHEMA: Final[Schema] = {
    "name": None,
    "subGroupSize": None,
    "minSubGroups": None,
    "labelSelector": {
        "matchLabels": None,
        "matchExpressions": {"key": None, "operator": None, "values": None},
    },
    "matchLabelKeys": None,
    "networkTopology": None,
}


@frozen
class SubGroups:
    """What the policies of a group say.

    Attributes:
        roles: The roles that the group needs.
        labelled: Which pods have which role.
        reasons: What holds the pods of the group, each in words.
    """

    roles: Mapping[str, int | Role] = {}
    labelled: tuple[LabelledRole, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """The number of pods that the roles need."""
        return sum(
            role if isinstance(role, int) else role.needed * role.least
            for role in self.roles.values()
        )


@define
class _Policy:
    """One policy; *needed* is how many of its sub groups the group needs."""

    field: Field
    name: str
    selector: LabelSelector
    keys: tuple[str, ...]
    size: int
    needed: int
    network: NetworkTopology

    @property
    def label(self) -> str | None:
        """The label that numbers its sub groups; None if it has one."""
        return next((key for key in self.keys if key not in self.selector.match_labels), None)

    @property
    def task(self) -> str | None:
        """The task whose pods it selects; None if it does not say."""
        return self.selector.match_labels.get(_TASK)


def read_sub_groups(manifest: Manifest, minimum: int, tasks: Mapping[str, int]) -> SubGroups:
    """Return what ``subGroupPolicy`` says beside the minima of tasks.

    Args:
        manifest: A ``PodGroup``.
        minimum: Its ``minMember``.
        tasks: The minima of its tasks that count.

    Raises:
        ManifestError: A field is malformed.
    """
    field = manifest.document["spec"]["subGroupPolicy"]
    policies = [_read(manifest, each, index) for index, each in enumerate(field.elements())]
    if not policies:
        return SubGroups(roles=tasks)
    unclear = [*_unclear(policies)]
    unclear = unclear or [*_count(manifest, policies, minimum, tasks)]
    if unclear or manifest.ignores(field.path):
        reasons = [each for part, why in unclear for each in hold(manifest, part, why)]
        return SubGroups(tasks, reasons=tuple(reasons))
    roles: dict[str, int | Role] = {**tasks}
    labelled: list[LabelledRole] = []
    for each in policies:
        if each.task in roles:
            del roles[each.task]
        topology = each.network.topology
        if each.label is None:
            roles[each.name] = Role(each.size, topology=topology)
            labelled.append(LabelledRole(each.name, each.selector))
        else:
            roles[each.name] = Role(each.needed, roles={MEMBER: each.size}, topology=topology)
            path = f"{each.name}/*/{MEMBER}"
            labelled.append(LabelledRole(path, each.selector, number=each.label))
    return SubGroups(roles, tuple(labelled))


def _read(manifest: Manifest, field: Field, index: int) -> _Policy:
    name = field["name"].text(f"policy-{index}")
    if "/" in name or "." in name:
        raise field["name"].refuse("a name without a slash and without a dot")
    return _Policy(
        field,
        name,
        read_label_selector(field["labelSelector"]) or LabelSelector(),
        tuple(each.name() for each in field["matchLabelKeys"].elements()),
        field["subGroupSize"].whole(1, least=1),
        field["minSubGroups"].whole(0, least=0),
        read_network_topology(manifest, field["networkTopology"]),
    )


def _unclear(policies: list[_Policy]) -> Iterator[tuple[Field, str]]:
    """Yield what of single policies has no meaning here, and why."""
    names: set[str] = set()
    for each in policies:
        for more in unknown(each.field, _SCHEMA):
            yield more, ""
        if each.network.unclear is not None:
            yield each.network.unclear
        if each.name in names:
            yield each.field["name"], "another policy has this name"
        names.add(each.name)
        keys = each.field["matchLabelKeys"]
        if not each.keys:
            yield keys, "without labels, it selects no pod"
        elif len([key for key in each.keys if key not in each.selector.match_labels]) > 1:
            yield keys, "several labels together number no sub group"
        elif each.label is None and each.needed > 1:
            yield each.field["minSubGroups"], "its labels make one sub group"


def _count(
    manifest: Manifest, policies: list[_Policy], minimum: int, tasks: Mapping[str, int]
) -> Iterator[tuple[Field, str]]:
    """Find how many sub groups each policy needs; yield what cannot be said in sub groups."""
    of_tasks = [each.task for each in policies]
    if tasks and (None in of_tasks or len(set(of_tasks)) < len(of_tasks)):
        field = manifest.document["spec"]["minTaskMember"]
        yield field, "it is about pods of sub groups in part"
        return
    for each in policies:
        by_task = -(-tasks.get(each.task or "", 0) // each.size)
        if each.label is not None or by_task <= 1:
            each.needed = max(each.needed, by_task)
        else:
            field = manifest.document["spec"]["minTaskMember"]
            yield field, "it is about pods of sub groups in part"
            return
    (first, *others) = policies
    if not first.needed and not others and first.selector.is_empty and first.label is not None:
        first.needed = max(1, -(-minimum // first.size))
    for each in policies:
        if not each.needed:
            field = each.field["minSubGroups"]
            yield field, "0 says not which sub groups make minMember"
