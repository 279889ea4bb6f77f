"""Packing against the oracle: small instances, every way to place every pod.

How many instances there are goes with the profile: 2,000 in ``fast``, 4,000 in ``ci`` and
200,000 in ``deep``; each is decided twice, once without the greedy passes and the bounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from gangsched._packing import pack
from support.packing import Answer, Oracle, random_case, solve

TESTS = Path(__file__).parents[1]
INSTANCES = {50: 2_000, 200: 4_000, 20_000: 200_000}.get(settings().max_examples, 2_000)


def search_alone(monkeypatch: pytest.MonkeyPatch, seed: int) -> Answer:
    """Decide an instance by nothing but the search."""

    def no_passes(problem: Any) -> Iterator[Any]:
        return iter(())

    with monkeypatch.context() as patch:
        patch.setattr(pack, "passes", no_passes)
        return solve(random_case(Random(seed)))


def test_every_answer_is_what_all_ways_to_place_the_pods_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[object] = Counter()
    for seed in range(INSTANCES):
        case = random_case(Random(seed))
        oracle = Oracle(case)
        for answer in (solve(case), search_alone(monkeypatch, seed)):
            oracle.judge(answer)
            searched = answer.steps > 0
            if isinstance(answer, pack.Impossible):
                seen["impossible", searched, answer.alone, answer.resource, answer.in_pieces] += 1
            else:
                seen["packed", searched] += 1
    everything = {
        ("packed", False),
        ("packed", True),
        *(("impossible", s, True, r, False) for s in (True, False) for r in ("cpu", "gpu", None)),
        *(("impossible", True, True, resource, True) for resource in ("cpu", "gpu")),
        ("impossible", True, False, "gpu", True),
    }
    assert everything <= seen.keys()


def test_small_budget_is_never_a_wrong_answer() -> None:
    """Answers within a budget are true, and the budget is respected."""
    for seed in range(INSTANCES // 4):
        random = Random(seed)
        case = random_case(random)
        oracle = Oracle(case)
        budget = random.randint(0, 40)
        answer = pack.pack(
            [pack.Demand(k, n, case.room.requests[k]) for k, n in case.counts.items()],
            case.quotas,
            case.nodes,
            case.room,
            budget=budget,
        )
        assert answer.steps <= budget
        if isinstance(answer, pack.Packed):
            oracle.judge(answer)
        elif isinstance(answer, pack.Impossible):
            assert not oracle.possible(), case
            earlier = () if answer.alone else oracle.quotas[: oracle.quotas.index(answer.quota)]
            fits = max(
                (oracle.count(way, answer.quota) for way in oracle.meeting(earlier)), default=0
            )
            assert fits <= answer.fits < answer.quota.at_least, case
            assert not answer.exact or fits == answer.fits, case


def test_answer_is_the_same_whatever_the_hashes_are() -> None:
    script = (
        "from random import Random\n"
        "from support.packing import random_case, solve\n"
        "for seed in range(150): print(solve(random_case(Random(seed))))\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            cwd=TESTS,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0].count("\n") >= 150
    assert told[0] == told[1]
