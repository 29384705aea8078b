"""The limits after which the program gives up on a problem, a level, a task or a run.

- A problem is *rejected* if the library's problem is flawed, if the evaluation set has its question, or if prompt and
  expected answer exceed the token limit. Then a new problem of the same task is drawn. MAX_REJECTED rejections in a row
  count as one failure.
- Other *failures* are an error of the task, a missed deadline, and a problem that ended two workers. After a failure,
  training draws a task anew. After MAX_FAILURES failures in a row, training quarantines the task, an evaluation leaves
  out the problem, an evaluation with a preset leaves out the task's remaining problems, and a file of problems gets no
  more rows of the task at the level of the failures.
- An *infrastructure error*, such as a killed worker, is no failure. The same problem is generated again until it
  succeeds.
- A *level* is excluded when at least MIN_UNFIT of its problems, and more than half, exceed the token limit. The lowest
  level and a fixed level are never excluded.
- A task has *no other question* after MAX_REPEATS repeated questions in a row. This limit applies to evaluation sets,
  and to each level of a file of problems.
- A *run* ends when no task is left, or if its first MAX_UNFIT problems all exceed the token limit.

Failures of scoring and of inference have their own limits: MAX_ANSWER_FAILURES for an answer
(`workers/answer_failures.py`), MAX_REQUEST_FAILURES for a prompt (`inference/failures.py`), and MAX_FAILED_GROUPS for a
run.
"""

MAX_REJECTED = 300
"""Limit of rejected problems in a row. If 1 % of a task's problems are usable, the chance of 300 rejections is 5 %."""
MAX_FAILURES = 3
"""Limit of a task's failures in a row. A lower limit would quarantine usable tasks that fail sometimes."""
MIN_UNFIT = 8
"""Minimum number of problems over the token limit before a level is excluded. If half of a level's problems fit, the
chance that none of the first eight fits is 0.4 %."""
MAX_FAILED_GROUPS = 8
"""Number of failed groups in a row after which `process` and evaluations end with an error."""
MAX_UNFIT = MAX_REJECTED * MAX_FAILURES
"""A run ends if this number of problems exceed the token limit before any problem fits."""
MAX_REPEATS = 100
"""Limit of repeated questions in a row. A task that reaches the limit has served about 99 % of its questions."""
