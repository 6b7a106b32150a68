"""Badges."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from wlk_conformance.badge import badge, badge_json, badge_svg
from wlk_conformance.report import Report, RuleResult

SVG = "{http://www.w3.org/2000/svg}"


def report(*outcomes, suite="2.0"):
    """Return a report of rules with these outcomes."""
    return Report(
        backend="toy",
        distribution="wlk-toy",
        version="1.0",
        model=None,
        options={},
        suite=suite,
        rules=[
            RuleResult(id=f"A-{index}", outcome=outcome, sentence="It is so.")
            for index, outcome in enumerate(outcomes)
        ],
    )


def test_the_endpoint_has_the_fields_of_shields():
    """The document has the schema's version, the texts and a colour that shields.io names."""
    assert {
        "schemaVersion": 1,
        "label": "wlk contract 2.0",
        "message": "compliant, 2 of 3 rules",
        "color": "brightgreen",
        "isError": False,
    } == json.loads(badge_json(report("pass", "n/a", "deviation")))


def test_a_backend_that_does_not_comply_has_a_red_badge():
    """The badge of a failure is red and shows no count."""
    document = json.loads(badge_json(report("pass", "fail")))

    assert ("not compliant", "red", True) == tuple(
        document[name] for name in ("message", "color", "isError")
    )


@given(st.text(st.characters(codec="utf-8", categories=("L", "P", "S", "Zs")), max_size=9))
def test_the_picture_is_well_formed(suite):
    """Any text gives an SVG document whose halves add up to its width."""
    picture = ET.fromstring(badge_svg(report("pass", suite=suite)))  # noqa: S314 -- ours

    left, right = picture.findall(f"{SVG}g/{SVG}rect")
    assert f"{SVG}svg" == picture.tag
    assert int(picture.get("width")) == int(left.get("width")) + int(right.get("width"))
    assert [f"wlk contract {suite}", "compliant, 1 of 1 rules"] == [
        text.text for text in picture.findall(f"{SVG}g/{SVG}text")
    ]


def test_the_name_of_the_file_chooses_the_format():
    """An .svg is a picture, and a .json the endpoint."""
    assert badge(report("pass"), ".svg").startswith("<svg")
    assert badge(report("pass"), ".json").startswith("{")
