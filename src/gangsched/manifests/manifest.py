"""Objects: kind, name and namespace, which every document has.

Rules:
  R1  kind, version and name are required; the API server must accept the name;
  R2  a note names its object by kind and name, so that it can be found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, final

from attrs import frozen

from gangsched.cluster_objects import RuntimeClass
from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.notes import Note, NoteKind
from gangsched.manifests.priorities import PriorityClasses
from gangsched.resources import EMPTY

__all__ = ["Manifest", "read_manifest", "read_name"]

_WITHOUT_NAMESPACE: Final = (
    *("Node", "Namespace", "PersistentVolume", "StorageClass", "PriorityClass", "RuntimeClass"),
    *("CSINode", "CSIDriver", "VolumeAttachment"),
)
_INDEX: Final = re.compile(r"\[[0-9]+\]")
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@final
@frozen(eq=False)
class Manifest:
    """One object that is ready to be read.

    Attributes:
        document: The root of its document.
        kind: Its kind.
        name: Its name.
        namespace: Its namespace; ``default`` if none is given.
        at: When it arrives.
        classes: The priority classes that are known.
        ignore: Constraints that are not modelled and shall be ignored: paths without indices,
            such as ``spec.resourceClaims``, or a field that contains them.
        scheduler_names: The values of ``spec.schedulerName`` whose pods are scheduled; None for
            all.
        runtime_classes: The runtime classes that are known, by name; None if the API server has
            put what they say into the pods already.
        gathers: Whether the caller makes topologies of groups of what members ask for, see
            ``MemberTopologies``. If not, a pod that asks for one is held.
        level_names: The label of a level, by what a dialect calls it otherwise, such as a tier,
            in order from the coarsest; see ``PeerLevels``.
        queues_from: The project whose queues groups name; empty for none, see ``PeerQuotas``.
    """

    document: Field
    kind: str
    name: str
    namespace: str
    at: float
    classes: PriorityClasses
    ignore: frozenset[str] = frozenset()
    scheduler_names: frozenset[str] | None = None
    runtime_classes: Mapping[str, RuntimeClass] | None = None
    gathers: bool = False
    level_names: Mapping[str, str] = EMPTY
    queues_from: str = ""

    def note(self, sentence: str, *, path: str = "", kind: NoteKind = NoteKind.REMARK) -> None:
        """Add a note about something in it that is not read as it stands."""
        owned = self.kind not in _WITHOUT_NAMESPACE
        name = f"{self.namespace}/{self.name}" if owned else self.name
        note = Note(f"{self.kind} {name}", path, kind, sentence)
        self.document.source.noted.append(note)
        self.document.source.note(str(note))

    def ignores(self, path: str) -> bool:
        """Return whether the caller wants a constraint to be ignored. O(depth of the path)."""
        plain = _INDEX.sub("", path)
        while plain:
            if plain in self.ignore:
                return True
            plain = plain.rpartition(".")[0]
        return False


def read_manifest(
    document: Field,
    *,
    at: float,
    classes: PriorityClasses,
    ignore: Collection[str] = (),
    scheduler_names: Collection[str] | None = None,
    runtime_classes: Mapping[str, RuntimeClass] | None = None,
    gathers: bool = False,
    level_names: Mapping[str, str] = EMPTY,
    queues_from: str = "",
) -> Manifest:
    """Return the object at the root of a document.

    Args:
        document: The root.
        at: When the object arrives.
        classes: The priority classes that are known.
        ignore: Constraints that are not modelled and shall be ignored; see ``Manifest``.
        scheduler_names: The values of ``spec.schedulerName`` whose pods are scheduled; None for
            all.
        runtime_classes: The runtime classes that are known, by name; None if the API server has
            put what they say into the pods already.
        gathers: Whether the caller gathers topologies of members; see ``Manifest``.
        level_names: The label of a level, by what a dialect calls it; see ``Manifest``.
        queues_from: The project whose queues groups name; see ``Manifest``.

    Raises:
        ManifestError: The object has no kind, or its name is malformed.
        InvalidValueError: An argument has a wrong type.
    """
    if not isinstance(document, Field):
        raise InvalidValueError("document", document, "a Field")
    metadata = document["metadata"]
    return Manifest(
        document,
        kind=document["kind"].name(),
        name=read_name(metadata["name"]),
        namespace=read_name(metadata["namespace"], "default"),
        at=at,
        classes=classes,
        ignore=_names("ignore", ignore),
        scheduler_names=(
            None if scheduler_names is None else _names("scheduler_names", scheduler_names)
        ),
        runtime_classes=runtime_classes,
        gathers=gathers,
        level_names=level_names,
        queues_from=queues_from,
    )


def read_name(field: Field, default: str = "") -> str:
    """Return the name of an object, which the API server must accept.

    Raises:
        ManifestError: It is malformed, or absent without a default.
    """
    name = field.text(default) or field.name()
    if not _NAME.fullmatch(name):
        raise field.refuse(
            "a name: at most 253 of a-z, 0-9, '-' and '.', beginning and ending with a letter or"
            " digit"
        )
    return name


def _names(name: str, given: Collection[str]) -> frozenset[str]:
    names: frozenset[object] = frozenset() if isinstance(given, str) else frozenset(given)
    if isinstance(given, str) or not all(isinstance(each, str) for each in names):
        raise InvalidValueError(name, given, "a collection of strings")
    return frozenset(given)
