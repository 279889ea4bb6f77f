"""The instances of Alibaba's recommendation models (trace v2025): groups of unlike members.

Rules:
  R1  an app is a pod group, and its roles are the roles of the group;
  R2  the instances of its first instant are its minimum; later ones join it;
  R3  an instance that was deleted at the instant of its creation is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from gangsched.constraints import Topology
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.model import FrozenMap, Pod, PodGroup, RestartPolicy
from gangsched.resources import Resources
from gangsched.simulation._trace_notes import Note, Notes
from gangsched.simulation._trace_rows import Row, Table
from gangsched.simulation._trace_spellings import seconds_text
from gangsched.simulation.workload import RUN_SECONDS, Arrival

__all__ = ["DLRM", "dlrm_arrivals"]

DLRM: Final = ("instance", "app", "role", "cpu", "gpu", "memory_gib", "created_s", "deleted_s")
"""The columns that are read."""

_GPU: Final = "nvidia.com/gpu"
_AT_ONCE: Final[Note] = (
    "instance was deleted at the instant of its creation and was left out",
    "instances were deleted at the instant of their creation and were left out",
)
_ROLE: Final = "pod-group.scheduling.sigs.k8s.io/role"


def dlrm_arrivals(
    table: Table, notes: Notes, *, topology: Topology | None, restarts: bool
) -> list[Arrival]:
    """Return the arrivals of all groups and instances, in the order of the file.

    Args:
        table: The file.
        notes: Counts the instances that are left out.
        topology: The topology constraint of each group.
        restarts: Whether each group is restarted as a whole when it falls below its minimum.
    """
    table.require(DLRM)
    asked: dict[tuple[str, ...], Resources] = {}
    pods: dict[str, list[Pod]] = {}
    seen: dict[str, int] = {}
    for row in table:
        name, app = row.name("instance"), row.name("app")
        if seen.setdefault(name, row.line) != row.line:
            raise row.refuse("instance", f"a unique name (line {seen[name]} has the same)")
        key = tuple(map(row.text, ("cpu", "gpu", "memory_gib")))
        requests = asked.get(key)
        if requests is None:
            requests = asked.setdefault(key, _requests(row))
        created = row.instant("created_s") if row.text("created_s") else 0.0
        annotations = FrozenMap[str]({})
        if row.text("deleted_s"):
            ran = row.instant("deleted_s") - created
            if ran < 0:
                raise row.refuse("deleted_s", "an instant not before created_s")
            if not ran:
                notes.count(_AT_ONCE)
                continue
            annotations = FrozenMap({RUN_SECONDS: seconds_text(ran)})
        role = row.name("role")
        if "/" in role:
            raise row.refuse("role", "a name without a slash")
        pod = Pod(
            name=name,
            labels={_ROLE: role},
            annotations=annotations,
            requests=requests,
            created_at=created,
            pod_group=app,
        )
        pods.setdefault(app, []).append(pod)
    return list(_in_order(pods, topology, RestartPolicy() if restarts else None))


def _in_order(
    pods: dict[str, list[Pod]], topology: Topology | None, restart: RestartPolicy | None
) -> Iterator[Arrival]:
    for app, members in pods.items():
        first = min(pod.created_at for pod in members)
        roles = Counter(pod.labels[_ROLE] for pod in members if pod.created_at == first)
        group = PodGroup(
            name=app, roles=roles, topology=topology, restart=restart, created_at=first
        )
        yield Arrival(first, PodGroupAdded(group))
        for pod in members:
            yield Arrival(pod.created_at, PodAdded(pod))


def _requests(row: Row) -> Resources:
    cpu, gpus = row.whole("cpu", least=0), row.whole("gpu", least=0)
    memory = row.number("memory_gib")
    if memory is None:
        raise row.refuse("memory_gib", "a number >= 0 such as 90 or 0.5")
    return Resources({"cpu": cpu, _GPU: gpus, "memory": round(memory * 1024**3)})
