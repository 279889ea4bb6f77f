"""Levels that objects of another project state on the API server.

Rules:
  R1  they are read only if the configuration says so: the other project may run beside this one;
  R2  an API that is not served, or has no objects, states no levels. One that may not be read, or
      is malformed, is an error: without its levels, racks of one name would be one rack;
  R3  the scheduler takes levels when it is made; if they are others, another one is made. Which
      nodes a HyperNode has may change at any time.
"""

from __future__ import annotations

from typing import Any, Final, cast

from gangsched.errors import ManifestError
from gangsched.kubernetes._api import Api, ConnectionLost, Response
from gangsched.kubernetes._discovery import DiscoveryFailed
from gangsched.kubernetes._events import UnexpectedAnswer, read_status
from gangsched.kubernetes._read import mapping_in, read_document, text_in
from gangsched.manifests import Field, Source
from gangsched.manifests.peer_levels import PEERS, PeerLevels, read_peer_levels

__all__ = ["UNREAD", "get_or_none", "list_in", "list_levels"]

UNREAD: Final = (ConnectionLost, DiscoveryFailed, UnexpectedAnswer, ManifestError)
"""What ``list_levels`` and ``list_quotas`` raise."""

_NOT_FOUND: Final = 404


async def list_levels(api: Api, peer: str) -> PeerLevels:
    """Return the levels of a peer.

    Args:
        api: The API server.
        peer: A key of ``PEERS``.

    Raises:
        ConnectionLost: There is no answer.
        DiscoveryFailed: An answer is neither a success nor 404.
        UnexpectedAnswer: An answer is not of the expected form.
        ManifestError: An object is malformed.
    """
    at = PEERS[peer]
    path = f"/apis/{at.group}"
    served = await get_or_none(api, path)
    if served is None:
        return PeerLevels(peer)
    (preferred, *_others) = list_in(served, "an APIGroup", "versions") or [{}]
    path = f"{path}/{text_in(mapping_in(preferred), 'version')}/{at.plural}"
    listed = await get_or_none(api, path)
    if listed is None:
        return PeerLevels(peer)
    items = list_in(listed, f"a {at.kind}List", "items")
    objects = [Field(Source(path, n), "", cast("Any", each)) for n, each in enumerate(items, 1)]
    return read_peer_levels(peer, objects)


def list_in(response: Response, what: str, name: str) -> list[object]:
    """Return a list in an answer.

    Raises:
        UnexpectedAnswer: It is none.
    """
    found: object = read_document(response.body, what).get(name) or []
    if not isinstance(found, list):
        raise UnexpectedAnswer(what, "", f"its {name} are no list")
    return cast("list[object]", found)


async def get_or_none(api: Api, path: str) -> Response | None:
    """Return the answer to a GET; None if there is nothing at the path.

    Raises:
        ConnectionLost: There is no answer.
        DiscoveryFailed: The answer is neither a success nor 404.
    """
    response = await api.request("GET", path)
    if response.status == _NOT_FOUND:
        return None
    if not response.is_success:
        raise DiscoveryFailed(path, response.status, read_status(response.body).message)
    return response
