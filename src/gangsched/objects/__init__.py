"""Kubernetes objects as plain data, read into the nouns.

Rules:
  R1  the input is mappings, lists, strings and numbers, from any source: YAML files, a watch, a
      test;
  R2  malformed input is refused with file, document, dotted path and value; a field that the
      model lacks is reported in a note, never dropped silently.
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
