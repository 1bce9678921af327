"""States from a file: a user's own samples of p(s) instead of stage 1.

Reads ``.npz`` (the array ``states``, or the only one), ``.npy``, ``.csv`` (a header is optional) and ``.parquet``, as
rows of finite numbers, one state per row. Nothing in a file is ever executed: pickled arrays are refused.
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
from edl.program import Program, instant


def dataset(samples: Float[Array | np.ndarray, "n s"]) -> Program[Any, States]:
    """p(s) is the dataset itself, whatever the key."""
    return instant(lambda key: States(samples=jnp.asarray(samples)))


def load_dataset(
    path: str | Path, size: int | None = None, region: Predicate | None = None
) -> Float[np.ndarray, "n s"]:
    """Read states from a file, check them, and keep those in the region. ``size`` is the world's number of features."""
    path = Path(path)
    if path.suffix not in READERS:
        raise ConfigError(
            f"dataset {str(path)!r} ends in {path.suffix or 'nothing'!r}: one of {', '.join(READERS)} is wanted. "
            "Convert it."
        )
    if not path.is_file():
        raise ConfigError(f"dataset {str(path)!r} is not a file: a path to states is wanted. Check the path.")
    states = checked(READERS[path.suffix](path), str(path), size)
    check_not_empty(region, states, f"the {len(states)} states of {str(path)!r}")
    return states[inside(region, states)]


def checked(array: np.ndarray, whose: str, size: int | None = None) -> Float[np.ndarray, "n s"]:
    """An array as float32 states, or a `ConfigError` that names what is wrong and where."""
    if array.dtype.kind not in "fiub":
        raise ConfigError(f"{whose} holds {array.dtype}: numbers are wanted. Save the states as a float array.")
    if array.ndim != 2:
        raise ConfigError(
            f"{whose} has shape {array.shape}: rows of states (n, {size or 's'}) are wanted. Reshape it to two axes."
        )
    if 0 in array.shape:
        raise ConfigError(f"{whose} is empty, of shape {array.shape}: at least one state is wanted. Save some states.")
    if size is not None and array.shape[1] != size:
        raise ConfigError(
            f"{whose} has {array.shape[1]} columns: the states of this world have {size}. Save those {size} only."
        )
    with np.errstate(over="ignore"):
        states = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(states).all():
        row, column = np.argwhere(~np.isfinite(states))[0]
        raise ConfigError(
            f"{whose} has {states[row, column]} in row {row}, column {column} (from 0): finite numbers are wanted. "
            "Remove that row."
        )
    return states


def _load_numpy(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded.items()) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except Exception as error:  # numpy raises half a dozen kinds, from zipfile's to MemoryError, on a damaged file
        pickled = "allow_pickle" in str(error) or "pickle" in str(error).lower()
        got = "holds pickled objects" if pickled else f"cannot be read ({type(error).__name__})"
        raise ConfigError(
            f"dataset {str(path)!r} {got}: plain arrays of numbers are wanted. Save it again with numpy, as floats."
        ) from error


def _from_npy(path: Path) -> np.ndarray:
    array = _load_numpy(path)
    if not isinstance(array, np.ndarray):
        raise ConfigError(f"dataset {str(path)!r} is an archive: a single array is wanted. Rename it to .npz.")
    return array


def _from_npz(path: Path) -> np.ndarray:
    arrays = _load_numpy(path)
    if isinstance(arrays, np.ndarray):
        return arrays
    if "states" in arrays:
        return arrays["states"]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise ConfigError(
        f"dataset {str(path)!r} holds the arrays {', '.join(sorted(arrays)) or 'none'}: one named 'states' is wanted. "
        "Save it with np.savez(path, states=...)."
    )


def _from_csv(path: Path) -> np.ndarray:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [(line, row) for line, row in enumerate(csv.reader(file), 1) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"dataset {str(path)!r} is not text ({error}): comma-separated numbers are wanted. Save it again."
        ) from error
    if rows and not any(_is_number(cell) for cell in rows[0][1]):
        rows = rows[1:]
    if not rows:
        raise ConfigError(f"dataset {str(path)!r} is empty: at least one row of numbers is wanted. Save some states.")
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise ConfigError(
                f"dataset {str(path)!r} has {len(row)} cells in line {line} and {width} in line {rows[0][0]}: "
                "rows of one length are wanted. Mend that line."
            )
        for column, cell in enumerate(row, 1):
            if not _is_number(cell):
                raise ConfigError(
                    f"dataset {str(path)!r} has {cell[:40]!r} in line {line}, column {column}: a number is wanted. "
                    "Mend that cell."
                )
    return np.array([[float(cell) for cell in row] for _, row in rows])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _from_parquet(path: Path) -> np.ndarray:
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
            f"dataset {str(path)!r} cannot be read as parquet: a valid file is wanted. Save it again."
        ) from error
    if table.num_columns == 1 and pyarrow.types.is_list(table.schema[0].type):
        rows = table.column(0).to_pylist()
        if len({None if row is None else len(row) for row in rows}) > 1:
            raise ConfigError(f"dataset {str(path)!r} has lists of unequal lengths: rows of one length are wanted.")
        return np.array(rows)
    for field in table.schema:
        if not (pyarrow.types.is_integer(field.type) or pyarrow.types.is_floating(field.type)):
            raise ConfigError(
                f"dataset {str(path)!r} has a column {field.name!r} of {field.type}: numbers are wanted. "
                "Drop that column."
            )
    columns = [np.asarray(table.column(i).to_numpy(), np.float64) for i in range(table.num_columns)]
    return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0))


READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npz": _from_npz,
    ".npy": _from_npy,
    ".csv": _from_csv,
    ".parquet": _from_parquet,
}
