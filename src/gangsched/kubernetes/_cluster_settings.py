"""What a configuration says about the objects of a cluster: names that Kubernetes does not have.

Rules:
  R1  an ignored constraint that is honoured, or that restricts no node, is refused: to ignore it
      would have no effect, and one would think that it has;
  R2  a field that no version known here has may be one of a later version, so it may be ignored. A
      name that differs from a known one by a letter or two is a mistake, and refused;
  R3  a quota of a resource that no pod can request limits nothing, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from gangsched._core._quotas import Quota
from gangsched.configuration import Settings
from gangsched.errors import InvalidValueError
from gangsched.objects.pod_fields import POD_FIELDS, Treatment

__all__ = ["check_cluster_settings"]

_WHY: Final = {
    Treatment.HONOURED: "this field is honoured, and cannot be ignored",
    Treatment.FREE: "this field restricts no node",
}
_HELD: Final = [name for name, found in POD_FIELDS.items() if found is Treatment.HELD]
_SPEC: Final = "spec."
_CLOSE: Final = 0.85
"""How like a known name a misspelt one is, as ``difflib`` measures it."""
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_HUGE_PAGES: Final = "hugepages-"
_OF_RESOURCE_QUOTAS: Final = ("requests.", "limits.")
"""Prefixes of a ``ResourceQuota``: here, a quota always counts requests."""


def check_cluster_settings(settings: Settings) -> None:
    """Check the names of a configuration that are those of a cluster.

    Args:
        settings: The configuration.

    Raises:
        InvalidValueError: A constraint cannot be ignored, or a quota limits what no pod requests.
    """
    _check_ignored(settings.ignored)
    _check_quotas(settings.quotas)


def _check_ignored(paths: Iterable[str]) -> None:
    for path in paths:
        name = path.removeprefix(_SPEC)
        treatment = POD_FIELDS.get(name)
        if treatment in _WHY:
            expected = f"a constraint that is not modelled: {_WHY[treatment]}"
            raise InvalidValueError("ignoredConstraints", path, expected)
        if treatment is None and path.startswith(_SPEC):
            for meant in get_close_matches(name, _HELD, n=1, cutoff=_CLOSE):
                expected = f"a field of pods (did you mean {_SPEC}{meant}?)"
                raise InvalidValueError("ignoredConstraints", path, expected)


def _check_quotas(quotas: Iterable[Quota]) -> None:
    for place, quota in enumerate(quotas):
        for name in quota.hard:
            if not _is_resource(name):
                meant = name
                for prefix in _OF_RESOURCE_QUOTAS:
                    meant = meant.removeprefix(prefix)
                if not _is_resource(meant):
                    meant = next(iter(get_close_matches(name, _NATIVE, n=1, cutoff=_CLOSE)), "")
                near = f" (did you mean {meant}?)" if meant else ""
                expected = (
                    "a resource that pods can request: cpu, memory, ephemeral-storage, pods,"
                    f" hugepages-SIZE, or one with a domain such as nvidia.com/gpu{near}"
                )
                raise InvalidValueError(f"quotas[{place}].hard", name, expected)


def _is_resource(name: str) -> bool:
    if name.startswith(_OF_RESOURCE_QUOTAS):
        return False
    return name in _NATIVE or "/" in name or name.startswith(_HUGE_PAGES)
