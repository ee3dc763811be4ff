"""The tracer's record of system calls and pages: decoded exactly, refused where it is damaged, absent in older streams."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.trace_decoder import MAGIC, SYSTEM, VERSION, Decoder
from convolver.errors import FormatError
from convolver.tracing.kernel_use import TARGETS, faults, system_document

KIND, HEAD_WORDS = 39, 13
PAGES = SYSTEM["pages"].names
COUNT = st.integers(0, 2**64 - 1)


def payload(pages: list[int], calls: list[tuple[int, int, int, int]], *, known: int = 1, stated: int | None = None) -> bytes:
    head = struct.pack("<II", 4096, known) + struct.pack(f"<{len(PAGES)}Q", *pages)
    head += struct.pack("<QQQ", 2, 3, len(calls) if stated is None else stated)
    return head + b"".join(struct.pack("<IIQQ", *call) for call in calls)


def stream(*payloads: bytes) -> bytes:
    records = b"".join(struct.pack("<Q", 3 << 62 | KIND << 56 | len(one) // 8) + one for one in payloads)
    return struct.pack("<QQ", MAGIC, VERSION) + records


def decoded(*payloads: bytes) -> Decoder:
    decoder = Decoder()
    decoder.feed(stream(*payloads))
    return decoder


@given(
    st.lists(COUNT, min_size=len(PAGES), max_size=len(PAGES)),
    st.lists(st.tuples(st.integers(0, 334), st.integers(0, 5), COUNT, COUNT), max_size=20),
)
def test_every_count_comes_back(pages, calls):
    document = system_document(decoded(payload(pages, calls)).system())
    assert list(document["pages"].values()) == pages
    assert (document["forks"], document["threads"], document["page_bytes"]) == (2, 3, 4096)
    hidden = {96, 201, 228, 309}  # the vdso answers these
    kept = [(TARGETS[target], *counts) for number, target, *counts in calls if number not in hidden]
    assert [(one["target"], one["calls"], one["bytes"]) for one in document["calls"]] == kept


def test_the_last_record_counts():
    first, last = (payload([n] * len(PAGES), []) for n in (1, 2))
    assert system_document(decoded(first, last).system())["pages"]["anonymous"] == 2


def test_numbers_have_the_kernels_names():
    calls = [(number, 0, 1, 0) for number in (0, 39, 257, 334, 424, 435, 9999)]
    names = [one["call"] for one in system_document(decoded(payload([0] * len(PAGES), calls)).system())["calls"]]
    assert names == ["read", "getpid", "openat", "rseq", "pidfd_send_signal", "clone3", "call_9999"]


def test_a_stream_without_the_record_knows_nothing():
    assert system_document(decoded().system()) is None


def test_pages_that_the_kernel_does_not_tell_are_unknown():
    assert system_document(decoded(payload([0] * len(PAGES), [], known=0)).system())["pages"] is None


def test_faults_are_single_pages_and_windows():
    assert faults(dict.fromkeys(PAGES, 0) | {"anonymous": 5, "shared": 3, "windows": 2, "file": 32}) == 10


@pytest.mark.parametrize("damaged", [bytes(8 * (HEAD_WORDS - 1)), payload([0] * len(PAGES), [], stated=1)])
def test_a_damaged_record_is_refused(damaged):
    with pytest.raises(FormatError, match="a record of system calls"):
        decoded(damaged)
