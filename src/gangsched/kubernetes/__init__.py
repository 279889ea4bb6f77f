"""The adapter to a Kubernetes API server.

The pure half needs no client and no cluster: the events of a watch as events of the scheduler, and
decisions as bodies of requests. ``run`` is a scheduler on a cluster; it needs the extra
``kubernetes``, and is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangsched.configuration import (
    ClientConnection,
    LeaderElection,
    ProfileSettings,
    Settings,
    read_settings,
)
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

if TYPE_CHECKING:
    from gangsched.kubernetes._configuration import ConfigurationError
    from gangsched.kubernetes._run import run

__all__ = [
    "DEFAULT_SCHEDULERS",
    "ClientConnection",
    "ConfigurationError",
    "LeaderElection",
    "Notification",
    "ProfileSettings",
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


def __getattr__(name: str) -> Any:
    """Load what talks to an API server when it is first used: the rest needs no extra."""
    match name:
        case "run":
            from gangsched.kubernetes._run import run

            return run
        case "ConfigurationError":
            from gangsched.kubernetes._configuration import ConfigurationError

            return ConfigurationError
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
