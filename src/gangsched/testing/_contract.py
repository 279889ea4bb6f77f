"""The contract between the kit and an adapter of a scheduler under test.

Rules:
  R1  the adapter need not use gangsched: pods are ``PlainPod`` values, and a node is a name with
      capacities;
  R2  each call returns after the scheduler has made all decisions that follow from it; ``tick``
      makes all decisions that are due;
  R3  an adapter leaves out the methods of features that its scheduler lacks: the kit then draws
      no step that needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, final

from attrs import field, frozen
from attrs.validators import optional

from gangsched.errors import InvalidValueError
from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._plain_pod import PlainPod
from gangsched.values.fields import as_tuple, check_each, check_flag, check_positive, check_seconds

__all__ = [
    "PlainParent",
    "PlainPod",
    "SchedulerSpec",
    "SchedulerUnderTest",
    "SupportsBindReports",
    "SupportsDecisionCount",
    "SupportsDelayedEvents",
    "SupportsFamilies",
    "SupportsFeatures",
    "SupportsRestart",
    "SupportsSingleDecisions",
    "SupportsStop",
    "SupportsWaitingPods",
]


class SchedulerUnderTest(Protocol):
    """An adapter of a scheduler.

    A pod is *placed* once the scheduler has decided to start it on a node. It stays placed until
    ``cancel`` or ``bind_failed`` is called for it.
    """

    def add_node(self, name: str, capacity: Mapping[str, int]) -> object:
        """Add a node with its capacity in whole units, by resource.

        It may have the name of a node that was removed, and another capacity.
        """
        ...

    def remove_node(self, name: str) -> object:
        """Remove a node. The kit then calls ``cancel`` for each pod that was placed there."""
        ...

    def submit(self, pod: PlainPod) -> object:
        """Add a pending pod."""
        ...

    def cancel(self, uid: str) -> object:
        """Remove a pod, placed or pending, that has ended or was deleted."""
        ...

    def tick(self, seconds: float) -> object:
        """Let *seconds* >= 0 pass, and make all decisions that are due by then."""
        ...

    def placements(self) -> Mapping[str, str]:
        """Return the node of each placed pod: UID to node name."""
        ...


class SupportsWaitingPods(Protocol):
    """Optional: pods can hold a node while they wait for the rest of their gang."""

    def waiting_pods(self) -> Mapping[str, tuple[str, int]]:
        """Return the waiting pods: UID to the node's name and the number of the attempt.

        The number tells apart two attempts of one gang that follow each other within one call. If
        a rejected gang is never tried again within the same call, 0 is always right.
        """
        ...


class SupportsBindReports(Protocol):
    """Optional: the scheduler is notified whether a pod was bound.

    Until then the bind of a placed pod is in flight, and may fail.
    """

    def bind_succeeded(self, uid: str) -> object:
        """Report that a placed pod is bound."""
        ...

    def bind_failed(self, uid: str) -> object:
        """Report that a placed pod could not be bound: it is on no node, and pending again."""
        ...


class SupportsRestart(Protocol):
    """Optional: the scheduler can be rebuilt from nodes, pods and placements."""

    def restart(self) -> object:
        """Drop all state except nodes, pods and placements, as a new process would.

        Binds that are in flight succeed. Waiting pods give their nodes back.
        """
        ...


class SupportsStop(Protocol):
    """Optional: the scheduler saves its state, and another process restores it.

    While it is stopped, the kit calls ``add_node``, ``remove_node``, ``submit``, ``cancel`` and
    ``bind_succeeded``. The adapter changes nodes and pods, and the scheduler sees that at
    ``start``. Binds that are in flight stay so.
    """

    def stop(self) -> object:
        """End the process of the scheduler."""
        ...

    def start(self, seconds: float) -> object:
        """Start the scheduler *seconds* later: with its saved state, nodes and pods as of now."""
        ...


class SupportsDelayedEvents(Protocol):
    """Optional: the scheduler reads a cluster state that may be ahead of its events."""

    def delay_events(self, delayed: bool) -> object:
        """With True, hold events back from now on; with False, deliver all that were held back."""
        ...


class SupportsDecisionCount(Protocol):
    """Optional: the scheduler counts its decisions."""

    def decision_count(self) -> int:
        """Return the number of decisions about a pod or a gang since the start."""
        ...


class SupportsSingleDecisions(Protocol):
    """Optional: the scheduler makes one decision at a time, and takes events between two."""

    def schedule_one(self) -> object:
        """Make the next decision, if any, without letting time pass."""
        ...


class SupportsFeatures(Protocol):
    """Optional: the scheduler knows more than gangs, nodes and priorities.

    Attributes:
        features: Some of ``"roles"``, ``"topology"``, ``"bundles"``, ``"taints"``, ``"copies"``
            and ``"families"``. The kit draws pods and nodes with these features. See ``PlainPod``.
            With ``"families"`` the adapter has the methods of ``SupportsFamilies``, too.
    """

    features: Collection[str]

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        *,
        labels: Mapping[str, str],
        taints: Collection[str],
    ) -> object:
        """Add a node.

        If the last two have defaults, type checkers accept the method for
        ``SchedulerUnderTest``, too.

        Args:
            name: The node's name.
            capacity: Its capacity in whole units, by resource.
            labels: Its labels; passed only if the adapter declares ``topology``.
            taints: Its taints; passed only if the adapter declares ``taints``.
        """
        ...


class SupportsFamilies(Protocol):
    """The methods of an adapter that declares the feature ``"families"``: groups of groups.

    A parent may come after its children, and it may be changed or removed while they run: what has
    started goes on.
    """

    def put_parent(self, parent: PlainParent) -> object:
        """Add a parent, or replace the one with its name."""
        ...

    def remove_parent(self, name: str) -> object:
        """Remove a parent. No child that has not started starts before it is there again."""
        ...


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


@final
@frozen(kw_only=True)
class SchedulerSpec:
    """What the kit may expect of a scheduler: its timeouts, policies and resources.

    Attributes:
        permit_timeout: The longest time in seconds for which members of one attempt hold nodes
            while they wait for the others. Laws 5 and 6 use it.
        max_backoff: The longest time in seconds before a rejected gang or pod is tried again.
        min_backoff: The shortest time in seconds before a pod is placed again after its bind has
            failed. Law 5: a pod whose bind always fails must not keep the scheduler busy. Not
            checked for pods of a bundle or a family, which is tried when any of its gangs is.
        late_members_join: Whether a pod that is added to a gang with a placed quorum is placed
            by itself as soon as it fits.
        once_satisfied: Whether members of a gang that has started once may be placed one by one
            after all its placed members are gone. If False, the gang needs a quorum again.
        may_evict: Whether the scheduler may take a placed pod off its node by itself. None: if
            the adapter has an attribute ``may_evict`` that is True, as that of ``adapt`` has for a
            scheduler that preempts, or that evicts a gang whose bind has failed.
        resources: The resources that pods request and nodes offer. The default ``gpu`` is a name
            of its own: a plugin that reads ``nvidia.com/gpu`` sees none requested. Name what your
            plugins read.
        mixed_requests: Whether members of one gang may request different amounts.
        decisions_per_pod: The number of decisions per pod that one call of ``tick`` may make, in
            addition to 8 in all.
    """

    permit_timeout: float = field(default=10.0, validator=check_seconds)
    max_backoff: float = field(default=10.0, validator=check_seconds)
    min_backoff: float = field(default=0.0, validator=check_seconds)
    late_members_join: bool = field(default=True, validator=check_flag)
    once_satisfied: bool = field(default=False, validator=check_flag)
    may_evict: bool | None = field(default=None, validator=optional(check_flag))
    resources: tuple[str, ...] = field(
        default=("gpu",), converter=_names, validator=check_each(str, "a string")
    )
    mixed_requests: bool = field(default=False, validator=check_flag)
    decisions_per_pod: int = field(default=4, validator=check_positive)

    def __attrs_post_init__(self) -> None:
        if not self.resources:
            raise InvalidValueError("resources", self.resources, "non-empty")
        if self.min_backoff > self.max_backoff:
            expected = f"at most max_backoff ({self.max_backoff:g})"
            raise InvalidValueError("min_backoff", self.min_backoff, expected)

    @property
    def time_step(self) -> float:
        """The largest number of seconds that one call of ``tick`` lets pass."""
        return max(1.0, (self.permit_timeout + self.max_backoff) / 20)

    def max_wait(self, pending: int) -> float:
        """Return after how many seconds a gang or pod that fits must have started.

        Each of the *pending* gangs and pods may be tried twice before it, and a try lasts for one
        permit timeout and one backoff at most.
        """
        return (2 * pending + 2) * (self.permit_timeout + self.max_backoff) + 2.0
