"""The MIME bundle that stays in a saved notebook."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jupyter_placement.placement import MIME_TYPE, Event, Placement, PlacementError
from jupyter_placement.report.document import CLASS, html_summary
from jupyter_placement.report.picture import svg_picture
from jupyter_placement.summary import summary_text

PLAIN_NODES = 500
LARGEST = 900_000
ENCODING = "gzip+base64"
# In a trusted notebook that is opened again JupyterLab 4.6 writes "Error displaying widget: model not found", a bare
# text, where the panel was. Where this rule is stripped, the widget's own text stands there instead.
_NO_EMPTY_WIDGET = (
    f"<style>.jp-OutputArea:has(.{CLASS}) > .jp-OutputArea-child > .jp-OutputArea-output:not(:has(*))"
    "{display:none}</style>"
)


def static_bundle(placement: Placement, *, below_panel: bool = False) -> dict[str, Any]:
    """Make the output that stays in a notebook: JSON form, picture, script-free HTML and text.

    The JSON form of more than 500 operations is compressed. When even that is too large for a notebook, the log lines
    and then the memory samples are left out of it, which a note among its events says.

    Parameters
    ----------
    placement : Placement
        What to show.
    below_panel : bool
        Whether a live panel is shown above it: when the notebook is opened again, nothing shall stand in its place.

    Returns
    -------
    dict
        MIME types to data.

    Raises
    ------
    ValueError
        When the placement holds what JSON cannot hold.
    """
    picture = svg_picture(placement) if placement.graph else ""
    bundle: dict[str, Any] = {
        "text/plain": summary_text(placement),
        "text/html": html_summary(placement, picture=picture),
        MIME_TYPE: _json_form(placement, LARGEST),
    }
    if below_panel:
        bundle["text/html"] += _NO_EMPTY_WIDGET
    if picture:
        bundle["image/svg+xml"] = picture
    return bundle


def from_static_bundle(bundle: Mapping[str, Any]) -> Placement:
    """Read a Placement back from the output of a saved notebook.

    Parameters
    ----------
    bundle : mapping
        The ``data`` of the output, or its JSON form alone, compressed or not.

    Raises
    ------
    PlacementError
        When it holds no placement.
    """
    data = bundle.get(MIME_TYPE, bundle)
    if isinstance(data, Mapping) and "encoding" in data:
        if data["encoding"] != ENCODING:
            raise PlacementError(
                f"the placement is encoded as {data['encoding']!r}, which this jupyter-placement does not read: "
                "install a newer one"
            )
        try:
            data = json.loads(gzip.decompress(base64.b64decode(data["data"], validate=True)))
        except (KeyError, TypeError, ValueError, binascii.Error, OSError, EOFError, zlib.error) as error:
            raise PlacementError(f"the placement in this output is damaged ({error})") from error
    if not isinstance(data, Mapping):
        raise PlacementError("this output holds no placement")
    return Placement.from_json(data)  # type: ignore[arg-type]  # from_json checks what it reads


def _json_form(placement: Placement, largest: int) -> dict[str, Any]:
    data: dict[str, Any] = dict(placement.to_json())
    # Field by field: the graph of a large placement takes seconds, and is the same each time.
    texts = {field: json.dumps(value, allow_nan=False, separators=(",", ":")) for field, value in data.items()}
    if placement.graph.number_of_nodes() <= PLAIN_NODES and sum(map(len, texts.values())) <= largest // 2:
        return data
    packed = _packed(texts)
    for field, what in (("log", "the log lines"), ("memory", "the memory samples")):
        if len(packed["data"]) <= largest:
            break
        left_out = len(data[field])
        if left_out == 0:
            continue
        note = f"This saved output leaves out {what} ({left_out:,}), to keep the notebook small: save the placement."
        data["events"] = [*data["events"], asdict(Event("note", note))]
        texts[field], texts["events"] = "[]", json.dumps(data["events"], allow_nan=False)
        packed = _packed(texts)
    return packed


def _packed(texts: dict[str, str]) -> dict[str, Any]:
    text = "{" + ",".join(f'"{field}":{value}' for field, value in texts.items()) + "}"
    # No time stamp: the same placement gives the same output.
    packed = gzip.compress(text.encode(), 6, mtime=0)
    return {"version": 1, "encoding": ENCODING, "data": base64.b64encode(packed).decode()}
