"""Whether the colours of pages can be read and told apart."""

from itertools import combinations

import numpy as np
import pytest

from evenly.look.palette import PALETTE, SERIES, TEXT, declared, themed

SEEN = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""How colours reach people with each kind of eyes: matrices of Machado, Oliveira and Fernandes (2009) on linear light."""
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def light_of(colour):
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255.0
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(light_of(colour) @ TO_XYZ[1]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(light):
    xyz = TO_XYZ @ np.clip(light, 0.0, 1.0) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(np.maximum(xyz, 1e-9)), 7.787 * xyz + 16.0 / 116.0)
    return np.array([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_from_their_ground(scheme):
    colours = {name: getattr(colour, scheme) for name, colour in PALETTE.items()}
    assert min(contrast(colours[text], colours[ground]) for text in TEXT for ground in ("ground", "panel")) >= 4.5
    assert min(contrast(colours[line], colours["ground"]) for line in SERIES) >= 3.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN)
def test_the_first_colours_of_a_chart_differ_for_everybody(scheme, eyes):
    seen = [lab(SEEN[eyes] @ light_of(getattr(PALETTE[name], scheme))) for name in SERIES[:6]]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= 10.0


def test_a_drawing_takes_the_colours_of_its_page():
    assert themed('<rect fill="#22303c" stroke="#123456"/>') == '<rect fill="var(--ink)" stroke="#123456"/>'
    assert "--ink: #dfe6ec;" in declared("dark")
