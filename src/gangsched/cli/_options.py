"""Options that several commands share: how it is scheduled.

Rules:
  R1  a setting that means nothing for a policy is None in what is reported.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, Final

from gangsched._core._ordering import Order
from gangsched.coscheduling import WhenBlocked
from gangsched.framework import Backfill, PlacementStrategy, Preemption
from gangsched.replay import Recipe
from gangsched.run_times import AnnotatedRunTimes
from gangsched.simulation import RUN_SECONDS

__all__ = ["POLICY", "UNUSED", "add_policy", "recipe", "seconds"]

UNUSED: Final = {
    "coscheduling": ("placement", "backfill"),
    "gang": ("when_blocked", "permit_timeout"),
    "none": ("order", "when_blocked", "permit_timeout", "placement", "backfill"),
}
"""Which settings mean nothing for which policy."""

POLICY: Final = {
    "policy": "coscheduling",
    "order": Order.LAST_FAILURE.value,
    "when_blocked": WhenBlocked.UNTIL_OTHERS_TURN.value,
    "placement": PlacementStrategy.AUTO.value,
    "permit_timeout": 10.0,
    "backfill": None,
}
"""How it is scheduled, if nobody says."""


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how it is scheduled."""
    policy = parser.add_argument_group("how it is scheduled")
    policy.add_argument(
        "--policy",
        choices=("coscheduling", "gang", "none"),
        help="gangs pod by pod, members that hold a node waiting for the others; a gang in one"
        " decision; or no gangs",
    )
    policy.add_argument("--order", choices=[order.value for order in Order])
    policy.add_argument(
        "--when-blocked",
        choices=[when.value for when in WhenBlocked],
        help="what members that hold a node do when their group cannot be completed",
    )
    policy.add_argument(
        "--placement",
        choices=[placement.value for placement in PlacementStrategy],
        help="where the members of a gang go, with --policy gang",
    )
    policy.add_argument(
        "--preempt", action="store_true", help="displace lower priorities where it makes room"
    )
    policy.add_argument("--permit-timeout", type=seconds, metavar="SECONDS")
    policy.add_argument(
        "--backfill",
        nargs="?",
        const=1.0,
        type=_factor,
        metavar="FACTOR",
        help="with --policy gang: reserve room for a gang that keeps failing; the run times that"
        " are known are off by up to this factor, by default exact",
    )


def _factor(text: str) -> float:
    """Read a factor from the command line."""
    return _number(text, 1, "a number of at least 1")


def seconds(text: str) -> float:
    """Read seconds from the command line."""
    return _number(text, 0, "seconds, not negative")


def _number(text: str, least: float, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return number


def recipe(settings: dict[str, Any]) -> Recipe:
    """Return how the scheduler is made."""
    preemption = Preemption() if settings.get("preempt") else None
    if settings["policy"] == "none":
        return Recipe("pod_by_pod", preemption=preemption)
    if settings["policy"] == "gang":
        wrong_by, backfill = settings.get("backfill"), None
        if wrong_by is not None:
            seed = settings.get("seed", 0)
            backfill = Backfill(AnnotatedRunTimes(RUN_SECONDS, wrong_by=wrong_by, seed=seed))
        return Recipe(
            "gang",
            placement=settings["placement"],
            order=settings["order"],
            preemption=preemption,
            backfill=backfill,
        )
    return Recipe(
        "coscheduling",
        permit_timeout=settings["permit_timeout"],
        order=settings["order"],
        when_blocked=settings["when_blocked"],
        preemption=preemption,
    )
