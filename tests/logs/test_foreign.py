"""What libraries and C code write to stderr, told as records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gosched.core.text import CONTROL
from gosched.logs.foreign import MAX_LINE_BYTES, Grouping, record_of
from gosched.logs.render import render

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    boom()\nValueError: no'


def texts(*chunks: bytes) -> list[str]:
    grouping = Grouping()
    return [text for chunk in chunks for text in grouping.take(chunk)] + list(grouping.flush(cut=True))


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (
            "E0000 00:00:1732304887.123456  12345 ssl_transport.cc:1884] Handshake failed: x",
            {"level": "error", "event": "Handshake failed: x", "logger": "absl", "where": "ssl_transport.cc:1884"},
        ),
        (
            "I1122 19:48:27.123456  99 ev_epoll.cc:70] grpc epoll fd: 3",
            {"level": "debug", "event": "grpc epoll fd: 3", "logger": "absl", "where": "ev_epoll.cc:70"},
        ),
        (
            "F0000 00:00:1.5 1 check.cc:9] Check failed: p",
            {"level": "critical", "event": "Check failed: p", "logger": "absl", "where": "check.cc:9"},
        ),
        ("free(): invalid pointer", {"level": "warning", "event": "free(): invalid pointer", "logger": "stderr"}),
        ("[INFO] hello", {"level": "debug", "event": "[INFO] hello", "logger": "stderr"}),
        ("FATAL: no", {"level": "critical", "event": "FATAL: no", "logger": "stderr"}),
        (TRACE, {"level": "error", "event": "ValueError: no", "logger": "stderr", "exception": TRACE}),
    ],
)
def test_a_line_becomes_a_record_of_the_level_that_it_names(line: str, record: dict[str, str]) -> None:
    assert record_of(line) == record


def test_a_traceback_is_one_record_in_whatever_pieces_it_comes() -> None:
    data = f"before\n{TRACE}\nafter\n".encode()
    for cut in range(len(data)):
        assert texts(data[:cut], data[cut:]) == ["before", TRACE, "after"]


def test_a_warning_keeps_its_indented_line_and_an_unfinished_line_is_told_at_the_end() -> None:
    assert texts(b"a.py:1: UserWarning: old\n  f()\nnext\nhal", b"f") == [
        "a.py:1: UserWarning: old\n  f()",
        "next",
        "half",
    ]


def test_the_trace_of_an_absl_status_belongs_to_its_line() -> None:
    status = "E0000 00:00:1.5 1 a.cc:9] failed: x\n=== Source Location Trace: ===\nsrc/core/util/status.cc:68"
    assert texts(f"{status}\n\nnext\n".encode()) == [status, "next"]
    assert record_of(status)["event"].endswith("status.cc:68")


def test_a_line_without_an_end_is_cut_and_takes_no_more_memory() -> None:
    grouping = Grouping()
    told = [text for _ in range(100) for text in grouping.take(b"x" * 10_000)]
    assert told
    assert max(map(len, told)) <= MAX_LINE_BYTES + 10_000


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_whatever_comes_no_line_is_lost_and_each_record_is_one_line(chunks: list[bytes]) -> None:
    found = texts(*chunks)
    lines = b"".join(chunks).split(b"\n")
    told = [line for text in found for line in text.split("\n") if line.strip()]
    decoded = [text for line in lines if (text := line.decode("utf-8", "replace").rstrip("\r")).strip()]
    assert told == decoded
    for text in found:
        record = record_of(text)
        shown = render(record, "json")
        assert json.loads(shown) == record
        for line in (shown, render(record, "console")):
            assert not CONTROL.search(line)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (
            "PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate verification context",
            "the caller showed no certificate",
        ),
        ("WRONG_VERSION_NUMBER: Invalid certificate verification context", "the other side speaks plain text"),
        ("CERTIFICATE_VERIFY_FAILED: certificate has expired", "the other side's certificate has expired"),
        ("SOMETHING_NEW: of the next release", "SOMETHING_NEW: of the next release"),
    ],
)
def test_a_failed_handshake_is_a_warning_that_names_the_mistake(told: str, why: str) -> None:
    head = "I1123 00:11:34.796212   17441 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
    record = record_of(f"{head}error:100000c0:SSL routines:OPENSSL_internal:{told}")
    assert (record["level"], record["event"], record["why"]) == ("warning", "a TLS handshake failed", why)
