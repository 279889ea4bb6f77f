"""``kubectl gang why``: why one gang does not run, and what would start it.

What the running scheduler answers is printed at once. What would help is computed after that, from
a listing of the whole cluster, and a large one may take longer than a user waits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from gangsched.cli._ask_scheduler import CONFIGURED_OTHERWISE, Said
from gangsched.cli._cheapest import cheapest_first
from gangsched.cli._explanation import Explanation
from gangsched.cli._files import BadInputError
from gangsched.cli._subject import Subject
from gangsched.cli._tables import drawn, print_documents
from gangsched.model import GroupKey
from gangsched.model._node_kinds import kinds_of_nodes
from gangsched.values.text import printable
from gangsched.what_if import SmallestChange, Sufficient

if TYPE_CHECKING:
    from gangsched.kubernetes._gang_rows import GangRow
    from gangsched.kubernetes._survey import Survey

__all__ = ["begin_why", "end_why", "explain_gang", "prepare_why", "show_why"]

_KINDS: Final = 4
_NAMED: Final = 20
"""How many groups an error names at most."""


def explain_gang(survey: Survey, options: argparse.Namespace) -> None:
    """Print why a gang of a listed cluster does not run, and what would start it."""
    prepare_why(survey, options)()


def prepare_why(survey: Survey, options: argparse.Namespace) -> Callable[[], None]:
    """Find out why a gang of a listed cluster does not run; return what prints it.

    Raises:
        BadInputError: There is no such gang.
    """
    # with the extra that the Kubernetes part needs, and only then
    from gangsched.kubernetes._gang_rows import gang_row, group_keys
    from gangsched.kubernetes._what_helps import what_helps

    said: Said | None = options.said
    known = {*group_keys(survey)}
    if said is not None and said.rows[0].key not in known:
        return partial(end_why, said, options)  # it has no pods, so nothing would help
    key = _key(known, options)
    scheduler, now = survey.scheduler, survey.now
    if said is not None and (said.rows[0].have or not survey.members_of(key)):
        (row,) = said.rows
        is_known = scheduler.registry.get(key) is not None
        answer = scheduler.why(key, budget=0) if is_known else None
    else:
        answers = scheduler.what_if(now=now).why
        row, answer = gang_row(survey, key, answers), answers.get(key)
    kinds = kinds_of_nodes(survey.cache.cluster.nodes())
    helps = "" if said is None else said.note("helps")
    helps = helps or what_helps(survey.cache, key, survey.members_of(key), answer)
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
        return partial(print_documents, "GangList", [found], options.output)
    texts = [helps] if helps else _helps(survey, row, said, changes)
    foreign = survey.foreign(survey.members_of(key))
    untried = len(kinds[_KINDS:]) if lacking else 0
    return partial(_print_why, row, foreign, texts, untried, options, is_changed=bool(changes))


def _print_why(
    row: GangRow,
    foreign: str,
    texts: Sequence[str],
    untried: int,
    options: argparse.Namespace,
    *,
    is_changed: bool,
) -> None:
    """Print what is known of a gang, and what would help it.

    Args:
        row: The gang.
        foreign: Which other scheduler its pods name.
        texts: What would help.
        untried: How many kinds of nodes were not tried.
        options: The command line, with what the scheduler has answered.
        is_changed: Whether a change of the cluster would help.
    """
    said: Said | None = options.said
    if said is None or not _is_begun(said, options):
        _print_row(row)
    if foreign and foreign not in row.reason:
        print(printable(f"scheduler: {foreign}"))
    for text in texts:
        print(printable(f"what would help: {text}"))
    if said is not None and said.note("reserved"):
        print(printable(f"reserved: {said.note('reserved')}"))
    if said is not None and said.is_configured and is_changed and options.config is None:
        print(f"what would help is {CONFIGURED_OTHERWISE}", file=sys.stderr)
    if untried:
        print(f"{untried} further kinds of nodes were not tried")
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
    begin_why(said, options)
    end_why(said, options)


def begin_why(said: Said, options: argparse.Namespace) -> None:
    """Print how a gang stands, if the running scheduler knows that."""
    if _is_begun(said, options):
        _print_row(said.rows[0])


def _is_begun(said: Said, options: argparse.Namespace) -> bool:
    """Return whether the answer of the scheduler is printed before the cluster is listed.

    A document is printed as a whole, and of a gang without pods of the scheduler a listing may
    know more.
    """
    return options.output not in ("json", "yaml") and bool(said.rows[0].have)


def end_why(said: Said, options: argparse.Namespace) -> None:
    """Print the rest of what the running scheduler has answered about one gang."""
    (row,) = said.rows
    if options.output in ("json", "yaml"):
        print_documents("GangList", [row.to_dict()], options.output)
        return
    if not _is_begun(said, options):
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
    if row.tree:
        print(drawn(row.tree))
    if row.reason:
        print(printable(f"why: {row.reason}"), flush=True)


def _key(known: Collection[GroupKey], options: argparse.Namespace) -> GroupKey:
    """Return the key of the group that is named.

    Raises:
        BadInputError: There is no such group.
    """
    name: str = options.group
    key = GroupKey(name if "/" in name else f"{options.namespace or 'default'}/{name}")
    if key not in known:
        keys = sorted(known, key=lambda each: tuple(each.split("/")))
        named = ", ".join(keys[:_NAMED]) + (", ..." if len(keys) > _NAMED else "")
        raise BadInputError(f"no pod group {key}; known: {named or 'none'}")
    return key
