"""Read and write programs of a kit: artifacts without weights, and recipes to build the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.benchmarks.gpu.kit.store import Array, Reference, Store
from rammer_mlir.compiler.weight_recipes import Recipe, recipe_from_json
from rammer_mlir.errors import ArtifactError
from rammer_mlir.lowering.program.constants import pack_constants
from rammer_mlir.runtime.artifact import Artifact, read_split, split_artifact
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.loader import open_artifact

_PROGRAM, _WEIGHTS = ".program", ".weights.json"


def write_program(
    folder: Path,
    name: str,
    artifact: Artifact,
    recipes: Mapping[int, Recipe],
    references: Mapping[str, Reference],
) -> None:
    """Write a program whose weights are in a kit's store.

    Args:
        folder: the folder of programs.
        name: name of the files, without extensions.
        artifact: the program.
        recipes: recipes that compute the weights from arrays, by index of the weight among the
            program's arguments.
        references: references to the arrays that the recipes read, by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content, _ = split_artifact(artifact)
    names = sorted({each for recipe in recipes.values() for each in recipe.names()})
    numbers = {each: number for number, each in enumerate(names)}
    weights = {
        "arrays": [references[each] for each in names],
        "recipes": [[number, recipe.to_json(numbers)] for number, recipe in recipes.items()],
    }
    (folder / (name + _PROGRAM)).write_bytes(content)
    (folder / (name + _WEIGHTS)).write_text(json.dumps(weights), encoding="utf-8")


def read_program(folder: Path, name: str, store: Store) -> GpuExecutable:
    """Return program ``name`` read from its files in ``folder``, with its weights built.

    Raises:
        ArtifactError: if a file is missing or damaged.
    """
    path = folder / (name + _PROGRAM)
    try:
        content = path.read_bytes()
        weights = json.loads((folder / (name + _WEIGHTS)).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"cannot read '{path}' ({error}): expected a program of the kit; pack it again"
        ) from error
    artifact = read_split(path, content, packed(weights, store))
    executable = open_artifact(path, artifact)
    assert isinstance(executable, GpuExecutable)
    return executable


def packed(weights: Mapping[str, Any], store: Store) -> NDArray[np.uint8]:
    """Return all weights of a program as an array of bytes.

    ``weights`` is the decoded JSON of a file that ``write_program`` wrote. It has references to
    arrays in ``store``, and recipes that compute the weights from these arrays.
    """
    arrays = [store.get(reference) for reference in weights["arrays"]]
    names = [str(number) for number in range(len(arrays))]
    values: dict[str, Array] = dict(zip(names, arrays, strict=True))
    made = {
        number: recipe_from_json(recipe, names).array(values)
        for number, recipe in weights["recipes"]
    }
    return pack_constants(made).blob
