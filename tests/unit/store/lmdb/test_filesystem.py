"""Which file system a directory lies on, read from made-up mount tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventjobs.store.contract import StoreError
from eventjobs.store.lmdb.guards import check_filesystem, filesystem_type


def line(point: str, kind: str, options: str = "shared:1") -> str:
    """A line of mountinfo: fields before the separator vary in number."""
    return f"36 35 98:0 /mnt1 {point} rw,noatime {options} - {kind} /dev/source rw,errors=continue"


MOUNTS = "\n".join(
    [
        line("/", "ext4"),
        line("/data", "xfs", ""),
        line("/data/remote", "nfs4", "shared:1 master:2 propagate_from:3"),
        line("/data/remote/local", "btrfs"),
        line(r"/with\040space", "fuse.sshfs"),
        line(r"/tab\011and\134backslash", "nfs"),
        line("/größe", "cifs"),
        line("/no\u2028line\u3000nor\xa0space", "ceph"),
        line("/hidden", "nfs"),
        line("/hidden", "ext4"),
    ]
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/srv/me", "ext4"),
        ("/data", "xfs"),
        ("/data/jobs", "xfs"),
        ("/database", "ext4"),
        ("/data/remote", "nfs4"),
        ("/data/remote/jobs", "nfs4"),
        ("/data/remote/local/jobs", "btrfs"),
        ("/data/remotely", "xfs"),
        ("/with space/jobs", "fuse.sshfs"),
        ("/with", "ext4"),
        ("/tab\tand\\backslash/jobs", "nfs"),
        ("/größe/jobs", "cifs"),
        ("/no\u2028line\u3000nor\xa0space/jobs", "ceph"),
        ("/hidden/jobs", "ext4"),
    ],
)
def test_the_nearest_mount_tells_the_type(path, kind):
    """The longest mount point that holds the path counts, the later one of two alike, whatever its name is made of."""
    assert filesystem_type(Path(path), MOUNTS) == kind


def check(tmp_path: Path, kind: str, name: str = "jobs") -> None:
    """Look at a directory of that file system."""
    directory = tmp_path / name
    directory.mkdir()
    mounts = tmp_path / "mountinfo"
    escaped = str(directory).replace("\\", r"\134").replace(" ", r"\040")
    mounts.write_bytes(b"\n".join([line("/", "ext4").encode(), line(escaped, kind).encode(errors="surrogateescape")]))
    check_filesystem(directory, mounts)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "fuse.s3fs", "virtiofs"])
def test_remote_file_systems_are_refused(tmp_path, kind):
    """The refusal names directory, type and the way to insist."""
    with pytest.raises(StoreError, match=rf"jobs lies on a {kind} file system.*--force-filesystem"):
        check(tmp_path, kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs"])
def test_local_file_systems_are_taken(tmp_path, kind):
    """A local disk is taken without a word."""
    assert check(tmp_path, kind) is None


@pytest.mark.parametrize("name", ["größe", "with space", "back\\slash", "\udcff"])
def test_a_remote_file_system_is_found_under_any_name(tmp_path, name):
    """Names that are not ASCII, or no Unicode at all, hide nothing."""
    with pytest.raises(StoreError, match="lies on a nfs file system"):
        check(tmp_path, "nfs", name)


def test_a_link_does_not_hide_a_remote_file_system(tmp_path):
    """A symbolic link on a local disk that leads to a remote one is followed."""
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    mounts = tmp_path / "mountinfo"
    mounts.write_text("\n".join([line("/", "ext4"), line(str(target), "nfs")]))
    with pytest.raises(StoreError, match="nfs"):
        check_filesystem(tmp_path / "link", mounts)


def test_a_system_that_does_not_tell_its_mounts_is_trusted(tmp_path):
    """Without a mount table nothing is checked."""
    assert check_filesystem(tmp_path, tmp_path / "none") is None


def test_an_empty_mount_table_says_nothing():
    """A table without a line leaves the type unknown."""
    assert filesystem_type(Path("/data"), "") == "unknown"
