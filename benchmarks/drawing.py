"""Bars of ratios as SVG, for ``heap.py``."""

from __future__ import annotations


def chart(ratios: dict[str, dict[int, float]], sizes: list[int]) -> str:
    """Return a drawing of the ratios as SVG: shorter is better, and the line is heapq."""
    left, row, top, width, most = 240, 14, 66, 760, 4.0
    colours = ["#8da0cb", "#fc8d62", "#66c2a5", "#e78ac3"]
    scale = (width - left - 70) / most
    height = top + sum(row * len(cells) + 12 for cells in ratios.values()) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<text x="10" y="22" font-size="15">Push and pop of an item, heapq with ready tuples = 1'
        "</text>",
    ]
    for number, size in enumerate(sizes):
        x = 10 + number * 130
        parts.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{colours[number]}"/>')
        parts.append(f'<text x="{x + 18}" y="47">{size:,} items</text>')
    y = top
    for name, cells in ratios.items():
        middle = y + row * len(cells) / 2 + 4
        parts.append(f'<text x="{left - 10}" y="{middle:.0f}" text-anchor="end">{name}</text>')
        for size, ratio in cells.items():
            long = min(ratio, most) * scale
            colour = colours[sizes.index(size)]
            parts.append(
                f'<rect x="{left}" y="{y}" width="{long:.1f}" height="{row - 2}" fill="{colour}"/>'
            )
            parts.append(
                f'<text x="{left + long + 5:.1f}" y="{y + row - 4}" font-size="10">{ratio:.2f}'
                "</text>"
            )
            y += row
        y += 12
    x = left + scale
    parts.append(f'<path d="M{x} {top - 6}V{height - 6}" stroke="#555" stroke-dasharray="3"/>')
    return "\n".join([*parts, "</svg>", ""])
