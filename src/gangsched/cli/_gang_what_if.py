"""``kubectl gang what-if``: what would start if the cluster had more nodes, or other quotas."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gangsched.cli._files import BadInputError
from gangsched.cli._quota_option import changed_quotas
from gangsched.cli._tables import print_documents, table
from gangsched.errors import InvalidValueError
from gangsched.events import Bind, GroupScheduled, NodeAdded
from gangsched.model import Node
from gangsched.model._node_kinds import one_more
from gangsched.values.text import printable

if TYPE_CHECKING:
    from gangsched.kubernetes._survey import Survey

__all__ = ["ask_what_if"]

_MOST_NODES: Final = 100_000
"""Ten times as many nodes as the largest clusters have."""


def ask_what_if(survey: Survey, options: argparse.Namespace) -> None:
    """Print which gangs would start, and where, with more nodes or other quotas."""
    from gangsched.explain import Running, in_utc

    quotas = changed_quotas(survey.scheduler.stated_quotas, options.quota)
    events = _added(survey, options)
    before = survey.scheduler.what_if(now=survey.now)
    after = survey.scheduler.what_if(*events, quotas=quotas, now=survey.now)
    started = _started(after.effects)
    without = _started(before.effects)
    places: dict[str, str] = {}
    for effect in after.effects:
        if isinstance(effect, Bind):
            pod = survey.cache.cluster.pod(effect.uid)
            places[effect.uid if pod is None else pod.key] = effect.node
    waiting = {key: in_utc(why) for key, why in after.why.items() if not isinstance(why, Running)}
    if options.output in ("json", "yaml"):
        item = {
            "added": [event.node.name for event in events],
            "starts": sorted(started - without),
            "starts_anyway": sorted(started & without),
            "waits": waiting,
            "places": places,
        }
        print_documents("WhatIfList", [item], options.output)
        return
    for key in sorted(started):
        how = " in any case" if key in without else ""
        print(printable(f"pod group {key} would start{how}"))
    if not started:
        print("no pod group would start")
    if options.output == "wide":
        print(table(("POD", "NODE"), sorted(places.items())))
    for key, why in waiting.items():
        print(printable(f"pod group {key} would wait: {why}"))


def _added(survey: Survey, options: argparse.Namespace) -> list[NodeAdded]:
    """Return the nodes that are added, as events.

    Raises:
        BadInputError: There is nothing to ask, or no such node.
        InvalidValueError: They are too many.
    """
    if options.add_nodes is None and options.like is None and options.quota:
        return []
    if options.add_nodes is None or options.like is None:
        raise BadInputError("expected --add-nodes with --like, or --quota")
    if not 0 <= options.add_nodes <= _MOST_NODES:
        expected = f"a whole number from 0 to {_MOST_NODES}"
        raise InvalidValueError("--add-nodes", options.add_nodes, expected)
    model = survey.cache.cluster.node(options.like)
    if model is None:
        known = [node.name for node in survey.cache.cluster.nodes()]
        named = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
        raise BadInputError(f"--like: no node {options.like!r}; known: {named or 'none'}")
    return [NodeAdded(node) for node in _more(survey, model, options.add_nodes)]


def _started(effects: Sequence[object]) -> set[str]:
    return {effect.group for effect in effects if isinstance(effect, GroupScheduled)}


def _more(survey: Survey, model: Node, count: int) -> list[Node]:
    """Return new nodes like another one, with names that no node has."""
    taken = {node.name for node in survey.cache.cluster.nodes()}
    found: list[Node] = []
    number = 0
    while len(found) < count:
        number += 1
        name = f"{model.name}-more-{number}"
        if name not in taken:
            found.append(one_more(model, name))
    return found
