"""Definitions of custom resources on an API server, for the time of a test.

Rules:
  R1  a definition of a name is created once the one before it is gone: until then an API server
      answers that it exists, and refuses objects of it;
  R2  a test begins when the API is served and discovered, and ends when the definition is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from support.control_plane import Client
from support.patience import until

__all__ = ["CRDS", "Object", "defined", "definition", "remove_definitions"]

Object = dict[str, Any]

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANYTHING: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(
    api: str, kind: str, plural: str, schema: Object = _ANYTHING, *, scope: str = "Namespaced"
) -> Object:
    """Return a definition of a kind with a status of its own.

    Args:
        api: The group and the version, as in ``apiVersion``.
        kind: The kind.
        plural: Its name in paths.
        schema: The schema of its objects; by default any object is valid.
        scope: ``Namespaced`` or ``Cluster``.
    """
    group, _, version = api.partition("/")
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    # an API of a group of Kubernetes needs it
    notes = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": notes},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@contextmanager
def defined(client: Client, *definitions: Object) -> Iterator[None]:
    """Serve what definitions define, until the block ends."""
    names = [each["metadata"]["name"] for each in definitions]
    until(lambda: all(_is_gone(client, name) for name in names))
    try:
        for each in definitions:
            client.create(CRDS, each)
        until(lambda: all(_is_served(client, each["spec"]) for each in definitions))
        yield
    finally:
        remove_definitions(client, *names)


def remove_definitions(client: Client, *names: str) -> None:
    """Delete definitions that may be there, and return when they are gone."""
    for name in names:
        client.raw("DELETE", f"{CRDS}/{name}")
    until(lambda: all(_is_gone(client, name) for name in names))


def _is_gone(client: Client, name: str) -> bool:
    return client.raw("GET", f"{CRDS}/{name}")[0] == 404


def _is_served(client: Client, spec: Object) -> bool:
    for version in spec["versions"]:
        api = f"/apis/{spec['group']}/{version['name']}"
        # what is served is a moment earlier than what is discovered
        for path in (f"{api}/{spec['names']['plural']}", api, f"/apis/{spec['group']}"):
            if client.raw("GET", path)[0] != 200:
                return False
    return True
