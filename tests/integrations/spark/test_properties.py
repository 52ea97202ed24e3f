"""Properties files. tests/integration/test_spark.py reads the same ones with Java."""

from __future__ import annotations

import pytest

from gosched.config.errors import ConfigError
from gosched.integrations.spark.properties import read_properties

#: A file, and what Java and Spark make of it.
READ = {
    "a=1\n  b : 2\nc 3 4\n! note\nd\n": {"a": "1", "b": "2", "c": "3 4", "d": ""},
    "a=1,\\\n   2,\\\n\t3\nb=4\n": {"a": "1,2,3", "b": "4"},
    "a=1\\\\\nb=2\\\\\\\n3\n": {"a": "1\\", "b": "2\\3"},
    "a=1\\\n# no note\n# a note\\\nb=2\n": {"a": "1# no note", "b": "2"},
    "a=1\\\n\nb=2": {"a": "1", "b": "2"},
    "long\\\n  key value\\": {"longkey": "value"},
    "a\\ b\\:c\\=d = e=f:g\n": {"a b:c=d": "e=f:g"},
    "a = \\tx\\u00e9\\n\\q\\uD83D\\uDE00 \t\n": {"a": "x\u00e9\nq\U0001f600"},
    "a==b\nc: :d\ne\t\f=\f1\r\nf=2\rg=3": {"a": "=b", "c": ":d", "e": "1", "f": "2", "g": "3"},
    "a=1\u2028b\x0bc\na=2\u2028x\n=v\n": {"a": "2\u2028x", "": "v"},
}


@pytest.mark.parametrize("text", READ)
def test_properties_are_read_as_java_reads_them(text: str) -> None:
    assert read_properties(text) == READ[text]


def test_an_escape_without_its_digits_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits, in 'x"):
        read_properties("a=x\\u12\n")
