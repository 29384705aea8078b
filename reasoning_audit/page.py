"""The page of an audit: a map of tasks and levels, coloured by the score of answers without reasoning."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from .report import AuditedTask, AuditOutcome, Report
from .scores import DEFAULTS, level_name, level_words

OWN_STYLE = """
.heat { max-width: none; width: 100%; }
.heat td.why { min-width: 260px; text-align: left; color: var(--muted); overflow-wrap: anywhere; }
.heat th:is(:first-child, :last-child) { text-align: left; }
@media (max-width: 760px) {
  .heat { border-spacing: 1px; }
  .heat tbody th { width: 96px; white-space: normal; overflow-wrap: break-word; font-size: 12px; padding: 3px 2px; }
  .heat thead th { padding: 3px 0; font-size: 11px; }
  .heat td { min-width: 36px; font-size: 12px; padding: 2px 0; }
}
.heat tbody th { cursor: auto; }
.heat td.over { outline: 2px solid var(--wrong); font-weight: 700; }
.heat td.away { outline: 2px dashed var(--fault); }
.heat td.none { background: none; color: var(--muted); }
.findings td { vertical-align: top; text-align: left; overflow-wrap: anywhere; }
.findings th { text-align: left; }
.findings td.why { min-width: 180px; max-width: 420px; white-space: pre-wrap; }
.findings td small { display: block; color: var(--muted); }
.findings td.high { color: var(--wrong); font-weight: 700; }
.key { display: inline-block; color: var(--text); padding: 1px 8px; border-radius: 4px; margin-right: 4px; }
.key.over { outline: 2px solid var(--wrong); }
.key.away { outline: 2px dashed var(--fault); }
"""


def heat_map_page(report: Report) -> str:
    """Return the page of an audit, from the numbers that `audit --output` saves.

    Rows are tasks, the task closest to its bound first; columns are levels. A cell has the mean score of the best
    answer without reasoning, and is coloured by the share of the bound. The last column names the best answer at the
    level where the task is closest to its bound.
    """
    cells = {(audit.task, level_name(audit.level)): audit for audit in report.audits}
    levels = sorted({level for _, level in cells}, key=lambda level: (level != DEFAULTS, level))
    closest: dict[str, AuditedTask] = {}
    for (task, _), audit in cells.items():
        if task not in closest or _share_of_bound(audit) > _share_of_bound(closest[task]):
            closest[task] = audit
    tasks = sorted(closest, key=lambda task: (-_share_of_bound(closest[task]), task))
    heading = "".join(f"<th>{escape(level)}</th>" for level in levels)
    rows = [
        f"<tr><th>{escape(task).replace('_', '_<wbr>')}</th>"
        f"{''.join(_cell(cells.get((task, level))) for level in levels)}"
        f'<td class="none why">{escape(_best_answer(closest[task]))}</td></tr>'
        for task in tasks
    ]
    of_report = (files("reasoning_env.reports.html") / "assets" / "style.css").read_text(encoding="utf-8")
    style = "\n".join([of_report, OWN_STYLE, _shades()])
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    giving_away = [audit for audit in cells.values() if audit.result is AuditOutcome.GIVES_AWAY]
    outcome = f"{len(report.failed)} fail: {', '.join(report.failed)}" if report.failed else "none fails"
    if giving_away:
        outcome += f"; {len(giving_away)} are known to give answers away"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{digest}'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Audit of {len(tasks)} tasks</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header><div class="brand"><h1>Audit</h1><span class="muted">{escape(_source(report))}
{escape(report.scores)}, seed {report.seed}</span></div></header>
<main>
<div class="card">
<h2>What the best answer without reasoning earns</h2>
<p class="note">{len(tasks)} tasks, {len(cells)} tasks and levels: {escape(outcome)}. A cell is a mean score from 0
to 1, with the bound below; the colour is the share of the bound. The last column names the answer that earns most at
the level where the task is closest to its bound; point at a cell for the best answer at its level.</p>
<p class="legend"><span class="key used0">nothing</span><span class="key used5">half the bound</span><span
class="key used10">the bound</span><span class="key over">fails</span><span class="key away">known to give
answers away, left out of training</span></p>
<div class="scroll"><table class="heat"><thead><tr><th>task</th>{heading}<th>best
answer without reasoning</th></tr></thead><tbody>
{chr(10).join(rows)}
</tbody></table></div>
</div>
{_findings(report)}
</main>
</body>
</html>
"""


def _findings(report: Report) -> str:
    """Return the card of findings, the worst first."""
    if not report.findings:
        return '<div class="card"><h2>Findings</h2><p class="note">There are none.</p></div>'
    rows = [
        "<tr>"
        f'<td class="{one.severity.value}">{one.severity.value}</td>'
        f"<td>{one.defect.value.replace('_', '_<wbr>')}</td>"
        f"<td>{escape(one.place)}</td>"
        f'<td class="why">{escape(one.detail)}<small>{escape(one.reference)}</small></td>'
        f'<td class="why">{escape(one.answer)}</td>'
        f"<td>{_number(one.score)}</td><td>{_number(one.expected)}</td>"
        f'<td class="why"><code>{escape(one.command)}</code></td></tr>'
        for one in report.findings
    ]
    return f"""<div class="card">
<h2>Findings</h2>
<p class="note">{len(rows)} findings, the worst first. The right score is that of the right answer, or of the same
answer in the other call, process or form. The command shows the finding again.</p>
<div class="scroll"><table class="findings"><thead><tr><th>severity</th><th>defect</th><th>task</th><th>what was
seen</th><th>answer</th><th>score</th><th>right score</th><th>command</th></tr></thead><tbody>
{chr(10).join(rows)}
</tbody></table></div>
</div>"""


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3g}"


def _source(report: Report) -> str:
    """Return the library's name and version; nothing for a score function of the user."""
    version = report.library.version
    return f"reasoning-gym {version}, " if version else ""


def _share_of_bound(audit: AuditedTask) -> float:
    return audit.worst_mean / audit.bound if audit.items else 0.0


def _cell(audit: AuditedTask | None) -> str:
    """Return a cell; empty where the task has no such level."""
    if audit is None:
        return '<td class="none"></td>'
    if not audit.items:
        return f'<td class="none" title="{escape("; ".join(audit.failures[:1]) or "not probed")}">-</td>'
    shade = min(10, round(10 * _share_of_bound(audit)))
    mark = {AuditOutcome.FAILS: " over", AuditOutcome.GIVES_AWAY: " away"}.get(audit.result, "")
    faults = "".join(f"; {fault}" for fault in audit.faults)
    where = f"{audit.task} at {level_name(audit.level)}"
    title = f"{where}: {audit.worst or 'none earns anything'}, {audit.items} problems{faults}"
    bound = f"<small>{audit.bound:.2f}</small>"
    return f'<td class="used{shade}{mark}" title="{escape(title)}">{audit.worst_mean:.2f}{bound}</td>'


def _best_answer(audit: AuditedTask) -> str:
    if not audit.items:
        return "not probed"
    return "none earns anything" if audit.worst is None else f"{audit.worst}, at {level_words(audit.level)}"


def _shades() -> str:
    """Return eleven shades as CSS classes, since the page's policy allows no style on an element."""
    return "\n".join(
        f".used{step} {{ background: color-mix(in srgb, var(--wrong) {6 * step}%, var(--tint)); }}"
        for step in range(11)
    )
