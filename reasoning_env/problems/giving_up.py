"""When to give up on a problem, a level, a task and a run: all limits in one place.

- A *rejected* problem is drawn again from the same task. It is rejected if the library's problem is flawed, if the
  evaluation set has its question, or if prompt and expected answer do not fit. MAX_REJECTED rejected problems in a row
  count as one failure.
- A *failure* is also an error of the task, a missed deadline, or a task that ended its worker twice. Training draws
  another task for the position, and quarantines a task after MAX_FAILURES failures in a row. An evaluation leaves the
  problem out after as many in a row; a published set leaves out the rest of the task. A file of problems ends the
  level.
- An *infrastructure error*, such as a killed worker, is no failure. The same problem is generated again until it
  succeeds.
- A *level* is excluded once most of its problems do not fit, but not before MIN_UNFIT did not fit. The lowest level
  stays.
- A task has *no other question* after MAX_REPEATS repeated questions in a row, in an evaluation set and in a file of
  problems at one level.
- A *run* ends when no task is left, and when none of its first MAX_UNFIT problems fits, because then the token limit is
  wrong.

Failures of scoring and of inference have their own limits: MAX_ANSWER_FAILURES for an answer (`workers/scoring.py`),
MAX_REQUEST_FAILURES for a prompt (`inference/failures.py`), and MAX_FAILED_GROUPS for a run.

Imports nothing of the package.
"""

MAX_REJECTED = 300
"""If only one problem in a hundred may be served, 5 % of the searches fail (0.99**300)."""
MAX_FAILURES = 3
"""Some tasks fail now and then, so fewer would quarantine tasks that work."""
MIN_UNFIT = 8
"""If half of a level's problems fit, the first eight are all unfit with a chance of 0.4 % (0.5**8)."""
MAX_FAILED_GROUPS = 8
"""Failed groups in a row after which `process` and evaluations end with an error."""
MAX_UNFIT = MAX_REJECTED * MAX_FAILURES
"""As many rejections as quarantine a task. A token limit that is too low is reported within seconds."""
MAX_REPEATS = 100
"""After so many repeated questions in a row, about 99 % of a task's questions were served."""
