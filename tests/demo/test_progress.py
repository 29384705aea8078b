"""Reading the environment's progress lines."""

from __future__ import annotations

from demo.progress import Progress, newest_progress

LINE = (
    "2026-01-01 INFO env: progress: groups=128 kept=77 all_right=20 all_wrong=31 all_equal=4 failed=2 mean_score=0.412"
    " share_correct=0.391 tasks=54 quarantined=0 ready=64\n"
)


def test_the_newest_line_counts() -> None:
    log = f"starting\n{LINE.replace('128', '64')}{LINE}something else\n"
    assert newest_progress(log) == Progress(
        groups=128, kept=77, all_right=20, all_wrong=31, all_equal=4, failed=2, tasks=54, mean_score=0.412
    )


def test_a_line_that_is_still_being_written_does_not_count() -> None:
    assert newest_progress(LINE + LINE.replace("128", "256")[:60]).groups == 128


def test_without_a_line_all_is_zero() -> None:
    assert newest_progress("no such line\n") == Progress()


def test_dropped_groups_are_those_that_teach_nothing() -> None:
    assert newest_progress(LINE).dropped == 55
