"""A Placement without a kernel: a picture, script-free HTML, and the output that stays in a notebook."""

from jupyter_placement.report.bundle import from_static_bundle, static_bundle
from jupyter_placement.report.document import html_document, html_summary
from jupyter_placement.report.picture import svg_picture

__all__ = ["from_static_bundle", "html_document", "html_summary", "static_bundle", "svg_picture"]
