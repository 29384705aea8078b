"""What `audit` prints and saves: the table of tasks, the findings, the file of numbers and the page."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from reasoning_env.errors import ConfigError
from reasoning_env.records import LibraryInfo
from reasoning_env.reports.html.page import check_page, write_page
from reasoning_env.runtime.terminal import print_table
from reasoning_env.runtime.text import visible
from reasoning_env.storage.files import replace_file
from reasoning_env.storage.folders import check_writable
from reasoning_env.storage.reading import read_json

from .findings import Finding, Severity, is_at_least, worst_first
from .page import heat_map_page
from .probes import Probe, TaskAudit
from .report import DEFAULTS, AuditOutcome, findings_line, make_report, outcome_line

DEFAULT_OUTPUT = "audit.json"
NEVER = "never"


def check_outputs(options: argparse.Namespace) -> None:
    """Raise ConfigError for files that cannot be written or are inputs: an audit takes minutes."""
    outputs = {"--output": _output_file(options.output)}
    if options.html is not None:
        outputs["--html"] = options.html
    module = (options.score or "").rpartition(":")[0]
    inputs = [Path(text) for text in (module, options.rows, *(options.config or ())) if text]
    for setting, path in outputs.items():
        if path.is_dir():
            raise ConfigError(f"{path} is a folder", setting=setting, remedy="name a file")
        if path.absolute() in [given.absolute() for given in inputs]:
            raise ConfigError(f"{path} is read by this audit", setting=setting, remedy="name another file")
        check_writable(path.parent, setting)
    _check_numbers(outputs["--output"])
    if options.html is not None:
        check_page(options.html, "--html")
    if len({path.absolute() for path in outputs.values()}) < len(outputs):
        raise ConfigError(f"--output and --html name the same file, {options.html}", remedy="name two files")


def _check_numbers(path: Path) -> None:
    """Raise ConfigError if the numbers would replace another file than those of an audit, of any version."""
    try:
        is_audit = path.stat().st_size == 0 or "audits" in read_json(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError):  # TypeError: a JSON number
        is_audit = False
    if not is_audit:
        raise ConfigError(f"{path} exists, and holds no audit", setting="--output", remedy="name another file")


def _output_file(text: str) -> Path:
    """Return the file of numbers; in a folder the file has the default name."""
    path = Path(text)
    return path / DEFAULT_OUTPUT if path.is_dir() or text.endswith(os.sep) else path


def finish(
    audits: Sequence[TaskAudit],
    results: Mapping[str, AuditOutcome],
    findings: Sequence[Finding],
    library: LibraryInfo,
    options: argparse.Namespace,
    *,
    scores: str,
) -> int:
    """Save and print the numbers, write the page, and return the exit status.

    Raises ConfigError if the numbers cannot be saved, after they were printed.
    """
    report = make_report(audits, results, library, findings, scores=scores, seed=options.seed)
    text = json.dumps(report, indent=1)
    output = _output_file(options.output)
    failure: OSError | None = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, [f"{text}\n".encode()], mode=0o666)
    except OSError as error:  # minutes of work: the numbers are printed all the same
        failure = error
    fails = options.fail_on != NEVER and is_at_least(findings, Severity(options.fail_on))
    if options.json:
        print(text)
    else:
        source = f"reasoning-gym {library.version} from {library.path}; " if library.version else ""
        print(f"{source}{scores}\n")
        _print_table(audits, results)
        for audit in audits:
            if audit.failures:
                print(f"{audit.name}: {len(audit.failures)} problems failed, the first: {audit.failures[0]}")
        _print_findings(findings)
        print(findings_line(findings))
        print(outcome_line(audits, results, fails=fails), flush=True)
    if failure is not None:
        raise ConfigError(f"{output} cannot be written: {failure.strerror}", setting="--output") from failure
    if options.html is not None:
        options.html.parent.mkdir(parents=True, exist_ok=True)
        write_page(options.html, heat_map_page(report))
    if not options.json:
        print(f"all numbers are in {output}")
        if options.html is not None:
            print(f"the map of tasks and levels is {options.html}; open it in a browser")
    return int(fails)


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in worst_first(findings):
        print(f"\n{finding.severity.value}: {finding.defect.value} in {finding.place}: {visible(finding.detail)}")
        if finding.reference:
            print(f"  problem   {visible(finding.reference)}")
        if finding.answer or finding.score is not None:
            print(f"  answer    {visible(finding.answer)}")
        if finding.score is not None:
            compared = "" if finding.expected is None else f" (compared with {finding.expected:g})"
            print(f"  score     {finding.score:g}{compared}")
        if finding.command:
            print(f"  again     {visible(finding.command)}")


def _print_table(audits: Sequence[TaskAudit], results: Mapping[str, AuditOutcome]) -> None:
    rows = [_row(audit, results[audit.name]) for audit in audits]
    texts = {"TASK", "LEVEL", "MOST REJECTED", "BEST SHORTCUT", "ESCAPED", "RESULT"}
    print_table(list(rows[0]), [list(row.values()) for row in rows], numbers=rows[0].keys() - texts)
    print("""
DRAWS: problems drawn for each served problem; MOST REJECTED: the most frequent cause (the JSON has all causes)
BEST SHORTCUT: the answers without reasoning that earn most, with their mean score and the bound of the score
ESCAPED: answers at which the verifier failed
gives away: the task is known to fail, and exclude_gameable leaves the task out of training""")


def _row(audit: TaskAudit, result: AuditOutcome) -> dict[str, str]:
    """Return the cells of a row, by heading."""
    worst = audit.worst

    def mean(probe: str | None) -> str:
        return f"{audit.mean(probe):.2f}" if probe is not None and probe in audit.tallies else "-"

    return {
        "TASK": audit.task,
        "LEVEL": DEFAULTS if audit.level is None else f"{audit.level:g}",
        "ITEMS": str(audit.items),
        "DRAWS": f"{audit.draws:.1f}",
        "MOST REJECTED": max(audit.flawed, key=audit.flawed.__getitem__, default="-"),
        "ORACLE": mean(Probe.ORACLE),
        "PERTURBED": mean(Probe.PERTURBED),
        "BEST SHORTCUT": worst or "-",
        "MEAN": mean(worst),
        "BOUND": f"{audit.bound:.2f}",
        "MAX MS": f"{1000 * audit.slowest_s:.1f}",
        "ESCAPED": ", ".join(f"{reason.value} {count}" for reason, count in audit.escaped.items() if count) or "-",
        "RESULT": result.value,
    }
