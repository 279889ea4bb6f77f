"""Fair share by user: a queue for each user of a workload, all with the same weight.

Rules:
  R1  a user is a namespace, as the tenant of a trace is one; a pod or a group that names a queue is
      in that instead;
  R2  the quotas order what waits, and limit nothing: the user with the smallest share is next. The
      root has a thousand times what the nodes offer, so shares of resources compare as those of the
      nodes do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangsched.events import NodeAdded, PodAdded, PodGroupAdded
from gangsched.options.quota import Quota
from gangsched.resources import NOTHING, Resources
from gangsched.simulation.workload import Arrival

__all__ = ["fair_quotas"]

_ROOT: Final = "everyone"
_TIMES: Final = 1_000


def fair_quotas(arrivals: Iterable[Arrival]) -> tuple[Quota, ...]:
    """Return the quotas of a fair share by user, for ``presets.gang(cluster, quotas=...)``.

    Runtime complexity: O(arrivals).

    Args:
        arrivals: What arrives in the run. Nodes that are added later count, too; users that do not
            arrive in it have no queue.
    """
    users: dict[str, set[str]] = {}
    offered = NOTHING
    for arrival in arrivals:
        event = arrival.event
        if isinstance(event, NodeAdded):
            offered += event.node.allocatable
        elif isinstance(event, PodAdded):
            pod = event.pod
            users.setdefault(pod.queue or pod.namespace, set()).add(pod.namespace)
        elif isinstance(event, PodGroupAdded) and event.group.queue is not None:
            users.setdefault(event.group.queue, set())
    namespaces = {name for name, there in users.items() if name in there}
    root = _ROOT
    while root in users:
        root += "-"
    amounts = {name: _TIMES * amount for name, amount in offered.items() if name != "pods"}
    own = [
        Quota(name=name, parent=root, namespaces=[name] * (name in namespaces), nominal={})
        for name in sorted(users)
    ]
    return (Quota(name=root, nominal=Resources.from_milli(amounts)), *own)
