"""Signed notes: the published example of the Go package whose form they have, and what is refused."""

from __future__ import annotations

import sys

import pytest

from eventjobs.store.notes import NOTE_BYTES_MAX, BadNote, CannotSign, PublicKey, SigningKey, note_text

PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
NOTE = (
    f"{TEXT}\n— PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_the_published_note_comes_out():
    """The keys are read and written as published, and signing gives the published signature."""
    key = SigningKey.parse(PRIVATE + "\n")
    assert key.text() == PRIVATE
    assert key.public_key == PublicKey.parse(f" {PUBLIC}\n")
    assert key.public_key.text() == PUBLIC
    assert key.signed(TEXT) == NOTE
    assert key.public_key.has_signed(NOTE.encode())
    assert note_text(NOTE.encode()) == TEXT


def test_a_new_key_signs_what_its_public_key_takes():
    """Two keys are never alike, and neither takes the other's signature."""
    one, other = SigningKey.new("example.com/jobs"), SigningKey.new("example.com/jobs")
    note = SigningKey.parse(one.text()).signed(TEXT).encode()
    assert PublicKey.parse(one.public_key.text()).has_signed(note)
    assert not other.public_key.has_signed(note)
    assert one != other


def test_a_secret_is_not_shown_by_accident():
    """The form a key has in logs and tracebacks does not have it; neither has what is said of a damaged one."""
    key = SigningKey.parse(PRIVATE)
    seed = PRIVATE.rpartition("+")[2]
    assert "seed" not in repr(key) and seed not in repr(key)
    for damaged in (PRIVATE[:-1], PRIVATE[:-4] + "KDF!", PRIVATE[:-4] + "KDFy"):
        with pytest.raises(BadNote) as error:
            SigningKey.parse(damaged)
        assert "KDF" not in str(error.value) and "AYEK" not in str(error.value)


def test_only_the_text_that_was_signed_is_taken():
    """Any other text, a signature that was changed, and a note without one are not."""
    key = PublicKey.parse(PUBLIC)
    assert not key.has_signed(NOTE.replace("your problem", "my problem").encode())
    assert not key.has_signed(NOTE.replace("x08go/ZJ", "x08go/ZK").encode())
    assert not key.has_signed(TEXT.encode())
    assert not key.has_signed(f"{TEXT}\n".encode())


def test_signatures_of_others_are_passed_over():
    """As are those of a key with the same name; but one wrong signature of the key itself refuses the note."""
    key = PublicKey.parse(PUBLIC)
    witness = SigningKey.new("witness.example/w").signed(TEXT).rpartition("\n\n")[2]
    namesake = SigningKey.new("PeterNeumann").signed(TEXT).rpartition("\n\n")[2]
    assert key.has_signed(f"{NOTE}{witness}{namesake}".encode())
    wrong = NOTE.rpartition("\n\n")[2].replace("x08go/ZJ", "x08go/ZK")
    assert not key.has_signed(f"{NOTE}{wrong}".encode())


def test_a_text_may_have_blank_lines():
    """The last one parts it from the signatures."""
    text = "one\n\ntwo\n"
    note = SigningKey.parse(PRIVATE).signed(text).encode()
    assert note_text(note) == text
    assert PublicKey.parse(PUBLIC).has_signed(note)


@pytest.mark.parametrize(
    "note",
    [
        b"\xff\n",
        b"a\tb\n",
        b"a\r\n",
        b"x" * (NOTE_BYTES_MAX + 1),
        f"{TEXT}\nPeterNeumann x08g\n".encode(),
        f"{TEXT}\n— PeterNeumann\n".encode(),
        f"{TEXT}\n— PeterNeumann not-base64\n".encode(),
    ],
)
def test_what_is_no_note_is_refused(note):
    """Other encodings, control characters, lines that are no signatures, and what is far too long."""
    with pytest.raises(BadNote):
        PublicKey.parse(PUBLIC).has_signed(note)


@pytest.mark.parametrize(
    "line", ["", "PeterNeumann", PUBLIC[:-1], PUBLIC[1:], PUBLIC.replace("c7", "c8"), f"+{PUBLIC}"]
)
def test_a_damaged_public_key_is_refused(line):
    """Its id stands for its name and its bytes."""
    with pytest.raises(BadNote):
        PublicKey.parse(line)


def test_one_kind_of_key_is_not_taken_for_the_other():
    """A public key does not sign, and a private one is not published by mistake."""
    with pytest.raises(BadNote, match="starts with"):
        SigningKey.parse(PUBLIC)
    with pytest.raises(BadNote):
        PublicKey.parse(PRIVATE)


@pytest.mark.parametrize("name", ["", "two words", "a+b", "line\nend", "no\u2003break"])
def test_a_name_that_would_break_the_form_is_refused(name):
    """Spaces and pluses part the names from the rest."""
    with pytest.raises(BadNote, match="name"):
        SigningKey.new(name)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    """Reading notes and public keys goes on."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(CannotSign, match=r"pip install '\.\[sign\]'"):
        SigningKey.parse(PRIVATE)
    key = PublicKey.parse(PUBLIC)
    with pytest.raises(CannotSign):
        key.has_signed(NOTE.encode())
    assert note_text(NOTE.encode()) == TEXT
