"""``kubectl gang why``: why one gang does not run, and what would start it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gangsched._node_kinds import kinds_of_nodes
from gangsched._text import printable
from gangsched.cli._ask_scheduler import CONFIGURED_OTHERWISE, Said
from gangsched.cli._cheapest import cheapest_first
from gangsched.cli._explanation import Explanation
from gangsched.cli._files import BadInputError
from gangsched.cli._gang_get import gangs_named
from gangsched.cli._subject import Subject
from gangsched.cli._tables import print_documents
from gangsched.model import GroupKey
from gangsched.what_if import SmallestChange, Sufficient

if TYPE_CHECKING:
    from gangsched.kubernetes._gang_rows import GangRow
    from gangsched.kubernetes._survey import Survey

__all__ = ["explain_gang", "show_why"]

_KINDS: Final = 4
_NAMED: Final = 20
"""How many groups an error names at most."""


def explain_gang(survey: Survey, options: argparse.Namespace) -> None:
    """Print why a gang of a listed cluster does not run, and what would start it."""
    # with the extra that the Kubernetes part needs, and only then
    from gangsched.kubernetes._unknown_minimum import remedy

    said: Said | None = options.said
    rows = {row.key: row for row in gangs_named(survey, _everywhere(options))}
    if said is not None and said.rows[0].key not in rows:
        said.show(options)  # it has no pods, so nothing would help
        return
    key = _key(survey, options)
    row = rows[key]
    if said is not None and (said.rows[0].have or not row.have):
        (row,) = said.rows
    scheduler, now = survey.scheduler, survey.now
    answer = scheduler.what_if(now=now).why.get(key)
    kinds = kinds_of_nodes(survey.cache.cluster.nodes())
    helps = "" if said is None else said.note("helps")
    helps = helps or remedy(survey.cache, key, survey.members_of(key), answer)
    lacking = bool(row.reason) and not row.is_quorate and answer is not None and not helps
    changes = cheapest_first(
        scheduler.smallest_change(key, kind, now=now, most=16)
        for kind in (kinds[:_KINDS] if lacking else ())
    )
    if options.output in ("json", "yaml"):
        found = row.to_dict()
        if said is not None:
            found |= {name: said.note(name) for name in ("helps", "reserved") if said.note(name)}
        if answer is not None:
            whole = Explanation(now, Subject.of_group(key), answer, changes, len(kinds[_KINDS:]))
            found["smallest_changes"] = whole.to_dict({})["smallest_changes"]
        print_documents("GangList", [found], options.output)
        return
    _print_row(row)
    foreign = survey.foreign(survey.members_of(key))
    if foreign and foreign not in row.reason:
        print(printable(f"scheduler: {foreign}"))
    for text in [helps] if helps else _helps(survey, row, said, changes):
        print(printable(f"what would help: {text}"))
    if said is not None and said.note("reserved"):
        print(printable(f"reserved: {said.note('reserved')}"))
    if said is not None and said.is_configured and changes and options.config is None:
        print(f"what would help is {CONFIGURED_OTHERWISE}", file=sys.stderr)
    if lacking and kinds[_KINDS:]:
        print(f"{len(kinds[_KINDS:])} further kinds of nodes were not tried")
    if row.message:
        print(printable(f"the scheduler says: {row.message}"))


def _helps(
    survey: Survey, row: GangRow, said: Said | None, changes: Sequence[SmallestChange]
) -> list[str]:
    """Return what would help a gang, each once.

    The cluster is listed without the memory of the running scheduler, and perhaps without its
    configuration. So a gang that fits by the listing may be held by the scheduler.
    """
    foreign = survey.foreign(survey.members_of(row.key))
    if foreign and foreign in row.reason:
        ours = " or ".join(survey.settings.profile.scheduler_names)
        return [f"pods with the schedulerName {ours}, or a scheduler that has their schedulerName"]
    texts: list[str] = []
    for change in changes:
        fits = isinstance(change, Sufficient) and not change.nodes and change.at is not None
        if fits and said is not None and said.note("reservedFor"):
            theirs = said.note("reservedFor")
            texts.append(
                f"no more nodes: pod group {row.key} fits as things stand, on nodes that are"
                f" reserved for pod group {theirs}; it starts when {theirs} has started, or with a"
                " higher priority"
            )
        elif fits and (said is not None or row.message):
            cause = "the reason above" if said is not None else "what the scheduler says"
            texts.append(f"no more nodes: pod group {row.key} fits as things stand; see {cause}")
        else:
            texts.append(change.in_utc())
    return list(dict.fromkeys(texts))


def show_why(said: Said, options: argparse.Namespace) -> None:
    """Print what the running scheduler has answered about one gang."""
    (row,) = said.rows
    if options.output in ("json", "yaml"):
        print_documents("GangList", [row.to_dict()], options.output)
        return
    _print_row(row)
    for name, label in (("helps", "what would help"), ("reserved", "reserved")):
        if said.note(name):
            print(printable(f"{label}: {said.note(name)}"))
    if row.message:
        print(printable(f"the scheduler says: {row.message}"))


def _print_row(row: GangRow) -> None:
    members = "1 member is" if row.have == 1 else f"{row.have} members are"
    if row.needed is None:
        there = f"{members} there; the minimum is unknown"
    elif row.have > row.needed:
        there = f"{members} there, it needs {row.needed}"
    else:
        there = f"{row.have} of {row.needed} members are there"
    counts = f"{there}, {row.held} hold a node, {row.running} run"
    print(printable(f"pod group {row.key}: {row.phase or '-'}: {counts}"))
    if row.reason:
        print(printable(f"why: {row.reason}"))


def _key(survey: Survey, options: argparse.Namespace) -> GroupKey:
    """Return the key of the group that is named.

    Raises:
        BadInputError: There is no such group.
    """
    name: str = options.group
    key = GroupKey(name if "/" in name else f"{options.namespace or 'default'}/{name}")
    known = [row.key for row in gangs_named(survey, _everywhere(options))]
    if key not in known:
        named = ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
        raise BadInputError(f"no pod group {key}; known: {named or 'none'}")
    return key


def _everywhere(options: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "namespace": None, "keys": ()})
