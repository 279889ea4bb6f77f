"""Manifests: the objects in YAML and JSON files, as arrivals at a cluster.

Rules:
  R1  objects arrive in the order of the documents, as with ``kubectl apply``, all at once; a job
      arrives as the pods that its controller creates;
  R2  a document of an unknown kind is skipped with a note; a malformed document of a known kind
      is an error that names file, document, field and value;
  R3  a pod's claim to be in a group is not checked here: the scheduler reports a malformed one;
  R4  an object that is given twice is an error. A group that a job implies is dropped if the file
      gives a group of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, final

from gangsched.cluster_objects import RuntimeClass
from gangsched.errors import InvalidValueError
from gangsched.events import NodeAdded, ObjectChanged, PodAdded, PodGroupAdded
from gangsched.manifests.cluster_objects import OBJECT_KINDS, read_object
from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import GROUP_KINDS
from gangsched.manifests.kai_groups import read_kai_group
from gangsched.manifests.manifest import Manifest, read_manifest
from gangsched.manifests.peer_levels import PEERS, PeerLevels
from gangsched.manifests.peer_quotas import PeerQuotas, is_quota_object
from gangsched.manifests.podgroups import read_core_group, read_group
from gangsched.manifests.pods import read_node
from gangsched.manifests.priorities import PriorityClasses, with_priority_classes
from gangsched.model import GroupKey, PodGroup
from gangsched.quantity import is_seconds
from gangsched.simulation._asked_topologies import with_asked_topologies
from gangsched.simulation._job_fields import note_queues
from gangsched.simulation._manifest_objects import GeneratedNames, read_roots, version_of
from gangsched.simulation.controllers import (
    read_job,
    read_mpi_job,
    read_pytorch_job,
    read_tf_job,
)
from gangsched.simulation.gang_documents import GANG, read_gang
from gangsched.simulation.timed_pods import read_timed_pod
from gangsched.simulation.workload import MOST_OBJECTS, Arrival, Workload

__all__ = ["NO_PEER", "NO_QUOTAS", "ParsedManifests", "PriorityClasses", "load_manifests"]

_Object: TypeAlias = NodeAdded | PodAdded | PodGroupAdded | ObjectChanged
_Reader: TypeAlias = Callable[[Manifest], Iterable[_Object]]

NO_PEER: Final = PeerLevels()
"""No other project states the levels."""
NO_QUOTAS: Final = PeerQuotas()
"""No other project states the quotas."""

_WITHOUT_PODS: Final = ("ReplicationController", "ReplicaSet", "StatefulSet")
"""Controllers whose pods are not created here: such a document is skipped, with a note."""

_TEMPLATES: Final = tuple(f"scheduling.k8s.io/{v}" for v in ("v1alpha2", "v1alpha3", "v1beta1"))
"""Versions of ``Workload`` with templates, from which a controller makes the PodGroups."""

_READERS: Final[dict[tuple[str, str], _Reader]] = {
    ("v1", "Node"): lambda manifest: (NodeAdded(read_node(manifest)),),
    ("v1", "Pod"): lambda manifest: (PodAdded(read_timed_pod(manifest, manifest.document)),),
    ("batch/v1", "Job"): read_job,
    GANG: read_gang,
    ("kubeflow.org/v1", "TFJob"): read_tf_job,
    ("kubeflow.org/v1", "PyTorchJob"): read_pytorch_job,
    ("kubeflow.org/v1", "MPIJob"): read_mpi_job,
    ("kubeflow.org/v2beta1", "MPIJob"): read_mpi_job,
    **{
        (version, "PodGroup"): lambda manifest: _group_added(manifest, read_group)
        for version in (
            "scheduling.x-k8s.io/v1alpha1",
            "scheduling.sigs.k8s.io/v1alpha1",
            "scheduling.volcano.sh/v1beta1",
        )
    },
    ("scheduling.run.ai/v2alpha2", "PodGroup"): lambda manifest: _group_added(
        manifest, read_kai_group
    ),
    # Kubernetes has had several versions of its own groups; the fields read here are in all.
    **{
        ("scheduling.k8s.io", kind): lambda manifest: _group_added(manifest, read_core_group)
        for kind in GROUP_KINDS
    },
    **{
        (group, kind): lambda manifest: (ObjectChanged(read_object(manifest)),)
        for group, kind in OBJECT_KINDS
        if kind not in _WITHOUT_PODS
    },
    ("scheduling.k8s.io", "PriorityClass"): lambda _manifest: (),
}


@final
class ParsedManifests:
    """The documents of one file, parsed and not yet read as objects.

    A file is parsed once, although its priority classes are needed before any pod is read: those
    of every file must be known first.

    Args:
        text: YAML, or JSON.
        file: The file's name for errors.

    Raises:
        ManifestError: The text is malformed.
        InvalidValueError: An argument is not a string.
        ModuleNotFoundError: PyYAML is not installed.
    """

    def __init__(self, text: str, *, file: str) -> None:
        _check_string("text", text)
        _check_string("file", file)
        self._file = file
        self._notes: list[str] = []
        self._roots = tuple(read_roots(text, file, self._notes))

    def priority_classes(self, known: PriorityClasses | None = None) -> PriorityClasses:
        """Return *known* with the priority classes of these documents.

        Raises:
            ManifestError: A priority class is malformed.
        """
        classes = PriorityClasses() if known is None else known
        return with_priority_classes(
            classes,
            (
                root
                for root in self._roots
                if root["kind"].name() == "PriorityClass" and _reader(root) is not None
            ),
        )

    def runtime_classes(self) -> dict[str, RuntimeClass]:
        """Return the runtime classes of these documents, by name.

        Raises:
            ManifestError: A runtime class is malformed.
        """
        found: dict[str, RuntimeClass] = {}
        for root in self._roots:
            if root["kind"].name() == "RuntimeClass" and _reader(root) is not None:
                value = read_object(read_manifest(root, at=0.0, classes=PriorityClasses()))
                assert isinstance(value, RuntimeClass)
                found[value.name] = value
        return found

    def peer_objects(self, peer: str) -> list[Field]:
        """Return the objects of these documents that state the levels of another project.

        Args:
            peer: A key of ``PEERS``.
        """
        return [root for root in self._roots if _is_of_peer(root, peer)]

    def quota_objects(self, peer: str) -> list[Field]:
        """Return the objects of these documents that state the quotas of another project.

        Args:
            peer: A key of ``QUOTA_PEERS``.
        """
        return [root for root in self._roots if _states_quotas(root, peer)]

    def workload(
        self,
        classes: PriorityClasses,
        *,
        at: float = 0.0,
        runtime_classes: Mapping[str, RuntimeClass] | None = None,
        levels: PeerLevels = NO_PEER,
        quotas: PeerQuotas = NO_QUOTAS,
    ) -> Workload:
        """Return the objects of these documents as arrivals.

        Runtime complexity: O(documents + pods).

        Args:
            classes: Every priority class that a pod may name.
            at: When all objects arrive; instants in the documents are of another clock.
            runtime_classes: Every runtime class that a pod may name; None for those of these
                documents.
            levels: The levels that objects of another project state, see ``peer_objects``.
            quotas: The quotas that objects of another project state, see ``quota_objects``.

        Raises:
            ManifestError: A document is malformed.
            InvalidValueError: *at* is not a finite number.
        """
        if not is_seconds(at):
            raise InvalidValueError("at", at, "a finite number of seconds")
        if runtime_classes is None:
            runtime_classes = self.runtime_classes()
        del self._notes[:]
        arrived: list[tuple[_Object, bool]] = []
        seen: dict[tuple[str, str], int] = {}
        given: set[GroupKey] = set()
        names = GeneratedNames(at)
        for root in self._roots:
            reader = _reader(root)
            if reader is None and (
                _is_of_peer(root, levels.peer) or _states_quotas(root, quotas.peer)
            ):
                continue
            if reader is None:
                root.source.note(f"{_name_of(root)} {_why_skipped(root)} and was skipped")
                continue
            manifest = read_manifest(
                names.named(root),
                at=at,
                classes=classes,
                runtime_classes=runtime_classes,
                gathers=True,
                level_names=dict(levels.names),
                queues_from=quotas.peer,
            )
            for read in reader(manifest):
                event = _with_peers(read, manifest, levels, quotas)
                implied = isinstance(event, PodGroupAdded) and manifest.kind not in GROUP_KINDS
                if not implied:
                    _refuse_repeated(manifest, event, seen)
                    if isinstance(event, PodGroupAdded):
                        given.add(event.group.key)
                arrived.append((event, implied))
            if len(arrived) > MOST_OBJECTS:
                raise root.problem(f"with it the file has more than {MOST_OBJECTS:,} objects")
        events = [
            event
            for event, implied in arrived
            if not (implied and isinstance(event, PodGroupAdded) and event.group.key in given)
        ]
        stated = with_asked_topologies(events, self._notes, file=self._file)
        arrivals = tuple(Arrival(at, event) for event in stated)
        return Workload(arrivals, tuple(self._notes))


def load_manifests(
    text: str, *, file: str, at: float = 0.0, classes: PriorityClasses | None = None
) -> Workload:
    """Return the objects of a manifest as arrivals.

    Known are ``Node``, ``Pod``, ``Job``, ``Gang``, ``TFJob``, ``PyTorchJob``, ``MPIJob``,
    ``PodGroup`` in the dialects of scheduler-plugins, Kubernetes, Volcano and KAI Scheduler,
    ``CompositePodGroup``, ``PriorityClass``, ``RuntimeClass``, and lists of any kind. So are the
    kinds of ``gangsched.cluster_objects`` that have no pods of their own. An object with
    ``generateName`` gets a name that is the same each time.

    Runtime complexity: O(text + pods).

    Args:
        text: YAML, or JSON.
        file: The file's name for errors.
        at: When all objects arrive; instants in the documents are of another clock.
        classes: Priority classes of other files; those of *text* are added to them.

    Raises:
        ManifestError: The text or a document in it is malformed.
        InvalidValueError: *at* is not a finite number, or another argument has a wrong type.
        ModuleNotFoundError: PyYAML is not installed.
    """
    if classes is not None and not isinstance(classes, PriorityClasses):
        raise InvalidValueError("classes", classes, "PriorityClasses or None")
    parsed = ParsedManifests(text, file=file)
    return parsed.workload(parsed.priority_classes(classes), at=at)


def _group_added(manifest: Manifest, read: Callable[[Manifest], PodGroup]) -> tuple[PodGroupAdded]:
    note_queues(manifest, manifest.document, "group")
    return (PodGroupAdded(read(manifest)),)


def _check_string(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidValueError(name, value, "a string")


def _reader(root: Field) -> _Reader | None:
    version, kind = version_of(root), root["kind"].name()
    group, _, _ = version.rpartition("/")
    if group == "" and version != "v1":
        return None
    return _READERS.get((version, kind)) or _READERS.get((group, kind))


def _is_of_peer(root: Field, peer: str) -> bool:
    api = PEERS.get(peer)
    group = version_of(root).rpartition("/")[0]
    return api is not None and (group, root["kind"].name()) == (api.group, api.kind)


def _states_quotas(root: Field, peer: str) -> bool:
    group = version_of(root).rpartition("/")[0]
    name = root["metadata"]["name"].value
    return is_quota_object(peer, group, root["kind"].name(), name if type(name) is str else "")


def _with_peers(
    event: _Object, manifest: Manifest, levels: PeerLevels, quotas: PeerQuotas
) -> _Object:
    """Return an object with the labels and the queue that other projects give it."""
    match event:
        case NodeAdded(node):
            return NodeAdded(levels.labelled(node))
        case PodAdded(pod):
            return PodAdded(quotas.queued(pod, manifest.document["metadata"]))
        case PodGroupAdded(group):
            return PodGroupAdded(quotas.queued_group(group))
        case _:
            return event


def _why_skipped(root: Field) -> str:
    """Return why an object without a reader is skipped."""
    version, kind = version_of(root), root["kind"].name()
    if kind == "Workload" and version in _TEMPLATES:
        return "has only templates of pod groups"
    return "is of an unknown kind"


def _name_of(root: Field) -> str:
    """Return kind, name and version of an object of an unknown kind."""
    metadata = root["metadata"].value
    name = metadata.get("name") if isinstance(metadata, dict) else None
    named = f" {name[:80]}" if isinstance(name, str) else ""
    return f"{root['kind'].name()[:80]}{named} ({version_of(root)[:80]})"


def _refuse_repeated(manifest: Manifest, event: _Object, seen: dict[tuple[str, str], int]) -> None:
    """Refuse an object that the file has given before."""
    match event:
        case PodAdded(pod):
            keys = [("Pod", str(pod.key)), ("the pod with UID", pod.uid)]
        case NodeAdded(node):
            keys = [("Node", node.name)]
        case PodGroupAdded(group):
            keys = [("PodGroup", group.key)]
        case ObjectChanged(value):
            keys = [(type(value).__name__, value.key)]
    for key in keys:
        if key in seen:
            name = manifest.document["metadata"]["name"]
            raise name.problem(f"{' '.join(key)} is given twice, first by document {seen[key]}")
        seen[key] = manifest.document.source.document
