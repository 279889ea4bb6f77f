"""What no dialect has a field for: what is apart, exclusive and balanced, and how many spares.

Annotations of a group of any dialect. They are added to the topology that the group states, in its
fields or in the annotation of Koordinator.

Rules:
  R1  what has no meaning in a group, such as pods apart of a group with roles, holds its pods;
  R2  Koordinator gathers all groups that start together in one domain. There is no such constraint
      of a bundle here, so it holds the pods.
"""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import evolve

from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.group_fields import hold
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.network_topology import GATHERED, read_gathered
from gangsched.model import PodGroup, Topology

__all__ = ["APART", "BALANCED", "EXCLUSIVE", "SPARES", "with_own_topology"]

APART: Final = "gangsched.io/apart"
"""A label of a node: slices, children or pods of the group are in different values of it."""

EXCLUSIVE: Final = "gangsched.io/exclusive"
"""A label of a node: no pods of others are in the values of it that the group uses."""

BALANCED: Final = "gangsched.io/balanced"
"""``true``: the values that are used take as equal numbers of pods as they can."""

SPARES: Final = "gangsched.io/spares"
"""For how many more pods room is wanted in the domain of the group."""

_WHOLE: Final = re.compile(r"[0-9]{1,6}", re.ASCII)


def with_own_topology(manifest: Manifest, group: PodGroup) -> PodGroup:
    """Return a group with what its annotations say of its topology.

    Raises:
        ManifestError: An annotation is malformed.
    """
    notes = manifest.document["metadata"]["annotations"]
    group = _gathered(manifest, group)
    spares = notes[SPARES].text("0")
    if not _WHOLE.fullmatch(spares):
        raise notes[SPARES].refuse("an int >= 0")
    if int(spares):
        group = _with_spares(manifest, group, int(spares))
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
        reasons = hold(manifest, notes[APART], error.expected)
        return evolve(group, unmodelled=(*group.unmodelled, *reasons))


def _with_spares(manifest: Manifest, group: PodGroup, spares: int) -> PodGroup:
    try:
        return evolve(group, spares=spares)
    except InvalidPodGroupError as error:
        field = manifest.document["metadata"]["annotations"][SPARES]
        return evolve(group, unmodelled=(*group.unmodelled, *hold(manifest, field, error.expected)))


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
