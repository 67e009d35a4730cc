"""Export the models: ``python -m rammer_mlir.benchmarks.exports.zoo text -o FOLDER [NAME...]``.

``text`` stands for any Python module of this package that defines models. A NAME is the name of one
of its models, or a pattern of names; by default, all its models are exported.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.benchmarks.exports.spec import Spec
from rammer_mlir.benchmarks.exports.zoo.table import Model

TORCH = (
    "text",
    "vision",
    "torchvision_models",
    "detectors",
    "timm_models",
    "audio",
    "modules",
    "functions",
)
ROOMS = {**dict.fromkeys(TORCH, "torch"), "keras_models": "keras", "jax_models": "jax"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Export the requested models of one Python module of this package; by default all its models.

    Each model is exported by all exporters that its entry in ``MODELS`` lists, or only by those
    given with ``--by``.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("names", nargs="*", default=["*"])
    parser.add_argument("--by", action="append", help="an exporter instead of the models' own")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/exports"))
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    package = "rammer_mlir.benchmarks.exports.zoo"
    exporter = importlib.import_module(f"{package}.{ROOMS[given.room]}_exporters")
    models: Sequence[Model] = importlib.import_module(f"{package}.{given.room}").MODELS
    for model in models:
        if any(fnmatch.fnmatch(model.name, name) for name in given.names):
            for kind in given.by or model.exporters:
                _export(exporter.export, model, kind, given.out)


def _export(export: object, model: Model, kind: str, out: Path) -> None:
    path = out / f"{model.name}.{kind}.onnx"
    began = time.monotonic()
    try:
        export(model, kind, path)  # type: ignore[operator]
    except Exception as error:
        path.unlink(missing_ok=True)
        path.with_suffix(".log").write_text(traceback.format_exc())
        line = (str(error).strip() or "?").splitlines()[0]
        print(f"{path.stem}: not exported, {type(error).__name__}: {line[:200]}", flush=True)
        return
    Spec(model.name, kind, model.inputs, model.cases).save(path.with_suffix(".json"))
    print(f"{path.stem}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
