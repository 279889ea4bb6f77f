"""Every object of a cluster, by listing every resource type that the API server has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from support.control_plane.client import ApiError, Client

__all__ = ["every_object"]

_WAITS: Final = (0.2, 0.5, 1.0, 2.0, 4.0)


def every_object(admin: Client) -> set[str]:
    """Return the path and UID of every object; an object of two API groups is there twice."""
    return {found for base in _versions(admin) for found in _of_version(admin, base)}


def _versions(admin: Client) -> Iterator[str]:
    for version in admin.get("/api")["versions"]:
        yield f"/api/{version}"
    for group in admin.get("/apis")["groups"]:
        for version in group["versions"]:
            yield f"/apis/{version['groupVersion']}"


def _of_version(admin: Client, base: str) -> Iterator[str]:
    for resource in admin.get(base)["resources"]:
        if "list" not in resource["verbs"]:
            continue
        for item in _items(admin, f"{base}/{resource['name']}"):
            meta = item["metadata"]
            where = f"{meta.get('namespace', '')}/{meta['name']}"
            yield f"{base}/{resource['name']} {where} {meta.get('uid', '')}"


def _items(admin: Client, path: str) -> list[dict[str, Any]]:
    for wait in _WAITS:
        try:
            return admin.items(path)
        except ApiError as error:
            if error.status in (404, 405):  # the definition was deleted in between
                return []
            if error.status != 429:  # the storage of a new definition is not ready yet
                raise
            time.sleep(wait)
    return admin.items(path)
