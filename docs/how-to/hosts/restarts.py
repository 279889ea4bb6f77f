"""Kill the controller in the middle of a gang, and start it again."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

from controller import SCHEMA, Controller

TABLES = "jobs.db"


class Dies(Controller):
    """Is killed when it has written the node of one worker."""

    def write_one(self, name: str, node: str) -> None:
        super().write_one(name, node)
        os.kill(os.getpid(), signal.SIGKILL)


def controller(kind: str) -> "subprocess.Popen[bytes]":
    """Start a controller in a process of its own."""
    program = f"import asyncio, restarts; asyncio.run(restarts.{kind}({TABLES!r}).run())"
    return subprocess.Popen([sys.executable, "-c", program])


def show(db: sqlite3.Connection, title: str) -> None:
    """Print the node of each worker."""
    rows = db.execute("SELECT name, node FROM workers ORDER BY name DESC").fetchall()
    print(title, *(f"{name}={node or '-'}" for name, node in rows), flush=True)


def until_placed(db: sqlite3.Connection, job: str, *, seconds: float = 30.0) -> None:
    """Wait until all workers of a job have a node."""
    end = time.monotonic() + seconds
    question = "SELECT count(*) FROM workers WHERE job = ? AND node IS NULL"
    while db.execute(question, (job,)).fetchone()[0]:
        if time.monotonic() > end:
            raise TimeoutError(f"{job} is not placed after {seconds:g} s")
        time.sleep(0.05)


def main() -> None:
    """Two nodes with two slots, two jobs of three workers, one controller after the other."""
    db = sqlite3.connect(TABLES, isolation_level=None)
    db.executescript(SCHEMA)
    db.executemany("INSERT INTO nodes VALUES (?, ?)", [("node-0", 2), ("node-1", 2)])
    db.executemany("INSERT INTO jobs VALUES (?, ?)", [("red", 3), ("blue", 3)])
    for number in range(3):
        for job in ("red", "blue"):
            db.execute("INSERT INTO workers (name, job) VALUES (?, ?)", (f"{job}-{number}", job))

    controller("Dies").wait(timeout=30.0)
    show(db, "killed while it wrote red:\n ")

    second = controller("Controller")
    until_placed(db, "red")
    second.kill()
    second.wait()
    show(db, "started again, and killed while red runs:\n ")

    db.execute("UPDATE workers SET done = 1 WHERE job = 'red'")
    third = controller("Controller")
    until_placed(db, "blue")
    third.kill()
    third.wait()
    show(db, "red is done, started again:\n ")


if __name__ == "__main__":
    main()
