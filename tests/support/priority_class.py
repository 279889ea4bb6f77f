"""A priority class of the tests: the API server allows no group one of the system."""

from __future__ import annotations

from typing import Final

from support.control_plane.client import ApiError, Client

__all__ = ["urgent_class"]

_NAME: Final = "urgent"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


def urgent_class(admin: Client) -> str:
    """Return the name of a priority class above the default; it is created if it is not there."""
    try:
        admin.create(_CLASSES, {"metadata": {"name": _NAME}, "value": 1000})
    except ApiError as error:
        if error.status != 409:
            raise
    return _NAME
