"""Counts the cores that this process may use, by CPU affinity and quotas of control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROCESS = Path("/proc/self")

_CONTROLLER = {"cpu"}
"""The controller of CPU time in a version 1 hierarchy of control groups."""


def usable_cores() -> int:
    """Return the number of whole cores that this process may use, at least 1.

    The number is rounded down: a thread on a fraction of a core would be throttled for a part of
    each quota period, and other threads would wait for it.
    """
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota(process: Path = _PROCESS) -> float | None:
    """Return the number of cores granted by a process's control groups, or None without a limit.

    The result is the minimum over the process's groups and their ancestors, for cgroup v1 and v2
    (Linux: ``Documentation/admin-guide/cgroup-v2.rst`` and ``scheduler/sched-bwc.rst``).

    Args:
        process: the process's folder in ``/proc``.
    """
    quotas = [_quota(folder) for folder in _groups(process)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _groups(process: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that may limit a process's CPU time."""
    try:
        lines = (process / "cgroup").read_text().splitlines()
        mounts = (process / "mountinfo").read_text().splitlines()
    except OSError:  # without /proc, assume no limit
        return
    paths = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    for mount in mounts:
        fields, _, rest = mount.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = rest.split(" ", 2)  # a mount's source may be empty
        for names, path in paths.items():
            shared = _CONTROLLER.intersection(names.split(","), options.split(","))
            is_v1 = kind == "cgroup" and bool(shared)
            if is_v1 or (kind == "cgroup2" and not names):
                yield from _with_parents(Path(point), root, path)


def _with_parents(point: Path, root: str, path: str) -> Iterator[Path]:
    """Yield a group's folder and its ancestors, up to the mount point of the hierarchy.

    Args:
        point: the folder at which the hierarchy, or a part of it, is mounted.
        root: the group that is mounted at ``point``, as a path in the hierarchy; ``/`` if the whole
            hierarchy is mounted.
        path: the group, as a path in the hierarchy.
    """
    group = PurePosixPath(path)
    inside = group.relative_to(root) if group.is_relative_to(root) else PurePosixPath()
    yield from (point / part for part in (inside, *inside.parents) if ".." not in part.parts)


def _quota(folder: Path) -> float | None:
    """Return the number of cores that a control group's folder grants; None without a limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
            return None if quota == "max" else int(quota) / int(period)
        quota = (folder / "cpu.cfs_quota_us").read_text()
        period = (folder / "cpu.cfs_period_us").read_text()
    except OSError:  # the root group has no such files
        return None
    return int(quota) / int(period) if int(quota) > 0 else None
