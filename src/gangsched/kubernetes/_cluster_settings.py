"""What a configuration says about the objects of a cluster: names that Kubernetes does not have.

Rules:
  R1  an ignored constraint that is honoured, or that restricts no node, is refused: to ignore it
      would have no effect, and one would think that it has;
  R2  a name that is not known is refused, because it is mostly misspelt. A later version of
      Kubernetes may have such a field, and it holds pods: ``unknown:`` before it says so;
  R3  a quota of a resource that no pod can request limits nothing, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from gangsched.configuration import Settings
from gangsched.errors import InvalidValueError
from gangsched.manifests.group_fields import CORE, DIALECTS, HELD_IN_PART
from gangsched.manifests.pod_annotations import HELD_ANNOTATIONS
from gangsched.manifests.pod_fields import HELD_WITHIN, POD_FIELDS, Treatment
from gangsched.options.quota import Quota
from gangsched.resources import NOTHING
from gangsched.values.hints import hint

__all__ = ["check_cluster_settings", "check_ignored_name"]

_WHY: Final = {
    Treatment.HONOURED: "this field is honoured, and cannot be ignored",
    Treatment.FREE: "this field restricts no node",
}
_SPEC: Final = "spec."
_FIELDS: Final = {**CORE, **POD_FIELDS}
"""What is done with the fields of groups of Kubernetes, and of pods."""
_ANNOTATIONS: Final = "metadata.annotations."
_OF_SPECS: Final = {
    *(name for name, found in POD_FIELDS.items() if found is Treatment.HELD),
    *(name for of in DIALECTS.values() for name, found in of.items() if found is Treatment.HELD),
    *HELD_IN_PART,
    *HELD_WITHIN,
}
_HELD: Final = (*sorted(f"{_SPEC}{name}" for name in _OF_SPECS), *HELD_ANNOTATIONS)
"""All constraints that are known and not modelled, of pods and of groups."""
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
    for path in settings.ignored:
        is_unknown = path in settings.ignored_unknown
        check_ignored_name("ignoredConstraints", path, is_unknown=is_unknown)
    _check_quotas(settings.quotas)


def check_ignored_name(field: str, path: str, *, is_unknown: bool = False) -> None:
    """Check that a constraint is one that holds pods.

    Args:
        field: How it is given, for the error.
        path: Its path, without indices.
        is_unknown: Whether it need not be one that is known.

    Raises:
        InvalidValueError: It is none.
    """
    treatment = _FIELDS.get(path.removeprefix(_SPEC)) if path.startswith(_SPEC) else None
    if treatment in _WHY:
        expected = f"a constraint that is not modelled: {_WHY[treatment]}"
        raise InvalidValueError(field, path, expected)
    if not is_unknown and path.removeprefix(_ANNOTATIONS) not in _HELD:
        expected = f"one of {', '.join(_HELD)}; or unknown:PATH, if a later version has it"
        raise InvalidValueError(field, path, expected + hint(path, _HELD))


def _check_quotas(quotas: Iterable[Quota]) -> None:
    for place, quota in enumerate(quotas):
        amounts = {
            "hard": quota.hard,
            "nominal": quota.nominal or NOTHING,
            "borrow": quota.borrow,
            "lend": quota.lend,
        }
        for field, given in amounts.items():
            for name in given:
                _check_resource(f"quotas[{place}].{field}", name)


def _check_resource(field: str, name: str) -> None:
    if _is_resource(name):
        return
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
    raise InvalidValueError(field, name, expected)


def _is_resource(name: str) -> bool:
    if name.startswith(_OF_RESOURCE_QUOTAS):
        return False
    return name in _NATIVE or "/" in name or name.startswith(_HUGE_PAGES)
