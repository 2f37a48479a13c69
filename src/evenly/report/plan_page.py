"""The page of a plan: what it says, and a drawing of machines, slots and bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from evenly.look.palette import AXIS, GROUND, INK, PALETTE, SERIES, themed
from evenly.planning.plan import Plan
from evenly.planning.summary import rows
from evenly.report.page import picture, rendered

_COLOURS = tuple(PALETTE[name].light for name in SERIES)
_PANEL, _LINE, _SOFT = (PALETTE[name].light for name in ("panel", "line", "soft"))
_MOST_MACHINES = 200
_SLOT_WIDTH, _SLOT_HEIGHT, _GAP, _LABEL = 150, 64, 8, 20
_COLUMNS = 6
_LETTERS = 12


def plan_page(best: Plan, plans: Sequence[Plan], settings: Mapping[str, str]) -> str:
    """One self-contained page of the plan and, if there are several, of all `plans` beside it."""
    drawing = picture([themed(machines_svg(best))], smallest=_LETTERS)
    compared = [rows(one)[-1] for one in plans] if len(plans) > 1 else []
    numbers = [row for one in plans for row in rows(one)]
    return rendered("plan", numbers=numbers, rows=rows(best), compared=compared, settings=settings, drawing=drawing)


def machines_svg(plan: Plan) -> str:
    """Machines as frames, slots as boxes in them, bundles as bars as wide as their threads' part of the slot."""
    cluster = plan.placement.cluster
    names = plan.placement.allocation.dataflow.order
    colour = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}
    parts: list[str] = []
    x = y = width = 0
    for place, machine in enumerate(cluster.machines[:_MOST_MACHINES]):
        wide = machine.slots * (_SLOT_WIDTH + _GAP) + _GAP
        if x and x + wide > _COLUMNS * (_SLOT_WIDTH + _GAP) + 4 * _GAP:
            x, y = 0, y + _SLOT_HEIGHT + _LABEL + 3 * _GAP
        parts.append(_machine(plan, place, x, y, wide, colour))
        x += wide + _GAP
        width = max(width, x)
    height = y + _SLOT_HEIGHT + _LABEL + 3 * _GAP
    title = f"{cluster.named()}: {plan.placement.slots} slots"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif" font-size="{_LETTERS}" fill="{INK}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _machine(plan: Plan, place: int, x: int, y: int, wide: int, colour: Mapping[str, str]) -> str:
    machine = plan.placement.cluster.machines[place]
    first = plan.placement.cluster.first_slot[place]
    label = escape(f"{machine.name} ({machine.size.name})")
    high = _SLOT_HEIGHT + _LABEL + 2 * _GAP
    parts = [
        f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="5" fill="{_PANEL}" stroke="{AXIS}"/>',
        f'<text x="{x + _GAP}" y="{y + 16}" font-weight="bold">{label}</text>',
    ]
    parts += [
        _slot(plan, first + step, x + _GAP + step * (_SLOT_WIDTH + _GAP), y + _LABEL + _GAP // 2, colour)
        for step in range(machine.slots)
    ]
    return "".join(parts)


def _slot(plan: Plan, slot: int, x: int, y: int, colour: Mapping[str, str]) -> str:
    bundles = plan.placement.by_slot[slot]
    used = plan.slot_usage[slot]
    held = ", ".join(f"{one.operator} {one.threads}" for one in bundles) or "empty"
    tip = escape(f"slot {slot + 1}: {held}; {used.cpu_pct:.0f} % cpu, {used.mem_pct:.0f} % memory")
    parts = [f'<rect x="{x}" y="{y}" width="{_SLOT_WIDTH}" height="{_SLOT_HEIGHT}" fill="{GROUND}" stroke="{_LINE}"/>']
    threads = sum(one.threads for one in bundles)
    at = float(x)
    for one in bundles:
        wide = _SLOT_WIDTH * one.threads / threads
        parts.append(f'<rect x="{at:.1f}" y="{y}" width="{wide:.1f}" height="22" fill="{colour[one.operator]}"/>')
        at += wide
    shortened = held if len(held) <= 21 else held[:20] + "…"
    parts.append(f'<text x="{x + 4}" y="{y + 38}">{escape(shortened)}</text>')
    parts.append(f'<text x="{x + 4}" y="{y + 55}" fill="{_SOFT}">{used.cpu_pct:.0f} % cpu, {used.mem_pct:.0f} % mem</text>')
    return f"<g><title>{tip}</title>{''.join(parts)}</g>"
