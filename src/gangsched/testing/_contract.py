"""What a scheduler shows of itself to be held to the laws: plain data, and six small methods.

Rules:
  R1  nothing here asks that the scheduler use gangsched: see ``PlainPod``; a node is a name and
      what it offers;
  R2  a call returns when its consequences are decided; ``tick`` decides all that is due;
  R3  what a scheduler does not support it does not have: an optional method that is missing
      takes the steps that need it out of the stories, and so does a feature that is not declared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, final

from attrs import field, frozen

from gangsched._fields import as_tuple, check_each, check_flag, check_positive, check_seconds
from gangsched.errors import InvalidValueError
from gangsched.testing._plain import PlainPod

__all__ = [
    "CountsItsWork",
    "DecidesOneByOne",
    "HasFeatures",
    "HearsLate",
    "HoldsNodes",
    "PlainPod",
    "Restarts",
    "SchedulerUnderTest",
    "TakesReports",
    "Terms",
]


class SchedulerUnderTest(Protocol):
    """A scheduler behind an adapter.

    A pod is *placed* once the scheduler has decided to start it on a node: it stays there until it
    is cancelled, or its start fails (``bind_failed``).
    """

    def add_node(self, name: str, capacity: Mapping[str, int]) -> object:
        """Take in a node: what it offers in all, resource to whole units."""
        ...

    def remove_node(self, name: str) -> object:
        """Take in that a node is gone. The pods that were placed there are cancelled next."""
        ...

    def submit(self, pod: PlainPod) -> object:
        """Take in a pod."""
        ...

    def cancel(self, uid: str) -> object:
        """Take in that a pod is gone: it has ended, or was deleted, placed or not."""
        ...

    def tick(self, seconds: float) -> object:
        """Let time pass, 0 or more, and decide all that is to be decided by then."""
        ...

    def placements(self) -> Mapping[str, str]:
        """Return who is placed, and on which node: UID to name."""
        ...


class HoldsNodes(Protocol):
    """Optional: for schedulers whose pods hold nodes while they wait for others."""

    def held(self) -> Mapping[str, tuple[str, int]]:
        """Return who holds a node and waits: UID to the node's name, and which attempt it is.

        The number may be anything that differs between two attempts of one gang: that tells a
        hold from another that follows at once. 0 always will do where a gang that has let go is
        never tried again within the same call.
        """
        ...


class TakesReports(Protocol):
    """Optional: for schedulers that are told whether a pod that they placed has come to run.

    Until then its start is under way: it is placed, and may fail.
    """

    def bind_succeeded(self, uid: str) -> object:
        """Take in that a placed pod runs."""
        ...

    def bind_failed(self, uid: str) -> object:
        """Take in that a placed pod could not be started: it is on no node, and still wanted."""
        ...


class Restarts(Protocol):
    """Optional: for schedulers that can be rebuilt from what is there."""

    def restart(self) -> object:
        """Forget everything but nodes, pods and placements, as a new process would.

        A start that is under way comes to be; what was held is held no more.
        """
        ...


class HearsLate(Protocol):
    """Optional: for schedulers that read a state which may run ahead of what they are told."""

    def lag(self, late: bool) -> object:
        """With True, be told of facts late from now on; with False, be told of them all now."""
        ...


class CountsItsWork(Protocol):
    """Optional: for schedulers that can say how much they have done."""

    def work(self) -> int:
        """Return how many decisions about a pod or a gang were made in all."""
        ...


class DecidesOneByOne(Protocol):
    """Optional: for schedulers that make one decision after the other, and hear news between."""

    def decide_once(self) -> object:
        """Make the next decision, if there is one to make, and let no time pass."""
        ...


class HasFeatures(Protocol):
    """Optional: for schedulers that know of more than gangs, nodes and priorities.

    Attributes:
        features: Some of ``"roles"``, ``"topology"``, ``"bundles"``, ``"taints"``: of these the
            stories tell, too. See ``PlainPod``.
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
        """Take in a node.

        With defaults for the last two, a type checker takes it for a ``SchedulerUnderTest``.

        Args:
            name: Its name.
            capacity: What it offers.
            labels: Its labels; given only to who declares ``topology``.
            taints: What keeps pods away that do not tolerate it; given only to who declares
                ``taints``.
        """
        ...


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


@final
@frozen(kw_only=True)
class Terms:
    """What a scheduler promises, so that it can be held to it.

    Attributes:
        hold_timeout: For how many seconds members that hold nodes wait for the others at most,
            per attempt. Law 6 is measured with it, and law 5.
        rest: For how many seconds whoever failed rests before it is tried again, at most.
        rest_at_least: For how many seconds a pod whose start has failed is left alone at least:
            one that always fails must not keep the scheduler busy. Law 5. Not asked of bundles:
            they are tried when one of their gangs is.
        joins: Whether a pod that comes to a gang of which enough members are placed is placed
            by itself as soon as it fits.
        once: Whether a gang that has started may go on one by one when nobody of it is placed any
            more. Otherwise it has to start together again.
        evicts: Whether the scheduler may take a placed pod from its node on its own account.
        resources: The resources that pods ask for and nodes offer.
        unlike: Whether members of one gang may ask for different amounts.
        work_per_pod: How many decisions it may make for each pod in one call of ``tick``,
            beside 8 that are free.
    """

    hold_timeout: float = field(default=10.0, validator=check_seconds)
    rest: float = field(default=10.0, validator=check_seconds)
    rest_at_least: float = field(default=0.0, validator=check_seconds)
    joins: bool = field(default=True, validator=check_flag)
    once: bool = field(default=False, validator=check_flag)
    evicts: bool = field(default=False, validator=check_flag)
    resources: tuple[str, ...] = field(
        default=("gpu",), converter=_names, validator=check_each(str, "a string")
    )
    unlike: bool = field(default=False, validator=check_flag)
    work_per_pod: int = field(default=4, validator=check_positive)

    def __attrs_post_init__(self) -> None:
        if not self.resources:
            raise InvalidValueError("resources", self.resources, "non-empty")
        if self.rest_at_least > self.rest:
            expected = f"at most rest, which is {self.rest:g}"
            raise InvalidValueError("rest_at_least", self.rest_at_least, expected)

    @property
    def pace(self) -> float:
        """How many seconds pass in one call of ``tick`` at most."""
        return max(1.0, (self.hold_timeout + self.rest) / 20)

    def patience(self, pending: int) -> float:
        """Return for how many seconds something that fits may wait, of *pending* gangs and pods.

        Each may have two turns before it, and a turn takes a hold and a rest.
        """
        return (2 * pending + 2) * (self.hold_timeout + self.rest) + 2.0
