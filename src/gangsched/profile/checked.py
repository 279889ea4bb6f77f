"""Which constraints of a pod the plugins of a profile check.

A profile may lack the plugin that checks a constraint: because it is small, or because the plugin
was left out. The library must not place a pod against its constraint, and must not place it
unchecked. So a pod with such a constraint is held, and the reason names the constraint.

Rules:
  R1  a plugin of kube-scheduler's name checks what it checks there. Any other plugin names what it
      checks; see ``gangsched.protocols.NodeExtensions``;
  R2  the resources, the node selector and the tolerations are not in the table. Every version of
      the library has checked them by default, and a profile without their plugins ignores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gangsched.errors import ProfileError

__all__ = ["CONSTRAINTS", "not_checked"]

CONSTRAINTS: Final[Mapping[str, str]] = {
    "pod_affinity": "InterPodAffinity",
    "pod_anti_affinity": "InterPodAffinity",
    "topology_spread_constraints": "PodTopologySpread",
    "host_ports": "NodePorts",
    "required_features": "NodeDeclaredFeatures",
    "volume_claims": "VolumeBinding",
    "disks": "VolumeRestrictions",
}
"""Attributes of pods that are constraints, with the plugin of kube-scheduler that checks each."""


def not_checked(plugins: Iterable[object]) -> tuple[str, ...]:
    """Return the attributes of ``CONSTRAINTS`` that none of these plugins checks.

    Raises:
        ProfileError: A plugin names an attribute that is not one of them.
    """
    checked: set[str] = set()
    for plugin in plugins:
        name: object = getattr(plugin, "name", None)
        checked.update(each for each, owner in CONSTRAINTS.items() if owner == name)
        own: Any = getattr(plugin, "constraints_checked", ())
        names = (own,) if isinstance(own, str) else tuple(own)
        for each in names:
            if each not in CONSTRAINTS:
                expected = f"names out of {', '.join(CONSTRAINTS)}"
                raise ProfileError("constraints_checked", f"{name!r} has {each!r}, not {expected}")
        checked.update(names)
    return tuple(each for each in CONSTRAINTS if each not in checked)
