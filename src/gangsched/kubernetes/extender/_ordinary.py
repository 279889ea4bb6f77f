"""Binding pods of no known group: kube-scheduler has decided, this process sends the request.

Rules:
  R1  one request for each bind, as the default binder of kube-scheduler: if its answer is lost,
      kube-scheduler tries the pod again, and finds out how the bind ended;
  R2  the body has the UID, so a pod that was recreated under its name is not bound in its place.
"""

from __future__ import annotations

from typing import Final, final
from urllib.parse import quote

from gangsched.kubernetes._api import ConnectionLost
from gangsched.kubernetes._requests import Requests, said, to_json
from gangsched.kubernetes.extender._messages import BindingArgs

__all__ = ["OrdinaryBinder"]

_LANE: Final = "ordinary"
_TIMEOUT: Final = 30.0


@final
class OrdinaryBinder:
    """Binds pods of no known group to the nodes that kube-scheduler has decided.

    Args:
        requests: The client of the API server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def __call__(self, args: BindingArgs) -> str:
        """Bind a pod; return the problem, empty for none."""
        metadata = {"name": args.name, "namespace": args.namespace, "uid": args.uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": args.node}
        body = to_json(
            {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        )
        try:
            response = await self._requests.once(
                "POST", _path(args, "/binding"), body=body, timeout=_TIMEOUT, lane=_LANE
            )
        except ConnectionLost as lost:
            return str(lost)
        return "" if response.status < 300 else said(response)

    async def read(self, args: BindingArgs) -> bytes | str:
        """Return a pod as JSON; a string if it cannot be read, which says why."""
        try:
            response = await self._requests.once("GET", _path(args), timeout=_TIMEOUT, lane=_LANE)
        except ConnectionLost as lost:
            return str(lost)
        return response.body if response.status < 300 else said(response)


def _path(args: BindingArgs, end: str = "") -> str:
    namespace, name = quote(args.namespace, safe=""), quote(args.name, safe="")
    return f"/api/v1/namespaces/{namespace}/pods/{name}{end}"
