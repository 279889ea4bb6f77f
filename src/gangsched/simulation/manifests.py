"""Manifests: the objects in YAML files, as they would arrive when applied.

Rules:
  R1  objects arrive in the order of the documents, as with ``kubectl apply``, all at once; a job
      arrives as the pods that its controller makes of it;
  R2  a document of an unknown kind is told of in a note and skipped; a malformed one of a known
      kind is an error that names file, document, field and value;
  R3  whether a pod's claim to be in a group is sound is not asked here: the scheduler tells the
      pod's user;
  R4  an object that is given twice is an error; but a group that a job would get by itself
      yields to one of the same name that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from gangsched.errors import InvalidValueError
from gangsched.events import NodeAdded, PodAdded, PodGroupAdded
from gangsched.model import GroupKey
from gangsched.objects.fields import Field, Source
from gangsched.objects.manifest import Manifest, read_manifest
from gangsched.objects.podgroups import read_core_group, read_group
from gangsched.objects.pods import read_node
from gangsched.objects.priorities import PriorityClasses, with_priority_class
from gangsched.quantity import is_seconds
from gangsched.simulation.controllers import (
    read_job,
    read_mpi_job,
    read_pytorch_job,
    read_tf_job,
)
from gangsched.simulation.documents import read_documents
from gangsched.simulation.runs import read_running_pod
from gangsched.simulation.workload import Arrival, Workload

__all__ = ["PriorityClasses", "load_manifests", "load_priority_classes"]

MOST_OBJECTS: Final = 1_000_000
"""How many objects the documents of one file may come to."""

_Object: TypeAlias = NodeAdded | PodAdded | PodGroupAdded
_Reader: TypeAlias = Callable[[Manifest], Iterable[_Object]]

_READERS: Final[dict[tuple[str, str], _Reader]] = {
    ("v1", "Node"): lambda manifest: (NodeAdded(read_node(manifest)),),
    ("v1", "Pod"): lambda manifest: (PodAdded(read_running_pod(manifest, manifest.document)),),
    ("batch/v1", "Job"): read_job,
    ("kubeflow.org/v1", "TFJob"): read_tf_job,
    ("kubeflow.org/v1", "PyTorchJob"): read_pytorch_job,
    ("kubeflow.org/v1", "MPIJob"): read_mpi_job,
    ("kubeflow.org/v2beta1", "MPIJob"): read_mpi_job,
    **{
        (version, "PodGroup"): lambda manifest: (PodGroupAdded(read_group(manifest)),)
        for version in (
            "scheduling.x-k8s.io/v1alpha1",
            "scheduling.sigs.k8s.io/v1alpha1",
            "scheduling.volcano.sh/v1beta1",
        )
    },
    # Of its own groups Kubernetes has had several versions, alike in what is read here.
    ("scheduling.k8s.io", "PodGroup"): lambda manifest: (PodGroupAdded(read_core_group(manifest)),),
    ("scheduling.k8s.io", "PriorityClass"): lambda _manifest: (),
}


def load_manifests(
    text: str, *, file: str, at: float = 0.0, classes: PriorityClasses | None = None
) -> Workload:
    """Return what the documents of *text* bring to a cluster.

    Known are ``Node``, ``Pod``, ``Job``, ``TFJob``, ``PyTorchJob``, ``MPIJob``, ``PodGroup`` in
    the dialects of scheduler-plugins, Kubernetes and Volcano, ``PriorityClass``, and ``List``.

    Runtime complexity: O(text + pods).

    Args:
        text: YAML, or JSON.
        file: What to call it in an error.
        at: When all of it arrives; the instants in the documents are of another clock.
        classes: Priority classes that other files gave; those of *text* are added to them.

    Raises:
        ManifestError: The text or a document in it is malformed.
        InvalidValueError: *at* is no instant.
        ModuleNotFoundError: PyYAML is not installed.
    """
    if not is_seconds(at):
        raise InvalidValueError("at", at, "a finite number of seconds")
    notes: list[str] = []
    roots = list(_roots(text, file, notes))
    classes = _classes(roots, PriorityClasses() if classes is None else classes)
    arrived: list[tuple[_Object, bool]] = []
    seen: dict[tuple[str, str], int] = {}
    given: set[GroupKey] = set()
    for root in roots:
        reader = _reader(root)
        if reader is None:
            root.source.note(f"{_called(root)} is of no kind that is known and was skipped")
            continue
        manifest = read_manifest(root, at=at, classes=classes)
        for event in reader(manifest):
            implied = isinstance(event, PodGroupAdded) and manifest.kind != "PodGroup"
            if not implied:
                _once(manifest, event, seen)
                if isinstance(event, PodGroupAdded):
                    given.add(event.group.key)
            arrived.append((event, implied))
        if len(arrived) > MOST_OBJECTS:
            raise root.problem(f"with it the file has more than {MOST_OBJECTS:,} objects")
    return Workload(
        tuple(
            Arrival(at, event)
            for event, implied in arrived
            if not (implied and isinstance(event, PodGroupAdded) and event.group.key in given)
        ),
        tuple(notes),
    )


def load_priority_classes(
    text: str, *, file: str, known: PriorityClasses | None = None
) -> PriorityClasses:
    """Return *known* with the priority classes of *text*, for files that are loaded together.

    Args:
        text: YAML, or JSON.
        file: What to call it in an error.
        known: What other files gave.

    Raises:
        ManifestError: The text or a priority class in it is malformed.
        ModuleNotFoundError: PyYAML is not installed.
    """
    return _classes(_roots(text, file, []), PriorityClasses() if known is None else known)


def _roots(text: str, file: str, notes: list[str]) -> Iterator[Field]:
    for document in read_documents(text, file=file):
        root = Field(Source(file, document.number, notes), "", document.value)
        if not root.given:
            continue
        if (_version(root), root["kind"].name()) != ("v1", "List"):
            yield root
            continue
        for item in root["items"].elements():
            if item.required()["kind"].name() == "List":
                raise item["kind"].problem("a List in a List is not supported")
            yield item


def _version(root: Field) -> str:
    return root["apiVersion"].name()


def _reader(root: Field) -> _Reader | None:
    version, kind = _version(root), root["kind"].name()
    group, _, _ = version.rpartition("/")
    return _READERS.get((version, kind)) or _READERS.get((group, kind))


def _called(root: Field) -> str:
    """Name an object of which nothing is known but that it has a kind."""
    metadata = root["metadata"].value
    name = metadata.get("name") if isinstance(metadata, dict) else None
    named = f" {name[:80]}" if isinstance(name, str) else ""
    return f"{root['kind'].name()[:80]}{named} ({_version(root)[:80]})"


def _classes(roots: Iterable[Field], known: PriorityClasses) -> PriorityClasses:
    for root in roots:
        if root["kind"].name() == "PriorityClass" and _reader(root) is not None:
            known = with_priority_class(known, root)
    return known


def _once(manifest: Manifest, event: _Object, seen: dict[tuple[str, str], int]) -> None:
    """Refuse what the file gave before."""
    match event:
        case PodAdded(pod):
            keys = [("Pod", str(pod.key)), ("the pod with UID", pod.uid)]
        case NodeAdded(node):
            keys = [("Node", node.name)]
        case PodGroupAdded(group):
            keys = [("PodGroup", group.key)]
    for key in keys:
        if key in seen:
            name = manifest.document["metadata"]["name"]
            raise name.problem(f"{' '.join(key)} is given twice, first by document {seen[key]}")
        seen[key] = manifest.document.source.document
