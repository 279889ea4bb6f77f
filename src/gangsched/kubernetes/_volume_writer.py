"""Writes the volumes that were chosen for the claims of pods, before the pods are bound.

Rules:
  R1  volumes of a pod are written one after the other, those that exist first, as kube-scheduler
      does. What was written is not taken back if a later one fails: the next attempt finds it;
  R2  an object is read before it is patched, and the patch names the version that was read. If it
      has changed meanwhile, it is read again. A choice that was written already, also by a request
      whose answer was lost, is done;
  R3  a request is given up after half a minute, so that no worker is stuck;
  R4  a choice is refused if the object is gone, the volume has another claim, or the claim has
      another volume or node.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar, final
from urllib.parse import quote

from gangsched.cluster_objects import PersistentVolume, PersistentVolumeClaim
from gangsched.errors import GangschedError
from gangsched.events import Bind, VolumeChoice
from gangsched.kubernetes._api import MERGE_PATCH
from gangsched.kubernetes._objects import WATCHED, ObjectDecoder
from gangsched.kubernetes._requests import Requests, said, to_json
from gangsched.kubernetes._volume_patches import node_selection, volume_binding
from gangsched.kubernetes._workers import run_workers

__all__ = ["VolumeRefusedError", "VolumeWriter"]

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

_LANE: Final = "volumes"
_LOOK: Final = 0.1
_PATIENCE: Final = 30.0
"""Seconds of pauses after which a request that the API server does not answer is given up."""
_TRIES: Final = 8
"""How often an object may change between reading and patching before its write is given up."""

_log = logging.getLogger("gangsched.kubernetes.volumes")


class VolumeRefusedError(GangschedError):
    """A choice of a volume cannot be written."""


@final
class VolumeWriter:
    """Queues binds, and writes their volumes.

    Args:
        requests: Sends requests.
        refused: Called with a bind whose volumes cannot be written, and the reason.
        may_write: Whether this replica leads.
        workers: How many binds are worked on at once.
    """

    def __init__(
        self,
        requests: Requests,
        refused: Callable[[Bind, str], object],
        may_write: Callable[[], bool] = lambda: True,
        *,
        workers: int = 4,
    ) -> None:
        self._requests = requests
        self._refused = refused
        self._may_write = may_write
        self._workers = workers
        self._waiting: deque[Bind] = deque()
        self._wake = asyncio.Event()
        self._decoders = {each.kind: ObjectDecoder(each) for each in WATCHED}

    def put(self, bind: Bind) -> None:
        """Queue a bind; its volumes are written soon."""
        self._waiting.append(bind)
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        await run_workers(self._workers, self._work)

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            bind = self._waiting.popleft()
            try:
                for choice in sorted(bind.volumes, key=lambda each: not each.volume):
                    await self._write(choice)
            except GangschedError as error:
                _log.warning("volumes of pod %s were not written: %s", bind.uid, error)
                self._refused(bind, str(error))

    async def _write(self, choice: VolumeChoice) -> None:
        for _try in range(_TRIES):
            while not self._may_write():
                await asyncio.sleep(_LOOK)
            claim, claim_version = await self._read(PersistentVolumeClaim, choice.claim)
            if choice.volume:
                volume, version = await self._read(PersistentVolume, choice.volume)
                if volume.claim == claim.key and volume.claim_uid == claim.uid:
                    return
                if volume.claim and not volume.is_for(claim):
                    raise VolumeRefusedError(f"volume {volume.name} is bound to {volume.claim}")
                if claim.volume not in ("", volume.name):
                    raise VolumeRefusedError(f"claim {claim.key} has the volume {claim.volume}")
                patch = volume_binding(volume, claim, version=version, claim_version=claim_version)
                path = _path(PersistentVolume, choice.volume)
            else:
                if claim.selected_node == choice.node or claim.volume:
                    return
                if claim.selected_node:
                    where = f"claim {claim.key} is provisioned for node {claim.selected_node}"
                    raise VolumeRefusedError(where)
                patch = node_selection(choice, version=claim_version)
                path = _path(PersistentVolumeClaim, choice.claim)
            if await self._patched(path, patch):
                return
        changed = f"it or its volume changed during all {_TRIES} writes"
        raise VolumeRefusedError(f"gave up on claim {choice.claim}: {changed}")

    async def _read(self, kind: type[T], key: str) -> tuple[T, str]:
        """Return an object as it is now, and its version."""
        response = await self._requests.send(
            "GET", _path(kind, key), lane=_LANE, patience=_PATIENCE
        )
        if response.status >= 300:
            raise VolumeRefusedError(f"{kind.__name__} {key} cannot be read: {said(response)}")
        facts = self._decoders[kind.__name__](response.body)
        value = facts.value
        assert isinstance(value, kind)
        return value, facts.identity.resource_version

    async def _patched(self, path: str, patch: dict[str, Any]) -> bool:
        """Patch an object; return False if it has changed meanwhile."""
        response = await self._requests.send(
            "PATCH",
            path,
            body=to_json(patch),
            content_type=MERGE_PATCH,
            lane=_LANE,
            patience=_PATIENCE,
        )
        if response.status == 409:
            return False
        if response.status >= 300:
            raise VolumeRefusedError(f"PATCH {path}: {said(response)}")
        return True


def _path(kind: type[PersistentVolume | PersistentVolumeClaim], key: str) -> str:
    namespace, _slash, name = key.rpartition("/")
    if kind is PersistentVolume:
        return f"/api/v1/persistentvolumes/{quote(name, safe='')}"
    of = quote(namespace, safe="")
    return f"/api/v1/namespaces/{of}/persistentvolumeclaims/{quote(name, safe='')}"
