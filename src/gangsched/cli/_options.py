"""Options that several commands share: how pods are scheduled.

Rules:
  R1  a setting that has no meaning for a policy is None in the report;
  R2  an option that has no meaning for the policy is refused, not ignored;
  R3  a duration is a number of seconds, or has units: ``90s``, ``1h30m``, ``11d``;
  R4  a scheduler comes from one place: a policy with its options, a function, or a configuration;
  R5  the labels of ``--levels`` have commas between them, or colons: in ``compare`` a comma ends an
      option. A label has neither.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, final

from gangsched.cli._configuration import configured
from gangsched.cli._files import BadInputError
from gangsched.cli._imports import maker
from gangsched.coscheduling import WhenBlocked
from gangsched.errors import InvalidValueError
from gangsched.memory import InMemoryCluster
from gangsched.options import Backfill, PlacementStrategy, Preemption
from gangsched.options.levels import NO_LEVELS, Levels, as_levels
from gangsched.options.quota import Quota
from gangsched.primitives.ordering import Order
from gangsched.protocols import ClusterState
from gangsched.replay import Recipe
from gangsched.run_times import AnnotatedRunTimes
from gangsched.scheduler import Scheduler
from gangsched.simulation import RUN_SECONDS, TIME_LIMIT, shortest_first
from gangsched.values.seconds import format_duration, parse_duration

__all__ = [
    "POLICIES",
    "POLICY",
    "add_policy",
    "default_settings",
    "levels_of",
    "make_of",
    "policy_settings",
    "seconds",
    "title_of",
]

POLICIES: Final = ("coscheduling", "fair", "fifo", "gang", "pod_by_pod", "sjf")
"""The names of the policies: those of the presets of a ``Recipe``, and baselines."""

ESTIMATES: Final = {"run_time": RUN_SECONDS, "time_limit": TIME_LIMIT}
"""By the value of ``--estimates``, the annotation with the run time that is known."""

_OF_PRESETS: Final = ("order", "when_blocked", "permit_timeout", "placement", "levels")
"""The settings that are arguments of presets, by the same names."""
_BACKFILL: Final = ("backfill", "estimates")
_BASELINES: Final = ("fair", "fifo", "sjf")
_OF_BASELINES: Final = ("placement", "levels")
_FAIR: Final = "half_life"
"""The setting of ``fair`` alone."""
_USUAL: Final = {**Recipe("coscheduling").arguments, **Recipe("gang").arguments}
POLICY: Final[dict[str, Any]] = {
    "policy": "gang",
    "order": _USUAL["order"].value,
    "when_blocked": _USUAL["when_blocked"].value,
    "placement": _USUAL["placement"].value,
    "permit_timeout": _USUAL["permit_timeout"],
    "backfill": None,
    "estimates": "run_time",
    "half_life": None,
    "levels": None,
}
"""The defaults of the options: those of the presets."""


@final
class _Policies(tuple[str, ...]):
    """The policies, and every ``module:function``; the help lists the policies only."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) or (isinstance(value, str) and ":" in value)


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the scheduler."""
    policy = parser.add_argument_group("scheduling")
    policy.add_argument(
        "--policy",
        type=_policy,
        choices=_Policies(POLICIES),
        metavar="POLICY",
        help="coscheduling: gangs, one pod a decision, placed members wait on permit; gang (the"
        " default): gangs, one gang a decision; pod_by_pod: no gangs; fair: as gang, and the"
        " namespace or tenant that uses least is next; fifo: as gang, and no job"
        " starts before one that came earlier; sjf: as gang, the shortest job first, by its exact"
        " run time; MODULE:FUNCTION: the"
        " scheduler that the function returns when it is called with the cluster state",
    )
    policy.add_argument(
        "--config",
        metavar="FILE",
        help="the scheduler of a KubeSchedulerConfiguration, as YAML, instead of a policy",
    )
    policy.add_argument(
        "--order",
        choices=[order.value for order in Order],
        help="which time orders pods and groups of equal priority",
    )
    policy.add_argument(
        "--when-blocked",
        choices=[when.value for when in WhenBlocked],
        help="what members that wait on permit do when another member is unschedulable",
    )
    policy.add_argument(
        "--placement",
        choices=[placement.value for placement in PlacementStrategy],
        help="how nodes are chosen for gangs and single pods, with gang, fair, fifo or sjf",
    )
    policy.add_argument(
        "--preempt", action="store_true", help="evict pods of lower priority to free capacity"
    )
    policy.add_argument(
        "--permit-timeout",
        type=seconds,
        metavar="DURATION",
        help="how long a member waits on permit for the other members, with --policy coscheduling",
    )
    policy.add_argument(
        "--backfill",
        nargs="?",
        const=1.0,
        type=_factor,
        metavar="FACTOR",
        help="with --policy gang: reserve capacity for a gang that keeps failing; estimates of"
        " run times are wrong by up to this factor, 1 by default",
    )
    policy.add_argument(
        "--estimates",
        choices=list(ESTIMATES),
        help="with --backfill: which run times the scheduler knows: those of the workload, or the"
        " time limits; default: run_time",
    )
    policy.add_argument(
        "--half-life",
        type=_half_life,
        metavar="DURATION",
        help="with --policy fair: what was used so long ago counts half; default: only what is used"
        " now counts",
    )
    policy.add_argument(
        "--levels",
        action="append",
        type=_labels,
        metavar="LABEL,...",
        help="which labels of the nodes nest, from the coarsest to the finest: block,rack; once for"
        " each topology",
    )


def _labels(text: str) -> list[str]:
    """Read the levels of one topology."""
    found = re.split("[,:]", text)
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected labels such as block,rack, got {text!r}")
    return found


def _policy(text: str) -> str:
    """Read a policy from the command line; an error names every form that is allowed."""
    if text in _Policies(POLICIES):
        return text
    name, comma, options = text.partition(",")
    if comma and name in POLICIES:
        words = " ".join(f"--{each.strip().replace('_', '-')}" for each in options.split(","))
        raise argparse.ArgumentTypeError(
            f"expected one policy, got {text!r}: only compare takes its options in the same word;"
            f" here: --policy {name} {words}"
        )
    known = f"{', '.join(POLICIES)} or MODULE:FUNCTION"
    raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {known})")


def _factor(text: str) -> float:
    """Read a factor from the command line."""
    return _number(text, 1, "a finite number >= 1")


def seconds(text: str) -> float:
    """Read a duration or an instant from the command line, in seconds."""
    found = parse_duration(text)
    if found is None or found < 0:
        expected = "a number of seconds >= 0, or a duration such as 90s, 1h30m or 11d"
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return found


def _half_life(text: str) -> float:
    """Read a half-life from the command line, in seconds."""
    found = seconds(text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected a duration above 0, got {text!r}")
    return found


def _number(text: str, least: float, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
    return number


def policy_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the scheduler: what was given, and the defaults of the policy.

    Raises:
        BadInputError: An option has no meaning for the policy.
    """
    given = {name: getattr(options, name) for name in POLICY}
    if options.config is not None:
        for name, value in {**given, "preempt": options.preempt or None}.items():
            if value is not None:
                option = name.replace("_", "-")
                raise BadInputError(f"--{option} has no meaning with --config, which says it")
        return {**dict.fromkeys(POLICY), "config": options.config}
    policy: str = options.policy or POLICY["policy"]
    if ":" in policy and options.preempt:
        raise BadInputError(f"--preempt has no meaning with --policy {policy}")
    for name in _unused(policy):
        if given[name] is not None:
            raise BadInputError(f"--{name.replace('_', '-')} has no meaning with --policy {policy}")
    if given["estimates"] is not None and given["backfill"] is None:
        raise BadInputError("--estimates has no meaning without --backfill")
    if given["backfill"] is not None:
        given["estimates"] = given["estimates"] or POLICY["estimates"]
    try:
        as_levels(given["levels"] or ())
    except InvalidValueError as error:
        raise InvalidValueError("--levels", error.value, error.expected) from None
    return {**default_settings(policy), **{n: v for n, v in given.items() if v is not None}}


