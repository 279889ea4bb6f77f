"""``gang``: the pod group and the pods of a job, in one call.

A host without Kubernetes has jobs, not manifests. ``gang`` makes the values that the scheduler
takes: the specification of the group, and one pod per worker that names it.

Rules:
  R1  pods are named ``NAME-ROLE-NUMBER``, or ``NAME-NUMBER`` without roles, from 0, in the order in
      which they are scheduled. Copies of a role are numbered too: ``NAME-ROLE-COPY-ROLE-NUMBER``;
  R2  a pod names its group by ``Pod.pod_group``, and its role by ``Pod.role``: see
      ``gangsched.membership``. The path of a role of a copy, ``decode/0/worker``, has the numbers
      of copies and not that of the pod;
  R3  events come in the order that needs no waiting: the group first, then its pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, final

from attrs import evolve, frozen
from attrs import fields as attrs_fields

from gangsched.errors import InvalidValueError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.model import (
    Pod,
    PodGroup,
    PodUID,
    Resources,
    RestartPolicy,
    Role,
    Topology,
)

__all__ = ["Gang", "Role", "gang"]

_GPU: Final = "nvidia.com/gpu"
_SET_HERE: Final = frozenset({"name", "pod_group", "min_available", "role"})
_OF_A_ROLE: Final = ("requests", "node_selector", "affinity", "tolerations")
_FURTHER: Final = frozenset(each.name for each in attrs_fields(Pod)) - _SET_HERE


@final
@frozen
class Gang:
    """A pod group with its pods.

    Attributes:
        group: The specification of the group.
        pods: Its members, in the order of their numbers.
    """

    group: PodGroup
    pods: tuple[Pod, ...]

    def events(self) -> Iterator[PodGroupAdded | PodAdded]:
        """Return the events that add the gang: the group, then each pod."""
        yield PodGroupAdded(self.group)
        for pod in self.pods:
            yield PodAdded(pod)


def gang(
    name: str,
    *,
    workers: int | None = None,
    roles: Mapping[str, int | Role] | None = None,
    min_available: int | None = None,
    cpu: str | int = 0,
    memory: str | int = 0,
    gpu: str | int = 0,
    requests: Mapping[str, str | int] | None = None,
    namespace: str = "default",
    priority: int = 0,
    created_at: float = 0.0,
    schedule_timeout: float | None = None,
    topology: Topology | None = None,
    restart: RestartPolicy | None = None,
    bundle: Iterable[str] = (),
    evicted_whole: bool = False,
    spares: int = 0,
    queue: str | None = None,
    generation: str | None = None,
    **fields: Any,
) -> Gang:
    """Return the pod group and the pods of a job: its quorum starts together, or none of it.

    ::

        gang("train", workers=4, gpu=2)
        gang("fit", roles={"ps": 1, "worker": Role(8, minimum=4)}, cpu=2)
        launcher = Role(1, requests={"cpu": 2}, node_selector={"pool": "cpu"})
        gang("mpi", roles={"launcher": launcher, "worker": 4}, gpu=8)
        replica = Role(4, minimum=3, roles={"leader": 1, "worker": 3}, topology=Topology("rack"))
        gang("serve", roles={"decode": replica, "router": 1}, gpu=1)

    Runtime complexity: O(pods).

    Args:
        name: The name of the group, and the prefix of the names of its pods.
        workers: The number of pods; None with *roles*.
        roles: The number of pods of each role, or a ``Role``, which may consist of copies; None
            with *workers*.
        min_available: The quorum. By default all workers, or the pods that the roles need.
        cpu: The CPUs that each pod requests, a quantity: ``2``, ``"500m"``. A role with *requests*
            has those instead of all that the gang states.
        memory: The memory that each pod requests, a quantity: ``"4Gi"``.
        gpu: The number of ``nvidia.com/gpu`` that each pod requests.
        requests: Further resources that each pod requests.
        namespace: The namespace of the group and its pods.
        priority: The priority of the group and its pods.
        created_at: The instant at which the job was submitted, on the clock of the scheduler.
        schedule_timeout: See ``PodGroup``.
        topology: See ``PodGroup``; a ``Role`` may have one of its own.
        restart: See ``PodGroup``; a ``Role`` may have one of its own.
        bundle: See ``PodGroup``.
        spares: See ``PodGroup``.
        queue: See ``PodGroup``.
        evicted_whole: See ``PodGroup``; a ``Role`` may say so for itself.
        generation: What distinguishes this run of the job from an earlier one of the same name; it
            becomes a part of the UIDs. None if the earlier pods are gone before the name is used
            again, as they are after ``Host.finish``.
        fields: Further attributes of each pod, such as ``node_selector``. A role that states an
            attribute has its own value instead; see ``Role`` for those that it may state.

    Raises:
        InvalidValueError: A value is malformed, *workers* and *roles* are both given or missing,
            two pods would have one name, or the quorum is larger than the number of pods.
        InvalidPodGroupError: A value of the group is malformed.
        TypeError: One of *fields* is no attribute of a pod, or one that ``gang`` sets.
    """
    if "uid" in fields:
        expected = "omitted; generation distinguishes the runs of one name"
        raise InvalidValueError("uid", fields["uid"], expected)
    if wrong := fields.keys() - _FURTHER:
        raise TypeError(f"gang() got an unexpected keyword argument {min(wrong)!r}")
    if not isinstance(requests or {}, Mapping):
        raise InvalidValueError("requests", requests, "a mapping of names to quantities")
    if generation is not None and (not isinstance(generation, str) or not generation):
        raise InvalidValueError("generation", generation, "a non-empty string")
    asked = Resources({"cpu": cpu, "memory": memory, _GPU: gpu, **(requests or {})})
    _check_sizes(workers, roles)
    minimum = workers if min_available is None else min_available
    quorum: dict[str, Any] = {} if minimum is None else {"min_available": minimum}
    group = PodGroup(
        name=name,
        namespace=namespace,
        roles=roles or {},
        **quorum,
        schedule_timeout=schedule_timeout,
        priority=priority,
        created_at=created_at,
        topology=topology,
        restart=restart,
        bundle=bundle,
        evicted_whole=evicted_whole,
        spares=spares,
        queue=queue,
    )
    members = [_Member(f"{name}-{number}", None, {}) for number in range(workers or 0)]
    members.extend(_members(name, "", roles or {}, {}))
    if group.min_available > len(members):
        expected = f"an int <= the number of pods, which is {len(members)}"
        raise InvalidValueError("min_available", min_available, expected)
    if twice := [pod for pod, n in Counter(each.name for each in members).items() if n > 1]:
        raise InvalidValueError("roles", twice[0], "roles whose pods have different names")
    pods: list[Pod] = []
    for member in members:
        attributes: dict[str, Any] = {
            **fields,
            "requests": asked,
            **member.own,
            "name": member.name,
            "namespace": namespace,
            "role": member.role,
            "priority": priority,
            "created_at": created_at,
            "pod_group": name,
        }
        pod = Pod(**attributes)
        if generation is not None:
            pod = evolve(pod, uid=PodUID(f"{pod.key}/{generation}"))
        pods.append(pod)
    return Gang(group, tuple(pods))


class _Member(NamedTuple):
    """A pod: its name, its role, and the attributes that its roles state."""

    name: str
    role: str | None
    own: Mapping[str, Any]


def _members(
    name: str, path: str, roles: Mapping[str, int | Role], above: Mapping[str, Any]
) -> Iterator[_Member]:
    """Return the pods of roles, in order.

    Args:
        name: The prefix of their names.
        path: The prefix of their roles.
        roles: The roles.
        above: The attributes that the roles above them state.
    """
    for role, stated in roles.items():
        each = stated if isinstance(stated, Role) else Role(stated)
        own = {**above, **_own(each)}
        for number in range(each.count):
            copy = f"{name}-{role}-{number}"
            if each.roles:
                yield from _members(copy, f"{path}{role}/{number}/", each.roles, own)
            else:
                yield _Member(copy, path + role, own)


def _own(role: Role) -> dict[str, Any]:
    """Return the attributes of its pods that a role states itself."""
    own = {name: getattr(role, name) for name in _OF_A_ROLE}
    return {name: value for name, value in own.items() if value is not None}


def _check_sizes(workers: int | None, roles: Mapping[str, int | Role] | None) -> None:
    """Require workers or roles; the group checks the roles themselves."""
    if workers is None and roles is None:
        raise InvalidValueError("workers", workers, "an int >= 1, as no roles are given")
    if workers is not None and roles is not None:
        raise InvalidValueError("workers", workers, "omitted, as roles are given")
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InvalidValueError("workers", workers, "an int >= 1")
    if workers is None and not (isinstance(roles, Mapping) and roles):
        raise InvalidValueError("roles", roles, "a mapping with at least one role")
