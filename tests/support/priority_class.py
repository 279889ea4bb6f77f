"""Priority classes of the tests: the API server allows no group one of the system."""

from __future__ import annotations

from typing import Any, Final

from support.control_plane.client import ApiError, Client
from support.patience import until

__all__ = ["create_class", "urgent_class"]

_NAME: Final = "urgent"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_DRY_RUN: Final = "/api/v1/namespaces/default/pods?dryRun=All"


def urgent_class(admin: Client) -> str:
    """Return the name of a priority class above the default; it is created if it is not there."""
    create_class(admin, _NAME, 1000)
    return _NAME


def create_class(admin: Client, name: str, value: int) -> None:
    """Create a priority class, if it is not there, and return once pods may name it.

    The admission of pods reads classes from a watch, so it is asked until it knows the class.
    """
    try:
        admin.create(_CLASSES, {"metadata": {"name": name}, "value": value})
    except ApiError as error:
        if error.status != 409:
            raise
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": name}
    pod: dict[str, Any] = {"metadata": {"name": "asks-for-its-class"}, "spec": spec}

    def is_known() -> bool:
        try:
            admin.create(_DRY_RUN, pod)
        except ApiError as error:
            if error.status != 403:
                raise
            return False
        return True

    until(is_known)
