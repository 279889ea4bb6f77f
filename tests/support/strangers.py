"""Who asks a scheduler that is served to others: with a token, with another one, with none."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from attrs import frozen

from support.patience import HANG, saw, until

__all__ = ["PAGES", "Stranger", "allow_metrics"]

PAGES = ("/metrics", "/gangs", "/queue", "/quotas", "/why?group=a/b", "/configuration")
"""What needs a token."""
_LATE = (b"does not answer", b"no time within", b"no connection to the API server")
"""What a scheduler says that could answer later."""
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@frozen
class Stranger:
    """Asks at a port of this machine, over HTTPS.

    Attributes:
        port: The port.
        token: A token; empty for none.
        authority: The file with the authority of the certificate; None to verify nothing.
    """

    port: int
    token: str = ""
    authority: Path | None = None

    def get(self, target: str) -> tuple[int, bytes]:
        """Return the status and the body."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return self._send(urllib.request.Request(self._url(target), headers=headers))

    def post(self, target: str) -> tuple[int, bytes]:
        """Do the same with the token in the body, as through the API server."""
        body = json.dumps({"token": self.token}).encode()
        return self._send(urllib.request.Request(self._url(target), data=body))

    def status(self, target: str) -> int:
        """Return the status."""
        return self.get(target)[0]

    def items(self, target: str) -> list[dict[str, Any]]:
        """Return the rows of an answer."""
        status, body = self.get(target)
        if status != 200:
            return []
        found: list[dict[str, Any]] = json.loads(body)["items"]
        return found

    def _url(self, target: str) -> str:
        return f"https://localhost:{self.port}{target}"

    def _send(self, request: urllib.request.Request) -> tuple[int, bytes]:
        """Send a request until it has an answer: a busy machine may give none in time."""
        found = until(lambda: self._once(request), step=0.1)
        assert found is not None
        return found

    def _once(self, request: urllib.request.Request) -> tuple[int, bytes] | None:
        found = self._answer(request)
        saw(f"{request.full_url}: {found}")
        is_late = found[0] == 503 and any(text in found[1] for text in _LATE)
        return None if is_late or not found[0] else found

    def _answer(self, request: urllib.request.Request) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=self.authority)
        if self.authority is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=HANG, context=context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""


def allow_metrics(admin: Any, name: str, *, namespace: str = "kube-system") -> None:
    """Let a service account get the metrics; return once the API server knows of it."""
    role = {
        "metadata": {"name": f"{name}-metrics"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    admin.create(f"{_RBAC}/clusterroles", role)
    binding = {
        "metadata": {"name": f"{name}-metrics"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": f"{name}-metrics",
        },
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    admin.create(f"{_RBAC}/clusterrolebindings", binding)
    asked = {
        "user": f"system:serviceaccount:{namespace}:{name}",
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }
    until(lambda: admin.create(_REVIEWS, {"spec": asked})["status"]["allowed"])
