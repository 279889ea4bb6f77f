"""What an account has asked of an API server: read from the audit log of the server itself.

The log says how the server understood a request, so a test of rights need not know which verb a
query stands for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from attrs import field, frozen

from support.control_plane.cluster import ControlPlane

__all__ = ["Request", "requests_of"]


@frozen
class Request:
    """A request, as a rule of a role names it.

    Attributes:
        verb: Such as ``list``.
        group: The API group; empty for the core.
        resource: The resource, with its subresource: ``pods/binding``.
        name: The name of the object; empty if there is none.
        status: The HTTP status of the answer.
    """

    verb: str
    group: str
    resource: str
    name: str = field(default="", eq=False)
    status: int = field(default=0, eq=False)

    @property
    def is_forbidden(self) -> bool:
        """Whether the account may not do this."""
        return self.status == 403


def requests_of(
    plane: ControlPlane, namespace: str, account: str, *, since: int = 0
) -> Iterator[Request]:
    """Yield the requests of a service account so far, but not those for paths without objects.

    Args:
        plane: A control plane that is audited.
        namespace: The namespace of the account.
        account: The name of the account.
        since: How many characters of the log are left out.
    """
    user = f"system:serviceaccount:{namespace}:{account}"
    for line in plane.audit.read_text(encoding="utf-8")[since:].splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # the line is being written
            continue
        target = event.get("objectRef")
        if event["user"]["username"] != user or target is None:
            continue
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        yield Request(
            event["verb"],
            target.get("apiGroup", ""),
            resource,
            target.get("name", ""),
            event.get("responseStatus", {}).get("code", 0),
        )
