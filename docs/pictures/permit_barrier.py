"""Three of four at Permit, then four: a gang that waits for its last member.

Rules:
  R1  the states are recorded from a scheduler that runs: what its effects and its cluster show
      at two instants;
  R2  the picture is at most 400 pixels wide, so that its text can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, evolve, field, frozen

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodPhase,
    PodUpdated,
    PodWaiting,
    Scheduler,
    gang,
    presets,
)
from pictures.svg import FAINT, INK, Picture

__all__ = ["Instant", "instants", "permit_barrier"]

NODES: Final = ("node-0", "node-1")
SLOTS: Final = 2
"""The number of pods that a node takes."""
OTHER, JOB, MEMBERS = "other", "job-a", 4

FREE, WAITS, RUNS, ELSE = "#ffffff", "#fdf1c9", "#cfe8d5", "#e1e5ea"
WIDTH, LEFT, SLOT, BOX = 400.0, 16.0, 84.0, 34.0


@frozen
class Instant:
    """What is on the nodes at one instant.

    Attributes:
        title: The instant, in words.
        waiting: The node of each pod that waits on permit.
        bound: The node of each pod that is bound and has not finished.
        pending: The pods without a node.
    """

    title: str
    waiting: dict[str, str]
    bound: dict[str, str]
    pending: tuple[str, ...]


@define
class _Shell:
    cluster: InMemoryCluster = field(factory=InMemoryCluster)
    waiting: dict[str, str] = field(factory=dict)

    def run(self) -> Iterator[Instant]:
        """Yield the instants: three members wait; the fourth has found a node."""
        scheduler = presets.coscheduling(self.cluster)
        for name in NODES:
            self.tell(scheduler, NodeAdded(Node(name=name, allocatable={"cpu": SLOTS})), 0.0)
        other = Pod(name=OTHER, requests={"cpu": 1}, node_name=NODES[-1])
        self.tell(scheduler, PodAdded(other), 0.0)
        for event in gang(JOB, workers=MEMBERS, cpu=1).events():
            self.tell(scheduler, event, 0.0)
        self.decide(scheduler, 0.0)
        yield self.instant("Three members wait at Permit, one is pending")
        self.tell(scheduler, PodUpdated(evolve(other, phase=PodPhase.SUCCEEDED)), 5.0)
        self.decide(scheduler, 5.0)
        yield self.instant("A pod has ended: all four members are bound")

    def instant(self, title: str) -> Instant:
        pods = [pod for pod in self.cluster.pods() if not pod.is_finished]
        bound = {pod.name: str(pod.node_name) for pod in pods if pod.node_name}
        names = [pod.name for pod in pods if pod.name not in bound]
        pending = tuple(name for name in names if name not in self.waiting)
        return Instant(title, dict(self.waiting), bound, pending)

    def tell(self, scheduler: Scheduler, event: Event, now: float) -> None:
        self.perform(scheduler, scheduler.handle(self.cluster.apply(event), now=now), now)

    def perform(self, scheduler: Scheduler, effects: tuple[Effect, ...], now: float) -> None:
        for effect in effects:
            name = str(getattr(effect, "uid", "")).rpartition("/")[2]
            if isinstance(effect, PodWaiting):
                self.waiting[name] = effect.node
            elif isinstance(effect, Bind):
                self.waiting.pop(name, None)
                self.tell(scheduler, Bound(effect.uid, effect.node, effect.attempt), now)

    def decide(self, scheduler: Scheduler, now: float) -> None:
        while (effects := scheduler.schedule_one(now=now)) is not None:
            self.perform(scheduler, effects, now)


def instants() -> tuple[Instant, ...]:
    """Return what a scheduler does with a gang of four, at two instants."""
    return tuple(_Shell().run())


def permit_barrier() -> str:
    """Return the picture."""
    picture = Picture(WIDTH, 342, "Three of four members at Permit, then four")
    for top, instant in zip((0.0, 156.0), instants(), strict=True):
        _draw(picture, instant, top)
    _key(picture, 326)
    return str(picture)


def _draw(picture: Picture, instant: Instant, top: float) -> None:
    picture.text(LEFT, top + 28, instant.title, font_weight="bold", font_size=13)
    for row, node in enumerate(NODES):
        y = top + 40 + row * 50
        picture.rect(LEFT, y, 62 + 2 * SLOT + 16, 44, fill="#f1f4f7", rx=5)
        picture.text(LEFT + 8, y + 27, node)
        here = [name for name, at in {**instant.bound, **instant.waiting}.items() if at == node]
        for slot in range(SLOTS):
            name = here[slot] if slot < len(here) else ""
            _pod(picture, name, LEFT + 62 + slot * (SLOT + 6), y + 5, instant)
    if instant.pending:
        x = LEFT + 62 + 2 * SLOT + 34
        picture.text(x, top + 60, "pending:")
        for row, name in enumerate(instant.pending):
            _pod(picture, name, x, top + 68 + row * 40, instant)


def _pod(picture: Picture, name: str, x: float, y: float, instant: Instant) -> None:
    fill, line = FREE, FAINT
    dashes = {"stroke_dasharray": "4 3"}
    if name in instant.waiting:
        fill, line = WAITS, INK
    elif name in instant.bound:
        fill, line = (ELSE if name == OTHER else RUNS), INK
        dashes = {}
    picture.rect(x, y, SLOT, BOX, fill=fill, stroke=line, rx=5, **dashes)
    picture.text(x + SLOT / 2, y + 22, name, text_anchor="middle", font_size=13)


def _key(picture: Picture, y: float) -> None:
    x = LEFT
    for fill, words in ((WAITS, "waits, holds a node"), (RUNS, "bound"), (ELSE, "another pod")):
        dashes = {"stroke_dasharray": "4 3"} if fill == WAITS else {}
        picture.rect(x, y - 10, 16, 12, fill=fill, stroke=INK, rx=2, **dashes)
        picture.text(x + 22, y, words)
        x += 44 + 6.4 * len(words)
