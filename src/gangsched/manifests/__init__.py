"""Kubernetes objects as plain data, read into the nouns.

Rules:
  R1  the input is mappings, lists, strings and numbers, from any source: YAML files, a watch, a
      test;
  R2  malformed input is refused with file, document, dotted path and value; a field that the
      model lacks is reported in a note, never dropped silently.
"""

from __future__ import annotations

from gangsched.manifests.cluster_objects import OBJECT_KINDS, read_object
from gangsched.manifests.fields import Field, Source
from gangsched.manifests.group_fields import DIALECTS
from gangsched.manifests.group_readers import read_group_of
from gangsched.manifests.kai_groups import read_kai_group
from gangsched.manifests.manifest import Manifest, read_manifest
from gangsched.manifests.notes import Note, NoteKind
from gangsched.manifests.pod_fields import POD_FIELDS, Treatment
from gangsched.manifests.podgroups import read_core_group, read_group
from gangsched.manifests.pods import read_node, read_pod
from gangsched.manifests.priorities import PriorityClasses

__all__ = [
    "DIALECTS",
    "OBJECT_KINDS",
    "POD_FIELDS",
    "Field",
    "Manifest",
    "Note",
    "NoteKind",
    "PriorityClasses",
    "Source",
    "Treatment",
    "read_core_group",
    "read_group",
    "read_group_of",
    "read_kai_group",
    "read_manifest",
    "read_node",
    "read_object",
    "read_pod",
]
