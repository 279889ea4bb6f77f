"""A configuration file in the shape of kube-scheduler's, and the scheduler that it describes.

::

    from gangsched.configuration import make_scheduler, read_settings

    settings = read_settings(yaml.safe_load(text))
    scheduler = make_scheduler(settings, cluster)

``make_scheduler`` is imported when it is first used: the framework takes a third of a second, and a
program that only reads a configuration does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangsched.configuration.settings import (
    ClientConnection,
    LeaderElection,
    ProfileSettings,
    Settings,
    read_settings,
)

if TYPE_CHECKING:
    from gangsched.configuration.scheduler import make_scheduler

__all__ = [
    "ClientConnection",
    "LeaderElection",
    "ProfileSettings",
    "Settings",
    "make_scheduler",
    "read_settings",
]


def __getattr__(name: str) -> Any:
    """Load ``make_scheduler`` when it is first used."""
    if name != "make_scheduler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gangsched.configuration.scheduler import make_scheduler

    return make_scheduler
