"""A priority class of the tests: the API server allows no group one of the system."""

from __future__ import annotations

import time
from typing import Any, Final

from support.control_plane.client import ApiError, Client

__all__ = ["urgent_class"]

_NAME: Final = "urgent"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_DRY_RUN: Final = "/api/v1/namespaces/default/pods?dryRun=All"
_PATIENCE: Final = 120.0


def urgent_class(admin: Client) -> str:
    """Return the name of a priority class above the default; it is created if it is not there.

    The admission of pods reads classes from a watch, so it is asked until it knows the class.
    """
    try:
        admin.create(_CLASSES, {"metadata": {"name": _NAME}, "value": 1000})
    except ApiError as error:
        if error.status != 409:
            raise
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": _NAME}
    pod: dict[str, Any] = {"metadata": {"name": "asks-for-its-class"}, "spec": spec}
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            admin.create(_DRY_RUN, pod)
        except ApiError as error:
            if error.status != 403 or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return _NAME
