"""Which APIs of pod groups a cluster serves.

Rules:
  R1  each API that the library reads is looked for. Of several versions, the first one that is
      read is used, in the order of the API server. Kubernetes has its two kinds of groups in
      different versions: ``CompositePodGroup`` in an alpha version, if its feature gate is on;
  R2  an API may be installed while the scheduler runs, and removed. ``watch_dialects`` looks again;
  R3  an API that does not answer is an error, not an absent API: the groups of an absent API are
      forgotten, and their pods held.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import Api, ConnectionLost, Response
from gangsched.kubernetes._events import UnexpectedAnswer, read_status
from gangsched.kubernetes._extra import missing
from gangsched.kubernetes._facts import COMPOSITE_KIND, Dialect
from gangsched.kubernetes._looking import keep_looking
from gangsched.kubernetes._tasks import together

try:
    from msgspec import DecodeError, Struct
    from msgspec.json import Decoder
except ModuleNotFoundError as error:
    raise missing(error) from error

__all__ = [
    "API_GROUPS",
    "LOOK_INTERVAL",
    "Dialect",
    "DiscoveryFailed",
    "discover",
    "watch_dialects",
]

API_GROUPS: Final = (
    "scheduling.k8s.io",
    "scheduling.x-k8s.io",
    "scheduling.sigs.k8s.io",
    "scheduling.volcano.sh",
    "scheduling.run.ai",
)
"""The API groups with PodGroups that are read; the first has the highest precedence."""

LOOK_INTERVAL: Final = 30.0
"""Seconds between two looks for APIs of pod groups."""

T = TypeVar("T")

_NOT_FOUND: Final = 404
_CORE: Final = "scheduling.k8s.io"
_PLURAL: Final = {"PodGroup": "podgroups"}
_PLURALS_OF_CORE: Final = {**_PLURAL, COMPOSITE_KIND: "compositepodgroups"}
_NOT_READ: Final = frozenset({("scheduling.k8s.io", "v1alpha1")})
"""Versions with another form: before v1alpha2, the groups were parts of a Workload."""


class _Version(Struct, gc=False):
    version: str


class _Group(Struct, gc=False):
    versions: list[_Version] = []


class _Resource(Struct, gc=False):
    name: str
    kind: str = ""


class _Resources(Struct, gc=False):
    resources: list[_Resource] | None = None


_decode_group = Decoder(_Group).decode
_decode_resources = Decoder(_Resources).decode


class DiscoveryFailed(GangschedError):
    """The API server did not say which APIs it serves.

    Attributes:
        path: The path that was asked for.
        status: The HTTP status of the answer.
        message: The message of the answer.
    """

    def __init__(self, path: str, status: int, message: str) -> None:
        super().__init__(path, status, message)
        self.path = path
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"GET {self.path}: status {self.status}: {self.message}"


async def discover(
    api: Api, answered: dict[str, list[Dialect]] | None = None
) -> tuple[Dialect, ...]:
    """Return the APIs of pod groups that the cluster serves, in the order of ``API_GROUPS``.

    Args:
        api: The API server.
        answered: What is known of API groups by name. Those are not asked for again, and what is
            found of others is entered, also if this raises.

    Raises:
        ConnectionLost: There is no answer.
        DiscoveryFailed: An answer is neither a success nor 404.
        UnexpectedAnswer: An answer is not of the expected form.
    """
    known = {} if answered is None else answered

    async def ask(group: str) -> list[Dialect]:
        if group not in known:
            known[group] = await _dialects(api, group)
        return known[group]

    found = await together(*map(ask, API_GROUPS))
    return tuple(dialect for of_group in found for dialect in of_group)


async def _dialects(api: Api, group: str) -> list[Dialect]:
    path = f"/apis/{group}"
    response = await _get(api, path)
    lacking = dict(_PLURALS_OF_CORE if group == _CORE else _PLURAL)
    found: list[Dialect] = []
    if response is None:
        return found
    for version in _parse(_decode_group, response, "an APIGroup").versions:
        if (group, version.version) in _NOT_READ or not lacking:
            continue
        at = f"{path}/{version.version}"
        response = await _get(api, at)
        if response is None:
            continue
        served = _parse(_decode_resources, response, "an APIResourceList").resources or []
        names = {each.name for each in served}
        for each in served:
            if lacking.get(each.kind) == each.name:
                del lacking[each.kind]
                status = f"{each.name}/status" in names
                where = f"{at}/{each.name}"
                found.append(Dialect(group, version.version, where, each.kind, status))
    return found


async def _get(api: Api, path: str) -> Response | None:
    response = await api.request("GET", path)
    if response.status == _NOT_FOUND:
        return None
    if not response.is_success:
        raise DiscoveryFailed(path, response.status, read_status(response.body).message)
    return response


def _parse(decode: Callable[[bytes], T], response: Response, what: str) -> T:
    try:
        return decode(response.body)
    except DecodeError as error:
        start = response.body[:200].decode("utf-8", "replace")
        raise UnexpectedAnswer(what, start, str(error)) from error


async def watch_dialects(
    api: Api,
    known: tuple[Dialect, ...],
    changed: Callable[[tuple[Dialect, ...]], Awaitable[None]],
    *,
    interval: float = LOOK_INTERVAL,
    on_problem: Callable[[GangschedError], None] = lambda _error: None,
) -> None:
    """Look for other APIs of pod groups, for ever.

    Args:
        api: The API server.
        known: The APIs that are known.
        changed: Called with all APIs when they are others than before.
        interval: The seconds between two looks.
        on_problem: Called when a look fails; what was known stays.
    """
    errors = (ConnectionLost, DiscoveryFailed, UnexpectedAnswer)
    await keep_looking(
        *(partial(discover, api), known, changed),
        errors=errors,
        interval=interval,
        on_problem=on_problem,
    )
