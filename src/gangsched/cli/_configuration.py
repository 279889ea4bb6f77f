"""The configuration file of a scheduler: ``--config``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from attrs import evolve

from gangsched.cli._faults import Check, Fault, faults_of
from gangsched.cli._files import STANDARD_INPUT, BadInputError, read
from gangsched.cli._imports import factories
from gangsched.cli._strict_yaml import NotStrictError, read_strictly
from gangsched.configuration import Settings, read_settings
from gangsched.errors import InvalidValueError, ProfileError
from gangsched.options.levels import NO_LEVELS, Levels
from gangsched.options.quota import Quota

if TYPE_CHECKING:
    from gangsched.protocols import ClusterState
    from gangsched.scheduler import Scheduler

__all__ = [
    "check_transport",
    "configured",
    "name_all_faults",
    "plugin_factories",
    "read_checked",
    "read_configuration",
]


def read_configuration(file: str) -> Settings:
    """Return the settings of a file.

    What depends on plugins is not checked, which takes a third of a second.

    Raises:
        BadInputError: The file cannot be read, is empty, or is not YAML; or fields are malformed
            or given twice, each of which is a sentence, in the order of the file.
    """
    return _read(file, _first_malformed)


def read_checked(file: str) -> Settings:
    """Return the settings of a file that has no fault which can be found without a cluster.

    Raises:
        BadInputError: The file cannot be read, is empty, or is not YAML; or it has faults, each
            of which is a sentence, in the order of the file.
    """
    return _read(file, _first_fault)


def name_all_faults(file: str) -> None:
    """Read a file again in which a fault was found, and name the others with it.

    Raises:
        BadInputError: The file has faults, each of which is a sentence.
    """
    if file != STANDARD_INPUT:
        _read(file, _first_fault)


def _read(file: str, check: Check) -> Settings:
    also: list[Fault] = []
    try:
        document = read_strictly(read(file))
    except NotStrictError as error:
        if not error.repeated:
            raise BadInputError(f"{file}: expected YAML: {error}") from error
        document = error.document
        also = [Fault(path, f"expected YAML: {said}") for path, said in error.repeated]
    if document is None:
        raise _is_empty(file)
    first = check(document)
    if first is not None and first.path == "kind":
        faults = [first]  # a document of another kind: its fields mean something else
    else:
        faults = faults_of(document, check, also)
    if faults:
        raise BadInputError(*(f"{file}: {fault.sentence}" for fault in faults))
    return read_settings(document)


def _first_malformed(document: object) -> Fault | None:
    """Return the first field of a document that is malformed, whatever the plugins are."""
    try:
        read_settings(document)
    except InvalidValueError as error:
        return Fault.of(error)
    return None


def _first_without_cluster(document: object) -> Fault | None:
    """Return the first fault of a document, whatever the names of a cluster are."""
    return _first_of(document, lambda _settings: None)


def _first_fault(document: object) -> Fault | None:
    """Return the first fault of a document that can be found without a cluster."""
    from gangsched.kubernetes._cluster_settings import check_cluster_settings

    def check(settings: Settings) -> None:
        check_cluster_settings(settings)
        check_transport(settings)

    return _first_of(document, check)


def _first_of(document: object, check: Callable[[Settings], None]) -> Fault | None:
    from gangsched.configuration.scheduler import check_settings

    try:
        settings = read_settings(document)
        made = dict[str, Callable[..., object]]()
        for name in settings.profile.enabled:
            path = settings.profile.enabled_at[name]
            try:
                made |= factories(path, (name,))
            except BadInputError as error:
                return Fault(path, str(error), name)
        check_settings(settings, factories=made)
        check(settings)
    except InvalidValueError as error:
        return Fault.of(error)
    except ProfileError as error:
        return Fault("", str(error))
    return None


def check_transport(settings: Settings) -> None:
    """Check that the transport of a configuration is installed.

    Raises:
        InvalidValueError: It is not.
    """
    if settings.client.transport == "httptools" and find_spec("httptools") is None:
        expected = "auto or aiohttp, or install: pip install 'gangsched[kubernetes-fast]'"
        raise InvalidValueError("clientConnection.transport", "httptools", expected)


def _is_empty(file: str) -> BadInputError:
    expected = "kind: KubeSchedulerConfiguration and its apiVersion"
    return BadInputError(f"{file}: the file is empty: expected {expected}")


def plugin_factories(settings: Settings, file: str) -> dict[str, Callable[..., object]]:
    """Return the factories of the plugins that a file enables as ``module:name``."""
    profile = settings.profile
    found = dict[str, Callable[..., object]]()
    for name in profile.enabled:
        found |= factories(f"{file}: {profile.enabled_at[name]}", (name,))
    return found


def configured(
    file: str, levels: Levels = NO_LEVELS, quotas: Iterable[Quota] | None = None
) -> Callable[[ClusterState], Scheduler]:
    """Return what makes the scheduler of a file. ``Backfill`` knows the run times of workloads.

    Args:
        file: The file.
        levels: The levels that objects of another project state, if the file asks for them.
        quotas: The quotas that objects of another project state, if the file asks for them; None
            if they are not known.
    """
    # not before: ``run`` reads its configuration first, and then asks for its credentials
    from gangsched.configuration import make_scheduler
    from gangsched.run_times import AnnotatedRunTimes
    from gangsched.simulation import RUN_SECONDS

    settings = read_configuration(file)
    if settings.levels_from and file != STANDARD_INPUT:
        settings = evolve(settings, levels=levels, levels_from="")
    if settings.quotas_from and quotas is not None and file != STANDARD_INPUT:
        settings = evolve(settings, quotas=tuple(quotas), quotas_from="")
    made = plugin_factories(settings, file)

    def make(cluster: ClusterState) -> Scheduler:
        try:
            return make_scheduler(
                settings, cluster, factories=made, run_times=AnnotatedRunTimes(RUN_SECONDS)
            )
        except InvalidValueError as error:
            if file != STANDARD_INPUT:
                _read(file, _first_without_cluster)  # raises, with all faults
            raise BadInputError(f"{file}: {error}") from error

    return make
