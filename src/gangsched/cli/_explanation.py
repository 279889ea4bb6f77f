"""The answer of ``gangsched explain``: as text for people, and as JSON."""

from __future__ import annotations

from typing import Any, Final, final

from attrs import asdict, field, frozen

from gangsched.cli._ahead import QueueAhead
from gangsched.cli._subject import Subject
from gangsched.cli._tables import drawn
from gangsched.explain import (
    BackingOff,
    NoNodeFits,
    NotEnoughMembers,
    PartlyRunning,
    Queued,
    Running,
    Why,
)
from gangsched.listings import DomainRow, Listing
from gangsched.model import GroupKey, Node
from gangsched.options import Reservation
from gangsched.simulation import LogEntry
from gangsched.trees import Tree
from gangsched.values.form_table import EFFECT
from gangsched.values.seconds import format_span
from gangsched.values.text import printable
from gangsched.what_if import LargerQuota, SmallestChange, Sufficient, WhatIf

__all__ = ["SCHEMA", "Explanation", "Refusal", "WhatIfAnswer"]

SCHEMA: Final = "gangsched.explain/1"
_LINES: Final = 40
_MOST_DOMAINS: Final = 10
_FINISHED: Final = "; --until asks about an earlier instant, --history for its attempts"
_PENDING: Final = Queued | BackingOff | NoNodeFits


@final
@frozen
class Refusal:
    """A kind of added node that takes no member of the group.

    Attributes:
        shape: One such node.
        reason: Why, in the words of the plugins.
    """

    shape: Node
    reason: str

    def __str__(self) -> str:
        return f"a node of {self.shape.allocatable} takes none of its members: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the node and the reason as plain data."""
        return {**_shape(self.shape), "refusal": self.reason}


@final
@frozen
class WhatIfAnswer:
    """What the scheduler would do if some events arrived.

    Attributes:
        answer: The answer of the scheduler.
        entries: Its events and effects as log entries.
        before: What the scheduler would do without the events.
        group: The group of the question; None if there is none, or it has finished.
        refusals: The kinds of added nodes that take no member of the group.
    """

    answer: WhatIf
    entries: tuple[LogEntry, ...]
    before: WhatIf
    group: GroupKey | None
    refusals: tuple[Refusal, ...] = ()

    def __str__(self) -> str:
        lines = [f"  t={format_span(e.at)}  {e.object}  {e.message}" for e in self.entries[:_LINES]]
        if len(self.entries) > _LINES:
            lines.append(f"  and {len(self.entries) - _LINES} more")
        changed = self._changed()
        if self.answer.exhausted:
            lines.append("  the budget of the question is used up, and more may happen")
        lines += [f"  then {key}: {self.answer.why[key]}" for key in changed]
        lines += [f"  {refusal}" for refusal in self.refusals]
        others = len(self.answer.why) - len(changed)
        if others:
            lines.append(f"  {others} other {'group' if others == 1 else 'groups'}: as before")
        return "\n".join(["what if:", *map(printable, lines)])

    def _changed(self) -> list[str]:
        """Return the groups whose state differs because of the events, the asked one first."""
        before, after = self.before.why, self.answer.why
        changed = [key for key in after if _state(before.get(key)) != _state(after[key])]
        if self.group is None or self.group not in after:
            return changed
        return [self.group, *(key for key in changed if key != self.group)]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        return {
            "until": self.answer.until,
            "exhausted": self.answer.exhausted,
            "effects": [{"at": at, **EFFECT.write(effect)} for at, effect in self.answer.timed],
            "why": {key: _why(why) for key, why in self.answer.why.items()},
            "refusals": [refusal.to_dict() for refusal in self.refusals],
        }


