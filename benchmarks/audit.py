"""Audit all tasks and levels, as a line of JSON: what earns most without reasoning, and what fails."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path

from reasoning_env.reports.audit import audit_command


def main(argv: list[str]) -> int:
    started, printed = time.monotonic(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = audit_command([*argv, "--json", "--output", "data_dumps/audit.json"], Path(__file__).parent.parent)
    report = json.loads(printed.getvalue())
    worst = [
        max((kind["mean"] for kind in one["kinds"].values() if kind["role"] == "lazy"), default=0.0)
        for one in report["audits"]
    ]
    figures = {"audits": len(worst), "failed": report["failed"], "mean_of_laziest": round(sum(worst) / len(worst), 3)}
    print(json.dumps({**figures, "seconds": round(time.monotonic() - started, 1)}))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
