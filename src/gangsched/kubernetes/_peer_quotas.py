"""Quotas that objects of another project state on the API server.

Rules:
  R1  an API that is not served, or has no objects, states no quotas, so that all pods that name a
      queue are held;
  R2  if they change, the scheduler goes on with others: see ``Scheduler.set_quotas``. It takes them
      when it reads the cluster state anew, since a queue of the other project may lead elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, final

from gangsched.drivers._contract import DrivenScheduler
from gangsched.events import Effect
from gangsched.kubernetes._api import Api
from gangsched.kubernetes._forwarded import ForwardedCalls
from gangsched.kubernetes._peer_objects import list_at, list_objects
from gangsched.manifests import Field
from gangsched.manifests.peer_levels import PeerApi
from gangsched.manifests.peer_quotas import CONFIG_MAPS, QUOTA_PEERS, PeerQuotas, read_quotas
from gangsched.manifests.scalars import Value
from gangsched.options.quota import Quota

__all__ = ["QuotaScheduler", "ReplacedQuotas", "list_quotas"]


class QuotaScheduler(DrivenScheduler, Protocol):
    """A scheduler whose quotas can be replaced."""

    def set_quotas(self, quotas: Iterable[Quota], *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.set_quotas``."""
        ...


@final
class ReplacedQuotas(ForwardedCalls):
    """The calls of a scheduler, which takes other quotas when it is rebuilt.

    Args:
        scheduler: The scheduler.

    Attributes:
        next: The quotas that it takes with the next call of ``rebuild``; None for those it has.
    """

    __slots__ = ("_scheduler", "next")

    def __init__(self, scheduler: QuotaScheduler) -> None:
        super().__init__(scheduler)
        self._scheduler: Final = scheduler
        self.next: tuple[Quota, ...] | None = None

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        """See ``Scheduler.rebuild``, and ``Scheduler.set_quotas`` if there are other quotas."""
        quotas, self.next = self.next, None
        if quotas is None:
            return self._scheduler.rebuild(now=now)
        return self._scheduler.set_quotas(quotas, now=now)


async def list_quotas(api: Api, peer: str) -> PeerQuotas:
    """Return the quotas of a project.

    Args:
        api: The API server.
        peer: A key of ``QUOTA_PEERS``.

    Raises:
        ConnectionLost: There is no answer.
        DiscoveryFailed: An answer is neither a success nor 404.
        UnexpectedAnswer: An answer is not of the expected form.
        ManifestError: An object is malformed.
    """
    objects: list[Field] = []
    for at in QUOTA_PEERS[peer]:
        objects += await _list(api, at)
    return read_quotas(peer, objects, _read_text)


def _read_text(text: str, file: str) -> Value:
    # not before: most schedulers read no YAML but their configuration
    from gangsched.simulation.documents import read_one_document

    return read_one_document(text, file)


async def _list(api: Api, at: PeerApi) -> list[Field]:
    path = f"/api/v1/{at.plural}"
    if at.kind == "ConfigMap":  # the right is to list those of a name, and no others
        named = [f"{path}?fieldSelector=metadata.name%3D{name}" for name in CONFIG_MAPS]
        found = [each for query in named for each in await list_at(api, query, at) or ()]
        return [each for each in found if each["metadata"]["name"].text() in CONFIG_MAPS]
    return await list_objects(api, at) if at.group else await list_at(api, path, at) or []
