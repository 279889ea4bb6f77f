"""A bare client: binds pods to nodes that are given, as fast as the API server takes it.

No scheduler that posts its binds through this API server can be much faster: it has to read, to
decide and to report beside the same binds. The client has the transport and the number of
connections that `gangsched run` has by default, opened before the clock runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gangsched.kubernetes._api import Api
from gangsched.kubernetes._client import connect

__all__ = ["bind_all"]

_CONNECTIONS: Final = 32
_LANE: Final = "binds"
_CREATED: Final = 201


def bind_all(kubeconfig: Path, path: str, nodes: Mapping[str, str]) -> float:
    """Bind pods to nodes.

    Args:
        kubeconfig: Which API server, and as which account.
        path: The path of the pods.
        nodes: By the name of a pod, that of its node.

    Returns:
        When the first request was sent, on ``time.perf_counter``.

    Raises:
        RuntimeError: The API server refused a bind.
    """
    return asyncio.run(_bind_all(kubeconfig, path, nodes))


async def _bind_all(kubeconfig: Path, path: str, nodes: Mapping[str, str]) -> float:
    api = await connect(kubeconfig=str(kubeconfig), lanes={_LANE: _CONNECTIONS, "default": 1})
    try:
        opening = (api.request("GET", f"{path}?limit=1", lane=_LANE) for _ in range(_CONNECTIONS))
        await asyncio.gather(*opening)
        began = time.perf_counter()
        left = iter(nodes.items())
        await asyncio.gather(*(_worker(api, path, left) for _ in range(_CONNECTIONS)))
        return began
    finally:
        await api.aclose()


async def _worker(api: Api, path: str, left: Iterator[tuple[str, str]]) -> None:
    for pod, node in left:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        body = json.dumps(bind).encode()
        answer = await api.request("POST", f"{path}/{pod}/binding", body=body, lane=_LANE)
        if answer.status != _CREATED:
            raise RuntimeError(f"the bind of {pod} was answered with {answer.status}")
