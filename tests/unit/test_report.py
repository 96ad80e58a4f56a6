"""What stays in a notebook: script-free, escaped, small, and readable back."""

from __future__ import annotations

import base64
import json
import random
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from jupyter_placement.placement import MIME_TYPE, Event, Placement, PlacementError
from jupyter_placement.report import from_static_bundle, html_document, html_summary, static_bundle, svg_picture
from jupyter_placement.report.bundle import LARGEST
from tests.unit.placements import CPU0, GPU0, chain_placement, layers_placement, small_placement

# What JupyterLab 4.6 lets through where it does not trust, of what is used here.
TAGS = {"div", "p", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "img", "code"} | {
    "ul",
    "li",
    "pre",
}
ATTRIBUTES = {"class", "style", "open", "alt", "src"}
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """The tags, attributes and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def picture(self) -> ET.Element:
        (source,) = [attributes["src"] for tag, attributes in self.elements if tag == "img"]
        assert source is not None
        head, data = source.split(",")
        assert head == "data:image/svg+xml;base64"
        return ET.fromstring(base64.b64decode(data))


def texts(svg: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in svg.iter(f"{SVG}text")]


def evil_placement() -> Placement:
    placement = Placement(events=[Event("error", EVIL, nodes=(EVIL,), lines=(EVIL,))], log=[EVIL], meta={EVIL: EVIL})
    placement.add_node(EVIL, op=EVIL, device=CPU0, requested="/gpu:0", source=(EVIL, 1), dtype=EVIL, graph=EVIL)
    placement.add_node(f"s/{EVIL}", op=EVIL, device=GPU0)
    placement.add_edge(EVIL, f"s/{EVIL}", 0, tensor=EVIL)
    return placement


@pytest.mark.parametrize(
    "placement",
    [Placement(), small_placement(), evil_placement(), layers_placement(2000)],
    ids=["0", "7", "evil", "2k"],
)
def test_the_summary_passes_a_sanitizer_whole(placement: Placement) -> None:
    page = Page(html_summary(placement))
    assert page.open == []
    assert {tag for tag, _ in page.elements} <= TAGS
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
    styles = "".join(attributes.get("style") or "" for _, attributes in page.elements)
    assert "var(" not in styles
    assert "url(" not in styles
    tag, attributes = page.elements[0]
    assert (tag, attributes["class"]) == ("div", "jupyter-placement-static")


def test_the_summary_shows_devices_fallbacks_transfers_events_and_memory() -> None:
    text = Page(html_summary(small_placement())).text
    for said in (
        "7 operations",
        "3 tensors moved between devices",
        "1 not on the device that they asked for",
        "Tesla T4",
        "never placed",
        "/device:GPU:0",
        "1 PrintV2",
        "GPU:0 → GPU:1",
        "size unknown",
        "tower/Print asked for a GPU and was put on CPU:0: it has no GPU kernel.",
        "W placer.cc: <b>no kernel</b>",
        "4.0 KiB",
        "not available",
        "1 placement line could not be matched to an operation",
        "tensorflow 2.21.0",
    ):
        assert said in text


def test_the_picture_shows_the_collapsed_view_with_a_legend() -> None:
    svg = Page(html_summary(small_placement())).picture()
    assert texts(svg)[:5] == ["CPU:0 2 ops", "GPU:0 2 ops", "GPU:1 2 ops", "not placed 1 op", "transfer 3 tensors"]
    assert {"x", "tower", "loss", "waiting", "3 ops"} <= set(texts(svg))
    assert "MatMul" not in texts(svg)
    dashed = [path for path in svg.iter(f"{SVG}path") if path.get("marker-end") == "url(#transfer)"]
    assert len(dashed) == 2


def test_stripes_are_in_proportion() -> None:
    placement = chain_placement([f"s/n{at}" for at in range(4)] + ["x"], [CPU0, CPU0, CPU0, GPU0])
    svg = ET.fromstring(svg_picture(placement))
    stripes = [
        float(rect.get("width", ""))
        for rect in svg.iter(f"{SVG}rect")
        if rect.get("fill", "").startswith("url(") and rect.get("height") == "10"
    ]
    assert stripes[0] == pytest.approx(3 * stripes[1], rel=0.01)


def test_what_users_wrote_is_text_in_the_picture_too() -> None:
    svg = ET.fromstring(svg_picture(evil_placement()))
    assert {element.tag.removeprefix(SVG) for element in svg.iter()} <= {
        "svg", "title", "defs", "pattern", "marker", "rect", "path", "g", "text", "tspan"
    }  # fmt: skip


def test_an_empty_placement_is_a_sentence_and_no_picture() -> None:
    bundle = static_bundle(Placement(meta={"nothing": "Nothing was placed: <nothing> ran."}))
    assert set(bundle) == {MIME_TYPE, "text/html", "text/plain"}
    assert bundle["text/plain"] == "Nothing was placed: <nothing> ran."
    page = Page(bundle["text/html"])
    assert page.text.strip() == "Nothing was placed: <nothing> ran."
    assert [tag for tag, _ in page.elements] == ["div", "p"]


def test_a_small_bundle_holds_the_plain_json_form() -> None:
    placement = small_placement()
    bundle = static_bundle(placement)
    assert bundle[MIME_TYPE] == placement.to_json()
    assert bundle["text/plain"] == placement.summary()
    assert Page(bundle["text/html"]).picture().tag == f"{SVG}svg"
    assert from_static_bundle(bundle).to_json() == placement.to_json()


def test_ten_thousand_operations_stay_under_a_megabyte_and_come_back() -> None:
    placement = layers_placement(10_000)
    placement.log = [f"{node}: (Op): {CPU0}" for node in placement.graph]
    bundle = json.loads(json.dumps(static_bundle(placement)))
    assert len(json.dumps(bundle)) < 1_000_000
    assert set(bundle[MIME_TYPE]) == {"version", "encoding", "data"}
    assert from_static_bundle(bundle).to_json() == placement.to_json()
    assert from_static_bundle(bundle[MIME_TYPE]).to_json() == placement.to_json()


def test_a_log_that_is_too_large_is_left_out_and_that_is_said() -> None:
    placement = small_placement()
    noise = random.Random(0)
    placement.log = [noise.randbytes(40).hex() for _ in range(40_000)]
    bundle = static_bundle(placement)
    assert len(json.dumps(bundle)) < LARGEST + 100_000
    back = from_static_bundle(bundle)
    assert back.log == []
    assert re.match(r"This saved output leaves out the log lines \(40,000\)", back.events[-1].message)
    assert back.to_json()["graph"] == placement.to_json()["graph"]


@pytest.mark.parametrize(
    ("bundle", "message"),
    [
        ({"text/plain": "hello"}, "not a placement"),
        ({MIME_TYPE: "text"}, "holds no placement"),
        ({MIME_TYPE: {"version": 1, "encoding": "zip", "data": ""}}, "install a newer one"),
        ({MIME_TYPE: {"version": 1, "encoding": "gzip+base64"}}, "damaged"),
        ({MIME_TYPE: {"version": 1, "encoding": "gzip+base64", "data": "%%%"}}, "damaged"),
        ({MIME_TYPE: {"version": 1, "encoding": "gzip+base64", "data": "AAAA"}}, "damaged"),
    ],
)
def test_a_bundle_without_a_placement_is_refused_with_a_sentence(bundle: dict[str, object], message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        from_static_bundle(bundle)


def test_the_same_placement_gives_the_same_output() -> None:
    assert static_bundle(layers_placement(800)) == static_bundle(layers_placement(800))


def test_a_document_is_a_page_of_its_own() -> None:
    page = Page(html_document(small_placement()).removeprefix("<!DOCTYPE html>"))
    assert page.elements[0][0] == "html"
    assert "script" not in {tag for tag, _ in page.elements}
    assert page.picture().get("role") == "img"


def test_host_memory_is_drawn_with_a_mark_and_in_words() -> None:
    placement = chain_placement(["a", "b", "c"], [GPU0])
    placement.graph.nodes["b"]["memory"] = "host"
    for (producer, consumer), memory in ((("a", "b"), "to_host"), (("b", "c"), "to_device")):
        placement.graph.edges[producer, consumer, 0].update(memory=memory, transfer=True)
    page = Page(html_summary(placement))
    dashed = [one for one in page.picture().iter(f"{SVG}rect") if one.get("stroke-dasharray")]
    assert len(dashed) == 2  # the operation's, and the legend's
    assert {"GPU:0 · host", "in host memory 1 op", "transfer 2 tensors"} <= set(texts(page.picture()))
    assert "GPU:0 → host memory" in page.text and "host memory → GPU:0" in page.text
    assert "the values of 1 operation" in page.text
    plain = Page(html_summary(chain_placement(["a", "b", "c"], [GPU0]))).picture()
    assert not [one for one in plain.iter(f"{SVG}rect") if one.get("stroke-dasharray")]


def test_what_stays_in_host_memory_is_another_line_and_no_transfer() -> None:
    placement = chain_placement(["a", "b"], [GPU0, CPU0])
    placement.graph.edges["a", "b", 0].update(memory="host", transfer=False)
    (line,) = [one for one in ET.fromstring(svg_picture(placement)).iter(f"{SVG}path") if one.get("marker-end")]
    assert line.get("stroke-dasharray") == "10 4"
    text = Page(html_summary(placement)).text
    assert "no transfers" in text and "not copied: 1 tensor" in text


def test_findings_stand_in_the_html_and_the_text() -> None:
    placement = chain_placement(["a", "b"], [CPU0], requested="/gpu:7", source=("Cell In[2]", 5))
    for text in (Page(html_summary(placement)).text, placement.summary()):
        assert "2 operations asked for /gpu:7, and there is no such device" in text
        assert "Cell In[2], line 5" in text
        assert "Correct /gpu:7" in text
