"""The panel's style sheet: Jupyter's own colours, in both themes."""

from __future__ import annotations

# plotly writes its colours into each element. These stand for colours of the theme, which the style sheet puts in their
# place; where there is no theme they are seen as they are.
INK, QUIET, CARD, FRAME, EDGE = (31, 35, 40), (89, 99, 110), (255, 255, 254), (140, 149, 159), (139, 148, 158)
_ROOT = ".jupyter-placement-panel"


def rgb(color: tuple[int, int, int]) -> str:
    """Write a colour as a browser writes it into a style attribute.

    Examples
    --------
    >>> rgb((31, 35, 40))
    'rgb(31, 35, 40)'
    """
    return f"rgb({color[0]}, {color[1]}, {color[2]})"


def _theme(what: str, property_: str, color: tuple[int, int, int], value: str) -> str:
    # The text may stand as "fill: rgb(...)" after other declarations, never as part of another property's name.
    return f'{_ROOT} .js-plotly-plot {what}[style*="{property_}: {rgb(color)}"]{{{property_}:{value}!important}}'


def style_sheet() -> str:
    """Return the style element that the panel carries."""
    rules = [
        # One thing to look at: while the panel lives, the output that stays in the notebook is not shown beside it.
        f".jp-OutputArea:has({_ROOT}) .jupyter-placement-static{{display:none}}",
        f".jp-OutputArea:has({_ROOT}) .jp-OutputArea-child:has(> * .jupyter-placement-static){{display:none}}",
        f"{_ROOT}{{--jpp-line:var(--jp-border-color1,#bdbdbd);color:var(--jp-content-font-color1,#1f2328);"
        "font-size:13px;line-height:1.45;padding:2px 0 8px}",
        f"{_ROOT} .widget-html-content{{line-height:1.45}}",
        f"{_ROOT} .jpp-quiet{{color:var(--jp-content-font-color2,#59636e)}}",
        f"{_ROOT} .jpp-head{{font-size:14px}}",
        f"{_ROOT} .jpp-legend{{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:center}}",
        f"{_ROOT} .jpp-legend span{{white-space:nowrap}}",
        f"{_ROOT} .jpp-swatch{{display:inline-block;width:22px;height:14px;border-radius:3px;vertical-align:-2px;"
        "margin-right:6px;border:1px solid #80808080;box-sizing:border-box}",
        f"{_ROOT} .jpp-transfer{{display:inline-block;width:24px;border-top:3px dashed #D81B60;vertical-align:4px;"
        "margin-right:6px}",
        f"{_ROOT} .jpp-handed{{display:inline-block;width:28px;border-top:1.5px dashed #8b949e;vertical-align:4px;"
        "margin-right:6px}",
        f"{_ROOT} .jpp-host{{display:inline-block;width:22px;height:14px;border-radius:3px;vertical-align:-2px;"
        "margin-right:6px;border:1px solid #80808080;outline:1px dashed currentColor;outline-offset:-4px;"
        "box-sizing:border-box}",
        f"{_ROOT} .jpp-graph > .js-plotly-plot,{_ROOT} .jpp-graph > div{{margin:0 auto;flex:none}}",
        f"{_ROOT} .jpp-graph{{border:1px solid var(--jpp-line);border-radius:6px}}",
        f"{_ROOT} .jpp-detail{{border-left:1px solid var(--jpp-line);padding-left:12px}}",
        f"{_ROOT} .jpp-facts{{border-collapse:collapse;margin:4px 0}}",
        f"{_ROOT} .jpp-facts td{{padding:1px 10px 1px 0;vertical-align:top;text-align:left;overflow-wrap:anywhere}}",
        f"{_ROOT} .jpp-facts td:first-child{{white-space:nowrap;color:var(--jp-content-font-color2,#59636e)}}",
        f"{_ROOT} .jpp-name{{font-weight:600;overflow-wrap:anywhere;font-family:var(--jp-code-font-family,monospace)}}",
        f"{_ROOT} code{{background:none;padding:0;overflow-wrap:anywhere}}",
        f"{_ROOT} .jpp-ends{{margin:2px 0 6px;padding-left:18px}}",
        f"{_ROOT} .jpp-moved{{color:#D81B60;font-weight:600}}",
        f"{_ROOT} .jpp-bar{{position:relative;height:12px;border-radius:3px;overflow:hidden;min-width:120px;"
        "background:var(--jp-layout-color3,#e0e0e0)}",
        f"{_ROOT} .jpp-bar i{{position:absolute;top:0;bottom:0;left:0;transition:width .3s,left .3s}}",
        f"{_ROOT} .jpp-memory{{display:grid;grid-template-columns:max-content minmax(120px,280px) 1fr;gap:3px 12px;"
        "align-items:center}",
        f"{_ROOT} .jupyter-placement-kernel [role=alert]{{background:var(--jp-warn-color3,#fff3cd);color:#1f2328;"
        "border-left:4px solid #D55E00;padding:6px 10px;margin:2px 0;border-radius:3px}",
        f"{_ROOT}.jupyter-placement-gone .jpp-graph{{opacity:.55}}",
        _theme("text", "fill", INK, "var(--jp-content-font-color0,#1f2328)"),
        _theme("text", "fill", QUIET, "var(--jp-content-font-color2,#59636e)"),
        _theme("path", "fill", CARD, "var(--jp-layout-color1,#fffffe)"),
        _theme("path", "stroke", FRAME, "var(--jp-content-font-color3,#8c959f)"),
        f"{_ROOT} .js-plotly-plot .nsewdrag{{cursor:pointer}}",
        # The static output has the picture to take away; plotly's own buttons would lie over the operations.
        f"{_ROOT} .js-plotly-plot .modebar-container{{display:none}}",
    ]
    return f"<style>{''.join(rules)}</style>"
