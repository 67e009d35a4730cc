"""Define the results of checking an exported model, stored as JSON next to its ONNX file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast


@dataclass(frozen=True)
class CaseResult:
    """The result of running a model in a case, which is a size for each open dimension.

    Attributes:
        case: text of the sizes.
        excess: largest error of an output element, divided by the element's tolerance.
        refusal: this compiler's error message; empty without an error.
        wrong: description of a wrong output; empty without a wrong output.
        not_exported: ONNX Runtime's error message if the exported model rejects the sizes; else
            empty.
        seconds: seconds of the first run of this compiler's program, with compilation.
        timed: seconds of the shortest later run, of this compiler and of ONNX Runtime; zeros if the
            case was not timed.
    """

    case: str
    excess: float = 0.0
    refusal: str = ""
    wrong: str = ""
    not_exported: str = ""
    """ONNX Runtime's message if the exported model itself rejects these sizes."""
    seconds: float = 0.0
    """Seconds of the first run, including compilation."""
    timed: tuple[float, float] = (0.0, 0.0)
    """Seconds of the shortest run after the first one: of this compiler, and of ONNX Runtime.

    Both are 0 if the case was not timed.
    """

    @property
    def speed(self) -> float | None:
        """ONNX Runtime's time divided by this compiler's; None if the case was not timed."""
        ours, theirs = self.timed
        return theirs / ours if ours else None


@dataclass(frozen=True)
class Result:
    """The results of all cases of an exported model.

    ``refusal`` is this compiler's error message if it cannot compile the model; empty otherwise.
    ``invalid`` says why the exported model itself is not valid; empty if it is valid.
    """

    name: str
    exporter: str
    cases: tuple[CaseResult, ...] = ()
    refusal: str = ""
    invalid: str = ""
    """ONNX Runtime's message if it rejects the exported model at all sizes."""

    @property
    def ran(self) -> tuple[CaseResult, ...]:
        """The cases whose sizes the exported model accepts, in the order of ``cases``.

        A case is left out if ONNX Runtime rejects the model at its sizes.
        """
        return tuple(case for case in self.cases if not case.not_exported)

    @property
    def refusals(self) -> tuple[str, ...]:
        """The distinct error messages of this compiler, for the model and its cases."""
        lines = [self.refusal, *(case.refusal for case in self.ran)]
        return tuple(dict.fromkeys(line for line in lines if line))

    @property
    def wrong(self) -> tuple[str, ...]:
        """Descriptions of the wrong outputs, each preceded by the name of its case."""
        return tuple(f"{case.case}: {case.wrong}" for case in self.cases if case.wrong)

    @property
    def is_right(self) -> bool:
        """Whether at least one case ran, and none was refused or wrong."""
        return bool(self.ran) and not self.refusals and not self.wrong

    @property
    def excess(self) -> float:
        """The largest error of an output element in all cases, divided by its tolerance."""
        return max((case.excess for case in self.ran), default=0.0)

    @property
    def speeds(self) -> tuple[float, ...]:
        """ONNX Runtime's time divided by this compiler's, for each timed case."""
        return tuple(case.speed for case in self.ran if case.speed is not None)

    @property
    def seconds(self) -> float:
        """The seconds of the slowest case's first run, with compilation; 0 without cases."""
        return max((case.seconds for case in self.ran), default=0.0)


def save_result(result: Result, path: Path) -> None:
    """Write a result as JSON to the file ``path``."""
    path.write_text(json.dumps(asdict(result), indent=1))


def load_results(folder: Path) -> list[Result]:
    """Return the results of all models of a folder."""
    found: list[Result] = []
    for path in sorted(folder.glob("*.result")):
        data = json.loads(path.read_text())
        cases = tuple(map(_case_of, data.pop("cases")))
        found.append(Result(cases=cases, **data))
    return found


def _case_of(data: dict[str, object]) -> CaseResult:
    ours, theirs = cast(list[float], data.pop("timed", [0.0, 0.0]))
    return CaseResult(**data, timed=(ours, theirs))  # pyright: ignore[reportArgumentType]  # JSON
