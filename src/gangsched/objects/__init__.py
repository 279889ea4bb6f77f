"""Kubernetes objects as plain data, read into the nouns.

Rules:
  R1  what is read is mappings, lists, texts and numbers, wherever they come from: YAML files, a
      watch, a test;
  R2  what is malformed is refused with file, document, dotted path and value; what has no place
      in the model is told in a note, never dropped in silence.
"""

from __future__ import annotations

from gangsched.objects.fields import Field, Source
from gangsched.objects.manifest import Manifest, read_manifest
from gangsched.objects.podgroups import read_core_group, read_group
from gangsched.objects.pods import read_node, read_pod
from gangsched.objects.priorities import PriorityClasses

__all__ = [
    "Field",
    "Manifest",
    "PriorityClasses",
    "Source",
    "read_core_group",
    "read_group",
    "read_manifest",
    "read_node",
    "read_pod",
]
