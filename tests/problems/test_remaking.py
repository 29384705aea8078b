from __future__ import annotations

from dataclasses import replace

from reasoning_env.problems.remaking import ProblemCache
from tests.records import make_problem

PROBLEM = replace(make_problem(), entry=b"x" * 100_000)


def test_problem_cache_returns_a_cached_problem() -> None:
    cache = ProblemCache(1_000_000)
    cache.put("a", PROBLEM)
    assert cache.get("a") is PROBLEM
    assert cache.get("b") is None


def test_least_recently_used_problem_is_removed_from_the_cache() -> None:
    cache = ProblemCache(250_000)
    cache.put("a", PROBLEM)
    cache.put("b", PROBLEM)
    cache.get("a")
    cache.put("c", PROBLEM)
    assert [cache.get(name) is not None for name in "abc"] == [True, False, True]


def test_caching_a_problem_twice_takes_space_once() -> None:
    cache = ProblemCache(250_000)
    for name in "abbbb":
        cache.put(name, PROBLEM)
    assert cache.get("a") is PROBLEM


def test_very_large_problem_is_not_cached() -> None:
    cache = ProblemCache(50_000)
    cache.put("a", PROBLEM)
    assert cache.get("a") is None
