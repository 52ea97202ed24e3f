"""Secrets of tenants, sealed: they open in their own place with their own key, and nowhere else; keyrings."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from gosched.core.limits import MAX_SEALED_LENGTH, MAX_SECRET_VALUE_BYTES
from gosched.core.records.secret import Secret
from gosched.wire.secret_keys import MAX_KEYRING_BYTES, BadKeyring, Key, Keyring, new_key_line, parse_keyring
from gosched.wire.secret_seal import CannotOpen, seal, unseal

OLD, NEW = Key(id="old", value=b"o" * 32), Key(id="new", value=b"n" * 32)
BOTH = Keyring(keys=(NEW, OLD))
VALUE = b"value \x00\xff\n"


def sealed(value=VALUE, key=OLD, tenant="ml", name="db", cluster_id="c1") -> Secret:
    text = seal(value, key, tenant=tenant, name=name, cluster_id=cluster_id)
    return Secret(
        tenant=tenant, name=name, sealed=text, key_id=key.id, cluster_id=cluster_id, version=1, changed_at_ms=1
    )


def refusal(secret: Secret, keyring: Keyring = BOTH, clusters: tuple[str, ...] = ("c1",)) -> str:
    with pytest.raises(CannotOpen) as raised:
        unseal(secret, keyring, clusters)
    line = str(raised.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("key", [OLD, NEW])
def test_what_a_key_of_the_ring_has_sealed_opens(key):
    assert unseal(sealed(key=key), BOTH, ("c1",)) == VALUE


def test_the_same_value_looks_different_each_time_and_is_not_in_it():
    first, again = sealed(), sealed()
    assert first.sealed != again.sealed
    assert VALUE not in base64.b64decode(first.sealed)


def test_the_largest_value_fits():
    assert len(sealed(b"x" * MAX_SECRET_VALUE_BYTES).sealed) <= MAX_SEALED_LENGTH


@pytest.mark.parametrize("moved", [{"tenant": "other"}, {"name": "other"}, {"cluster_id": "c2"}])
def test_a_ciphertext_that_was_moved_does_not_open(moved):
    assert "does not open" in refusal(replace(sealed(), **moved), clusters=("c1", "c2"))


def test_names_that_join_to_the_same_text_are_not_the_same_place():
    assert "does not open" in refusal(replace(sealed(tenant="a", name="b.c"), tenant="a.b", name="c"))


def test_any_byte_that_is_changed_keeps_it_from_opening():
    good = sealed(b"x")
    raw = base64.b64decode(good.sealed)
    for place in range(len(raw)):
        bad = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        assert "does not open" in refusal(replace(good, sealed=base64.b64encode(bad).decode()))


def test_one_that_was_cut_does_not_open_wherever():
    good = sealed(b"x")
    raw = base64.b64decode(good.sealed)
    for size in range(len(raw)):
        assert "does not open" in refusal(replace(good, sealed=base64.b64encode(raw[:size]).decode()))
    assert "does not open" in refusal(replace(good, sealed="no base64"))


def test_a_key_that_is_missing_is_called_so_and_another_one_of_its_id_does_not_open():
    assert "key old, which the masters do not have" in refusal(sealed(), Keyring(keys=(NEW,)))
    assert "does not open with key old" in refusal(sealed(), Keyring(keys=(Key(id="old", value=b"?" * 32),)))


def test_what_was_sealed_in_a_cluster_that_this_one_was_restored_from_opens_and_no_others():
    assert unseal(sealed(cluster_id="c0"), BOTH, ("c1", "c0")) == VALUE
    assert "sealed in another cluster" in refusal(sealed(cluster_id="c9"), clusters=("c1", "c0"))


def test_no_refusal_and_no_repr_has_a_value_or_a_key():
    assert "value" not in refusal(replace(sealed(), name="x"))
    assert "nnnn" not in repr(BOTH)
    assert repr(OLD) == "Key(id='old')"


# Keyrings


def test_the_first_key_seals_and_all_open():
    ring = parse_keyring(f"# keys\n\n{new_key_line('b')}\n  {new_key_line('a')}\r\n".encode())
    assert [key.id for key in ring.keys] == ["b", "a"]
    assert ring.first.id == "b"
    assert ring.find("a") == ring.keys[1]
    assert ring.find("c") is None
    assert len({key.value for key in ring.keys}) == 2


SECRET_PART = "c2VjcmV0LXBhcnQ"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "it holds no key"),
        (b"# only a comment\n", "it holds no key"),
        (f"a:{SECRET_PART}\n".encode(), "line 1 is no ID:BASE64 of 32 bytes"),
        (SECRET_PART.encode(), "line 1 is no ID:BASE64"),
        (f"{new_key_line('a')}\n:{SECRET_PART}".encode(), "line 2 is no ID:BASE64"),
        (f"a b:{SECRET_PART}".encode(), "line 1 is no ID:BASE64"),
        (new_key_line("a").encode()[:-3], "line 1 is no ID:BASE64"),
        (b"\xff\xfe" * 20, "line 1 is no ID:BASE64"),
        (f"{new_key_line('a')}\n{new_key_line('a')}".encode(), "line 2: there is a key a already"),
        ("\n".join(new_key_line(f"k{n}") for n in range(65)).encode(), "65 keys"),
        (b"#" * (MAX_KEYRING_BYTES + 1), "more than 65536 bytes"),
    ],
    ids=("empty", "comment", "short", "bare", "no id", "space", "cut", "binary", "twice", "many", "large"),
)
def test_a_bad_keyring_is_one_line_without_anything_of_a_key(text, words):
    with pytest.raises(BadKeyring) as raised:
        parse_keyring(text)
    assert words in str(raised.value)
    assert SECRET_PART not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("key_id", ["", "a:b", "a b", "ü", "a" * 101])
def test_an_id_that_cannot_be_one_makes_no_key(key_id):
    with pytest.raises(BadKeyring):
        new_key_line(key_id)