@final
@frozen
class Explanation:
    """Why a pod or a group does not run, and what would make it start.

    Attributes:
        at: When the scheduler was asked.
        subject: The group, the pod or the job.
        why: Why it does not run; None if its pods are deleted.
        changes: For each kind of node, how many more nodes would start its group.
        untried: How many further kinds of nodes were not tried.
        ahead: What is tried before the group; None if nothing is, or if nodes would start it.
        what_if: The answer to ``--add``, ``--apply`` and ``--quota``; None without any.
        history: What happened to the group, or to the pod, so far; None if that was not asked.
        reservation: The capacity that is reserved for a gang meanwhile; None if none is, or if the
            subject does not wait. The reason of another gang counts it as used.
        tree: How the group stands part by part; without rows if there is no such group.
        domains: What each domain takes of it, of the levels that it requires.
    """

    at: float
    subject: Subject
    why: Why | None
    changes: tuple[SmallestChange, ...]
    untried: int = 0
    ahead: QueueAhead | None = None
    what_if: WhatIfAnswer | None = None
    history: tuple[LogEntry, ...] | None = None
    reservation: Reservation | None = None
    tree: Tree = field(factory=Tree)
    domains: Listing[DomainRow] = field(factory=Listing[DomainRow])

    def __str__(self) -> str:
        lines = [f"t={format_span(self.at)}  {self.subject.name}: {self._answer()}"]
        drawings = [drawn(self.tree)] if self.tree.is_nested else []
        if self.domains:
            drawings.append(str(Listing(self.domains[:_MOST_DOMAINS])))
        if len(self.domains) > _MOST_DOMAINS:
            drawings.append(f"and {len(self.domains) - _MOST_DOMAINS} more domains")
        if self.reservation is not None:
            lines.append(f"reserved: {self.reservation}")
        lines += dict.fromkeys(str(change) for change in self.changes)
        if self.ahead is not None:
            lines.append(str(self.ahead))
        if self.untried:
            lines.append(f"{self.untried} further kinds of nodes were not tried: give --shape")
        if self.history is not None:
            lines.append("history:" if self.history else "history: none")
            lines += [f"  t={format_span(each.at)}  {each.message}" for each in self.history]
        first, *others = map(printable, lines)
        text = "\n".join([first, *drawings, *others])
        return text if self.what_if is None else f"{text}\n{self.what_if}"

    def _answer(self) -> str:
        started, finished = self.subject.span
        if not self.subject.is_finished or started is None or finished is None:
            return str(self.why)
        times = f"from t={format_span(started)} to t={format_span(finished)}"
        more = "" if self.history is not None else _FINISHED
        return f"it has finished; it ran {times}{more}"

    def to_dict(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the explanation as plain data.

        Args:
            settings: The settings of the scheduler and of the run.
        """
        pod = self.subject.pod
        started, finished = self.subject.span
        return {
            "schema": SCHEMA,
            "settings": settings,
            "at": self.at,
            "group": self.subject.group,
            "pod": None if pod is None else pod.key,
            "started_at": started,
            "finished_at": finished,
            "why": None if self.why is None else _why(self.why),
            "smallest_changes": [_change(change) for change in self.changes],
            "reservation": None if self.reservation is None else asdict(self.reservation),
            "untried": self.untried,
            "tree": [asdict(row) for row in self.tree],
            "domains": [asdict(row) for row in self.domains],
            "ahead": None if self.ahead is None else self.ahead.to_dict(),
            "what_if": None if self.what_if is None else self.what_if.to_dict(),
            "history": None if self.history is None else [asdict(each) for each in self.history],
        }


def _state(why: Why | None) -> tuple[object, ...]:
    """Return what has to differ for a group to count as changed.

    The text of an answer does not have to. With each added node, every group that does not fit has
    another number of nodes in its reason. Positions in the queue move, too.
    """
    if isinstance(why, Running | PartlyRunning):
        return (type(why), why.members)
    if isinstance(why, NotEnoughMembers):
        return (type(why), why.present)
    return (_PENDING,) if isinstance(why, _PENDING) else (type(why),)


def _why(why: Why) -> dict[str, Any]:
    return {"answer": type(why).__name__, "text": str(why)}


def _shape(node: Node) -> dict[str, Any]:
    shape = {name: node.allocatable.quantity(name) for name in node.allocatable}
    return {"shape": shape, "labels": dict(node.labels)}


def _larger(quota: LargerQuota) -> dict[str, Any]:
    amounts = {"nominal": quota.nominal, "hard": quota.hard}
    stated = {word: {n: each.quantity(n) for n in each} for word, each in amounts.items()}
    return {"name": quota.name, **stated}


def _change(change: SmallestChange) -> dict[str, Any]:
    shape = change.shape
    found = change if isinstance(change, Sufficient) else None
    lacking = None if isinstance(change, Sufficient) else change
    return {
        **_shape(shape),
        "nodes": None if found is None else found.nodes,
        "at": None if found is None else found.at,
        "tried": None if lacking is None else lacking.most,
        "refusal": None if lacking is None else lacking.refusal,
        "exhausted": None if lacking is None else lacking.exhausted,
        "others_started": change.others_started,
        "is_older": None if lacking is None else lacking.is_older,
        "larger_quotas": None if lacking is None else [_larger(each) for each in lacking.larger],
        "nodes_besides": None if lacking is None else lacking.nodes_besides,
        "why": None if lacking is None else _why(lacking.why),
        "text": str(change),
    }
