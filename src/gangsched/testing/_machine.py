"""A Hypothesis state machine that draws steps, runs them on a scheduler, and checks the laws.

Rules:
  R1  each drawn step is possible: a choice among pods or nodes is drawn as a number, and taken
      modulo their count;
  R2  the members of one gang agree on all fields of the gang. Without ``mixed_requests`` they
      have equal requests, too;
  R3  most test cases use one feature or none, so that they shrink well. Drawn features that a
      test case does not use are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from gangsched.errors import InvalidValueError
from gangsched.testing._contract import PlainPod, SchedulerSpec, SchedulerUnderTest
from gangsched.testing._plain_pod import drop_undeclared
from gangsched.testing._runner import StepRunner
from gangsched.testing._shrink import shrink
from gangsched.testing._steps import (
    AddNode,
    BindFails,
    BindSucceeds,
    CancelPods,
    DelayEvents,
    DeliverEvents,
    PutParent,
    RemoveNode,
    RemoveParent,
    Restart,
    ScheduleOne,
    Settle,
    Start,
    Stop,
    SubmitPods,
    Tick,
)
from gangsched.testing._violation import LawViolation

try:
    from hypothesis import HealthCheck, Phase, errors, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import (
        RuleBasedStateMachine,
        initialize,
        precondition,
        rule,
        run_state_machine_as_test,
    )
except ModuleNotFoundError as error:  # the message names the extra to install
    raise ModuleNotFoundError(
        "GangSchedulingMachine needs hypothesis: pip install 'gangsched[testing]'",
        name="hypothesis",
    ) from error

from gangsched.testing._draws import (  # imports hypothesis, too
    AMOUNTS,
    CROWDS,
    FAMILIES,
    FEATURE_SETS,
    NODE_TEMPLATES,
    SIZES,
    TOO_LARGE,
    Family,
    GangTemplate,
    NodeTemplate,
    alone,
    bundles,
    feature_set,
    gang_templates,
    interleaved,
)

__all__ = ["GangSchedulingMachine", "run"]

_Members = list[tuple[int, str | None]]

_GANGS = 3
_NODES = 4
_PODS = 12

_SUPPRESSED = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
)
_index = st.integers(0, 11)
_DURATIONS = st.sampled_from(
    ["nothing", "nothing", "a second", "the permit timeout", "the backoff"]
)
_gang_index = st.integers(0, _GANGS - 1)


class GangSchedulingMachine(RuleBasedStateMachine):
    """Check a scheduler against the laws of gang scheduling, over drawn test cases.

    For a test runner that supports ``unittest``::

        TestMine = GangSchedulingMachine.for_(make).TestCase

    Or derive from it, and define ``make`` and ``spec``.

    Attributes:
        spec: What the kit may expect of the scheduler.
    """

    spec: SchedulerSpec = SchedulerSpec()

    @staticmethod
    def make() -> SchedulerUnderTest:
        """Return a fresh adapter."""
        raise InvalidValueError("make", None, "set: use GangSchedulingMachine.for_(make)")

    @classmethod
    def for_(
        cls, make: Callable[[], SchedulerUnderTest], *, spec: SchedulerSpec | None = None
    ) -> type[GangSchedulingMachine]:
        """Return the state machine for one scheduler.

        Args:
            make: Returns a fresh adapter; see ``SchedulerUnderTest``.
            spec: What the kit may expect of the scheduler; by default a plain
                ``SchedulerSpec``.
        """
        body = {"make": staticmethod(make), "spec": spec or SchedulerSpec()}
        return type("GangSchedulingMachine", (cls,), body)

    def __init__(self) -> None:
        super().__init__()
        self.runner: StepRunner = StepRunner(self.make, self.spec)
        self._features = frozenset[str]()
        self._gangs: list[GangTemplate] = []
        self._bundles: list[tuple[int, ...]] = []
        self._family = Family()
        self._removed: list[str] = []
        self._pods = self._nodes = self._full = self._blocked = 0

    # Rules ------------------------------------------------------------------------

    @initialize(
        gangs=gang_templates(_GANGS),
        nodes=st.lists(st.tuples(SIZES, NODE_TEMPLATES), min_size=1, max_size=2),
        features=FEATURE_SETS,
        full=CROWDS,
        blocked=CROWDS,
        family=FAMILIES,
        late=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def begin(
        self,
        gangs: list[GangTemplate],
        nodes: list[tuple[int, NodeTemplate]],
        features: int,
        full: int,
        blocked: int,
        family: Family,
        late: int,
    ) -> None:
        """Choose the features of the test case and the templates of its gangs, and add nodes.

        The first *late* parents are not there yet.
        """
        self._features = feature_set(features, self.runner.features)
        self._family = family if "families" in self._features else Family()
        self._gangs, self._bundles = gangs, bundles(gangs, self._features, self._family)
        self._full, self._blocked = full, blocked
        for size, template in [(0, NodeTemplate())] * full + nodes:
            self._add_node(size, size, template)
        for name in range(blocked):
            self._submit([(None, None)], name, [TOO_LARGE])
        for parent in self._family.parents[late:]:
            self.runner.run(PutParent(parent))

    @precondition(lambda self: len(self.runner.observer.nodes) < _NODES + self._full)
    @rule(first=SIZES, others=SIZES, template=NODE_TEMPLATES, is_new=st.booleans())
    def add_node(self, first: int, others: int, template: NodeTemplate, is_new: bool) -> None:
        """Add a node, perhaps under the name of one that was removed."""
        known = [name for name in self._removed if self.runner.observer.can_add_node(name)]
        name = known[-1] if known and not is_new else None
        self._add_node(first, others, template, name)

    @precondition(lambda self: self.runner.observer.nodes)
    @rule(index=_index, size=SIZES, template=NODE_TEMPLATES, comes_back=st.booleans())
    def remove_node(self, index: int, size: int, template: NodeTemplate, comes_back: bool) -> None:
        """Remove a node, which may come back at once with another capacity."""
        names = list(self.runner.observer.nodes)
        name = names[index % len(names)]
        self.runner.run(RemoveNode(name))
        self._removed.append(name)
        if comes_back and self.runner.observer.can_add_node(name):
            self._add_node(size, size, template, name)

    @precondition(lambda self: len(self.runner.observer.pods) < _PODS + self._blocked)
    @rule(gang=_gang_index, spare=st.sampled_from([0, 0, 0, 1, -1]), name=_index)
    def submit_quorum(self, gang: int, spare: int, name: int) -> None:
        """Submit a quorum of a gang, one member more or less, and quorums of its bundle."""
        quorums = self._quorum(gang, name, spare)
        for other in self._bundles[gang]:
            quorums += self._quorum(other, name) if other != gang else []
        self._submit(quorums, name)

    @precondition(
        lambda self: self._family.parents and len(self.runner.observer.pods) < _PODS + self._blocked
    )
    @rule(spares=st.lists(st.sampled_from([0, 1, -1]), min_size=_GANGS, max_size=_GANGS))
    def submit_family(self, spares: list[int]) -> None:
        """Submit a quorum of each gang of a family, one member more or less."""
        gangs = self._family.gangs()
        self._submit([each for n in gangs for each in self._quorum(n, n, spares[n])], 0)

    @precondition(lambda self: len(self.runner.observer.pods) < _PODS + self._blocked)
    @rule(
        gangs=st.lists(st.sampled_from([0, 1, 0, 1, 2, None]), min_size=1, max_size=4),
        amounts=st.lists(AMOUNTS, min_size=4, max_size=4),
        name=_index,
    )
    def submit_pods(self, gangs: list[int | None], amounts: list[int], name: int) -> None:
        """Submit pods of any gang or none."""
        members = [
            (gang, None if gang is None else self._gangs[gang].role(name + n, self._features))
            for n, gang in enumerate(gangs)
        ]
        self._submit(members, name, amounts)

    @precondition(lambda self: len(self.runner.observer.pods) < _PODS + self._blocked)
    @rule(first=_gang_index, second=_gang_index, name=_index, mixed=st.booleans())
    def submit_two_quorums(self, first: int, second: int, name: int, mixed: bool) -> None:
        """Submit quorums of two gangs at one instant, one after the other or interleaved."""
        quorums = [self._quorum(gang, name) for gang in dict.fromkeys((first, second))]
        self._submit(interleaved(quorums) if mixed else [m for each in quorums for m in each], name)

    @precondition(lambda self: self._family.parents)
    @rule(index=_index, least=st.sampled_from([0, 0, 1, 2, 3]))
    def put_parent(self, index: int, least: int) -> None:
        """Add a parent, or change how many children it needs; 0 for what it needs at first."""
        parents = self._family.parents
        parent = parents[index % len(parents)]
        self.runner.run(PutParent(evolve(parent, min_groups=least or parent.min_groups)))

    @precondition(lambda self: self.runner.observer.parents)
    @rule(index=_index)
    def remove_parent(self, index: int) -> None:
        """Remove a parent."""
        names = list(self.runner.observer.parents)
        self.runner.run(RemoveParent(names[index % len(names)]))

    @precondition(lambda self: self.runner.observer.pods)
    @rule(index=_index, together=st.booleans())
    def cancel_pods(self, index: int, together: bool) -> None:
        """Cancel a pod, or all placed members of its gang."""
        observer = self.runner.observer
        uids = list(observer.pods)
        uid = uids[index % len(uids)]
        group = observer.pods[uid].group
        if group is not None and together:
            uids = [each for each in observer.members(group) if each in observer.placed]
        self.runner.run(CancelPods(tuple(uids) if group is not None and together else (uid,)))

    @precondition(lambda self: self.runner.observer.waiting and not self.runner.is_stopped)
    @rule(index=_index)
    def cancel_waiting_pod(self, index: int) -> None:
        """Cancel a pod that holds a node while it waits for the rest of its gang."""
        uids = list(self.runner.observer.waiting)
        self.runner.run(CancelPods((uids[index % len(uids)],)))

    @precondition(lambda self: not self.runner.is_stopped)
    @rule(of=_DURATIONS)
    def tick(self, of: str) -> None:
        """Let time pass."""
        self.runner.run(Tick(self._seconds(of)))

    @precondition(lambda self: not self.runner.is_stopped and self.runner.can("stop", "start"))
    @rule()
    def stop(self) -> None:
        """Stop the scheduler."""
        self.runner.run(Stop())

    @precondition(lambda self: self.runner.is_stopped)
    @rule(of=_DURATIONS)
    def start(self, of: str) -> None:
        """Start the scheduler again."""
        self.runner.run(Start(self._seconds(of)))

    @precondition(lambda self: not self.runner.is_stopped and self.runner.can("schedule_one"))
    @rule()
    def schedule_one(self) -> None:
        """Make one decision."""
        self.runner.run(ScheduleOne())

    @rule()
    def settle(self) -> None:
        """Let time pass until nothing that fits is pending."""
        self.runner.run(Settle())

    @precondition(lambda self: self.runner.in_flight and self.runner.can("bind_succeeded"))
    @rule(index=_index)
    def bind_succeeds(self, index: int) -> None:
        """Report that a placed pod is bound."""
        self.runner.run(BindSucceeds(self._in_flight(index)))

    @precondition(
        lambda self: (
            not self.runner.is_stopped and self.runner.in_flight and self.runner.can("bind_failed")
        )
    )
    @rule(index=_index)
    def bind_fails(self, index: int) -> None:
        """Report that the bind of a placed pod failed."""
        self.runner.run(BindFails(self._in_flight(index)))

    @precondition(lambda self: not self.runner.is_stopped and self.runner.can("restart"))
    @rule()
    def restart(self) -> None:
        """Restart the scheduler."""
        self.runner.run(Restart())

    @precondition(lambda self: not self.runner.is_stopped and self.runner.can("delay_events"))
    @rule()
    def delay_events(self) -> None:
        """Hold events back from now on, or deliver all that were held back."""
        self.runner.run(DeliverEvents() if self.runner.observer.is_delayed else DelayEvents())

    def teardown(self) -> None:
        """Run the pods to their end, unless a law is broken already."""
        if not self.runner.has_failed and self.runner.steps:
            self.runner.finish()

    # Inside ---------------------------------------------------------------------------------

    def _seconds(self, of: str) -> float:
        """Return a duration that the spec names."""
        known = {"nothing": 0.0, "a second": 1.0, "the permit timeout": self.spec.permit_timeout}
        return known.get(of, self.spec.max_backoff)

    def _add_node(
        self, first: int, others: int, template: NodeTemplate, name: str | None = None
    ) -> None:
        if name is None:
            self._nodes += 1
            name = f"n{self._nodes}"
        amounts = [first] + [others] * (len(self.spec.resources) - 1)
        capacity = dict(zip(self.spec.resources, amounts, strict=True))
        features = self._features
        labels = template.labels if "topology" in features else dict[str, str]()
        taints = template.taints if "taints" in features else ()
        self.runner.run(AddNode(name, capacity, labels, taints))

    def _in_flight(self, index: int) -> str:
        uids = list(self.runner.in_flight)
        return uids[index % len(uids)]

    def _quorum(self, gang: int, first: int, spare: int = 0) -> _Members:
        """Return a quorum of a gang and *spare* further members, with their roles."""
        template = self._gangs[gang]
        count = max(1, template.minimum_for(self._features) + spare)
        return [(gang, role) for role in template.quorum(count, first, self._features)]

    def _submit(
        self,
        members: Sequence[tuple[int | None, str | None]],
        name: int,
        amounts: Sequence[int] | None = None,
    ) -> None:
        pods = list[PlainPod]()
        for n, (gang, role) in enumerate(members):
            self._pods += 1
            amount = 1 if amounts is None else amounts[n]
            if gang is not None and (not self.spec.mixed_requests or (role and amounts is None)):
                amount = self._gangs[gang].amount
            asked = dict.fromkeys(self.spec.resources, amount)
            if gang is None:
                pod = alone(self._pods, name + n, asked)
            else:
                pod = self._gangs[gang].pod(
                    self._pods,
                    gang,
                    name=name + n,
                    amounts=asked,
                    role=role,
                    bundle=self._bundles[gang],
                    parent=self._family.parent(gang),
                    features=self._features,
                )
            pods.append(drop_undeclared(pod, self._features))
        self.runner.run(SubmitPods(tuple(pods)))


def run(make: Callable[[], SchedulerUnderTest], spec: SchedulerSpec, given: Any) -> None:
    """Run the state machine, and shrink the steps of a violation.

    Args:
        make: Returns a fresh adapter.
        spec: What the kit may expect of the scheduler.
        given: The settings of Hypothesis; None for those of the loaded profile.

    Raises:
        LawViolation: The scheduler breaks a law.
        AssertionError: The same steps had two outcomes: law 9.
    """
    base: settings = given if given is not None else settings()
    left_out = (Phase.shrink, Phase.explain)  # see _shrink: that is faster and shrinks further
    changed = settings(
        parent=base,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=[phase for phase in base.phases if phase not in left_out],
        suppress_health_check=_SUPPRESSED,
    )
    try:
        run_state_machine_as_test(GangSchedulingMachine.for_(make, spec=spec), settings=changed)
    except LawViolation as found:
        violation = shrink(make, found, spec)
        raise violation from violation.__cause__
    except errors.Flaky as flaky:
        what = "look for a clock, randomness, or the order of a set in the scheduler or its adapter"
        raise AssertionError(f"law 9: the same steps had two outcomes; {what}: {flaky}") from flaky
