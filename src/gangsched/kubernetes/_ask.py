"""The running scheduler, found from outside and asked by HTTP.

Theory of operation. The replica that leads is the holder of a Lease. In a pod, the first part of
the holder's identity is the name of the pod. The API server passes a request on to a port of that
pod, by ``pods/proxy``, so a user needs no route to the pod network. It takes the credentials of the
user out of the request, and what answers may be any pod: nobody should send it a token that is good
elsewhere. So the user gets a token of a ServiceAccount for the audience ``gangsched``, by the API
server's TokenRequest, and sends this one. The answer is what that ServiceAccount may read. A
scheduler that runs outside of the cluster is asked at an address instead.

Rules:
  R1  nothing is changed: GET, and POST with a token as the body, which the API server passes on;
  R2  every reason for which there is no answer is a ``NotAnsweredError`` with a sentence, and with
      what to type or to set if that is known. A caller that can list the cluster goes on with that;
  R3  what was answered is checked before it is used: it comes from a pod of the given name, which
      need not be a scheduler;
  R4  credentials of the user go to the API server alone. A token of a file goes to an address whose
      certificate was verified.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, cast, final
from urllib.parse import quote, urlencode, urlsplit

from attrs import define, field, frozen

from gangsched.errors import GangschedError
from gangsched.kubernetes import _remedies
from gangsched.kubernetes._api import Api, ConnectionLost, Response
from gangsched.kubernetes._requests import said
from gangsched.kubernetes._reviews import AUDIENCE
from gangsched.values.text import printable

__all__ = [
    "API_VERSION",
    "LEASE",
    "AtUrl",
    "Document",
    "InPod",
    "NotAnsweredError",
    "RunningScheduler",
    "check_answer",
    "is_url",
]

LEASE: Final = "gangsched"
"""The name of the Lease that is looked for in all namespaces if none is named."""
API_VERSION: Final = "gangsched.kubectl/v1"
_LEASES: Final = "/apis/coordination.k8s.io/v1"
_TOKEN_SECONDS: Final = 600
"""How long a token is good; no API server makes a shorter one."""
_MOST_BYTES: Final = 32 * 1024 * 1024

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_UNAVAILABLE: Final = 503
_LEADS: Final = re.compile(r"(\S+) leads")
"""What a replica that does not lead answers; see ``Answers``."""

Document: TypeAlias = dict[str, Any]


@final
class NotAnsweredError(GangschedError):
    """The running scheduler could not be asked.

    Attributes:
        problem: Why there is no answer.
        leader: The identity of the replica that leads, if another one was asked; else empty.
        remedy: What to type or to set so that there is an answer; empty if it is not known.
    """

    def __init__(self, problem: str, leader: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.leader = leader
        self.remedy = remedy

    @property
    def sentence(self) -> str:
        """That there is no answer, and why; without the remedy."""
        return f"the running scheduler was not asked: {self.problem}"

    def __str__(self) -> str:
        return f"{self.sentence}; to ask it: {self.remedy}" if self.remedy else self.sentence


class RunningScheduler(Protocol):
    """A running scheduler that can be asked."""

    @property
    def where(self) -> str:
        """Where it runs, as far as it is known."""
        ...

    async def ask(self, page: str, query: Mapping[str, str]) -> Document:
        """Return what a page answers.

        Args:
            page: The name of the page, such as ``gangs``.
            query: The query.

        Raises:
            NotAnsweredError: There is no answer.
        """
        ...


@final
@frozen
class AtUrl:
    """A scheduler at an address.

    Attributes:
        url: Where its pages are, such as ``http://127.0.0.1:10259``.
        timeout: Seconds that an answer may take.
        token: The file with a token; None for none.
        authority: The file with the authorities of its certificate; None for those of the system.
    """

    url: str
    timeout: float
    token: Path | None = None
    authority: Path | None = None

    @property
    def where(self) -> str:
        """The address."""
        return self.url

    async def ask(self, page: str, query: Mapping[str, str]) -> Document:
        """Return what a page answers; see ``RunningScheduler``."""
        target = _with_query(f"{self.url.rstrip('/')}/{page}", query)
        response = await asyncio.to_thread(self._get, target)
        if response.status == _UNAUTHORIZED:
            raise _not_answered(self.url, response, _remedies.TOKEN_OF_URL)
        return _document(self.url, response)

    def _get(self, target: str) -> Response:
        try:
            request = urllib.request.Request(target)
            context = None
            if urlsplit(target).scheme == "https":
                context = ssl.create_default_context(cafile=self.authority)
                context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as Go verifies it
                if self.token is not None:
                    token = self.token.read_text("ascii").strip()
                    # not sent on, if the answer is a redirection
                    request.add_unredirected_header("Authorization", f"Bearer {token}")
            with urllib.request.urlopen(request, timeout=self.timeout, context=context) as answer:
                return Response(answer.status, body=answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, body=error.read(_MOST_BYTES))
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            is_refused = isinstance(reason, ssl.SSLCertVerificationError)
            remedy = _remedies.CERTIFICATE if is_refused else _remedies.SERVE
            raise NotAnsweredError(f"{self.url}: {reason}", remedy=remedy) from error


@final
@define(eq=False)
class InPod:
    """The scheduler that leads, by the pod that holds the Lease.

    Attributes:
        api: The API server.
        lease: Namespace and name of the Lease; None for the one named ``gangsched`` in any
            namespace.
        port: The port of its pages.
        timeout: Seconds that one request may take.
        account: Namespace and name of the ServiceAccount whose rights the answer has. None for the
            one with the name of the Lease and ``-ask``: that of the namespace that is asked about,
            else that of the namespace of the scheduler.
        where: Its pod, as ``namespace/name``, once it is found. Further questions go there, with
            the same token.
    """

    api: Api
    lease: tuple[str, str] | None
    port: int
    timeout: float
    account: tuple[str, str] | None = None
    where: str = field(default="", init=False)
    _token_of_pod: str = field(default="", init=False, repr=False)

    async def ask(self, page: str, query: Mapping[str, str]) -> Document:
        """Return what a page answers; see ``RunningScheduler``."""
        if self.where:
            namespace, _, pod = self.where.partition("/")
            response = await self._through(namespace, pod, page, query, self._token_of_pod)
        else:
            namespace, response = await self._find(page, query)
        if not response.is_success:
            is_own = API_VERSION.encode() in response.body
            remedy = _remedies.of_page(response, namespace, self.port, is_own=is_own)
            raise _not_answered(f"pod {self.where}", response, remedy)
        return _document(f"pod {self.where}", response)

    async def _find(self, page: str, query: Mapping[str, str]) -> tuple[str, Response]:
        """Find the pod and ask it; return its namespace and what it answers."""
        namespace, lease, holder = await self._holder()
        pod = holder.rsplit("_", 2)[0]
        if "_" not in holder or not pod:
            problem = f"the holder {holder!r} of the Lease {lease} is no pod"
            raise NotAnsweredError(problem, remedy=_remedies.AT_AN_ADDRESS)
        name = f"{lease.partition('/')[2]}-ask"
        token = await self._token(name, namespace, query)
        response = await self._through(namespace, pod, page, query, token)
        if _is_absent(response, pod):
            namespace = await self._namespace_of(pod)
            response = await self._through(namespace, pod, page, query, token)
        self.where, self._token_of_pod = f"{namespace}/{pod}", token
        return namespace, response

    async def _holder(self) -> tuple[str, str, str]:
        """Return the namespace of the Lease, its namespace and name, and its holder."""
        if self.lease is not None:
            namespace, name = self.lease
            path = f"{_LEASES}/namespaces/{quote(namespace, safe='')}/leases"
            found: list[Document] = [
                await self._object(
                    f"{path}/{quote(name, safe='')}",
                    _remedies.get_lease(namespace),
                    _remedies.ANOTHER_LEASE,
                )
            ]
        else:
            name = LEASE
            chosen = f"fieldSelector=metadata.name%3D{name}"
            leases = await self._object(f"{_LEASES}/leases?{chosen}", _remedies.LIST_LEASES)
            items: list[Document] = leases.get("items", [])
            found = [each for each in items if each["metadata"]["name"] == name]
        holders = dict[str, str]()
        for each in found:
            metadata, spec = each["metadata"], each.get("spec", dict[str, Any]())
            if spec.get("holderIdentity"):
                key = f"{metadata['namespace']}/{metadata['name']}"
                holders[key] = str(spec["holderIdentity"])
        if not found:
            problem = f"there is no Lease {name} in any namespace"
            raise NotAnsweredError(problem, remedy=_remedies.NO_LEASE)
        if not holders:
            lease = f"{found[0]['metadata']['namespace']}/{name}"
            remedy = _remedies.no_holder(lease)
            raise NotAnsweredError("nothing holds its Lease", remedy=remedy)
        if len(holders) > 1:
            named = ", ".join(sorted(holders))
            problem = f"there are several Leases: {named}"
            raise NotAnsweredError(problem, remedy=_remedies.NAME_A_LEASE)
        ((key, holder),) = holders.items()
        return key.partition("/")[0], key, holder

    async def _namespace_of(self, pod: str) -> str:
        """Return the namespace of the only pod of a name; the Lease may be in another one."""
        chosen = f"fieldSelector=metadata.name%3D{quote(pod, safe='')}"
        pods = await self._object(f"/api/v1/pods?{chosen}", _remedies.LIST_PODS)
        found: list[str] = [
            each["metadata"]["namespace"]
            for each in pods.get("items", ())
            if each["metadata"]["name"] == pod
        ]
        if len(found) != 1:
            how_many = "no pod" if not found else f"{len(found)} pods"
            problem = f"there is {how_many} with the name {pod}, which holds the Lease"
            raise NotAnsweredError(problem, remedy=_remedies.AT_AN_ADDRESS)
        return found[0]

    async def _token(self, name: str, namespace: str, query: Mapping[str, str]) -> str:
        """Return a token that is good for nothing but this question."""
        about = query.get("namespace") or query.get("group", "").partition("/")[0]
        accounts = [(each, name) for each in dict.fromkeys((about, namespace)) if each]
        if self.account is not None:
            accounts = [self.account]
        spec = {"audiences": [AUDIENCE], "expirationSeconds": _TOKEN_SECONDS}
        body = json.dumps({"spec": spec}).encode()
        response = Response(404)
        for within, account in accounts:
            of = f"{quote(within, safe='')}/serviceaccounts/{quote(account, safe='')}"
            response = await self._send("POST", f"/api/v1/namespaces/{of}/token", body)
            if response.is_success:
                token: str = json.loads(response.body)["status"]["token"]
                return token
        remedy = _remedies.token(*accounts[0]) if response.status in (403, 404) else ""
        raise NotAnsweredError(f"there is no token to ask it with: {said(response)}", remedy=remedy)

    async def _through(
        self, namespace: str, pod: str, page: str, query: Mapping[str, str], token: str
    ) -> Response:
        target = f"{quote(namespace, safe='')}/pods/https:{quote(pod, safe='')}:{self.port}"
        path = _with_query(f"/api/v1/namespaces/{target}/proxy/{page}", query)
        return await self._send("POST", path, json.dumps({"token": token}).encode())

    async def _object(self, path: str, if_forbidden: str, if_absent: str = "") -> Document:
        """Return an object, or a list of them.

        Args:
            path: Its path.
            if_forbidden: The remedy if it must not be read.
            if_absent: The remedy if there is none.
        """
        response = await self._get(path)
        if not response.is_success:
            remedies = {_FORBIDDEN: if_forbidden, 404: if_absent}
            raise NotAnsweredError(said(response), remedy=remedies.get(response.status, ""))
        document: Document = json.loads(response.body)
        return document

    async def _get(self, path: str) -> Response:
        return await self._send("GET", path, None)

    async def _send(self, method: str, path: str, body: bytes | None) -> Response:
        try:
            return await self.api.request(method, path, body=body, timeout=self.timeout)
        except ConnectionLost as lost:
            raise NotAnsweredError(lost.problem) from lost


def check_answer(document: Document, kind: str, where: str) -> Document:
    """Return an answer of the expected kind.

    Raises:
        NotAnsweredError: It is something else.
    """
    found = (document.get("apiVersion"), document.get("kind"))
    if found != (API_VERSION, kind) or not isinstance(document.get("items"), list):
        raise NotAnsweredError(f"{where}: expected a {kind}, got something else")
    return document


def is_url(text: str) -> bool:
    """Return whether a scheduler can be asked at an address."""
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_absent(response: Response, pod: str) -> bool:
    """Return whether the API server has no such pod, unlike a scheduler without such a page."""
    return response.status == 404 and f'pods "{pod}" not found' in said(response)


def _document(where: str, response: Response) -> Document:
    """Return what a scheduler has answered.

    Raises:
        NotAnsweredError: It has not answered.
    """
    if not response.is_success:
        raise _not_answered(where, response)
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError) as error:
        raise NotAnsweredError(f"{where}: expected JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotAnsweredError(f"{where}: expected a JSON object")
    return cast("Document", document)


def _not_answered(where: str, response: Response, remedy: str = "") -> NotAnsweredError:
    problem = f"{where}: status {response.status}: {printable(said(response))}"
    return NotAnsweredError(problem, _leader(response), remedy)


def _leader(response: Response) -> str:
    """Return the replica that leads, as another replica says; empty if it does not."""
    found = _LEADS.fullmatch(said(response)) if response.status == _UNAVAILABLE else None
    return "" if found is None else found[1]


def _with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
