"""Arguments of a wrong type: each public function refuses them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from gangsched import presets
from gangsched.errors import InvalidValueError
from gangsched.objects import (
    PriorityClasses,
    read_core_group,
    read_group,
    read_manifest,
    read_node,
    read_pod,
)
from gangsched.replay import DecisionLog, Recipe, Replay, read_log, replay
from gangsched.simulation import (
    Simulator,
    Workload,
    load_manifests,
    load_trace,
    parse_nodes_shape,
    report,
)

HEADER = "job,submit_s,workers,gpus_per_worker,duration_s\n"
ANY: Any = None


CALLS: dict[str, tuple[Callable[[], object], str, object]] = {
    "load_trace, lines None": (lambda: load_trace(ANY, file="f"), "lines", None),
    "load_trace, a line None": (lambda: load_trace([ANY], file="f"), "lines", None),
    "load_trace, a line of bytes": (
        lambda: load_trace(cast("Any", [b"job"]), file="f"),
        "lines",
        b"job",
    ),
    "load_trace, one string": (lambda: load_trace(HEADER, file="f"), "lines", HEADER),
    "load_trace, file None": (lambda: load_trace([HEADER], file=ANY), "file", None),
    "parse_nodes_shape, None": (lambda: parse_nodes_shape(ANY), "nodes", None),
    "parse_nodes_shape, int": (lambda: parse_nodes_shape(cast("Any", 40)), "nodes", 40),
    "load_manifests, text None": (lambda: load_manifests(ANY, file="f"), "text", None),
    "load_manifests, bytes": (
        lambda: load_manifests(cast("Any", b"{}"), file="f"),
        "text",
        b"{}",
    ),
    "load_manifests, file None": (lambda: load_manifests("", file=ANY), "file", None),
    "load_manifests, at None": (lambda: load_manifests("", file="f", at=ANY), "at", None),
    "load_manifests, classes": (
        lambda: load_manifests("", file="f", classes=cast("Any", {})),
        "classes",
        {},
    ),
    "Workload.merge": (lambda: Workload().merge(ANY), "others[0]", None),
    "Simulator, workload": (lambda: Simulator(ANY, presets.gang), "workload", None),
    "Simulator, make": (lambda: Simulator(Workload(), ANY), "make", None),
    "Simulator, log": (lambda: Simulator(Workload(), presets.gang, log=cast("Any", 3)), "log", 3),
    "Simulator, observers": (
        lambda: Simulator(Workload(), presets.gang, observers=ANY),
        "observers",
        None,
    ),
    "Simulator.from_log": (lambda: Simulator.from_log(ANY), "lines", None),
    "report": (lambda: report(ANY), "simulator", None),
    "read_log, lines": (lambda: read_log(ANY), "lines", None),
    "read_log, file": (lambda: read_log([], file=ANY), "file", None),
    "replay": (lambda: replay(ANY), "lines", None),
    "Replay": (lambda: Replay(ANY), "log", None),
    "DecisionLog, write": (lambda: DecisionLog(ANY, presets.gang), "write", None),
    "DecisionLog, make": (lambda: DecisionLog(print, ANY), "make", None),
    "Recipe": (lambda: Recipe(cast("Any", [])), "preset", []),
    "read_manifest": (
        lambda: read_manifest(ANY, at=0.0, classes=PriorityClasses()),
        "document",
        None,
    ),
    "read_pod": (lambda: read_pod(ANY, ANY), "manifest", None),
    "read_node": (lambda: read_node(ANY), "manifest", None),
    "read_group": (lambda: read_group(ANY), "manifest", None),
    "read_core_group": (lambda: read_core_group(ANY), "manifest", None),
}


@pytest.mark.parametrize(("call", "field", "value"), CALLS.values(), ids=CALLS)
def test_argument_of_the_wrong_type_is_refused_by_name(
    call: Callable[[], object], field: str, value: object
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        call()
    assert (caught.value.field, caught.value.value) == (field, value)
