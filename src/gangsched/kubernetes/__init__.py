"""The adapter to a Kubernetes API server.

The pure half needs no client and no cluster: the events of a watch as events of the scheduler, and
decisions as bodies of requests. ``run`` is a scheduler on a cluster; it needs the extra
``kubernetes``. Each name is loaded when it is first used: a replica that starts asks for its
credentials before it loads the scheduler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gangsched.configuration import (
        ClientConnection,
        LeaderElection,
        ProfileSettings,
        Settings,
        read_settings,
    )
    from gangsched.kubernetes._configuration import ConfigurationError
    from gangsched.kubernetes._run import run
    from gangsched.kubernetes._serving import Serving
    from gangsched.kubernetes._volume_patches import node_selection, volume_binding
    from gangsched.kubernetes.convert import (
        DEFAULT_SCHEDULERS,
        Notification,
        binding,
        deletion,
        read_event,
        read_notification,
        unschedulable_condition,
    )

__all__ = [
    "DEFAULT_SCHEDULERS",
    "ClientConnection",
    "ConfigurationError",
    "LeaderElection",
    "Notification",
    "ProfileSettings",
    "Serving",
    "Settings",
    "binding",
    "deletion",
    "node_selection",
    "read_event",
    "read_notification",
    "read_settings",
    "run",
    "unschedulable_condition",
    "volume_binding",
]


_CONVERT: Final = "gangsched.kubernetes.convert"
_ORIGINS: Final = {
    "ConfigurationError": "gangsched.kubernetes._configuration",
    "Serving": "gangsched.kubernetes._serving",
    "node_selection": "gangsched.kubernetes._volume_patches",
    "run": "gangsched.kubernetes._run",
    "volume_binding": "gangsched.kubernetes._volume_patches",
    **dict.fromkeys(
        ("ClientConnection", "LeaderElection", "ProfileSettings", "Settings", "read_settings"),
        "gangsched.configuration",
    ),
    **dict.fromkeys(("DEFAULT_SCHEDULERS", "Notification", "binding", "deletion"), _CONVERT),
    **dict.fromkeys(("read_event", "read_notification", "unschedulable_condition"), _CONVERT),
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name == "convert":
        return import_module(_CONVERT)
    if name not in _ORIGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_ORIGINS[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the names, loaded or not."""
    return sorted({*globals(), *_ORIGINS, "convert"})
