"""Tests that the number of cores that a process may use is found correctly.

The process's affinity and the quotas of its control groups limit the number. Test files stand for
the control groups of versions 1 and 2.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from rammer_mlir.compiler.options import check_options
from rammer_mlir.support import usable_cores as module
from rammer_mlir.support.usable_cores import cpu_quota, usable_cores

V1, V2 = "cgroup cgroup rw,cpu,cpuacct", "cgroup2 cgroup2 rw"


def process(folder: Path, kind: str, group: str, files: Mapping[str, str], root: str = "/") -> Path:
    """Write files in ``folder`` that look like ``/proc/self`` of a process in a control group.

    Args:
        folder: the folder, which is returned.
        kind: file system type of the mounted control groups, which differs for versions 1 and 2.
        group: path of the process's group.
        files: contents of the control groups' files, such as quotas, by path below the mount.
        root: path of the group that is mounted.
    """
    names = "4:cpu,cpuacct" if kind == V1 else "0:"
    for name, text in files.items():
        file = folder / "mounted" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "cgroup").write_text(f"7:memory:/elsewhere\n{names}:{group}\n")
    (folder / "mountinfo").write_text(
        "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "21 20 0:40 / /mnt rw,relatime - tmpfs  rw\n"  # mounted without a source
        f"33 31 0:30 {root} {folder / 'mounted'} rw,relatime shared:9 - {kind}\n"
    )
    return folder


@pytest.mark.parametrize(
    ("kind", "group", "files", "root", "cores"),
    [
        (V2, "/a/b", {"a/b/cpu.max": "150000 100000\n"}, "/", 1.5),
        (V2, "/a/b", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, "/", 3.0),
        (V2, "/a/b", {"a/b/cpu.max": "50000 10000\n", "a/cpu.max": "20000 10000\n"}, "/", 2.0),
        (V2, "/a/b", {"a/b/cpu.max": "max 100000\n"}, "/", None),
        (V2, "/a/b", {"b/cpu.max": "200000 100000\n"}, "/a", 2.0),
        (V2, "/other", {"cpu.max": "200000 100000\n"}, "/docker/1", 2.0),
        (V2, "/../..", {"cpu.max": "200000 100000\n"}, "/", 2.0),
        (V1, "/a", {"a/cpu.cfs_quota_us": "250000", "a/cpu.cfs_period_us": "100000"}, "/", 2.5),
        (V1, "/a", {"a/cpu.cfs_quota_us": "-1", "a/cpu.cfs_period_us": "100000"}, "/", None),
        (V1, "/", {"unrelated": ""}, "/", None),
    ],
)  # fmt: skip
def test_quotas(
    kind: str, group: str, files: dict[str, str], root: str, cores: float | None, tmp_path: Path
) -> None:
    assert cpu_quota(process(tmp_path, kind, group, files, root)) == cores


def test_without_proc_nothing_is_limited(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(("quota", "least"), [(0.5, 1), (1.99, 1), (1.0, 1), (1000.0, 1000)])
def test_whole_cores_are_used(quota: float, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of usable cores, the default number of vEUs, is the quota rounded down.

    It is at least 1, and at most the number of cores in the affinity.
    """
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr(module, "cpu_quota", lambda: quota)
    assert usable_cores() == min(cores, least)
    assert check_options().num_veus == min(cores, least)
