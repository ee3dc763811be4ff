"""The report's picture of elapsed times over cores, and its sentence of why they stop to fall."""

import xml.etree.ElementTree as ET

import pytest

from convolver.reporting.html.threads import curves_picture
from convolver.reporting.limiters import cores_sentence


def row(cores, seconds, limit="barriers", measured=None):
    return {
        "cores": cores,
        "seconds": seconds,
        "interval_seconds": [0.8 * seconds, 1.3 * seconds],
        "limit": limit,
        "measured_seconds": measured,
    }


def picture(*rows, name="m", projected=False):
    text = curves_picture({name: {"projected": projected, "scaling": rows}})
    return text, ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def points(element):
    return [tuple(map(float, one.split(","))) for one in element.get("points").split()]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row(1, 8), row(2, 4), row(4, 3.9, "locks"), row(8, 3.9)], "On m nothing is gained beyond 2 cores: locks."),
        (
            [row(4, 7.7, "imbalance"), row(1, 8), row(2, 7.9, "serial parts")],
            "On m nothing is gained beyond 1 core: serial parts.",
        ),
        ([row(1, 8), row(2, 9), row(4, 5)], "On m more cores still help at 4, the most that were asked for."),
    ],
)
def test_what_stops_a_program_is_named_where_it_stops(rows, sentence):
    assert cores_sentence("m", rows) == sentence


def test_a_curve_falls_by_the_same_height_each_halving():
    _, svg = picture(row(4, 2), row(1, 8), row(2, 4, measured=5), row(8, 2))
    band, (ideal, curve) = svg.find("polygon"), svg.findall("polyline")
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = points(curve)
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2) == pytest.approx(x4 - x3, abs=0.2)
    assert y2 - y1 == pytest.approx(y3 - y2, abs=0.2)
    assert y2 - y1 > 50
    assert y4 == y3
    assert points(ideal) == points(curve)[:3]  # what lies below the picture is left out
    lower, upper = points(band)[:4], points(band)[:3:-1]
    for (_, low), (_, y), (_, high) in zip(lower, points(curve), upper, strict=True):
        assert high < y < low
    (cross,) = [one for one in svg.findall("text") if one.text == "\N{MULTIPLICATION SIGN}"]
    assert float(cross.get("x")) == x2
    assert y1 < float(cross.get("y")) < y2


def test_a_machines_name_is_text_in_the_picture():
    text, svg = picture(row(1, 2), row(2, 1), name="<b>", projected=True)
    assert "<b>" not in text
    assert "<b> (projected)" in [one.text for one in svg.findall("text")]
