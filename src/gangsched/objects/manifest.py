"""Objects: kind, name and namespace, which every document has.

Rules:
  R1  kind, version and name are required; the API server must accept the name;
  R2  a note names its object by kind and name, so that it can be found.
"""

from __future__ import annotations

import re
from typing import Final, final

from attrs import frozen

from gangsched.errors import InvalidValueError
from gangsched.objects.fields import Field
from gangsched.objects.priorities import PriorityClasses

__all__ = ["Manifest", "read_manifest"]

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
    """

    document: Field
    kind: str
    name: str
    namespace: str
    at: float
    classes: PriorityClasses

    def note(self, sentence: str) -> None:
        """Add a note about something in it that could not be represented."""
        owned = self.kind != "Node"
        name = f"{self.namespace}/{self.name}" if owned else self.name
        self.document.source.note(f"{self.kind} {name}: {sentence}")

    def note_ignored(self, field: Field) -> None:
        """Add a note about a field that the model lacks."""
        self.note(f"{field.path} is not modelled and was ignored")


def read_manifest(document: Field, *, at: float, classes: PriorityClasses) -> Manifest:
    """Return the object at the root of a document.

    Raises:
        ManifestError: The object has no kind, or its name is malformed.
        InvalidValueError: *document* is not a Field.
    """
    if not isinstance(document, Field):
        raise InvalidValueError("document", document, "a Field")
    metadata = document["metadata"]
    return Manifest(
        document,
        kind=document["kind"].name(),
        name=_checked(metadata["name"], metadata["name"].name()),
        namespace=_checked(metadata["namespace"], metadata["namespace"].text("default")),
        at=at,
        classes=classes,
    )


def _checked(field: Field, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise field.refuse("a name of lower-case letters, digits, '-' and '.'")
    return name
