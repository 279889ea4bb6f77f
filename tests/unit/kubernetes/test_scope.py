"""The namespaces that an answer may speak of."""

from __future__ import annotations

import pytest

from gangsched.kubernetes._scope import MOST_REVIEWED, NotReadableError, Scope, among, scope_of
from support.running import on_a_loop


class Asker:
    """May list the pods of some namespaces; the empty name is all."""

    name = "ann"

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = namespaces
        self.reviewed: list[str] = []

    async def may_get(self, path: str) -> bool:
        return False

    async def may_list_pods(self, namespace: str) -> bool:
        self.reviewed.append(namespace)
        return namespace in self.namespaces


@on_a_loop
async def test_scope_is_what_the_asker_may_read_and_has_asked_for() -> None:
    everything = await scope_of(Asker(""), None)
    assert everything == Scope()
    assert await scope_of(Asker(""), "team") == Scope(asked="team")
    own = await scope_of(Asker("team"), "team")
    assert own is not None
    assert own.has("team/a")
    assert not own.has("other/a")
    assert await scope_of(Asker("team"), None) is None
    for wrong in ("other", ""):
        with pytest.raises(NotReadableError, match="ann may not list the pods"):
            await scope_of(Asker("team"), wrong)


@on_a_loop
async def test_namespaces_with_rows_are_reviewed_up_to_a_bound() -> None:
    asker = Asker("b", "c")
    scope = await among(asker, ["a", "b", "c"])
    assert [name for name in ("a/x", "b/x", "c/x") if scope.has(name)] == ["b/x", "c/x"]
    with pytest.raises(NotReadableError, match="name a namespace"):
        await among(asker, ["a"])
    asker.reviewed.clear()
    with pytest.raises(NotReadableError, match="namespace=NAME"):
        await among(asker, [f"n-{n}" for n in range(MOST_REVIEWED + 1)])
    assert asker.reviewed == []


SCOPE = Scope(frozenset({"team"}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("reserved for pod group other/large", "reserved for pod group (of another namespace)"),
        ("pod other/a-0 and team/b-0.", "pod (of another namespace) and team/b-0."),
        (
            "waiting for other/a, other/b",
            "waiting for (of another namespace), (of another namespace)",
        ),
        ("0/2 nodes are available: nvidia.com/gpu is short", None),
        ("topology.kubernetes.io/zone and absent/name", None),
        ("https://example.com/other/a", None),
    ],
)
def test_names_of_other_namespaces_are_left_out_of_sentences(text: str, shown: str | None) -> None:
    def exists(key: str) -> bool:
        return key.partition("/")[0] in ("team", "other")

    expected = text if shown is None else shown
    assert SCOPE.without_others([{"reason": text, "n": 1}], exists) == [
        {"reason": expected, "n": 1}
    ]
    assert Scope().without_others(text, exists) == text
