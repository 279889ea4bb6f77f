"""The running scheduler and what it has read, as rows of gangs are made from it.

Rules:
  R1  nothing is changed, and no fork runs: each answer costs the members of one group at most;
  R2  a group without pods and without an object is only remembered. It has no row.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import final

from attrs import frozen

from gangsched.explain import PartlyRunning, Running, Why, in_utc
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._parents import groups_with_pods
from gangsched.kubernetes._what_helps import refusal, what_helps
from gangsched.listings import PendingRow
from gangsched.model import GroupKey, Pod
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.scheduler import Scheduler

__all__ = ["ObservedScheduler"]


@final
@frozen
class ObservedScheduler:
    """The running scheduler at one instant.

    Attributes:
        cache: The objects of the cluster.
        scheduler: The scheduler.
        now: The instant, in seconds since 1970.
    """

    cache: Cache
    scheduler: Scheduler
    now: float

    def members_of(self, key: GroupKey) -> list[Pod]:
        """Return the pods of a group, in the order of their names. O(members log members).

        Those of a group of groups are the pods of the groups below it.
        """
        registry = self.scheduler.registry
        infos = (registry.get(each) for each in groups_with_pods(registry, key))
        uids = (uid for info in infos if info is not None for uid in info.members)
        pods = (self.cache.cluster.pod(uid) for uid in uids)
        return sorted((pod for pod in pods if pod is not None), key=lambda pod: pod.key)

    def reason(self, why: Why, pods: Collection[Pod]) -> str:
        """Return why a group does not run; its pods may be released and not bound yet."""
        if not isinstance(why, Running):
            return in_utc(why)
        awaited = [pod for pod in pods if pod.node_name is None and not pod.is_finished]
        count = "1 member is" if len(awaited) == 1 else f"{len(awaited)} members are"
        problems = self.cache.bind_problems
        problem = next((problems[pod.uid] for pod in awaited if pod.uid in problems), "")
        return f"{count} being bound{f'; the API server says: {problem}' if problem else ''}"

    def has_ended(self, key: GroupKey) -> bool:
        """Return whether a group has neither pods nor an object, and is only remembered.

        A pod counts even if its labels are malformed.
        """
        if self.cache.malformed.of(key):
            return False
        info = self.scheduler.registry.get(key)
        is_empty = info is None or not len(info.members)
        return is_empty and self.cache.cluster.pod_group(key) is None

    def notes_of(self, key: GroupKey, why: Why | None) -> dict[str, str]:
        """Return what would help a group that is held, and what is reserved for another one."""
        found = dict[str, str]()
        helps = what_helps(self.cache, key, self.members_of(key), why)
        if not helps and refusal(why):
            helps = "more nodes do not; it is admitted when the reason above is gone"
        if helps:
            found["helps"] = helps
        why = why.rest or why if isinstance(why, PartlyRunning) else why
        reserved = self.scheduler.reservation
        if reserved is not None and why is not None and not isinstance(why, Running):
            found["reserved"] = reserved.in_utc()
            if reserved.group not in (None, key):
                found["reservedFor"] = reserved.group
        return found

    def age_of(self, row: PendingRow) -> float:
        """Return the age of a pod or a group; that of the row stops while nothing happens."""
        made: Pod | PodGroupInfo | None = None
        if row.group is not None:
            made = self.scheduler.registry.get(row.group)
        elif row.uid is not None:
            made = self.cache.cluster.pod(row.uid)
        return row.age if made is None else max(self.now - made.created_at, 0.0)
