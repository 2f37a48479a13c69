"""What pictures and pages of papers show: published points, lines that hide each other, numbers and names."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from evenly.lab.papers.posg.published import gains_panel
from evenly.lab.papers.verdicts import Basis, not_rerun, number
from evenly.numbers import plain
from evenly.report.figures import Bars, Curve, Curves, PaperFigure, draw_svgs
from evenly.report.page import shown
from evenly.report.paper_page import Paper, paper_page


def texts(svg):
    return [found.strip() for found in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


@pytest.mark.parametrize(
    ("value", "said"),
    [(1_023.4, "1,020"), (0.00123456, "0.00123"), (9.996, "10"), (123_456.0, "123,000"), (0.0, "0"), (-12.34, "-12.3")],
)
def test_numbers_are_written_as_people_write_them(value, said):
    assert plain(value) == said
    assert "e" not in shown(value)


def test_published_points_have_marks_and_legends_of_their_own():
    measured, stated = Curve("a", (1, 2, 3), (5.0, 6.0, 7.0)), Curve("a", (2,), (9.0,), published=True)
    with_levels = Curves(
        "t", "x", "y", [measured, stated], levels={"published: 8 at best": 8.0}, marks={"published: here": 2.5}
    )
    said = texts(draw_svgs([with_levels])[0])
    assert {"a", "a, published", "published: 8 at best", "published: here"} <= set(said)
    assert "y" in said
    without = draw_svgs([Curves("t", "x", "y", [measured])])[0]
    assert not any("published" in text for text in texts(without))
    bars = Bars("t", "x", 1.0, {"a": np.array([1.0, 2.0])}, levels={"published: most": 3.0})
    assert "published: most" in texts(draw_svgs([bars])[0])


def test_the_stated_gains_of_shuffle_grouping_are_drawn():
    panel = gains_panel("5", "capacity", [Curve("posg-cp", (100.0, 102.0), (1.1, 1.2))])
    (stated,) = [curve for curve in panel.curves if curve.published]
    assert (tuple(stated.x), tuple(stated.y)) == ((102.0, 115.0), (1.26, 1.07))
    assert list(panel.levels.values()) == [1.15]


def test_lines_that_hide_each_other_are_drawn_so_that_both_are_seen():
    x = (1, 2, 3, 4)
    apart = draw_svgs([Curves("t", "x", "y", [Curve("a", x, (1, 2, 3, 4)), Curve("b", x, (4, 3, 2, 1))])])[0]
    same = draw_svgs([Curves("t", "x", "y", [Curve("a", x, (1, 2, 3, 4)), Curve("b", x, (1, 2, 3, 4))])])[0]
    assert "stroke-width: 2.9" not in apart
    assert "stroke-width: 2.9" in same
    assert "stroke-dasharray" in same.split("stroke-width: 2.9", 1)[1]


def test_ticks_and_names_of_places_are_words_and_whole_numbers():
    panel = Curves("t", "x", "y", [Curve("a", (1, 2), (1_000.0, 2_000_000.0))], x_names=["first", "second"])
    said = texts(draw_svgs([panel])[0])
    assert {"first", "second"} <= set(said)
    assert not any(re.fullmatch(r".*\de[+-]?\d+", text) for text in said)
    assert any(text.endswith(",000") for text in said)


@pytest.mark.parametrize(
    ("figure", "label", "heading"),
    [("6", "Figure 6", "Figure 6. T"), ("table-1", "Table 1", "Table 1. T"), ("table-parts", "T", "T"), ("shift", "T", "T")],
)
def test_a_figure_without_a_number_is_called_by_its_title(figure, label, heading):
    one = PaperFigure(figure, "T")
    assert (one.label, one.heading) == (label, heading)


def test_a_page_counts_what_rests_on_nothing_put_in_apart():
    verdicts = [
        number("a", 1, published=2.0, measured=2.0, within_pct=1.0),
        number("a", 2, published=2.0, measured=3.0, within_pct=1.0),
        number("a", 3, published=2.0, measured=2.0, within_pct=1.0, basis=Basis.RECOVERED),
        number("a", 4, published=2.0, measured=1_023.4, within_pct=1.0, basis=Basis.OURS),
        not_rerun("a", published="on a cluster", why="there is none"),
    ]
    figure = PaperFigure("parts", "What each part does", verdicts=[one.row() for one in verdicts])
    page = paper_page(Paper("P", "c", 1, 0, 1.0, each="runs", footnote="f"), [figure])
    plainly = " ".join(re.sub(r"<[^>]*>", "", page).split())
    assert (
        "Of 3 stated values and sentences that rest on nothing put in 1 was reproduced, 1 was not reproduced, 1 was not rerun."
        in (plainly)
    )
    assert (
        "numbers lost from the text of the paper and recovered (1 of 1 agree) and bars or algorithms of our own (0 of 1 agree)."
        in plainly
    )
    assert "What each part does" in page
    assert ">parts<" not in page
    assert "1,023.4" in page


def test_pairs_of_one_measure_have_no_line_between_them_and_one_where_both_are_equal():
    curve = Curve("linear", (10, 20, 20), (12, 8, 30))
    panel = Curves("cpu", "observed %", "predicted %", [curve], equal="as observed")
    lines = []
    for drawn in (panel, replace(panel, equal="")):
        (svg,) = draw_svgs([drawn])
        assert "linear: predicted 12 % at observed 10 %" in svg
        assert ("as observed" in texts(svg)) is bool(drawn.equal)
        lines.append(
            [path.count("L") for path in re.findall(r'<path d="([^"]*)" clip-path', svg) if "C" not in path and "L" in path]
        )
    pairs, lined = lines
    assert 2 in lined  # through three points
    assert 2 not in pairs
