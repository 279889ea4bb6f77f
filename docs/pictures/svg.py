"""A picture as text: shapes in the order in which they are drawn, one on each line.

Rules:
  R1  the same shapes give the same text, byte for byte: numbers have at most two decimals;
  R2  a picture has its own background, so that it can be read on a page of any colour.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

__all__ = ["FAINT", "INK", "Picture", "number"]

INK = "#1f2933"
FAINT = "#9aa5b1"


def number(value: float) -> str:
    """Return a number with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Picture:
    """Shapes on a white background.

    Args:
        width: In pixels.
        height: In pixels.
        title: A description for screen readers.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        size = f'width="{number(width)}" height="{number(height)}"'
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {number(width)} '
            f'{number(height)}" font-family="Helvetica, Arial, sans-serif" font-size="12" '
            'role="img">',
            f"<title>{escape(title)}</title>",
        ]
        self.rect(0, 0, width, height, fill="#ffffff", rx=6)

    def raw(self, text: str) -> None:
        """Add markup as it is."""
        self._lines.append(text)

    def shape(self, tag: str, content: str | None = None, /, **attributes: object) -> None:
        """Add an element; ``stroke_width`` is written as ``stroke-width``."""
        written = "".join(
            f" {name.replace('_', '-')}={quoteattr(_value(value))}"
            for name, value in attributes.items()
        )
        end = "/>" if content is None else f">{escape(content)}</{tag}>"
        self._lines.append(f"<{tag}{written}{end}")

    def rect(self, x: float, y: float, width: float, height: float, **more: object) -> None:
        """Add a rectangle."""
        self.shape("rect", None, x=x, y=y, width=width, height=height, **more)

    def line(self, x1: float, y1: float, x2: float, y2: float, **more: object) -> None:
        """Add a line."""
        self.shape("line", None, x1=x1, y1=y1, x2=x2, y2=y2, **more)

    def text(self, x: float, y: float, content: str, **more: object) -> None:
        """Add text."""
        self.shape("text", content, x=x, y=y, **{"fill": INK, **more})

    def __str__(self) -> str:
        return "\n".join([*self._lines, "</svg>", ""])


def _value(value: object) -> str:
    return number(value) if isinstance(value, int | float) else str(value)
