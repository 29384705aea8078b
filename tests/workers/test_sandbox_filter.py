"""Interpret the seccomp filter for every system call and every checked argument.

The tests make no system call, so they can check the filters of all architectures.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from functools import cache

import pytest

from reasoning_env.workers.sandbox import ALLOW, CHECKS, REFUSE, TABLES, Op, allowed_numbers, compile_filter

EPERM, ENOSYS = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
X32 = 1 << 30
"""The bit in the call numbers of x32, a second system call interface of x86_64."""
on_each_machine = pytest.mark.parametrize("machine", TABLES)


@cache
def _steps(machine: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("=HBBI", compile_filter(machine, threads=True)))


def ask(machine: str, number: int, arguments: Mapping[int, int] | None = None, *, interface: int | None = None) -> int:
    """Return the filter's result for a call. Arguments that are not given are 0."""
    words = [(arguments or {}).get(position, 0) for position in range(6)]
    audit_number = TABLES[machine][0] if interface is None else interface
    data = struct.pack("<IIQ6Q", number, audit_number, 0, *words)
    steps = _steps(machine)
    position = value = 0
    while True:
        op, if_true, if_false, operand = steps[position]
        position += 1
        match op:
            case Op.LOAD:
                (value,) = struct.unpack_from("<I", data, operand)
            case Op.AND:
                value &= operand
            case Op.IF_EQUAL:
                position += if_true if value == operand else if_false
            case Op.IF_AT_LEAST:
                position += if_true if value >= operand else if_false
            case Op.RETURN:
                return int(operand)
            case _:
                raise AssertionError(f"no instruction of these filters: {op:#x}")


def _passing(name: str) -> dict[int, int]:
    """Return arguments that pass the checks of a call."""
    return {check.argument: check.values[0] for check in CHECKS.get(name, ())}


@on_each_machine
def test_seccomp_allows_only_the_listed_system_calls(machine: str) -> None:
    allowed = {number: name for name, number in allowed_numbers(TABLES[machine][1], threads=True).items()}
    answers = {number: ask(machine, number, _passing(allowed.get(number, ""))) for number in range(1024)}
    assert {number for number, answer in answers.items() if answer == ALLOW} == set(allowed)


@on_each_machine
def test_seccomp_refuses_unlisted_system_calls_below_number_424_with_eperm(machine: str) -> None:
    numbers = set(range(424)) - set(allowed_numbers(TABLES[machine][1], threads=True).values())
    assert {ask(machine, number) for number in numbers} == {EPERM}


@on_each_machine
def test_system_calls_numbered_424_or_higher_fail_with_enosys(machine: str) -> None:
    assert {ask(machine, number) for number in (*range(424, 1024), 2**31, 2**32 - 1)} == {ENOSYS}


def test_x32_system_calls_fail_with_enosys() -> None:
    assert {ask("x86_64", X32 | number) for number in range(1024)} == {ENOSYS}


@on_each_machine
def test_32_bit_system_calls_fail_with_enosys(machine: str) -> None:
    """A 64-bit process can make 32-bit system calls, whose numbers mean other calls."""
    for_32_bits = {"x86_64": 0x40000003, "aarch64": 0x40000028}[machine]
    assert {ask(machine, number, interface=for_32_bits) for number in range(1024)} == {ENOSYS}


REFUSED_ARGUMENTS = {
    "open": (1, [os.O_WRONLY, os.O_RDWR, os.O_ACCMODE, os.O_CREAT, os.O_TRUNC, 1 << 32 | os.O_WRONLY]),
    "openat": (2, [os.O_WRONLY, os.O_RDWR, os.O_ACCMODE, os.O_CREAT, os.O_TRUNC, 1 << 32 | os.O_WRONLY]),
    "fcntl": (1, [5, 6, 7, 8, 10, 15, 36, 37, 38, 1024, 1025, 1026, 1031, 1033, 1036]),
    "ioctl": (1, [0x40086602, 0x401C5820, 0x8914, 0x8901, 0x8902, 0x5412, 0x8901 | 1 << 32, *range(0x5414, 0x541B)]),
    "prctl": (0, [*range(15), *range(17, 100), 1 | 1 << 32]),
    "mbind": (5, [1, 2, 4]),
    "mmap": (3, [0x2022, 0x40022, 0x42000]),
    "madvise": (2, [9, 12, 100, 101]),
    "sendto": (3, [1, 0x40, 0x4000, 0x4000000, 0x20000000]),
    "recvfrom": (3, [1, 2, 0x20, 0x40, 0x2000]),
    "prlimit64": (2, [1, 1 << 32]),
    "clone": (0, [0, 0x11, 0x4000, *(0x10000 | 1 << bit for bit in (17, 25, 26, 27, 28, 29, 30))]),
}
"""For each call whose arguments are checked, an argument and values that would do what the sandbox denies."""


@on_each_machine
@pytest.mark.parametrize("name", CHECKS)
def test_seccomp_refuses_unlisted_arguments_of_a_system_call(machine: str, name: str) -> None:
    number = allowed_numbers(TABLES[machine][1], threads=True).get(name)
    if number is None:
        pytest.skip(f"{machine} has no {name}")
    argument, refused = REFUSED_ARGUMENTS[name]
    assert {ask(machine, number, _passing(name) | {argument: value}) for value in CHECKS[name][0].values} == {ALLOW}
    assert {ask(machine, number, _passing(name) | {argument: value}) for value in refused} == {EPERM}


@on_each_machine
@pytest.mark.parametrize("address", [1, 1 << 32])
def test_seccomp_refuses_sendto_if_an_address_is_given(machine: str, address: int) -> None:
    number = allowed_numbers(TABLES[machine][1], threads=True)["sendto"]
    assert ask(machine, number, {4: address}) == EPERM


def test_allowing_threads_adds_only_the_clone_system_call() -> None:
    assert {**allowed_numbers(1, threads=False), "clone": 56} == allowed_numbers(1, threads=True)


@pytest.mark.parametrize(("machine", "name_of_machine"), [("x86_64", "X86_64"), ("aarch64", "AARCH64")])
def test_system_call_numbers_equal_the_numbers_of_libseccomp(machine: str, name_of_machine: str) -> None:
    seccomp = pytest.importorskip("pyseccomp")
    numbers = allowed_numbers(TABLES[machine][1], threads=True)
    arch = getattr(seccomp.Arch, name_of_machine)
    assert numbers == {name: seccomp.resolve_syscall(arch, name) for name in numbers}
