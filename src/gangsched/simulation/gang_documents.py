"""``Gang`` documents: a pod group by its roles, which may consist of copies, and its pods.

No kind of Kubernetes states k of n copies of several pods. This kind is for simulations: its fields
are the arguments of ``gangsched.gang``, and the pods are those that it makes.

Rules:
  R1  a role is a number of pods, or a mapping with the attributes of ``Role``;
  R2  what the template states holds for all pods; a role's own requests replace the template's;
  R3  an unknown field is an error, since no other program reads this kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import evolve, fields

from gangsched.constraints import Topology
from gangsched.errors import InvalidValueError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.gangs import Role, gang
from gangsched.manifests.fields import MOST_PODS, Field
from gangsched.manifests.manifest import Manifest
from gangsched.model import RestartPolicy
from gangsched.simulation.timed_pods import read_timed_pod

__all__ = ["GANG", "read_gang"]

GANG: Final = ("simulation.gangsched.io/v1alpha1", "Gang")
"""Version and kind."""

_SPEC: Final = ("roles", "topology", "restart", "spares", "queue", "template")
_ROLE: Final = ("count", "minimum", "requests", "roles", "topology", "restart")
_TOPOLOGY: Final = tuple(each.name for each in fields(Topology))
_RESTART: Final = ("max_restarts", "backoff", "longest_backoff", "repair")


def read_gang(manifest: Manifest) -> Iterator[PodGroupAdded | PodAdded]:
    """Yield the group of a ``Gang`` document, and its pods. O(pods).

    Raises:
        ManifestError: The document is malformed.
    """
    spec = _known(manifest.document["spec"], _SPEC)
    template = read_timed_pod(manifest, spec["template"])
    roles = _roles(spec["roles"])
    pods = _pods(roles)
    if pods > MOST_PODS:
        raise spec["roles"].problem(f"expected at most {MOST_PODS} pods in all, got {pods}")
    try:
        job = gang(
            manifest.name,
            namespace=manifest.namespace,
            roles=roles,
            topology=_topology(spec["topology"]),
            restart=_restart(spec["restart"]),
            spares=spec["spares"].whole(least=0, most=MOST_PODS) if spec["spares"].given else 0,
            queue=spec["queue"].name() if spec["queue"].given else None,
            priority=template.priority,
            created_at=manifest.at,
        )
    except InvalidValueError as error:  # two pods would have one name, or there are slices
        at = "topology" if error.field == "topology" else "roles"
        raise spec[at].refuse_as(error) from error
    yield PodGroupAdded(job.group)
    for pod in job.pods:
        own: dict[str, Any] = {"name": pod.name, "uid": pod.uid, "role": pod.role}
        own["requests"] = pod.requests or template.requests
        yield PodAdded(evolve(template, pod_group=manifest.name, **own))


def _roles(field: Field) -> dict[str, int | Role]:
    roles = {name: _role(each) for name, each in field.required().entries()}
    for name in roles:
        if not name or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
            expected = "names of lower-case letters, digits and hyphens"
            raise field.problem(f"expected {expected}, got {name!r}")
    if not roles:
        raise field.refuse("at least one role")
    return roles


def _role(field: Field) -> int | Role:
    if not isinstance(field.value, dict):
        return field.whole(least=1, most=MOST_PODS)
    _known(field, _ROLE)
    count, minimum = field["count"].whole(least=1, most=MOST_PODS), field["minimum"]
    try:
        return Role(
            count,
            minimum.whole(least=1, most=count) if minimum.given else None,
            requests=field["requests"].resources() or None,
            roles=_roles(field["roles"]) if field["roles"].given else {},
            topology=_topology(field["topology"]),
            restart=_restart(field["restart"]),
        )
    except InvalidValueError as error:
        raise field.refuse_as(error) from error


def _topology(field: Field) -> Topology | None:
    """Return ``rack``, which is required, or a mapping with the attributes of ``Topology``."""
    if not field.given:
        return None
    if not isinstance(field.value, dict):
        return Topology(field.name())
    _known(field, _TOPOLOGY)
    required, slices = field["required"], field["slices"]
    labels = {
        name: field[name].name() if field[name].given else None
        for name in ("key", "prefer", "apart", "exclusive")
    }
    if not (slices.given or labels["apart"] or labels["exclusive"]):
        labels["key"] = field["key"].name()
    try:
        return Topology(
            **labels,
            required=required.flag() or not required.given,
            slices={level: size.whole(least=1, most=MOST_PODS) for level, size in slices.entries()},
            balanced=field["balanced"].flag(),
        )
    except InvalidValueError as error:
        raise field.refuse_as(error) from error


def _restart(field: Field) -> RestartPolicy | None:
    """Return the policy of a mapping, in whole seconds; an empty one has the defaults."""
    if not field.given:
        return None
    entries = dict(_known(field, _RESTART).entries())
    repair = "repair" in entries and entries.pop("repair").flag()
    given = {name: each.whole(least=1) for name, each in entries.items()}
    try:
        return RestartPolicy(**given, repair=repair)
    except InvalidValueError as error:
        raise field[error.field].refuse_as(error) from error


def _pods(roles: Mapping[str, int | Role]) -> int:
    """Return the number of pods of roles."""
    return sum(
        role.count * (_pods(role.roles) or 1) if isinstance(role, Role) else role
        for role in roles.values()
    )


def _known(field: Field, names: tuple[str, ...]) -> Field:
    """Return a mapping that must be present, with these fields only."""
    for name, _value in field.required().entries():
        if name not in names:
            raise field.problem(f"expected the fields {', '.join(names)}, got {name!r}")
    return field
