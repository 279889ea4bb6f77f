"""Users with limited rights: service accounts with a role and a token.

The API server limits the requests of such users by priority and fairness, and forbids what their
rules do not name. The administrator of a test cluster is exempt from both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import field, frozen

from support.control_plane.client import ApiError, Client
from support.patience import until

__all__ = ["Account", "Rule"]

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_OF_A_RULE = ("apiGroups", "resources", "verbs")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


@frozen
class Rule:
    """Verbs on resources of one API group; ``pods/binding`` is a subresource.

    With *names*, only on objects of these names.
    """

    verbs: Sequence[str]
    resources: Sequence[str]
    group: str = ""
    names: Sequence[str] = ()

    def as_object(self) -> dict[str, Any]:
        """Return the rule of a ClusterRole."""
        return {
            "apiGroups": [self.group],
            "resources": [*self.resources],
            "verbs": [*self.verbs],
            **({"resourceNames": [*self.names]} if self.names else {}),
        }


@frozen
class Account:
    """A service account, with the rights of a cluster role of the same name.

    Attributes:
        name: The name of the account, its role and its binding.
        namespace: Where the account is.
        token: A bearer token.
    """

    name: str
    namespace: str
    token: str = field(repr=False)

    @classmethod
    def create(
        cls,
        admin: Client,
        name: str,
        rules: Iterable[Rule],
        *,
        namespace: str = "kube-system",
        seconds: int = 24 * 3600,
    ) -> Account:
        """Make an account with *rules*, or give an existing one these rules and a new token.

        The API server reads roles from watches, so it is asked until it grants every rule.

        Args:
            admin: A client that may do this.
            name: The name.
            rules: All that the account may do.
            namespace: Where the account is; it must exist.
            seconds: How long the token is valid; at least 600.
        """
        objects = [rule.as_object() for rule in rules]
        role = {"metadata": {"name": name}, "rules": objects}
        binding = {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        _ensure(admin, accounts, {"metadata": {"name": name}})
        if not _ensure(admin, f"{_RBAC}/clusterroles", role):
            admin.patch(f"{_RBAC}/clusterroles/{name}", role)
        _ensure(admin, f"{_RBAC}/clusterrolebindings", binding)
        request = {"spec": {"expirationSeconds": seconds}}
        token = admin.create(f"{accounts}/{name}/token", request)["status"]["token"]
        with Client(admin.url, token, admin.ca) as client:
            until(lambda: _are_granted(client, namespace, objects), step=0.01)
        return cls(name, namespace, token)


def _are_granted(client: Client, namespace: str, rules: Iterable[dict[str, Any]]) -> bool:
    """Return whether the API server grants each rule to the user of a client."""
    status, answer = client.raw("POST", _REVIEWS, {"spec": {"namespace": namespace}})
    granted = json.loads(answer)["status"]["resourceRules"] if status == 201 else ()
    found = [{key: sorted(each.get(key, ())) for key in _OF_A_RULE} for each in granted]
    return all({key: sorted(each[key]) for key in _OF_A_RULE} in found for each in rules)


def _ensure(admin: Client, path: str, body: dict[str, Any]) -> bool:
    """Create an object; return False if it exists."""
    try:
        admin.create(path, body)
    except ApiError as error:
        if error.status != 409:
            raise
        return False
    return True
