"""What is kept of the objects of a cluster.

Rules:
  R1  an object is kept as the values that are read of it, never as JSON;
  R2  each has the identity by which changes of it are told apart;
  R3  what is made for each event of a pod or a node is a struct of msgspec, which takes a tenth of
      the time of an attrs class.
"""

from __future__ import annotations

from typing import Final, final
from urllib.parse import quote

from attrs import frozen

from gangsched.cluster_objects import ClusterObject
from gangsched.errors import ManifestError
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._known import Identity
from gangsched.model import Node, Pod, PodGroup

try:
    from msgspec import Struct
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = [
    "COMPOSITE_KIND",
    "COMPOSITES",
    "Condition",
    "Dialect",
    "GroupFacts",
    "NodeFacts",
    "ObjectFacts",
    "PodFacts",
    "PriorityClassFacts",
    "UnreadableGroup",
    "UnreadableGroupError",
]

COMPOSITE_KIND: Final = "CompositePodGroup"
"""The kind of the groups of groups."""
COMPOSITES: Final = f"{COMPOSITE_KIND}.scheduling.k8s.io"
"""The source of the groups of groups; see ``Dialect``."""


@final
class Condition(Struct, frozen=True, gc=False):
    """A condition of an object's status.

    Attributes:
        type: The type, such as ``PodScheduled``.
        status: ``True``, ``False`` or ``Unknown``.
        reason: The reason; empty if it is absent.
        message: The message; empty if it is absent.
    """

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


@final
@frozen
class Dialect:
    """An API that has groups of one kind.

    Attributes:
        group: Its API group, such as ``scheduling.k8s.io``.
        version: The version that is used, such as ``v1beta1``.
        path: The path of all its groups, such as ``/apis/scheduling.k8s.io/v1beta1/podgroups``.
        kind: ``PodGroup`` or ``CompositePodGroup``.
        status_subresource: Whether its status is patched at a path of its own.
    """

    group: str
    version: str
    path: str
    kind: str = "PodGroup"
    status_subresource: bool = True

    @property
    def source(self) -> str:
        """The same for all versions: the API group of PodGroups, with the kind that of others."""
        return self.group if self.kind == "PodGroup" else f"{self.kind}.{self.group}"

    @property
    def is_composite(self) -> bool:
        """Whether its groups consist of groups."""
        return self.kind == COMPOSITE_KIND

    def path_of(self, key: str) -> str:
        """Return the path of one group, by ``namespace/name``."""
        base, _slash, plural = self.path.rpartition("/")
        namespace, _slash, name = (quote(part, safe="") for part in key.partition("/"))
        return f"{base}/namespaces/{namespace}/{plural}/{name}"


@final
class PodFacts(Struct, frozen=True, kw_only=True, gc=False):
    """A pod.

    Attributes:
        pod: The pod as the scheduler sees it.
        identity: Which version of which object it is.
        scheduler_name: ``spec.schedulerName``.
        nominated_node: ``status.nominatedNodeName``; None if it is not set.
        conditions: Its conditions ``PodScheduled`` and ``DisruptionTarget``.
        notes: What of it could not be represented, each with the path of its field.
        generation: ``metadata.generation``; 0 if it is absent.
    """

    pod: Pod
    identity: Identity
    scheduler_name: str = ""
    nominated_node: str | None = None
    conditions: tuple[Condition, ...] = ()
    notes: tuple[str, ...] = ()
    generation: int = 0


@final
class NodeFacts(Struct, frozen=True, kw_only=True, gc=False):
    """A node.

    Attributes:
        node: The node as the scheduler sees it.
        identity: Which version of which object it is.
        notes: What of it could not be represented.
    """

    node: Node
    identity: Identity
    notes: tuple[str, ...] = ()


@final
@frozen(kw_only=True)
class GroupFacts:
    """A PodGroup, or a CompositePodGroup.

    Attributes:
        group: The group as the scheduler sees it, without the priority of its class.
        identity: Which version of which object it is.
        dialect: The API that it is of.
        priority_class: ``spec.priorityClassName``; empty if it is absent.
        conditions: The conditions of its status.
        phase: ``status.phase``; empty if it is absent.
        counts: ``status.running``, ``.succeeded`` and ``.failed``; 0 if they are absent.
        occupied_by: ``status.occupiedBy``; empty if it is absent.
        generation: ``metadata.generation``; 0 if it is absent.
        notes: What of it could not be represented.
    """

    group: PodGroup
    identity: Identity
    dialect: Dialect
    priority_class: str = ""
    conditions: tuple[Condition, ...] = ()
    phase: str = ""
    counts: tuple[int, int, int] = (0, 0, 0)
    occupied_by: str = ""
    generation: int = 0
    notes: tuple[str, ...] = ()


@final
@frozen
class UnreadableGroup:
    """A group that exists and cannot be read.

    Attributes:
        identity: Which version of which object it is.
        dialect: The API that it is of.
        field: The path of the field that cannot be read; empty for the whole object.
        problem: What is expected there, and the value.
    """

    identity: Identity
    dialect: Dialect
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" if self.field else self.problem


@final
class UnreadableGroupError(ManifestError):
    """A group cannot be read.

    Attributes:
        dialect: The API that it is of.
    """

    def __init__(self, error: ManifestError, dialect: Dialect) -> None:
        super().__init__(error.file, error.document, error.field, error.problem)
        self.dialect = dialect


@final
@frozen(kw_only=True)
class PriorityClassFacts:
    """A priority class.

    Attributes:
        name: Its name.
        value: The priority that it stands for.
        identity: Which version of which object it is.
        global_default: Whether it is that of pods that name none.
        preemption_policy: ``PreemptLowerPriority`` or ``Never``; empty if it is absent.
    """

    name: str
    value: int
    identity: Identity
    global_default: bool = False
    preemption_policy: str = ""


@final
@frozen(kw_only=True)
class ObjectFacts:
    """An object that constraints refer to, such as a claim or a namespace.

    Attributes:
        value: The object as the scheduler sees it.
        identity: Which version of which object it is.
    """

    value: ClusterObject
    identity: Identity
