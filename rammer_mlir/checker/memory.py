"""Rules 3 to 5: which rTasks touch the same bytes of which values."""

import numpy as np

from rammer_mlir.checker.artifact import MOST, Array, Artifact, entries, limit, refuse, starts
from rammer_mlir.checker.schedule import Schedule


class Memory:
    """Each access that has bytes, ``shift`` after the begin of its value, by each rOperator."""

    def __init__(self, artifact: Artifact, schedule: Schedule):
        self._artifact, self._schedule, kernels = artifact, schedule, artifact.kernels.tolist()
        limit(sum(len(artifact.accesses[kernel]) for kernel in kernels), "accesses", 1 << 20)
        rows = [(o, *access) for o, k in enumerate(kernels) for access in artifact.accesses[k]]
        uses = np.array(rows, np.int64).reshape(-1, 4)
        bounds = np.array([boxes.bounds for boxes in artifact.boxes], np.int64).reshape(-1, 2)
        uses = uses[bounds[uses[:, 3], 0] < bounds[uses[:, 3], 1]]
        self._operator, argument, effect, self._boxes = uses.T
        operand = artifact.first[self._operator] + argument
        self._value, self._shift = artifact.value[operand], artifact.byte[operand]
        self._reads, self._updates = effect == 0, effect == 2
        self._given = artifact.has_kind["input"] | artifact.has_kind["constant"]
        self._updated = artifact.has_kind["inout"].copy()
        self._updated[self._value[self._updates]] = True
        low, high = bounds[self._boxes].T + self._shift
        wrong = (low < 0) | (high > artifact.num_bytes[self._value])
        refuse(wrong | (self._given[self._value] & ~self._reads), lambda at: (
            f"rule 5 (memory): {artifact.names[self._operator[at]]}: expected bytes of "
            f"{artifact.values[self._value[at]]}, not to write a given one, found byte {low[at]} on"
        ))  # fmt: skip

        self._check_bytes()
        self._check_sharing()

    def _check_bytes(self) -> None:
        """Check rules 3 and 4 by runs of consecutive bytes, those of all values in one space."""
        artifact, schedule = self._artifact, self._schedule
        use, task, begin, end = self._runs()
        reads, value, operator = self._reads[use], self._value[use], self._operator[use]
        task += schedule.base[operator]
        # Pairs of a run i that is written, in ascending order, and another run j.
        writes = np.flatnonzero(~reads)
        writes = writes[np.argsort(begin[writes], kind="stable")]
        first = np.searchsorted(np.maximum.accumulate(end[writes]), begin, side="right")
        j, place = entries(np.maximum(np.searchsorted(begin[writes], end) - first, 0))
        i = writes[first[j] + place]
        common = np.minimum(end[i], end[j]) - np.maximum(begin[i], begin[j])
        i, j, common = (column[(common > 0) & (i != j)] for column in (i, j, common))
        early, own = operator[i] < operator[j], operator[i] == operator[j]
        a, b = np.where(early, (task[i], task[j]), (task[j], task[i]))
        ordered = schedule.step[a] <= schedule.clocks[schedule.clock[b], schedule.veu[a]]
        ordered |= (schedule.veu[a] == schedule.veu[b]) & (schedule.step[a] < schedule.step[b])
        both, updated = self._updates[use], self._updated[value]
        free = (task[i] == task[j]) | (both[i] & (both[j] | reads[j]))
        refuse(~(np.where(own, free, ordered) & (reads[j] | updated[j])), lambda at: (
            f"rule 3 (ordered): {schedule.name(int(task[i[at]]))} writes bytes of "
            f"{artifact.values[value[i[at]]]} that {schedule.name(int(task[j[at]]))} touches: "
            "expected barriers that order them as their rOperators, and one write of each byte"
        ))  # fmt: skip
        written = np.bincount(j, common * (early | (own & updated[j])), len(use))
        missing, box = written < end - begin, use[updated] * MOST + task[updated]
        missing[updated] = ~np.isin(box, box[written[updated] > 0])  # any byte of the box is enough
        refuse(missing & reads & ~artifact.has_kind["inout"][value], lambda at: (
            f"rule 4 (defined): {schedule.name(task[at])} reads {artifact.values[value[at]]}: "
            f"expected writes before, found {written[at]:.0f} of {end[at] - begin[at]} bytes"
        ))  # fmt: skip
        found = np.bincount(value, (end - begin) * ~reads, len(artifact.values))
        wrong = artifact.has_kind["output"] & ~self._updated & (found != artifact.num_bytes)
        refuse(wrong, lambda at: (
            f"rule 4 (defined): output {artifact.values[at]}: expected writes of "
            f"{artifact.num_bytes[at]} bytes, found {found[at]:.0f}"
        ))  # fmt: skip

    def _runs(self) -> tuple[Array, ...]:
        """Return runs of bytes of all uses that may conflict: use, rTask, begin, end."""
        use = np.flatnonzero(~self._given[self._value])
        distinct, number = np.unique(self._boxes[use], return_inverse=True)
        lists, total = [np.zeros((3, 0), np.int64)], 0
        for boxes in distinct.tolist():
            lists.append(self._artifact.boxes[boxes].runs())
            limit(total := total + lists[-1].shape[1], "runs of bytes")
        first, runs = starts([found.shape[1] for found in lists[1:]]), np.concatenate(lists, axis=1)
        owner, place = entries(np.diff(first)[number])
        task, begin, end = runs[:, first[number[owner]] + place]
        use = use[owner]
        space = starts(self._artifact.num_bytes)[self._value[use]] + self._shift[use]
        return use, task, begin + space, end + space

    def _check_sharing(self) -> None:
        """Check that values that share bytes are in the arena and used one after the other."""
        schedule, artifact = self._schedule, self._artifact
        in_arena, veus = artifact.has_kind["intermediate"], schedule.known.shape[1]
        limit(len(in_arena) * veus, "values, times vEUs", 1 << 26)
        known, reached = np.full((len(in_arena), veus), MOST), np.zeros((len(in_arena), veus), int)
        np.minimum.at(known, self._value, schedule.known[self._operator])
        np.maximum.at(reached, self._value, schedule.reached[self._operator])
        used = np.flatnonzero((~in_arena | reached.any(axis=1)) & (artifact.num_bytes > 0))
        used = used[np.argsort(artifact.addresses[used], kind="stable")]
        begin, size = artifact.addresses[used], artifact.num_bytes[used]
        owner, place = entries(np.searchsorted(begin, begin + size) - np.arange(len(used)) - 1)
        limit(len(owner) * veus, "pairs of values that share bytes, times vEUs", 1 << 26)
        a, b = used[owner], used[owner + place + 1]  # the second begins before the end of the first
        both = (reached[a] > known[b]).any(axis=1) & (reached[b] > known[a]).any(axis=1)
        refuse(~in_arena[a] | both, lambda at: (
            f"rule 5 (memory): {artifact.values[a[at]]} and {artifact.values[b[at]]} share bytes: "
            "expected all uses of one to end before the other is used"
        ))  # fmt: skip
