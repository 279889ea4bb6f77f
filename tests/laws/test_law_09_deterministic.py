"""Law 9: same events, same instants, same effects, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given

from gangsched import SchedulingUnit
from support.cores import current_core
from support.examples import one_in
from support.histories import Policy, histories, policies
from support.history_steps import HistoryStep
from support.units import current

TESTS = Path(__file__).parents[1]

PROGRAM = """
import random
from support.cores import deciding_with
from support.history_steps import *
from support.driver import Fate
from gangsched import SchedulingUnit
from support.histories import Policy
draw = random.Random(int({seed!r}))
steps = [PutNode(n, cpu=1) for n in range(3)]
for n in range(80):
    steps.append(draw.choice([
        PutPods(draw.randrange(4), draw.randint(2, 4), 4), PutPods(draw.randrange(4), 2, 4),
        PutPods(None, 1, priority=draw.randrange(2)),
        PutGroup(draw.randrange(4), draw.randint(2, 5), priority=draw.choice([None, None, 1])),
        DropGroup(draw.randrange(4)),
        ChangePod(draw.randrange(40), draw.choice(["delete", "succeed", "recreate"])),
        Decide(fate=draw.choice(list(Fate))), Decide(2), Pass(), Report(draw.randrange(4)),
        PutNode(draw.randrange(3), cpu=draw.randint(1, 2)),
        Restart() if n % 2 else Decide(), Rebuild(),
    ]))
policy = Policy(unit=SchedulingUnit({unit!r}), strict_priorities=True)
with deciding_with({core!r}):
    world = policy.world().live(*steps).finish()
print(repr(world.driver.log))
"""


@one_in(4)
@given(policies, histories())
def test_repeated_history_gives_the_same_effects(policy: Policy, steps: list[HistoryStep]) -> None:
    first, second = (policy.world().live(*steps).finish().driver.log for _turn in range(2))
    assert repr(first) == repr(second)


def test_seed_of_pythons_hashes_does_not_matter() -> None:
    """Nor in the order of a set: with rejections, refusals, restarts and listings."""
    effects = b""
    for seed in ("2", "10", "11"):
        program = PROGRAM.format(seed=seed, unit=current().value, core=current_core())
        outputs = set()
        for hash_seed in ("0", "4711"):
            done = subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                check=True,
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": _path()},
            )
            outputs.add(done.stdout)
        assert len(outputs) == 1
        effects += outputs.pop()
    for name in (b"Bind(", b"GroupRejected(", b"PodRefused(", b"Release("):
        assert effects.count(name) > 2
    assert (effects.count(b"PodRejected(") > 2) is (current() is SchedulingUnit.POD)


def _path() -> str:
    return os.pathsep.join([str(TESTS), *(p for p in sys.path if p.endswith("src"))])
