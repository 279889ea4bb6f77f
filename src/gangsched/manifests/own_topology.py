"""What no dialect has a field for: who is apart, whom a domain is kept from, what is balanced.

Annotations of a group of any dialect. They are added to the topology that the group states.

Rules:
  R1  what has no meaning in a group, such as pods apart of a group with roles, holds its pods.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import hold
from gangsched.manifests.manifest import Manifest
from gangsched.model import PodGroup, Topology

__all__ = ["APART", "BALANCED", "EXCLUSIVE", "with_own_topology"]

APART: Final = "gangsched.io/apart"
"""A label of a node: slices, children or pods of the group are in different values of it."""

EXCLUSIVE: Final = "gangsched.io/exclusive"
"""A label of a node: no pods of others are in the values of it that the group uses."""

BALANCED: Final = "gangsched.io/balanced"
"""``true``: the values that are used take as equal numbers of pods as they can."""


def with_own_topology(manifest: Manifest, group: PodGroup) -> PodGroup:
    """Return a group with what its annotations say of its topology.

    Raises:
        ManifestError: An annotation is malformed.
    """
    notes = manifest.document["metadata"]["annotations"]
    own: dict[str, Any] = {
        name: notes[word].text()
        for name, word in (("apart", APART), ("exclusive", EXCLUSIVE))
        if notes[word].text()
    }
    if notes[BALANCED].word(("true", "false"), "false") == "true":
        own["balanced"] = True
    if not own:
        return group
    topology = group.topology
    try:
        found = Topology(**own) if topology is None else evolve(topology, **own)
    except InvalidValueError as error:
        raise _named(notes, error).refuse_as(error) from error
    try:
        return evolve(group, topology=found)
    except InvalidPodGroupError as error:
        reasons = hold(manifest, notes[APART], str(error.expected))
        return evolve(group, unmodelled=(*group.unmodelled, *reasons))


def _named(notes: Field, error: InvalidValueError) -> Field:
    """Return the annotation that an error is about."""
    words = {"apart": APART, "exclusive": EXCLUSIVE}
    return notes[words.get(error.field, BALANCED)]
