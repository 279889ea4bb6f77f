"""A function takes the owners of the state that it uses, and the whole state only if it needs most.

The count of functions that take the whole state is printed, and must not grow:
``pytest -s tests/architecture/test_owners.py`` shows it.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from attrs import fields

import gangsched
from gangsched.framework.state.scheduler_state import State
from support.layers import sources
from support.owners import OWNERS, Use, uses

FRAMEWORK = "gangsched.framework."
LEAST = 4
"""A function that uses fewer owners takes these."""

MOST = 126
"""How many functions and classes may take or keep the whole state."""

WHOLE = {
    "snapshot.document.to_state": "fills an empty state",
    "snapshot.read.read_into": "fills an empty state",
    "snapshot.reading.Reading": "has the state that is filled",
}
"""The functions that take the whole state although they read little of it, with the reason."""


def used() -> dict[str, Use]:
    """Return what the functions of the framework use, without those of the owners themselves."""
    modules = sources(Path(gangsched.__file__).parent)
    found = uses({name: text for name, text in modules.items() if name.startswith(FRAMEWORK)})
    return {name.removeprefix(FRAMEWORK): use for name, use in found.items()}


def in_module(source: str) -> dict[str, Use]:
    return {name.partition(".")[2]: use for name, use in uses({"m": dedent(source)}).items()}


def test_owners_are_the_attributes_of_the_state() -> None:
    assert set(OWNERS) == {each.name for each in fields(State)}


def test_function_takes_the_state_only_if_it_uses_most_owners() -> None:
    taking = {name: use for name, use in used().items() if use.takes_state}
    few = {name for name, use in taking.items() if len(use.owners) < LEAST}
    assert few == WHOLE.keys()


def test_few_functions_take_the_state() -> None:
    found = used()
    taking = [name for name, use in found.items() if use.takes_state]
    print(f"{len(taking)} of {len(found)} functions and classes take or keep the whole state")
    assert len(taking) <= MOST


@pytest.mark.parametrize("how", ["state.pods.members", "of(state)", "C(state)", "C.made(state)"])
def test_use_of_an_owner_is_found(how: str) -> None:
    found = in_module(
        f"""
        def of(state: State): return state.pods
        class C:
            def __init__(self, state: State): self._state = state
            def pods(self): return self._state.pods
        def f(state: State): return {how}
        """
    )
    assert "pods" in found["f"].owners
    assert found["f"].takes_state


def test_function_that_passes_the_state_to_something_unknown_counts_as_using_all() -> None:
    assert in_module("def f(state: State): g(state)")["f"].owners == set(OWNERS)


def test_function_that_takes_owners_does_not_take_the_state() -> None:
    assert not in_module("def f(pods: Pods): return pods.members")["f"].takes_state
