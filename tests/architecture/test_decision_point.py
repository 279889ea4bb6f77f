"""One place decides where an entity goes, and one place ends an attempt."""

from __future__ import annotations

import ast
from pathlib import Path

import gangsched

FRAMEWORK = Path(gangsched.__file__).parent / "framework"
MOVES = frozenset({"activate", "gate", "park", "remove"})

MOVERS = {"backfill/reservation.py", "lifecycle/transition.py", "placement/nominator.py"}
"""The decision point, and the two that send for an entity whose reserved capacity is free."""


def files_that(found: object) -> set[str]:
    """Return the files of the framework in which a test of a node holds somewhere."""
    assert callable(found)
    return {
        path.relative_to(FRAMEWORK).as_posix()
        for path in FRAMEWORK.rglob("*.py")
        if any(found(node) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    }


def moves_in_the_queue(node: ast.AST) -> bool:
    """Return whether a node is a call such as ``state.queue.park(...)``."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Attribute(attr="queue") | ast.Name(id="queue"), attr=method
            )
        ):
            return method in MOVES
        case _:
            return False


def writes_the_attempt(node: ast.AST) -> bool:
    """Return whether a node assigns ``attempt_started_at``."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    return any(isinstance(t, ast.Attribute) and t.attr == "attempt_started_at" for t in targets)


def test_only_the_transition_moves_an_entity_in_the_queue() -> None:
    assert files_that(moves_in_the_queue) == MOVERS


def test_only_attempts_begin_and_end_an_attempt() -> None:
    assert files_that(writes_the_attempt) == {"lifecycle/group_attempt.py"}
