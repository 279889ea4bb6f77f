"""``kubectl gang queue``, ``quotas``, ``pods`` and ``demand``.

They list what waits, what quotas use, where members are, and which nodes are missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gangsched.cli._ask_scheduler import Said
from gangsched.cli._files import BadInputError
from gangsched.cli._gang_get import nothing
from gangsched.cli._tables import age_of, number_or_dash, print_documents, table

if TYPE_CHECKING:
    from gangsched.kubernetes._survey import Survey

__all__ = ["list_demand", "list_pods", "list_queue", "list_quotas", "show_queue", "show_quotas"]


def list_queue(survey: Survey, options: argparse.Namespace) -> None:
    """Print what waits in a listed cluster, in the order in which it is tried."""
    from gangsched.kubernetes._queue_rows import queue_item

    rows = [
        row for row in survey.pending() if options.namespace in (None, row.name.partition("/")[0])
    ]
    _print_queue([queue_item(row) for row in rows], options)


def show_queue(said: Said, options: argparse.Namespace) -> None:
    """Print the queue that the running scheduler has answered with."""
    _print_queue(said.items, options)


def _print_queue(items: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    if options.output in ("json", "yaml"):
        print_documents("QueueList", items, options.output)
    elif not items:
        print(nothing("waiting pods", options))
    else:
        columns = ("PLACE", "NAME", "KIND", "PRIORITY", "PODS", "NEEDED", "AGE", "STATE")
        cells = [
            (
                number_or_dash(item["place"]),
                item["name"],
                "gang" if item["gang"] else "pod",
                str(item["priority"]),
                str(item["pods"]),
                number_or_dash(item["needed"]),
                age_of(item["age"]),
                item["state"],
            )
            for item in items
        ]
        print(table(columns, cells))


def list_quotas(survey: Survey, options: argparse.Namespace) -> None:
    """Print the quotas of a configuration, with what the pods of a listed cluster use.

    Raises:
        BadInputError: No configuration is named. The default one has no quotas, so an empty list
            would say nothing of the scheduler.
    """
    from gangsched.kubernetes._quota_rows import quota_item

    if options.config is None:
        raise BadInputError("--config: expected the configuration of the scheduler, for its quotas")
    _print_quotas([quota_item(row) for row in survey.scheduler.quotas()], options)


def show_quotas(said: Said, options: argparse.Namespace) -> None:
    """Print the quotas that the running scheduler has answered with."""
    _print_quotas(said.items, options)


def _print_quotas(items: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    from gangsched.kubernetes._quota_rows import read_quota_rows

    if options.output in ("json", "yaml"):
        print_documents("QuotaList", items, options.output)
    elif not items:
        print("there are no quotas in the configuration")
    else:
        print(read_quota_rows(items))


def list_pods(survey: Survey, options: argparse.Namespace) -> None:
    """Print the pods of gangs, with node and reason."""
    from gangsched.kubernetes._gang_rows import member_rows

    rows = member_rows(survey, options.namespace)
    if options.output in ("json", "yaml"):
        print_documents("MemberList", [row.to_dict() for row in rows], options.output)
    elif not rows:
        print(nothing("pods of gangs", options))
    else:
        columns = ("NAMESPACE", "GANG", "NAME", "ROLE", "PHASE", "NODE", "AGE", "SCHEDULER SAYS")
        cells = [
            (r.namespace, r.group, r.name, r.role, r.phase, r.node, age_of(r.age), r.message)
            for r in rows
        ]
        print(table(columns, cells))


def list_demand(survey: Survey, options: argparse.Namespace) -> None:
    """Print how many nodes of which kind would start the gangs."""
    from gangsched.kubernetes._demand import pending_demand

    found = pending_demand(survey.scheduler, survey.cache.cluster.nodes(), now=survey.now)
    if options.output in ("json", "yaml"):
        print_documents("DemandList", [each.to_dict() for each in found], options.output)
    elif not found:
        print("no number of nodes of a kind that the cluster has would start more gangs")
    else:
        columns = ("NODES", "LIKE", "ALLOCATABLE", "GANGS")
        cells = [
            (str(d.nodes), d.like.name.removesuffix("-more"), d.shape, ",".join(d.groups))
            for d in found
        ]
        print(table(columns, cells))
