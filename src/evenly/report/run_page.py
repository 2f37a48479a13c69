"""The page of a run: planned, predicted and observed side by side, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenly.dataflow.reports import FlowBatch
from evenly.numbers import plain
from evenly.planning.observed.peak import Peak
from evenly.planning.observed.replanning import Event
from evenly.planning.observed.verdict import Verdict
from evenly.report.page import picture, rendered

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 180, 52, 24
_LETTERS = 13


def run_page(
    name: str,
    batches: Sequence[FlowBatch],
    verdict: Verdict | None,
    changes: Sequence[Event],
    peak: Peak | None,
    *,
    numbers: Sequence[Mapping[str, object]],
) -> str:
    """One self-contained page. `numbers` are what `evenly run --json` prints."""
    limit_s = None if verdict is None else verdict.trigger_s
    drawing = picture([batches_svg(batches, limit_s)], smallest=_LETTERS) if batches else ""
    last = batches[-1].operators if batches else {}
    told = [str(it) for it in changes]
    return rendered(
        "run", numbers=numbers, name=name, batches=batches, verdict=verdict, drawing=drawing, last=last, changes=told, peak=peak
    )


def batches_svg(batches: Sequence[FlowBatch], trigger_s: float | None) -> str:
    """How long each batch took, as bars, with the trigger as a line."""
    top_s = max([*(it.took_s for it in batches), trigger_s or 0.0, 1e-9]) * 1.05
    wide = (_WIDTH - _LEFT) / max(len(batches), 1)
    high = _HEIGHT - _BOTTOM
    parts = []
    for place, it in enumerate(batches):
        tall = high * it.took_s / top_s
        kind = "late" if trigger_s is not None and it.took_s > trigger_s else "bar"
        tip = f"batch {it.number}: {plain(it.took_s)} s"
        parts.append(
            f'<rect class="{kind}" x="{_LEFT + place * wide:.1f}" y="{high - tall:.1f}" width="{max(wide - 2, 0.5):.1f}" '
            f'height="{tall:.1f}"><title>{tip}</title></rect>'
        )
    if trigger_s is not None:
        at = high * (1.0 - trigger_s / top_s)
        parts.append(
            f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH}" y2="{at:.1f}"/><text x="2" y="{at + 4:.1f}">trigger</text>'
        )
    parts.append(f'<text x="2" y="12">{plain(top_s)} s</text><text x="{_LEFT}" y="{_HEIGHT - 6}">batches, oldest first</text>')
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-size="{_LETTERS}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(parts)}</svg>'
