"""What no dialect has a field for: who is apart, whom a domain is kept from, what is balanced.

Annotations of a group of any dialect. They are added to the topology that the group states, in its
fields or in the annotation of Koordinator.

Rules:
  R1  what has no meaning in a group, such as pods apart of a group with roles, holds its pods;
  R2  Koordinator gathers all groups that start together in one domain. There is no such constraint
      of a bundle here, so it holds the pods.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import hold
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.network_topology import GATHERED, read_gathered
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
    group = _gathered(manifest, group)
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


def _gathered(manifest: Manifest, group: PodGroup) -> PodGroup:
    """Return a group with what Koordinator's annotation says of its topology."""
    found, field = read_gathered(manifest), manifest.document["metadata"]["annotations"][GATHERED]
    unclear = found.unclear
    if found.topology is not None and group.topology is not None:
        unclear = (field, "its group has a topology")
    elif found.topology is not None and set(group.bundle) - {group.key}:
        unclear = (field, "of several groups together")
    if unclear is not None:
        return evolve(group, unmodelled=(*group.unmodelled, *hold(manifest, *unclear)))
    return group if found.topology is None else evolve(group, topology=found.topology)


def _named(notes: Field, error: InvalidValueError) -> Field:
    """Return the annotation that an error is about."""
    words = {"apart": APART, "exclusive": EXCLUSIVE}
    return notes[words.get(error.field, BALANCED)]
