"""A chart of miss ratios by capacity, as an SVG without anything else."""

from __future__ import annotations

from html import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 16, 40
# Told apart by most readers with a weakness for colours (Okabe and Ito).
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933",
)


def chart(rows):
    """The SVG; empty if there are no two capacities to draw between."""
    lines = {}
    for row in rows:
        capacity, ratio = row.get("capacity"), row.get("miss_ratio")
        if isinstance(capacity, int) and isinstance(ratio, float) and row.get("kind") != "recommendation":
            lines.setdefault((row.get("trace"), row.get("policy")), []).append((capacity, ratio))
    capacities = {capacity for points in lines.values() for capacity, _ in points}
    if len(capacities) < 2:
        return ""
    from math import log10

    least, most = log10(min(capacities)), log10(max(capacities))

    def x(capacity):
        return LEFT + (log10(capacity) - least) / (most - least) * (WIDTH - LEFT - RIGHT)

    def y(ratio):
        return TOP + (1 - ratio) * (HEIGHT - TOP - BOTTOM)

    several = len({trace for trace, _ in lines}) > 1
    parts = [_axes(x, y, min(capacities), max(capacities))]
    for number, ((trace, policy), points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(capacity):.1f},{y(ratio):.1f}" for capacity, ratio in sorted(points))
        name = f"{trace} {policy}" if several else str(policy)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x(capacity):.1f}" cy="{y(ratio):.1f}" r="2" fill="{colour}"/>'
            for capacity, ratio in points
        ]
        if number < 18:
            at = TOP + 10 + 15 * number
            parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{at}" fill="{colour}">'
                         f"{escape(name[-24:])}</text>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">'
        + "".join(parts) + "</svg>"
    )


def _axes(x, y, least, most):
    parts = []
    for percent in (0, 25, 50, 75, 100):
        at = y(percent / 100)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ccc"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" fill="#555">{percent} %</text>'
        )
    for capacity in (least, most):
        parts.append(
            f'<text x="{x(capacity):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" '
            f'fill="#555">{capacity:,}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle" fill="#555">'
        "capacity; misses on the left</text>"
    )
    return "".join(parts)
