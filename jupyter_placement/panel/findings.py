"""The list of findings in a panel; choosing one marks its operations."""

from __future__ import annotations

from html import escape

from jupyter_placement.explain import Finding, Rules, explain, findings
from jupyter_placement.panel.events import Entry
from jupyter_placement.placement import Placement
from jupyter_placement.summary import plural, readable_bytes, some_names


def finding_entries(placement: Placement, rules: Rules | None = None) -> list[Entry]:
    """List the findings of a run, most important first.

    Examples
    --------
    >>> placement = Placement()
    >>> placement.add_node("a", op="Const", device="/job:localhost/replica:0/task:0/device:CPU:0", requested="/gpu:0")
    >>> [entry.nodes for entry in finding_entries(placement)]
    [('a',)]
    """
    return [
        Entry(f"{one.kind.replace('_', ' ')}: {one.message}", finding_html(placement, one), one.nodes)
        for one in findings(placement, rules)
    ]


def finding_html(placement: Placement, finding: Finding) -> str:
    """Write a finding with its remedy, its lines and its operations."""
    lines = [f"<b>{escape(finding.message)}</b>"]
    if finding.remedy:
        lines.append(f"<div>{escape(finding.remedy)}</div>")
    if finding.bytes is not None:
        lines.append(f"<div>{escape(readable_bytes(finding.bytes))}</div>")
    if finding.sources:
        lines.append(f"<div>{escape(finding.where(12))}</div>")
    if finding.nodes:
        names = [str(placement.graph.nodes[node]["name"]) for node in finding.nodes]
        lines.append(f"<div>{plural(len(names), 'operation')}: <code>{escape(some_names(names, 30))}</code></div>")
    return "".join(lines)


def explanation_html(rules: Rules, node: str) -> str:
    """Write why a node is where it is, and which kernels it has by device type."""
    explanation = explain(rules, node)
    lines = [f'<div class="jpp-why">{escape(explanation.text)}</div>']
    if explanation.remedy:
        lines.append(f"<div>{escape(explanation.remedy)}</div>")
    rows = (rules.placement.meta.get("kernels") or {}).get(rules.graph.nodes[node]["op"])
    if rows:
        body = "".join(
            f"<tr><td>{escape('any other' if row['device'] == 'DEFAULT' else row['device'])}</td>"
            f"<td>{escape('; '.join(f'{name}: ' + ', '.join(kinds) for name, kinds in row['types'].items()) or 'any')}"
            f"</td><td>{escape(', '.join(row['host']) or '-')}</td></tr>"
            for row in rows
            if not row["device"].startswith(("XLA", "TPU"))
        )
        note = (rules.placement.meta.get("explain") or {}).get("note", "")
        lines.append(
            f"<details><summary>Kernels</summary><table><tr><th>device</th><th>types</th><th>in host memory</th></tr>"
            f"{body}</table>{escape(note)}</details>"
        )
    return "".join(lines)
