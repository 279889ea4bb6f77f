"""What to type or to set if the running scheduler cannot be asked.

Rules:
  R1  a remedy names the command, the option or the setting, with the names that are known. So it
      can be typed as it stands, but for words in capital letters;
  R2  a right that is missing is given to no subject here: the binding needs the name of the reader.
"""

from __future__ import annotations

from typing import Final

from gangsched.kubernetes._api import Response

__all__ = [
    "ANOTHER_LEASE",
    "AT_AN_ADDRESS",
    "CERTIFICATE",
    "LIST_LEASES",
    "LIST_PODS",
    "NAME_A_LEASE",
    "NO_LEASE",
    "SERVE",
    "TOKEN_OF_URL",
    "get_lease",
    "no_holder",
    "of_page",
    "token",
]

NAME_A_LEASE: Final = "name one with --lease NAMESPACE/NAME"
AT_AN_ADDRESS: Final = "name its address with --scheduler-url http://HOST:PORT"
NO_LEASE: Final = f"{AT_AN_ADDRESS}, or its Lease with --lease NAMESPACE/NAME"
ANOTHER_LEASE: Final = (
    "name another Lease with --lease NAMESPACE/NAME; kubectl get leases --all-namespaces lists them"
)
LIST_LEASES: Final = (
    "name its Lease with --lease NAMESPACE/NAME, or get the right to list leases: kubectl create"
    " clusterrole gangsched-ask --verb=get,list --resource=leases, and a clusterrolebinding"
)
LIST_PODS: Final = (
    f"{AT_AN_ADDRESS}, or get the right to list pods: they are not in the namespace of the Lease"
)

TOKEN_OF_URL: Final = "name the file of a token with --scheduler-token"
SERVE: Final = "name the HOST:PORT of the --serve of gangsched run, or forward it with kubectl"

_FORBIDDEN: Final = 403
_ABSENT: Final = 404
_UNREACHABLE: Final = (502, 503, 504)
_NO_PAGE: Final = b"not found"
"""The body of a scheduler that serves no such page; see ``_server``."""

CERTIFICATE: Final = (
    "name the authorities of its certificate with --scheduler-ca FILE; one that it has made for"
    " itself at its start has none: run it with --serve-cert and --serve-key, in the chart with"
    " serving.secretName"
)


def get_lease(namespace: str) -> str:
    """Return the remedy if a Lease must not be read."""
    return (
        f"get the right to get leases: kubectl create role gangsched-ask --namespace={namespace}"
        " --verb=get --resource=leases, and a rolebinding"
    )


def no_holder(lease: str) -> str:
    """Return the remedy if no replica holds a Lease, given as ``namespace/name``."""
    namespace, _, name = lease.partition("/")
    return (
        f"start a replica, and look again: kubectl get lease {name} --namespace={namespace};"
        f" or {AT_AN_ADDRESS}"
    )


def token(namespace: str, name: str) -> str:
    """Return the remedy if there is no token of a ServiceAccount."""
    return (
        f"name a ServiceAccount with --scheduler-account NAMESPACE/NAME, or get the right to create"
        f" tokens of {name}: kubectl create role {name} --namespace={namespace} --verb=create"
        f" --resource=serviceaccounts/token --resource-name={name}, and a rolebinding"
    )


def of_page(response: Response, namespace: str, port: int, *, is_own: bool) -> str:
    """Return the remedy if a page of a pod was not answered; empty if none is known.

    Args:
        response: The answer.
        namespace: The namespace of the pod.
        port: The port that was asked.
        is_own: Whether the scheduler has answered, and not the API server.
    """
    if is_own:
        return ""
    if response.status == _FORBIDDEN:
        return (
            "get the right to create pods/proxy: kubectl create role gangsched-proxy"
            f" --namespace={namespace} --verb=create --resource=pods/proxy, and a rolebinding"
        )
    if response.status == _ABSENT and response.body.strip() == _NO_PAGE:
        return "run the scheduler without --no-answers; in the chart, with answers: true"
    if response.status in _UNREACHABLE:
        return f"name the port of its --serve with --scheduler-port; {port} was asked with HTTPS"
    return ""
