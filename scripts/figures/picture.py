"""The picture of the README: who was busy in `make demo`, as Spark places keys and with Evenly."""

from __future__ import annotations

from tables import Records

WIDTH, HEIGHT, PANEL, GAP = 480, 286, 212, 24
TOP, BASE, TALLEST = 74, 238, 150
"""Where bars may begin, where they stand, and how tall the tallest is."""

STYLE = """
  .ground { fill: #ffffff; stroke: #d8dee5; }
  text { font: 15px system-ui, sans-serif; fill: #22303c; }
  .strong { font-weight: 600; }
  .soft { fill: #5c6b7a; }
  .uneven { fill: #c2571a; }
  .even { fill: #1b7f6b; }
  .mean { stroke: #22303c; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #14191e; stroke: #3a4650; }
    text { fill: #dfe6ec; }
    .soft { fill: #a3b2bf; }
    .uneven { fill: #f0905a; }
    .even { fill: #55c7ae; }
    .mean { stroke: #dfe6ec; }
  }
"""


def picture(records: Records) -> str:
    """An SVG with a ground of its own, so that it can be read on any page, and colours for light and dark."""
    most = max(one["rows"] for one in records if one["series"] == "instance")
    told = {(one["grouping"], one["series"]): one for one in records if one["series"] in ("stage", "job")}
    panels = [
        _panel(records, grouping, title, 20 + at * (PANEL + GAP), most / TALLEST, told[grouping, "stage"])
        for at, (grouping, title) in enumerate((("hash", "as Spark places keys"), ("evenly", "with Evenly")))
    ]
    hashed, even = (told[grouping, "stage"] for grouping in ("hash", "evenly"))
    words = (
        f"Rows of 8 instances: the busiest has {hashed['imbalance_pct_mean']:.1f} % more than the mean as Spark places keys, "
        f"{even['imbalance_pct_mean']:.1f} % with Evenly; the stage takes {hashed['seconds']:.1f} s and {even['seconds']:.1f} s"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">',
            f"<title>{words}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
            *panels,
            "</svg>",
            "",
        ]
    )


def _panel(records: Records, grouping: str, title: str, left: int, rows_per_px: float, told: dict[str, float]) -> str:
    rows = [one["rows"] for one in records if one["series"] == "instance" and one["grouping"] == grouping]
    step = PANEL / len(rows)
    mean = sum(rows) / len(rows)
    kind = "uneven" if grouping == "hash" else "even"
    parts = [
        f'<text class="strong" x="{left}" y="30">{title}</text>',
        f'<text class="soft" x="{left}" y="51">λ = {told["imbalance_pct_mean"]:.1f} %</text>',
    ]
    for at, count in enumerate(rows):
        height = count / rows_per_px
        shade = "" if count == max(rows) else ' opacity="0.62"'
        place = f'x="{left + at * step + 2:.1f}" y="{BASE - height:.1f}" width="{step - 4:.1f}" height="{height:.1f}"'
        parts.append(f'<rect class="{kind}"{shade} {place}><title>instance {at}: {count:,} rows</title></rect>')
    line = BASE - mean / rows_per_px
    parts.append(f'<line class="mean" x1="{left}" x2="{left + PANEL}" y1="{line:.1f}" y2="{line:.1f}"/>')
    ends = f'<tspan class="strong">{told["seconds"]:.1f} s</tspan>'
    parts.append(f'<text x="{left}" y="{BASE + 28}">the stage ends after {ends}</text>')
    return "\n".join(parts)
