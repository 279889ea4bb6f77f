"""Snapshots: what a scheduler remembers beside the cluster, as plain data, and back.

``write`` turns the state into rows, ``forms`` turns rows into plain data and back, and ``read``
adds rows to a listing of the cluster. ``under_way`` repeats what had not been done.

Rules:
  R1  a snapshot is read as a whole before anything changes. A snapshot that contradicts itself is
      refused.
"""

from __future__ import annotations

from typing import Any, Final

from gangsched._version import __version__
from gangsched.core.queue.check import check_queue
from gangsched.core.records.check import check_records
from gangsched.core.snapshot.forms import SNAPSHOT
from gangsched.core.snapshot.read import read_into
from gangsched.core.snapshot.rows import SnapshotRow
from gangsched.core.snapshot.write import plugin_states, written
from gangsched.core.state import State
from gangsched.errors import GangschedError, InternalError, InvalidValueError, PluginError
from gangsched.profile import Profile
from gangsched.profile.calls import name_of
from gangsched.values.forms import as_object

__all__ = ["FORMAT", "restore_plugins", "to_data", "to_state"]

FORMAT: Final = "gangsched.snapshot/4"
"""The name and version of the format, as a snapshot has it."""


def to_data(state: State, *, listed: bool) -> dict[str, Any]:
    """Return a snapshot of a state. O(all of it)."""
    rows = written(state, listed=listed)
    return {"format": FORMAT, "gangsched": __version__, **SNAPSHOT.write(rows)}


def to_state(blank: State, data: object) -> SnapshotRow:
    """Fill an empty state with the cluster and a snapshot; return its rows. O(all of it).

    Raises:
        InvalidValueError: It is no snapshot, or one of another format, unit or profile, or it
            contradicts itself; names the field and the value.
        PluginError: A plugin raised.
    """
    given = dict(as_object(data, "snapshot"))
    found, version = given.pop("format", None), given.pop("gangsched", None)
    if found != FORMAT:
        expected = f"{FORMAT}; instead of another one, list the cluster with rebuild"
        raise InvalidValueError("format", found, expected)
    if not isinstance(version, str):
        raise InvalidValueError("gangsched", version, "a version")
    try:
        rows = SNAPSHOT.read(given, "")
        _check_made_for(blank, rows)
        read_into(blank, rows)
        check_records(blank.records)
        check_queue(blank.queue, blank.records.gangs.values())
    except InternalError as error:
        expected = f"consistent: {error.invariant}"
        raise InvalidValueError("snapshot", "a snapshot", expected) from error
    except GangschedError:
        raise
    except (ArithmeticError, AssertionError, LookupError, RecursionError) as error:
        expected = f"consistent: {error!r}"
        raise InvalidValueError("snapshot", "a snapshot", expected) from error
    deferred = blank.call.errors
    if deferred:
        raise deferred[0]
    deferred.extend(row.error() for row in rows.errors)
    return rows


def _check_made_for(state: State, rows: SnapshotRow) -> None:
    settings = state.settings
    if rows.unit is not settings.unit:
        expected = f"{settings.unit.value}, the unit of this scheduler"
        raise InvalidValueError("unit", rows.unit.value, expected)
    names = tuple(name_of(plugin) for plugin in settings.profile.plugins)
    if rows.plugins != names:
        raise InvalidValueError("plugins", rows.plugins, f"{names}, the plugins of this scheduler")
    keepers = tuple(name_of(plugin) for plugin in settings.profile.having("snapshot"))
    kept = tuple(name for name, _data in rows.plugin_states)
    if kept != keepers:
        expected = f"{keepers}, the plugins with state in this scheduler"
        raise InvalidValueError("plugin_states", kept, expected)


def restore_plugins(profile: Profile, rows: SnapshotRow) -> None:
    """Restore the state of all plugins, or of none.

    Raises:
        PluginError: A plugin raised. The other plugins have their previous state. The error names
            each plugin whose state could not be put back.
    """
    keepers, before = profile.having("snapshot"), plugin_states(profile)
    for number, (plugin, (name, data)) in enumerate(zip(keepers, rows.plugin_states, strict=True)):
        try:
            plugin.restore(data)
        except Exception as error:
            problem = f"raised {error!r}"
            for done, (other, kept) in zip(keepers[:number], before, strict=False):
                try:
                    done.restore(kept)
                except Exception as again:
                    problem += f"; {other!r} raised {again!r} as its own was put back"
            raise PluginError(name, "restore", "its state", problem) from error
