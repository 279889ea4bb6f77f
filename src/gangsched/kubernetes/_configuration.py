"""How to reach the API server, and as which user: read, and read again when it changes.

Rules:
  R1  kubernetes_asyncio's loader reads kubeconfig files, exec plugins and ServiceAccounts. It runs
      in a process of its own. Its package imports all models of the API (half a second, 40 MB), it
      reads files, and it runs programs. The loop must not stop, nor the models stay in memory;
  R2  the configuration is read again when one of its files changes, before a credential expires,
      and when the API server answers 401. A reading that fails changes nothing and is repeated;
  R3  secrets are in no ``repr`` and in no error.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

from attrs import field, frozen

from gangsched.errors import GangschedError
from gangsched.kubernetes._extra import missing
from gangsched.values.seconds import format_duration

__all__ = ["Access", "ConfigurationError", "Credentials", "read_access"]

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_EXPIRY_MARGIN: Final = 60.0
"""Seconds before its expiry at which a credential is read again; fewer if its life is short."""
_MARGIN_OF_LIFE: Final = 0.2
_LEAST_PAUSE: Final = 2.0
_MOST_PAUSE: Final = 60.0
_READING_TIMEOUT: Final = 60.0
_LOADER: Final = str(Path(__file__).with_name("_load_access.py"))


@final
class ConfigurationError(GangschedError):
    """The configuration of the access to the API server cannot be read.

    Attributes:
        source: The kubeconfig file, or the ServiceAccount.
        problem: What is wrong with it.
    """

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source}: {self.problem}"


@final
@frozen
class Access:
    """Where the API server is, and how to authenticate.

    Attributes:
        server: The URL, without a slash at its end.
        verify: Whether the certificate of the API server is verified.
        authority: The certificates of the authorities, as PEM; None for those of this machine.
        certificate: The client certificate, as PEM; None for none.
        key: The key of the client certificate, as PEM.
        authorization: The header ``Authorization``; empty for none.
        server_name: The name in the certificate, if it is not that of the URL.
        proxy: The URL of the proxy; None for none.
        expires_at: When the credential expires, in seconds since 1970; None if that is unknown.
        files: The files that the access was read from.
        namespace: The namespace of the context, or of the ServiceAccount.
    """

    server: str
    verify: bool = True
    authority: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)
    server_name: str | None = None
    proxy: str | None = None
    expires_at: float | None = None
    files: tuple[str, ...] = ()
    namespace: str = "default"

    @property
    def connection(self) -> tuple[object, ...]:
        """What connections depend on: if it changes, new ones must be opened."""
        return (
            *(self.server, self.verify, self.authority, self.certificate, self.key),
            *(self.server_name, self.proxy),
        )


def read_access(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    service_account: str | None = None,
) -> Access:
    """Return how to reach the API server. It blocks: call it in a thread.

    Args:
        kubeconfig: The kubeconfig files, separated as in ``$KUBECONFIG``. None for the
            ServiceAccount if this process runs in a pod, else ``$KUBECONFIG`` or the default file.
        context: The context of the kubeconfig; None for the current one.
        service_account: The folder of the ServiceAccount; None for the usual one.

    Raises:
        ConfigurationError: The configuration is absent or malformed, or its exec plugin failed.
        ModuleNotFoundError: The extra is not installed.
    """
    in_pod = kubeconfig is None and context is None and bool(os.environ.get(_SERVICE_HOST))
    if not in_pod:
        kubeconfig = kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG
    source = "ServiceAccount" if kubeconfig is None else kubeconfig
    asked = {"kubeconfig": kubeconfig, "context": context, "service_account": service_account}
    try:
        done = subprocess.run(
            # by its file: -m would import this whole package first
            [sys.executable, "-P", _LOADER],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=_READING_TIMEOUT,
            check=False,
            # the process finds this package where this process found it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(
            source, f"not read within {format_duration(_READING_TIMEOUT)} s"
        ) from None
    return _access(source, done)


def _access(source: str, done: subprocess.CompletedProcess[bytes]) -> Access:
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        end = done.stderr[-300:].decode("utf-8", "replace").strip()
        raise ConfigurationError(source, f"not read: {end or done.returncode}") from None
    if "missing" in answer:
        raise missing(ModuleNotFoundError(name=answer["missing"]))
    if "problem" in answer:
        raise ConfigurationError(source, answer["problem"])
    if not str(answer["server"]).startswith(("http://", "https://")):
        expected = f"expected the URL of a server, got {answer['server']!r}"
        raise ConfigurationError(source, f"clusters[].cluster.server: {expected}")
    answer["server"] = answer["server"].rstrip("/")
    answer["files"] = tuple(answer["files"])
    return Access(**answer)


@final
class Credentials:
    """The current access, kept current.

    Not thread-safe: all calls are made on one loop.

    Args:
        read: Reads the access; called in a thread.
        on_problem: Called with the error of a reading that failed while there is an older access.
        clock: The seconds since 1970.
    """

    def __init__(
        self,
        read: Callable[[], Access],
        *,
        on_problem: Callable[[Exception], None] = lambda _error: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read = read
        self._on_problem = on_problem
        self._clock = clock
        self._access: Access | None = None
        self._stamps: object = None
        self._first: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self._read_again_at = math.inf
        self._pause = _LEAST_PAUSE

    @property
    def access(self) -> Access:
        """The current access; ``load`` must have returned."""
        if self._access is None:
            raise ConfigurationError("credentials", "not loaded yet")
        return self._access

    def begin(self) -> None:
        """Begin the first reading, in another process; ``load`` waits for its end."""
        if self._first is None:
            self._first = asyncio.ensure_future(self._read_now())

    def cancel(self) -> None:
        """Forget the first reading, if it was begun and never waited for."""
        if self._first is not None and not self._first.cancel() and not self._first.cancelled():
            self._first.exception()  # else asyncio reports that the error was never seen

    async def load(self) -> Access:
        """Return the access that is read first, now or by ``begin``.

        Raises:
            ConfigurationError: It cannot be read.
            ModuleNotFoundError: The extra is not installed.
        """
        self.begin()
        assert self._first is not None
        await self._first
        return self.access

    async def refresh(self, seen: Access) -> bool:
        """Read the access again, unless it is newer than *seen*; return whether it is newer.

        Calls at the same time share one reading. An access that stays the same is read again only
        after a pause that grows: a plugin must not run for each request that is refused.
        """
        if self.access is not seen:
            return True
        if self._reading is None:
            if self._clock() < self._next_at:
                return False
            self._reading = asyncio.ensure_future(self._read_again())
        await asyncio.shield(self._reading)
        return self.access is not seen

    async def keep_current(self, *, interval: float = 10.0) -> None:
        """Read the access again when a file changes or a credential expires, for ever."""
        while True:
            await asyncio.sleep(interval)
            access = self.access
            stamps = await asyncio.to_thread(_stamps, access.files)
            if self._clock() >= self._read_again_at or stamps != self._stamps:
                await self.refresh(access)

    async def _read_again(self) -> None:
        before = self.access
        try:
            await self._read_now()
        except (ConfigurationError, ModuleNotFoundError) as error:
            self._on_problem(error)
        finally:
            self._reading = None
            changed = self.access is not before
            self._pause = _LEAST_PAUSE if changed else min(2 * self._pause, _MOST_PAUSE)
            self._next_at = self._clock() + self._pause

    async def _read_now(self) -> None:
        access, stamps = await asyncio.to_thread(self._read_with_stamps)
        self._stamps = stamps
        self._read_again_at = math.inf
        if access.expires_at is not None:
            life = max(access.expires_at - self._clock(), 0.0)
            margin = min(_EXPIRY_MARGIN, life * _MARGIN_OF_LIFE)
            self._read_again_at = access.expires_at - margin
        if access != self._access:
            self._access = access

    def _read_with_stamps(self) -> tuple[Access, object]:
        # Taken before the reading: a change during it is seen at the next look.
        known = _stamps(self._access.files) if self._access is not None else None
        access = self._read()
        same_files = self._access is not None and self._access.files == access.files
        return access, known if same_files else _stamps(access.files)


def _stamps(files: tuple[str, ...]) -> object:
    return tuple(_stamp(file) for file in files)


def _stamp(file: str) -> tuple[int, int, int] | None:
    # follows links: a token of a ServiceAccount is rotated by another target of a link
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