def default_settings(policy: str = "gang") -> dict[str, Any]:
    """Return the settings of a policy without options."""
    unused: dict[str, Any] = dict.fromkeys(_unused(policy))
    estimates = POLICY["estimates"] if policy == "sjf" else None
    return {**POLICY, "policy": policy, "config": None, **unused, "estimates": estimates}


def title_of(settings: dict[str, Any]) -> str:
    """Return a policy with every option that is not the default, in one word of ``compare``."""
    policy: str | None = settings["policy"]
    if policy is None:
        return str(settings["config"])
    usual = {**default_settings(policy), "preempt": False}
    usual["estimates"] = POLICY["estimates"]
    words = [policy]
    for name in (*_OF_PRESETS, "preempt", *_BACKFILL, _FAIR):
        value = settings.get(name)
        if value is None or value == usual[name]:
            continue
        if name == "levels":
            words += [f"levels={':'.join(keys)}" for keys in value]
            continue
        number = format_duration(value) if isinstance(value, float) else str(value)
        is_flag = value is True or (name, value) == ("backfill", 1.0)
        words.append(name if is_flag else f"{name}={number}")
    return ",".join(words)


def levels_of(settings: dict[str, Any], stated: Levels = NO_LEVELS) -> Levels:
    """Return the levels of the scheduler that the settings describe; none for a function.

    Args:
        settings: The settings.
        stated: The levels that objects of another project state, if a configuration asks for them.
    """
    if settings.get("config") is not None:
        return make_of(settings, stated, ())(InMemoryCluster()).levels
    return as_levels(settings.get("levels") or ())


