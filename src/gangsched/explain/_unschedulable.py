"""Why a member of a gang found no node: what nodes say of it, and what is known of all together.

Rules:
  R1  a count is a bound that was proved, or the sentence says that it is none;
  R2  a search that was given up proves nothing, and its sentence says so.
"""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.model import GroupKey, PodUID
from gangsched.resources import Resources

__all__ = ["Diagnosis", "SearchBudgetExhausted", "Shortage", "UnschedulableMember"]


@final
@frozen
class Diagnosis:
    """Why no node can take a pod, in kube-scheduler's words.

    Attributes:
        nodes: The number of nodes.
        reasons: Each reason with the number of nodes that gave it. A node may give several.
        refusal: Why ``pre_filter`` refused the pod before any node was looked at; empty if it did
            not. Then there are no *reasons*.
    """

    nodes: int
    reasons: tuple[tuple[str, int], ...]
    refusal: str = ""

    def __str__(self) -> str:
        """``0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint(s).``"""
        if not self.nodes:
            return "no nodes available to schedule pods"
        counts = self.refusal or ", ".join(f"{count} {reason}" for reason, count in self.reasons)
        return f"0/{self.nodes} nodes are available: {counts}."


@final
@frozen
class Shortage:
    """A proof that not enough members of a gang fit at once, wherever they are put.

    Attributes:
        needed: The number of members that have to fit.
        fits: An upper bound on the number of members that fit.
        exact: Whether that many do fit; otherwise it is only known that no more do.
        role: The role whose minimum cannot be met; empty for the gang as a whole.
        resource: The scarce resource: the members would fit if it alone were unlimited. None if
            there is no such resource, or none was found within the search budget.
        in_pieces: Whether the nodes that the members may use have enough of the resource in total,
            in pieces too small.
        within: For a gang with a required topology, the label and the value where most members
            fit, such as ``rack=r1``; otherwise empty.
        group: In a bundle, the group whose minimum cannot be met; None for a single group.
        beside_others: Whether *fits* counts what fits while the other roles or groups have their
            minima. Otherwise no more would fit without them.
        copy_requests: For a role that consists of copies, what one copy requests, empty if they are
            unlike; then *needed* and *fits* count copies. Without a role, they are the children of
            a group of groups. None if they count members.
        each_within: The label of which each of these copies needs one value; empty for none.
        of_slices: Whether it counts slices of members instead of copies.
        apart: The label of which no two of these members or copies share a value; empty for none.
    """

    needed: int
    fits: int
    exact: bool
    role: str = ""
    resource: str | None = None
    in_pieces: bool = False
    within: str = ""
    group: GroupKey | None = None
    beside_others: bool = False
    copy_requests: Resources | None = None
    each_within: str = ""
    of_slices: bool = False
    apart: str = ""

    @property
    def is_of_copies(self) -> bool:
        """Whether it counts copies of a role."""
        return self.copy_requests is not None

    def __str__(self) -> str:
        """``at most 5 of 8 members fit: nvidia.com/gpu is short``

        A bound that is not exact is not written as a count: fewer may fit.
        """
        whose = f" of role {self.role}" if self.role else ""
        whose += f" of pod group {self.group}" if self.group else ""
        bound = f"at most {self.fits}"
        if not self.exact:
            bound = "not all" if self.fits == self.needed - 1 else f"{self.fits} or fewer"
            bound = bound if self.fits else "none"
        where = f" within {self.within}" if self.within else ""
        if self.copy_requests is not None:
            requests = self.copy_requests
            amounts = " and ".join(f"{requests.quantity(name)} {name}" for name in requests)
            one = f" within one {self.each_within}" if self.each_within else ""
            if self.apart:
                is_same = self.apart == self.each_within
                one += " of its own" if is_same else f", no two in one {self.apart}"
            each = f": each needs {amounts}" if amounts else ": each" * bool(one)
            what = "slices" if self.of_slices else "copies" if self.role else "children"
            return f"{bound} of {self.needed} {what}{whose} fit{where}{each}{one}"
        if self.beside_others:
            others = (
                "other groups" if self.group else "other roles" if self.role else "roles' minima"
            )
            where += f" beside the {others}"
        what = f"{bound} of {self.needed} members{whose} fit{where}"
        if self.apart:
            return f"{what}, no two in one {self.apart}"
        if self.resource is None:
            return f"{what} at once"
        return (
            f"{what}: {self.resource} is {'free in pieces too small' * self.in_pieces or 'short'}"
        )


@final
@frozen
class SearchBudgetExhausted:
    """The search for a placement used up its budget: a placement may exist.

    Attributes:
        needed: The number of members that have to fit.
        placed: The largest number of members that the search placed.
        steps: The number of steps of the search.
    """

    needed: int
    placed: int
    steps: int

    def __str__(self) -> str:
        placed = f"{min(self.placed, self.needed)} of {self.needed} members fit, and more may"
        if not self.placed:
            placed = f"whether {self.needed} members fit is not known"
        return f"the search for a placement was given up after {self.steps} steps: {placed}"


@final
@frozen
class UnschedulableMember:
    """A member of a failed attempt that found no node.

    Attributes:
        uid: The member.
        pod: Its ``namespace/name``.
        reason: Why, in words.
        diagnosis: The number of nodes by reason; None if no node was to blame.
        proof: For a gang that was tried as a whole, what is known of its members together.
        victim_steps: The steps of a search for victims that was cut short by its budget and found
            none: there may be some. 0 if it was not.
        group: Its group, if several groups were tried together and the question is about another
            one; otherwise None.
    """

    uid: PodUID
    pod: str
    reason: str
    diagnosis: Diagnosis | None
    proof: Shortage | SearchBudgetExhausted | None = None
    victim_steps: int = 0
    group: GroupKey | None = None

    def __str__(self) -> str:
        whose = f" of pod group {self.group}" if self.group else ""
        what = f"pod {self.pod}{whose} does not fit: {self.reason}"
        if not self.victim_steps:
            return what
        return f"{what}; no victims were found within {self.victim_steps} steps, and some may exist"
