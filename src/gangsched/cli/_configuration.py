"""The configuration file of a scheduler: ``--config``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gangsched.cli._files import BadInputError, read
from gangsched.cli._imports import factories
from gangsched.cli._strict_yaml import NotStrictError, read_strictly
from gangsched.configuration import Settings, read_settings
from gangsched.errors import InvalidValueError

if TYPE_CHECKING:
    from gangsched.framework import Scheduler
    from gangsched.protocols import ClusterState

__all__ = ["configured", "plugin_factories", "read_configuration"]


def read_configuration(file: str) -> Settings:
    """Return the settings of a file.

    Raises:
        BadInputError: The file cannot be read, is empty, is not YAML, or has a key twice or a
            field that is malformed.
    """
    try:
        document = read_strictly(read(file))
    except NotStrictError as error:
        raise BadInputError(f"{file}: expected YAML: {error}") from error
    if document is None:
        expected = "kind: KubeSchedulerConfiguration and its apiVersion"
        raise BadInputError(f"{file}: the file is empty: expected {expected}")
    try:
        return read_settings(document)
    except InvalidValueError as error:
        raise BadInputError(f"{file}: {error}") from error


def plugin_factories(settings: Settings, file: str) -> dict[str, Callable[..., object]]:
    """Return the factories of the plugins that a file enables as ``module:name``."""
    profile = settings.profile
    found = dict[str, Callable[..., object]]()
    for name in profile.enabled:
        found |= factories(f"{file}: {profile.enabled_at[name]}", (name,))
    return found


def configured(file: str) -> Callable[[ClusterState], Scheduler]:
    """Return what makes the scheduler of a file. ``Backfill`` knows the run times of workloads."""
    # not before: ``run`` reads its configuration first, and then asks for its credentials
    from gangsched.configuration import make_scheduler
    from gangsched.run_times import AnnotatedRunTimes
    from gangsched.simulation import RUN_SECONDS

    settings = read_configuration(file)
    made = plugin_factories(settings, file)

    def make(cluster: ClusterState) -> Scheduler:
        try:
            return make_scheduler(
                settings, cluster, factories=made, run_times=AnnotatedRunTimes(RUN_SECONDS)
            )
        except InvalidValueError as error:
            raise BadInputError(f"{file}: {error}") from error

    return make
