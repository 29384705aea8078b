"""When to give up on a problem, a level, a task and a run: all rules in one place.

- A *rejected* problem is drawn again, from the same task. The library's problem may be flawed, the evaluation set may
  ask the question, or prompt and expected answer may not fit. MAX_REJECTED rejected problems in a row are one failure.
- A *failure* is also an error of the task, a missed deadline, and a task that ended its worker twice. Training draws
  another task for the position, and quarantines a task after MAX_FAILURES failures in a row. An evaluation leaves
  a problem out after as many in a row, and the rest of a published set's task. A file of problems ends the level.
- An *infrastructure error*, such as a worker that is killed from outside, is no failure. The same problem is generated
  again, for as long as it takes.
- A *level* is not drawn any more once most of its problems do not fit, but not before MIN_UNFIT did not. The lowest
  level stays.
- A task has *no other question* after MAX_REPEATS draws in a row that were asked before: in an evaluation set, and in a
  file of problems at a level.
- A *run* ends when no task is left, and when none of its first MAX_UNFIT problems fits: the limit of tokens is wrong.

Failures of scoring and of inference are counted elsewhere: MAX_TROUBLES for an answer (`workers/scoring.py`),
MAX_REQUEST_FAILURES for a prompt (`inference/failures.py`), MAX_FAILED_GROUPS for a run.

Imports nothing of the package.
"""

MAX_REJECTED = 300
"""If one problem in a hundred may be served, 5 % of the attempts fail (0.99**300)."""
MAX_FAILURES = 3
"""Not fewer: some tasks fail now and then."""
MIN_UNFIT = 8
"""If half of a level's problems fit, its first eight are all unfit with a chance of 0.4 % (0.5**8)."""
MAX_FAILED_GROUPS = 8
"""Failed groups in a row after which `process` and evaluations end with an error."""
MAX_UNFIT = MAX_REJECTED * MAX_FAILURES
"""As many as quarantine a task: a wrong limit of tokens is told within seconds."""
MAX_REPEATS = 100
"""Repeated questions in a row after which a task has no other: about 99 % of its questions were asked."""
