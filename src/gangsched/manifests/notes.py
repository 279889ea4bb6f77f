"""``Note``: what was read of an object otherwise than it says.

Rules:
  R1  each field that is not honoured as it stands gives a note, and no note is lost.
"""

from __future__ import annotations

import enum
from typing import final

from attrs import frozen

__all__ = ["Note", "NoteKind"]


class NoteKind(enum.Enum):
    """What becomes of the field that a note is about."""

    HELD = "held"
    """It is a constraint that is not modelled: the pod, or the pods of the group, are held."""
    IGNORED = "ignored"
    """It is ignored: because the caller asked for it, or because the pod is bound already."""
    REMARK = "remark"
    """It is read, with another meaning than one may expect."""


@final
@frozen
class Note:
    """What was read of an object otherwise than it says.

    Attributes:
        subject: Kind and name of the object: ``Pod team/p``.
        field: The dotted path of the field; empty if the note is about no single field.
        kind: What becomes of the field.
        text: The sentence.
    """

    subject: str
    field: str
    kind: NoteKind
    text: str

    def __str__(self) -> str:
        """``Pod team/p: spec.resourceClaims is not modelled, so the pod is held``"""
        return f"{self.subject}: {self.text}"
