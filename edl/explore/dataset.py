"""States from a file: a user's own samples of p(s) instead of stage 1.

Reads ``.npz`` (the array ``states``, or the only array), ``.npy``, ``.csv`` (the header is optional) and ``.parquet``:
finite numbers, one state per row. Nothing in a file is ever executed: pickled arrays are rejected.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import States
from edl.config import ConfigError
from edl.explore.region import Predicate, check_not_empty, inside
from edl.program import Program, one_shot


def dataset(samples: Float[Array | np.ndarray, "n s"]) -> Program[Any, States]:
    """Return the samples themselves as p(s). The key has no effect."""
    return one_shot(lambda key: States(samples=jnp.asarray(samples)))


def load_dataset(
    path: str | Path, size: int | None = None, region: Predicate | None = None
) -> Float[np.ndarray, "n s"]:
    """Read states from a file, check them, and keep those in the region. ``size`` is the env's number of features."""
    path = Path(path)
    if path.suffix not in READERS:
        raise ConfigError(
            f"dataset {str(path)!r} must end in one of {', '.join(READERS)} (got {path.suffix!r}). "
            "Convert it to one of these formats."
        )
    if not path.is_file():
        raise ConfigError(f"dataset {str(path)!r} is not a file. Check the path.")
    states = as_states(READERS[path.suffix](path), str(path), size)
    check_not_empty(region, states, f"the {len(states)} states of {str(path)!r}")
    return states[inside(region, states)]


def as_states(array: np.ndarray, source: str, size: int | None = None) -> Float[np.ndarray, "n s"]:
    """Convert an array to float32 states, or raise a `ConfigError` that says what is wrong and where."""
    if array.dtype.kind not in "fiub":
        raise ConfigError(f"{source} must contain numbers (got {array.dtype}). Save the states as a float array.")
    if array.ndim != 2:
        raise ConfigError(
            f"{source} must have one row per state and shape (n, {size or 's'}) (got shape {array.shape}). "
            "Reshape it to two axes."
        )
    if 0 in array.shape:
        raise ConfigError(f"{source} is empty (shape {array.shape}). Save at least one state.")
    if size is not None and array.shape[1] != size:
        raise ConfigError(
            f"{source} has {array.shape[1]} columns, but the states of this env have {size}. Save only those {size}."
        )
    with np.errstate(over="ignore"):
        states = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(states).all():
        row, column = np.argwhere(~np.isfinite(states))[0]
        raise ConfigError(
            f"{source} must contain finite numbers (got {states[row, column]} in row {row}, column {column}, "
            "counted from 0). Remove that row."
        )
    return states


def _load_numpy(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded.items()) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except Exception as error:  # a damaged file can raise almost anything, from zipfile errors to MemoryError
        pickled = "pickle" in str(error).lower()
        problem = "contains pickled objects" if pickled else f"cannot be read ({type(error).__name__})"
        raise ConfigError(
            f"dataset {str(path)!r} {problem}. Save it again with numpy as a plain array of floats."
        ) from error


def _read_npy(path: Path) -> np.ndarray:
    array = _load_numpy(path)
    if not isinstance(array, np.ndarray):
        raise ConfigError(f"dataset {str(path)!r} is an archive of arrays. Rename it to .npz.")
    return array


def _read_npz(path: Path) -> np.ndarray:
    arrays = _load_numpy(path)
    if isinstance(arrays, np.ndarray):
        return arrays
    if "states" in arrays:
        return arrays["states"]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    names = ", ".join(sorted(arrays)) or "none"
    raise ConfigError(
        f"dataset {str(path)!r} must contain an array named 'states' (got arrays {names}). "
        "Save it with np.savez(path, states=...)."
    )


def _read_csv(path: Path) -> np.ndarray:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [(line, row) for line, row in enumerate(csv.reader(file), 1) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"dataset {str(path)!r} is not text ({error}). Save it as comma-separated numbers."
        ) from error
    if rows and not any(_is_number(cell) for cell in rows[0][1]):
        rows = rows[1:]
    if not rows:
        raise ConfigError(f"dataset {str(path)!r} is empty. Save at least one row of numbers.")
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise ConfigError(
                f"dataset {str(path)!r} has {len(row)} cells in line {line} but {width} in line {rows[0][0]}. "
                "Give all rows the same length."
            )
        for column, cell in enumerate(row, 1):
            if not _is_number(cell):
                raise ConfigError(
                    f"dataset {str(path)!r} must contain numbers (got {cell[:40]!r} in line {line}, column {column}). "
                    "Replace that cell by a number, or remove the line."
                )
    return np.array([[float(cell) for cell in row] for _, row in rows])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> np.ndarray:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            f"dataset {str(path)!r} needs pyarrow, which is not installed: pip install 'edl[data]', or save it as .npz."
        ) from error
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ConfigError(
            f"dataset {str(path)!r} cannot be read as parquet ({type(error).__name__}). Save it again."
        ) from error
    if table.num_columns == 1 and pyarrow.types.is_list(table.schema[0].type):
        rows = table.column(0).to_pylist()
        if len({None if row is None else len(row) for row in rows}) > 1:
            raise ConfigError(f"dataset {str(path)!r} has lists of unequal lengths. Give all rows the same length.")
        return np.array(rows)
    for field in table.schema:
        if not (pyarrow.types.is_integer(field.type) or pyarrow.types.is_floating(field.type)):
            raise ConfigError(
                f"dataset {str(path)!r} must contain numbers (got column {field.name!r} of type {field.type}). "
                "Remove that column."
            )
    columns = [np.asarray(table.column(i).to_numpy(), np.float64) for i in range(table.num_columns)]
    return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0))


READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