def _unused(policy: str) -> tuple[str, ...]:
    """Return the settings that have no meaning for a policy; none has one for a function."""
    if policy not in POLICIES:
        return (*_OF_PRESETS, *_BACKFILL, _FAIR)
    if policy in _BASELINES:
        lacks = [name for name in _OF_PRESETS if name not in _OF_BASELINES]
        return (*lacks, *_BACKFILL, *(() if policy == "fair" else (_FAIR,)))
    unused = [name for name in _OF_PRESETS if name not in Recipe(policy).arguments]
    return (*unused, *(() if policy == "gang" else _BACKFILL), _FAIR)


def make_of(
    settings: dict[str, Any],
    stated: Levels = NO_LEVELS,
    quotas: Iterable[Quota] | None = None,
    users: Callable[[], Iterable[Quota]] | None = None,
) -> Callable[[ClusterState], Scheduler]:
    """Return what makes the scheduler that the settings describe: a ``Recipe`` for a policy.

    Args:
        settings: The settings.
        stated: The levels that objects of another project state, if a configuration asks for them.
        quotas: The quotas that objects of another project state, if a configuration asks for them;
            None if they are not known.
        users: Returns a queue for each user of the workload; None if there is no workload.

    Raises:
        BadInputError: The policy depends on a workload, and there is none.
    """
    if settings.get("config") is not None:
        return configured(settings["config"], stated, quotas)
    if ":" in settings["policy"]:
        return _of_function(settings["policy"])
    if settings["policy"] == "sjf":
        placement = PlacementStrategy(settings["placement"])
        preemption = Preemption() if settings.get("preempt") else None
        levels = settings.get("levels") or ()
        return partial(shortest_first, placement=placement, preemption=preemption, levels=levels)
    if settings["policy"] == "fair":
        if users is None:
            raise BadInputError("--policy: fair has queues for the users of a workload")
        return _recipe(settings, tuple(users()))
    return _recipe(settings)


def _of_function(text: str) -> Callable[[ClusterState], Scheduler]:
    """Return the scheduler of ``module:function``, or what was meant if that is a policy."""
    try:
        return maker("--policy", text)
    except BadInputError as error:
        name, _colon, option = text.partition(":")
        if name not in POLICIES:
            raise
        meant = f"--policy {name} --{option.replace('_', '-')}; in compare, {name},{option}"
        raise BadInputError(f"{error}; options of a policy are given as {meant}") from error


def _recipe(settings: dict[str, Any], quotas: tuple[Quota, ...] = ()) -> Recipe:
    policy, wrong_by = settings["policy"], settings.get("backfill")
    given = {n: settings[n] for n in _OF_PRESETS if settings.get(n) is not None}
    if settings.get("preempt"):
        given["preemption"] = Preemption()
    if wrong_by is not None:
        annotation = ESTIMATES[settings.get("estimates") or "run_time"]
        run_times = AnnotatedRunTimes(annotation, wrong_by=wrong_by, seed=settings.get("seed", 0))
        given["backfill"] = Backfill(run_times)
    if policy == "fair":
        return Recipe("gang", **given, quotas=quotas, history=settings.get("half_life"))
    if policy == "fifo":
        return Recipe("gang", **{**given, "order": Order.CREATION.value})
    return Recipe(policy, **given)
