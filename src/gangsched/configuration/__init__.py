"""A configuration file in the shape of kube-scheduler's, and the scheduler that it describes.

::

    from gangsched.configuration import make_scheduler, read_settings

    settings = read_settings(yaml.safe_load(text))
    scheduler = make_scheduler(settings, cluster)
"""

from __future__ import annotations

from gangsched.configuration.scheduler import make_scheduler
from gangsched.configuration.settings import (
    ClientConnection,
    LeaderElection,
    ProfileSettings,
    Settings,
    read_settings,
)

__all__ = [
    "ClientConnection",
    "LeaderElection",
    "ProfileSettings",
    "Settings",
    "make_scheduler",
    "read_settings",
]
