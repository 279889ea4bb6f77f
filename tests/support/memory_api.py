"""An API server in memory, behind the port ``gangsched.kubernetes._api.Api``.

It has what a scheduler meets: resource versions, UIDs, watches that resume, WatchList, the binding
and eviction subresources with their conflicts, preconditions, finalizers of native PodGroups.
*fault* breaks requests on purpose: before they are carried out, or after, when the answer is lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
from attrs import define, field

from gangsched.kubernetes import _client
from gangsched.kubernetes._api import ConnectionLost, Response, WatchRefused

__all__ = ["MemoryApi", "Fault", "lost_after", "lost_before", "refused"]

Object = dict[str, Any]

_PATH = re.compile(
    r"(?P<base>/api/v1|/apis/[^/]+/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)


@define
class Fault:
    """What goes wrong with one request.

    Attributes:
        response: The answer instead of the true one; None for a lost connection.
        done: Whether the request is carried out all the same.
    """

    response: Response | None = None
    done: bool = False


def lost_after() -> Fault:
    """Return a lost answer: the request was carried out."""
    return Fault(done=True)


def lost_before() -> Fault:
    """Return a connection that was lost before the request was carried out."""
    return Fault()


def refused(status: int, message: str = "refused", **headers: str) -> Fault:
    """Return an answer with a status."""
    return Fault(_status(status, message, **headers))


@define(eq=False)
class MemoryApi:
    """The API server.

    Attributes:
        fault: Called with method and path of each request, and with ``WATCH`` for a watch; returns
            what goes wrong, or None.
        delay: The seconds that each request takes.
        requests: Method and path of every request.
        bound: By UID, the nodes that a pod was bound to; never more than one.
        served: The APIs of PodGroups, as group and version.
        composites: Whether ``CompositePodGroup`` is served, in ``scheduling.k8s.io/v1alpha3``.
        namespace: That of its clients.
    """

    fault: Callable[[str, str], Fault | None] = lambda _method, _path: None
    delay: float = 0.0
    requests: list[tuple[str, str]] = field(factory=list)
    version: int = 0
    objects: dict[str, dict[str, Object]] = field(factory=dict)
    log: list[tuple[int, str, str, str]] = field(factory=list)
    watchers: dict[str, list[asyncio.Event]] = field(factory=dict)
    served: set[str] = field(factory=lambda: {"scheduling.k8s.io/v1beta1"})
    composites: bool = False
    namespace: str = "default"

    def be_connected_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let commands get this server as their client."""

        async def connect_client(**_named: Any) -> MemoryApi:
            return self

        monkeypatch.setattr(_client, "connect_client", connect_client)

    # By hand --------------------------------------------------------------------------------

    def put(self, collection: str, given: Object) -> Object:
        """Create or replace an object, and tell the watches."""
        meta = given.setdefault("metadata", {})
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        known = self.objects.setdefault(collection, {}).get(key)
        if known is None:
            meta.setdefault("uid", f"uid-{self.version + 1}")
            meta.setdefault("creationTimestamp", "2026-01-31T12:00:00Z")
        self._store(collection, key, given, "ADDED" if known is None else "MODIFIED")
        return given

    def get(self, collection: str, key: str) -> Object | None:
        """Return an object."""
        found = self.objects.get(collection, {}).get(key)
        return None if found is None else json.loads(json.dumps(found))

    def remove(self, collection: str, key: str) -> None:
        """Delete an object at once, and tell the watches."""
        known = self.objects.get(collection, {}).pop(key, None)
        if known is not None:
            self.version += 1
            known["metadata"]["resourceVersion"] = str(self.version)
            self._tell(collection, "DELETED", known)

    def pods(self) -> dict[str, str | None]:
        """Return the node of each pod, by key."""
        pods = self.objects.get("/api/v1/pods", {})
        return {key: pod["spec"].get("nodeName") for key, pod in pods.items()}

    def compact(self) -> None:
        """Forget what watches could resume from: they get 410."""
        self.log = []
        for events in self.watchers.values():
            for event in events:
                event.set()

    # The port -------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
        lane: str = "default",
    ) -> Response:
        self.requests.append((method, path))
        await asyncio.sleep(self.delay)
        fault = self.fault(method, path)
        if fault is not None and not fault.done:
            if fault.response is None:
                raise ConnectionLost(method, path, "cut off before", sent=True)
            return fault.response
        response = self._carry_out(method, path, json.loads(body) if body else {}, content_type)
        if fault is not None:
            if fault.response is None:
                raise ConnectionLost(method, path, "cut off after", sent=True)
            return fault.response
        return response

    async def watch(self, path: str, *, timeout: float) -> AsyncIterator[Sequence[bytes]]:
        fault = self.fault("WATCH", path)
        if fault is not None and fault.response is not None:
            raise WatchRefused(path, fault.response)
        target, _, query = path.partition("?")
        options = {name: values[0] for name, values in parse_qs(query).items()}
        match = _PATH.fullmatch(target)
        assert match is not None, path
        collection = f"{match['base']}/{match['plural']}"
        woken = asyncio.Event()
        self.watchers.setdefault(collection, []).append(woken)
        try:
            log, position = self.log, len(self.log)
            if options.get("sendInitialEvents"):
                for known in list(self.objects.get(collection, {}).values()):
                    yield [_line("ADDED", known)]
                mark = {"resourceVersion": str(self.version)}
                mark_at: Object = {"annotations": {"k8s.io/initial-events-end": "true"}, **mark}
                yield [_line("BOOKMARK", {"metadata": mark_at})]
            elif options.get("resourceVersion"):
                since = int(options["resourceVersion"])
                position = next((n for n, e in enumerate(self.log) if e[0] > since), position)
                if since < self.version and (not self.log or self.log[0][0] > since + 1):
                    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
                    yield [_line("ERROR", gone)]
                    return
            while True:
                if log is not self.log:  # compacted under way, however much was written since
                    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}
                    yield [_line("ERROR", gone)]
                    return
                lines = [e[3].encode() for e in self.log[position:] if e[1] == collection]
                position = len(self.log)
                if lines:
                    yield lines
                woken.clear()
                if position == len(self.log):
                    await woken.wait()
        finally:
            self.watchers[collection].remove(woken)

    async def aclose(self) -> None:
        pass

    # Inside ---------------------------------------------------------------------------------

    def _carry_out(self, method: str, path: str, body: Object, content_type: str) -> Response:
        target = path.partition("?")[0]
        if target.startswith("/apis/") and target.count("/") in (2, 3):
            return self._discovery(target.removeprefix("/apis/"))
        match = _PATH.fullmatch(target)
        if match is None:
            return _status(404, f"{target} is not served")
        collection = f"{match['base']}/{match['plural']}"
        namespace, name, sub = match["namespace"], match["name"], match["sub"]
        if name is None:
            if method == "POST":
                return self._create(collection, namespace, body)
            if method == "GET":
                items = list(self.objects.get(collection, {}).values())
                meta = {"resourceVersion": str(self.version)}
                return _ok({"metadata": meta, "items": items})
            return _status(405, method)
        key = unquote(f"{namespace}/{name}" if namespace else name)
        known = self.objects.get(collection, {}).get(key)
        if known is None:
            return _status(404, f"{match['plural']} {key} not found")
        if sub == "binding":
            return self._bind(collection, key, known, body)
        if sub == "eviction":
            return self._delete(collection, key, known, body.get("deleteOptions", {}))
        match method:
            case "GET":
                return _ok(known)
            case "PUT":
                given = body["metadata"].get("resourceVersion")
                if given not in (None, known["metadata"]["resourceVersion"]):
                    return _status(409, "the object has been modified")
                return _ok(self._store(collection, key, body, "MODIFIED"))
            case "PATCH":
                uid = body.get("metadata", {}).get("uid")
                if uid not in (None, known["metadata"]["uid"]):
                    invalid = f'metadata.uid: Invalid value: "{uid}": field is immutable'
                    return _status(422, f'"{name}" is invalid: {invalid}')
                given = body.get("metadata", {}).get("resourceVersion")
                if given not in (None, known["metadata"]["resourceVersion"]):
                    return _status(409, "the object has been modified")
                fresh = json.loads(json.dumps(known))
                _merge(fresh, body, strategic="strategic" in content_type)
                return _ok(self._store(collection, key, fresh, "MODIFIED"))
            case "DELETE":
                return self._delete(collection, key, known, body)
            case _:
                return _status(405, method)

    def _create(self, collection: str, namespace: str | None, body: Object) -> Response:
        meta = body["metadata"]
        if namespace is not None:
            meta["namespace"] = namespace
        key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
        if key in self.objects.get(collection, {}):
            return _status(409, f"{key} already exists")
        return _ok(self.put(collection, body), 201)

    def _bind(self, collection: str, key: str, known: Object, body: Object) -> Response:
        uid = body["metadata"].get("uid")
        if uid not in (None, known["metadata"]["uid"]):
            return _status(409, "Precondition failed: UID in precondition")
        if known["metadata"].get("deletionTimestamp"):
            return _status(409, f"pod {key} is being deleted, cannot be assigned to a host")
        if known["spec"].get("nodeName"):
            return _status(409, f"pod {key} is already assigned to a node")
        fresh = json.loads(json.dumps(known))
        fresh["spec"]["nodeName"] = body["target"]["name"]
        for name, text in body["metadata"].get("annotations", {}).items():
            fresh["metadata"].setdefault("annotations", {})[name] = text
        self._store(collection, key, fresh, "MODIFIED")
        return _status(201, "created")

    def _delete(self, collection: str, key: str, known: Object, options: Object) -> Response:
        uid = options.get("preconditions", {}).get("uid")
        if uid not in (None, known["metadata"]["uid"]):
            return _status(409, "Precondition failed: UID in precondition")
        self.remove(collection, key)
        return _ok(known)

    def _store(self, collection: str, key: str, given: Object, kind: str) -> Object:
        self.version += 1
        given["metadata"]["resourceVersion"] = str(self.version)
        self.objects.setdefault(collection, {})[key] = given
        self._tell(collection, kind, given)
        return given

    def _tell(self, collection: str, kind: str, given: Object) -> None:
        line = _line(kind, given).decode()
        self.log.append((self.version, collection, kind, line))
        for event in self.watchers.get(collection, ()):
            event.set()

    def _discovery(self, target: str) -> Response:
        group, _, version = target.partition("/")
        kinds = dict.fromkeys(sorted(self.served), "PodGroup")
        if self.composites:
            kinds |= {"scheduling.k8s.io/v1alpha3": "CompositePodGroup"}
        served = [each for each in kinds if each.startswith(f"{group}/")]
        if not version:
            if not served:
                return _status(404, f"{group} is not served")
            versions = [{"version": each.partition("/")[2]} for each in served]
            return _ok({"kind": "APIGroup", "name": group, "versions": versions})
        if target not in served:
            return _status(404, f"{target} is not served")
        kind = kinds[target]
        plural = f"{kind.lower()}s"
        named = [{"name": name, "kind": kind} for name in (plural, f"{plural}/status")]
        return _ok({"kind": "APIResourceList", "groupVersion": target, "resources": named})


def _line(kind: str, given: Object) -> bytes:
    return f'{{"type":"{kind}","object":{json.dumps(given)}}}'.encode()


def _ok(body: Object, status: int = 200) -> Response:
    return Response(status, {}, json.dumps(body).encode())


def _status(code: int, message: str, **headers: str) -> Response:
    body = {"kind": "Status", "code": code, "message": message}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(code, named, json.dumps(body).encode())


def _merge(target: Object, patch: Object, *, strategic: bool) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(name, {}), value, strategic=strategic)
        elif name == "conditions" and strategic:
            kept = {each["type"]: each for each in target.get(name, [])}
            kept.update({each["type"]: {**kept.get(each["type"], {}), **each} for each in value})
            target[name] = list(kept.values())
        else:
            target[name] = value
