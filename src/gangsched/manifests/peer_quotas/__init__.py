"""Quotas that are stated by objects of another project, which may run beside this scheduler.

Rules:
  R1  they are read only if the configuration says so: the other project may count, too;
  R2  a queue that cannot be had here as its project means it does not exist here, so the scheduler
      holds its pods. What else has no meaning here gives a note;
  R3  there is always a queue, so that a queue that does not exist holds the pods that name it.

Each project has a module that reads its objects; ``named`` says which queue a pod names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, final

from attrs import evolve, field, frozen

from gangsched.manifests.fields import Field
from gangsched.manifests.peer_levels import PeerApi
from gangsched.manifests.peer_quotas._draft import Drafts
from gangsched.manifests.peer_quotas.kai import read_kai
from gangsched.manifests.peer_quotas.koordinator import read_koordinator
from gangsched.manifests.peer_quotas.kueue import read_kueue
from gangsched.manifests.peer_quotas.named import DEFAULT_OF_VOLCANO, default_queue, named_queue
from gangsched.manifests.peer_quotas.volcano import read_volcano
from gangsched.manifests.peer_quotas.yunikorn import CONFIG_MAPS, ReadText, read_yunikorn
from gangsched.model import Pod, PodGroup
from gangsched.model._pod_copy import pod_with_fields
from gangsched.options.quota import Quota

__all__ = ["CONFIG_MAPS", "QUOTA_PEERS", "PeerQuotas", "is_quota_object", "read_quotas"]

_NAMESPACES: Final = PeerApi("", "Namespace", "namespaces")
_CONFIG_MAPS: Final = PeerApi("", "ConfigMap", "configmaps")

QUOTA_PEERS: Final[Mapping[str, tuple[PeerApi, ...]]] = {
    "kueue": (
        PeerApi("kueue.x-k8s.io", "Cohort", "cohorts"),
        PeerApi("kueue.x-k8s.io", "ClusterQueue", "clusterqueues"),
        PeerApi("kueue.x-k8s.io", "LocalQueue", "localqueues"),
        _NAMESPACES,
    ),
    "kai": (PeerApi("scheduling.run.ai", "Queue", "queues"),),
    "volcano": (PeerApi("scheduling.volcano.sh", "Queue", "queues"),),
    "yunikorn": (_CONFIG_MAPS,),
    "koordinator": (PeerApi("scheduling.sigs.k8s.io", "ElasticQuota", "elasticquotas"),),
}
"""The objects that state the quotas of each project, by the word of the configuration."""

_Reader = Callable[[Iterable[Field]], Drafts]
_READERS: Final[Mapping[str, _Reader]] = {
    "kai": read_kai,
    "volcano": read_volcano,
    "koordinator": read_koordinator,
}


@final
@frozen
class PeerQuotas:
    """The quotas of a project, and which of them a pod is in.

    Attributes:
        peer: A key of ``QUOTA_PEERS``; empty for none.
        quotas: The quotas.
        leads: The quota that a local queue of Kueue leads to, by namespace and name.
        notes: Sentences about what has no meaning here.
        held: By the name of a queue that does not exist here though its project has it, why.
    """

    peer: str = ""
    quotas: tuple[Quota, ...] = ()
    leads: Mapping[str, str] = field(factory=dict[str, str])
    notes: tuple[str, ...] = ()
    held: Mapping[str, str] = field(factory=dict[str, str])
    _names: frozenset[str] = field(init=False, repr=False, eq=False)
    _namespaces: frozenset[str] = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # each pod is looked up in these sets
        set_field = object.__setattr__
        set_field(self, "_names", frozenset(each.name for each in self.quotas))
        namespaces = (name for each in self.quotas for name in each.namespaces)
        set_field(self, "_namespaces", frozenset(namespaces))

    def queued(self, pod: Pod, owner: Field | None = None) -> Pod:
        """Return a pod with the queue that it names in the spelling of the project. O(1).

        Args:
            pod: The pod; a queue that it names by the label of this library stays.
            owner: The metadata of the object that the pod is made of. Its queue counts if the pod
                names none, as the controllers of the project have it.
        """
        if not self.peer or pod.queue is not None:
            return pod
        name = named_queue(self.peer, pod.namespace, pod.labels, pod.annotations)
        if name is None and owner is not None:
            labels, annotations = owner["labels"].texts(), owner["annotations"].texts()
            name = named_queue(self.peer, pod.namespace, labels, annotations)
        if name is None and pod.namespace not in self._namespaces:
            default = default_queue(self.peer, pod.namespace)
            name = default if default in self._names or default in self.leads else None
        name = self._known(name)
        return pod if name is None else pod_with_fields(pod, queue=name)

    def queued_group(self, group: PodGroup) -> PodGroup:
        """Return a pod group in the quota that its queue leads to. O(1)."""
        name = self._known(group.queue) if self.peer else group.queue
        return group if name == group.queue else evolve(group, queue=name)

    def _known(self, name: str | None) -> str | None:
        if self.peer == "volcano" and name == DEFAULT_OF_VOLCANO and name not in self._names:
            return None  # the default of its API, which names no queue if none has the name
        return None if name is None else self.leads.get(name, name)


def read_quotas(peer: str, objects: Iterable[Field], read_text: ReadText) -> PeerQuotas:
    """Return the quotas that objects of a project state.

    Args:
        peer: A key of ``QUOTA_PEERS``.
        objects: The documents of its kinds.
        read_text: Returns the value of a YAML text, which an object may have as a string; its
            second argument names the text for errors.

    Raises:
        ManifestError: A field is malformed.
    """
    leads: dict[str, str] = {}
    if peer == "kueue":
        drafts, leads = read_kueue(objects)
    elif peer == "yunikorn":
        drafts = read_yunikorn(objects, read_text)
    else:
        drafts = _READERS[peer](objects)
    quotas = drafts.quotas()
    if not any(quota.is_queue for quota in quotas):
        quotas = (*quotas, Quota(name=f"{peer}:none", nominal={}))
    return PeerQuotas(peer, quotas, leads, tuple(drafts.notes), drafts.held)


def is_quota_object(peer: str, group: str, kind: str, name: str) -> bool:
    """Return whether an object may state quotas of a project.

    Args:
        peer: A key of ``QUOTA_PEERS``; empty for none.
        group: The API group of the object; empty for that of pods.
        kind: Its kind.
        name: Its name.
    """
    if kind == _CONFIG_MAPS.kind and name not in CONFIG_MAPS:
        return False
    return any((group, kind) == (api.group, api.kind) for api in QUOTA_PEERS.get(peer, ()))
