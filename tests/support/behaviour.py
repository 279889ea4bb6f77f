"""Print the behaviour of an installed copy: the build of the heap, then what all builds share.

Run by itself, without pytest: ``.ci/run`` compares what it prints with the extension and without.
"""

from __future__ import annotations

import math
import random

import gangsched
from gangsched import PriorityHeap

__all__: list[str] = []


def history(seed: int) -> list[str]:
    """Return the results and errors of a heap in a long history of pushes, pops and removals."""
    draw = random.Random(seed)
    heap: PriorityHeap[int] = PriorityHeap()
    handles = []
    told = []
    faulty = [math.nan, "a", (1, "a"), (0.5, math.nan), 2**80, (2**80, 0), (True, -0.0), None]
    for item in range(3_000):
        key = (
            draw.choice(faulty)
            if seed and draw.random() < 0.01
            else (draw.randrange(9), draw.random() * 9)
        )
        try:
            match draw.randrange(7):
                case 0 | 1 | 2:
                    handles.append(heap.push(key, item))
                case 3 | 4:
                    told.append(f"popped {heap.pop()}")
                case 5 if handles:
                    told.append(f"removed {heap.remove(draw.choice(handles))}")
                case _ if handles:
                    place = draw.randrange(len(handles))
                    handles[place] = heap.rekey(handles[place], key)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}; {error.__cause__!r}")
            if seed and draw.random() < 0.1:
                heap.clear()
    return [*told, f"{len(heap)} left"]


if __name__ == "__main__":
    print(gangsched.heap_implementation)
    for seed in range(6):
        print("\n".join(history(seed)))
