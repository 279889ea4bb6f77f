"""Levels that objects of another project state on the API server.

Rules:
  R1  an API that is not served, or has no objects, states no levels.
"""

from __future__ import annotations

from gangsched.kubernetes._api import Api
from gangsched.kubernetes._peer_objects import list_objects
from gangsched.manifests.peer_levels import PEERS, PeerLevels, read_peer_levels

__all__ = ["list_levels"]


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
    return read_peer_levels(peer, await list_objects(api, PEERS[peer]))
