"""Objects that the command line names as ``module:name``, as ``entry_points`` do.

Rules:
  R1  modules are found in the current directory too, as with ``python -m``;
  R2  what cannot be imported is bad input, named by the option; an error that the module raises
      itself is named by its class.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gangsched.cli._files import BadInputError

if TYPE_CHECKING:
    from gangsched.protocols import ClusterState
    from gangsched.scheduler import Scheduler

__all__ = ["factories", "imported", "maker"]


def imported(where: str, text: str) -> Any:
    """Return the object that ``module:name`` names.

    Args:
        where: The option or the field, for errors.
        text: The module and the name; a name may have dots.

    Raises:
        BadInputError: There is no such module or name, or it is not callable.
    """
    module, _colon, name = text.partition(":")
    if not module or not name:
        raise BadInputError(f"{where}: expected MODULE:NAME, got {text!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        # whatever a module raises while it is imported is the input's fault, not the command's
        raise BadInputError(f"{where}: {text}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise BadInputError(f"{where}: expected a callable, got {text!r}, which is none")
    return found


def maker(where: str, text: str) -> Callable[[ClusterState], Scheduler]:
    """Return what makes the scheduler that ``module:function`` names."""
    from gangsched.scheduler import Scheduler

    function = imported(where, text)

    def make(cluster: ClusterState) -> Scheduler:
        scheduler = function(cluster)
        if not isinstance(scheduler, Scheduler):
            got = f"{text} returned an object of type {type(scheduler).__name__}"
            raise BadInputError(f"{where}: expected a function that returns a Scheduler; {got}")
        return scheduler

    return make


def factories(where: str, names: Iterable[str]) -> dict[str, Callable[..., object]]:
    """Return the factories of the plugins whose names are ``module:name``."""
    return {name: imported(where, name) for name in names if ":" in name}
