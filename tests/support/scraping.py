"""What a scheduler serves, as a scraper reads it."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from support.patience import HANG

__all__ = ["fetch", "readiness", "sample"]


def fetch(port: int, target: str) -> str:
    """Return the body of a page, whatever its status; empty if there is no answer.

    Nothing listens yet, or a busy program has closed the connection.
    """
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=HANG) as page:
            body: bytes = page.read()
    except urllib.error.HTTPError as error:
        with error:
            body = error.read()
    except OSError:
        return ""
    return body.decode()


async def readiness(port: int) -> str:
    """Return what ``/readyz`` answers; an empty text if nothing listens yet."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def sample(shown: str, name: str, label: str = "") -> float:
    """Return the sum of the series of a metric that have *label*, such as ``code="403"``."""
    found = [
        float(line.rpartition(" ")[2])
        for line in shown.splitlines()
        if line.partition(" ")[0].partition("{")[0] == name and label in line
    ]
    return sum(found)
