"""Asking the disk whether it is full."""

from __future__ import annotations

import errno
import os

import pytest

from eventjobs.store.lmdb import space


def test_a_disk_with_room_is_not_full(tmp_path):
    """The question leaves nothing behind."""
    assert space.no_space_left(tmp_path) is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["open", "write"])
def test_no_room_and_no_quota_are_full(tmp_path, monkeypatch, code, step):
    """A disk that takes no file, or no byte, is full; so is one whose quota is used up."""

    def refuse(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(space.os, step, refuse)
    assert space.no_space_left(tmp_path) is True
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_is_cut_short_means_full(tmp_path, monkeypatch):
    """Less written than asked for is what a full disk does first."""
    monkeypatch.setattr(space.os, "write", lambda file, data: len(data) - 1)
    assert space.no_space_left(tmp_path) is True
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["open", "write"])
def test_a_broken_disk_is_not_full(tmp_path, monkeypatch, step):
    """Any other error is none of space."""

    def break_down(*arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(space.os, step, break_down)
    assert space.no_space_left(tmp_path) is False
