"""The nodes of runs over time: which job held which GPU, and whether the job worked then."""

from __future__ import annotations

from pictures.runs import Held, Run, spans
from pictures.svg import FAINT, INK, Picture

__all__ = ["gantt"]

COLOURS = (
    "#4e79a7",
    "#e8963a",
    "#59a14f",
    "#d4636b",
    "#6fb1ad",
    "#a878a8",
    "#c9a227",
    "#8c6d5a",
)
LEFT, RIGHT, TOP = 66.0, 24.0, 58.0
LANE, GAP = 11.0, 7.0
HEADING = 40.0
"""The height of the caption above each run."""


def gantt(runs: dict[str, Run], *, title: str, width: float = 800) -> str:
    """Return runs as one picture, one below the other, over one axis of time.

    Args:
        runs: The runs, by their captions.
        title: The title of the picture.
        width: In pixels.
    """
    until = max(run.until for run in runs.values())
    scale = (width - LEFT - RIGHT) / until
    heights = [sum(lanes * LANE + GAP for lanes in run.nodes.values()) for run in runs.values()]
    picture = Picture(width, TOP + sum(heights) + HEADING * len(runs) + 34, title)
    jobs = sorted({_name(one) for run in runs.values() for one in run.held})
    colours = {job: COLOURS[n % len(COLOURS)] for n, job in enumerate(jobs)}
    _stripes(picture, {**colours, "": FAINT})
    picture.text(16, 26, title, font_size=15, font_weight="bold")
    _legend(picture)
    top = TOP
    for (name, run), height in zip(runs.items(), heights, strict=True):
        picture.text(16, top + 26, name, font_size=13)
        _nodes(picture, run, top + HEADING, scale)
        for one in run.held:
            _held(picture, one, run, top + HEADING, scale, colours)
        top += HEADING + height
    _axis(picture, until, scale, top)
    return str(picture)


def _stripes(picture: Picture, colours: dict[str, str]) -> None:
    picture.raw("<defs>")
    for job, colour in colours.items():
        picture.raw(
            f'<pattern id="{_idle(job)}" width="5" height="5" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><rect width="5" height="5" fill="#ffffff"/>'
            f'<rect width="1.8" height="5" fill="{colour}"/></pattern>'
        )
    picture.raw("</defs>")


def _name(one: Held) -> str:
    """Return what is drawn in one colour: a job, or a copy of a role of it."""
    return f"{one.job}/{one.part}" if one.part else one.job


def _idle(job: str) -> str:
    return "idle-" + job.partition("/")[2].replace("/", "-")


def _legend(picture: Picture) -> None:
    picture.rect(16, 40, 22, 12, fill=FAINT, stroke=FAINT)
    picture.text(44, 50, "the job runs")
    picture.rect(140, 40, 22, 12, fill=f"url(#{_idle('')})", stroke=FAINT)
    picture.text(168, 50, "a part of the job holds GPUs and waits for the rest")


def _nodes(picture: Picture, run: Run, top: float, scale: float) -> None:
    for name, lanes in run.nodes.items():
        picture.rect(LEFT, top, run.until * scale, lanes * LANE, fill="#f1f4f7")
        middle = top + lanes * LANE / 2 + 4
        picture.text(LEFT - 8, middle, name, text_anchor="end", font_size=11)
        top += lanes * LANE + GAP


def _held(
    picture: Picture, one: Held, run: Run, top: float, scale: float, colours: dict[str, str]
) -> None:
    for name, lanes in run.nodes.items():
        if name == one.node:
            break
        top += lanes * LANE + GAP
    works = min(max(run.works.get(one.job, one.until), one.since), one.until)
    for lane, count in spans(one):
        y, height = top + lane * LANE, count * LANE
        for since, until, fill in (
            (one.since, works, f"url(#{_idle(_name(one))})"),
            (works, one.until, colours[_name(one)]),
        ):
            if until > since:
                x, width = LEFT + since * scale, (until - since) * scale
                picture.rect(x, y, width, height, fill=fill, stroke="#ffffff", stroke_width=0.8)
                if width >= 12:
                    _label(picture, one, x, y + height / 2 + 3.5, dark=until == works)


def _label(picture: Picture, one: Held, x: float, y: float, *, dark: bool) -> None:
    name = one.part or one.job.partition("/")[2].removesuffix("-0")
    halo = {"stroke": "#ffffff", "stroke_width": 3, "paint_order": "stroke"} if dark else {}
    fill = INK if dark else "#ffffff"
    picture.text(x + 4, y, name, font_size=9.5, font_weight="bold", **{**halo, "fill": fill})


def _axis(picture: Picture, until: float, scale: float, top: float) -> None:
    end = LEFT + until * scale
    picture.line(LEFT, top + 2, end, top + 2, stroke=FAINT)
    for second in range(0, int(until) + 1, 20):
        x = LEFT + second * scale
        picture.line(x, top + 2, x, top + 7, stroke=FAINT)
        if second % 60 == 0:
            picture.text(x, top + 20, f"{second} s", text_anchor="middle", font_size=11)
