"""Which reader the pod groups of an API have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gangsched.manifests.kai_groups import read_kai_group
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.podgroups import read_core_group, read_group
from gangsched.model import PodGroup

__all__ = ["read_group_of"]

_READERS: Final[Mapping[str, Callable[[Manifest], PodGroup]]] = {
    "scheduling.k8s.io": read_core_group,
    "scheduling.run.ai": read_kai_group,
}


def read_group_of(api: str, manifest: Manifest) -> PodGroup:
    """Return the group of a document.

    Args:
        api: Its API group; that of a list if the document does not say it.
        manifest: The document.

    Raises:
        ManifestError: A field is malformed.
        InvalidValueError: *manifest* is not a Manifest.
    """
    return _READERS.get(api, read_group)(manifest)
