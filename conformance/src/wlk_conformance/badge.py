"""Badges: the verdict as a small picture, or as the file that shields.io draws one from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from wlk_conformance.report import Report

__all__ = ["badge", "badge_json", "badge_svg"]

COLOURS = {"compliant": ("brightgreen", "#3c1"), "not compliant": ("red", "#c33")}
QUOTE = {'"': "&quot;"}
LETTER = 6.6  # pixels of an average letter of Verdana at 11 px
MARGIN = 6  # pixels on either side of each label
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-label="{label}: {message}">
<title>{label}: {message}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="20" fill="#555"/>
<rect x="{left}" width="{right}" height="20" fill="{colour}"/>
</g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{label_x}" y="14" textLength="{label_width}">{label}</text>
<text x="{message_x}" y="14" textLength="{message_width}">{message}</text>
</g>
</svg>
"""


def badge(report: Report, suffix: str) -> str:
    """Return the badge for a file whose name ends in *suffix*, ".svg" or ".json"."""
    return badge_svg(report) if suffix == ".svg" else badge_json(report)


def badge_svg(report: Report) -> str:
    """Return the badge as an SVG picture, 20 pixels high."""
    label, message = _texts(report)
    label_width, message_width = (round(len(text) * LETTER) for text in (label, message))
    left, right = label_width + 2 * MARGIN, message_width + 2 * MARGIN
    return SVG.format(
        label=escape(label, QUOTE),
        message=escape(message, QUOTE),
        colour=COLOURS[report.verdict][1],
        width=left + right,
        left=left,
        right=right,
        label_x=left / 2,
        label_width=label_width,
        message_x=left + right / 2,
        message_width=message_width,
    )


def badge_json(report: Report) -> str:
    """Return the badge as the document of a shields.io endpoint (https://shields.io/badges/endpoint-badge)."""
    label, message = _texts(report)
    document = {
        "schemaVersion": 1,
        "label": label,
        "message": message,
        "color": COLOURS[report.verdict][0],
        "isError": not report.is_compliant,
    }
    return json.dumps(document, indent=2) + "\n"


def _texts(report: Report) -> tuple[str, str]:
    message = report.verdict
    if report.is_compliant:
        message += f", {report.tested} of {len(report.rules)} rules"
    return f"wlk contract {report.suite}", message
