"""Law 9: same events, same instants, same effects, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

PROGRAM = """
import random
from support.history_steps import *
from support.driver import Fate
from gangsched import SchedulingUnit
from support.histories import Policy

def history(seed):
    draw = random.Random(seed)
    yield from (PutNode(n, cpu=1) for n in range(3))
    for n in range(80):
        yield draw.choice([
            PutPods(draw.randrange(4), draw.randint(2, 4), 4), PutPods(draw.randrange(4), 2, 4),
            PutPods(None, 1, priority=draw.randrange(2)),
            PutGroup(draw.randrange(4), draw.randint(2, 5), priority=draw.choice([None, None, 1])),
            DropGroup(draw.randrange(4)),
            ChangePod(draw.randrange(40), draw.choice(["delete", "succeed", "recreate"])),
            Decide(fate=draw.choice(list(Fate))), Decide(2), Pass(), Report(draw.randrange(4)),
            PutNode(draw.randrange(3), cpu=draw.randint(1, 2)),
            Restart() if n % 2 else Decide(), Rebuild(),
        ])

for unit in SchedulingUnit:
    policy = Policy(unit=unit, strict_priorities=True)
    for seed in (2, 10, 11):
        print(repr(policy.world().live(*history(seed)).finish().driver.log))
"""


@pytest.mark.once("its programs decide by both units")
def test_seed_of_pythons_hashes_does_not_matter() -> None:
    """Nor in the order of a set: with rejections, refusals, restarts and listings."""
    path = os.pathsep.join([str(TESTS), *(p for p in sys.path if p.endswith("src"))])
    outputs = set()
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
        )
        outputs.add(done.stdout)
    (effects,) = outputs
    for name in (b"Bind(", b"GroupRejected(", b"PodRefused(", b"Release(", b"PodRejected("):
        assert effects.count(name) > 2
