"""States from a file: a user's own samples of p(s) instead of stage 1.

Reads ``.npz`` (the array ``states``, or the only array), ``.npy``, ``.csv`` (the header is optional) and ``.parquet``:
finite numbers, one state per row. Nothing in a file is ever executed: pickled arrays are rejected.

Files are read in chunks after their size was checked in their metadata, so a file needs little memory whatever its
size is. Of more than `MAX_STATES` states, a uniform sample is used.
"""

import csv
import io
import itertools
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import Experience, States
from edl.config import ConfigError, RunWarning, check
from edl.envs.base import Discrete, Env
from edl.explore.region import Predicate, empty_region, inside
from edl.program import Program, one_shot

MAX_STATES = 1_000_000
"""Maximum number of states that a run uses."""
MAX_STATE_BYTES = 2**28
"""Maximum size of these states in memory. States with many dimensions are limited by it."""
MAX_FILE_BYTES = 4 * 2**30
"""Maximum size of a dataset, without compression."""
MAX_COLUMN_MAJOR_BYTES = 2**29
"""The same for arrays that are compressed and stored column by column, which cannot be read in chunks of rows."""
MAX_LINE = 2**20
"""Maximum number of characters in a line of CSV."""
CHUNK_ROWS = 2**16


def dataset(samples: Float[Array | np.ndarray, "n s"] | States) -> Program[Any, States]:
    """Return the samples themselves as p(s). The key has no effect."""
    states = samples if isinstance(samples, States) else States(samples=jnp.asarray(samples))
    return one_shot(lambda key: states)


def load_experience(path: str | Path, env: Env) -> States:
    """Read recorded episodes from a ``.npz`` file: arrays ``states``, ``actions`` and ``ends``, one row per state.

    ``ends`` is 1 for the last state of an episode, whose action is not used.
    """
    path = Path(path)
    check(
        path.suffix == ".npz" and path.is_file(),
        f"recorded episodes must be a .npz file (got {str(path)!r}). "
        "Save them with np.savez(path, states=..., actions=..., ends=...).",
    )
    names = ("states", "actions", "ends")
    arrays = _named_arrays(path, names)
    missing = [name for name in names if name not in arrays]
    check(
        not missing,
        f"dataset {str(path)!r} must contain the arrays states, actions and ends (missing: {', '.join(missing)}), "
        "because this method learns from transitions. Save them with np.savez.",
    )
    states = as_states(arrays["states"], str(path), env.feature_size)
    actions = as_states(arrays["actions"], f"the actions of {str(path)!r}", _action_size(env))
    ends = np.asarray(arrays["ends"]).reshape(-1) > 0
    check(
        len(states) == len(actions) == len(ends),
        f"states, actions and ends of {str(path)!r} must have the same number of rows "
        f"(got {len(states)}, {len(actions)} and {len(ends)}).",
    )
    starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    pieces = [(states[a:b], actions[a : b - 1]) for a, b in zip(starts, [*starts[1:], len(states)], strict=True)]
    return states_with_experience(pieces, str(path))


def states_with_experience(episodes: Sequence[tuple[np.ndarray, np.ndarray]], source: str) -> States:
    """States from episodes, each of t + 1 states and t actions. Episodes without a step are left out."""
    kept = [(states, actions) for states, actions in episodes if len(actions) > 0]
    check(bool(kept), f"{source} has no episode of at least two states. Record longer episodes, or check 'ends'.")
    longest = max(len(actions) for _, actions in kept)
    (_, size), (_, action_size) = kept[0][0].shape, kept[0][1].shape
    paths = np.zeros((len(kept), longest + 1, size), np.float32)
    actions = np.zeros((len(kept), longest, action_size), np.float32)
    for row, (states, taken) in enumerate(kept):
        paths[row, : len(states)], actions[row, : len(taken)] = states, taken
    lengths = np.array([len(taken) for _, taken in kept], np.int32)
    samples = np.concatenate([states for states, _ in kept])
    experience = Experience(jnp.asarray(paths), jnp.asarray(actions), jnp.asarray(lengths))
    return States(jnp.asarray(samples), experience)


def _action_size(env: Env) -> int | None:
    space = env.action_space
    return None if isinstance(space, Discrete) else space.size


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
    if not _is_file(path):
        raise ConfigError(f"dataset {str(path)!r} is not a file. Check the path.")
    total, sample, low, high = 0, UniformSample(), np.array(np.inf), np.array(-np.inf)
    for chunk in READERS[path.suffix](path):
        states = as_states(chunk, str(path), size, total)
        total += len(states)
        low, high = np.minimum(low, states.min(axis=0)), np.maximum(high, states.max(axis=0))
        sample.add(states[inside(region, states)])
    if not total:
        raise ConfigError(f"{path} is empty. Save at least one state.")
    if not sample.seen:
        raise empty_region(region, low, high, f"the {total} states of {str(path)!r}")
    if sample.seen > sample.limit:
        warnings.warn(
            f"dataset {str(path)!r} has {sample.seen:,} states. A uniform sample of {sample.limit:,} is used.",
            RunWarning,
            stacklevel=2,
        )
    return sample.states()


class UniformSample:
    """A uniform sample, in their order, of states that arrive in chunks: those with the smallest random numbers."""

    def __init__(self) -> None:
        self.random, self.seen, self.limit = np.random.default_rng(0), 0, MAX_STATES
        self.chunks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.waiting = 0

    def add(self, states: Float[np.ndarray, "n s"]) -> None:
        self.limit = min(MAX_STATES, max(1, MAX_STATE_BYTES // (4 * states.shape[1])))
        order = np.arange(self.seen, self.seen + len(states))
        self.chunks.append((states, self.random.random(len(states)), order))
        self.seen, self.waiting = self.seen + len(states), self.waiting + len(states)
        if self.waiting > 2 * self.limit:
            self._reduce()

    def states(self) -> Float[np.ndarray, "n s"]:
        self._reduce()
        return self.chunks[0][0]

    def _reduce(self) -> None:
        states, numbers, order = (np.concatenate(parts) for parts in zip(*self.chunks, strict=True))
        if len(states) > self.limit:
            chosen = np.sort(np.argpartition(numbers, self.limit)[: self.limit])
            states, numbers, order = states[chosen], numbers[chosen], order[chosen]
        self.chunks, self.waiting = [(states, numbers, order)], len(states)


def as_states(array: np.ndarray, source: str, size: int | None = None, first_row: int = 0) -> Float[np.ndarray, "n s"]:
    """Convert an array to float32 states, or raise a `ConfigError` that says what is wrong and where.

    ``first_row`` is the number of rows before this array, in a file that is read in chunks.
    """
    check_form(array.dtype, array.shape, source, size)
    with np.errstate(over="ignore"):
        states = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(states).all():
        row, column = np.argwhere(~np.isfinite(states))[0]
        raise ConfigError(
            f"{source} must contain finite numbers (got {states[row, column]} in row {first_row + row}, "
            f"column {column}, counted from 0). Remove that row."
        )
    return states


def check_form(dtype: np.dtype, shape: tuple[int, ...], source: str, size: int | None = None) -> None:
    """Reject arrays that cannot hold states, before they are read."""
    if dtype.kind not in "fiub":
        raise ConfigError(f"{source} must contain numbers (got {dtype}). Save the states as a float array.")
    if len(shape) != 2:
        raise ConfigError(
            f"{source} must have one row per state and shape (n, {size or 's'}) (got shape {shape}). "
            "Reshape it to two axes."
        )
    if 0 in shape:
        raise ConfigError(f"{source} is empty (shape {shape}). Save at least one state.")
    if size is not None and shape[1] != size:
        raise ConfigError(
            f"{source} has {shape[1]} columns, but the states of this env have {size}. Save only those {size}."
        )
    check_bytes(math.prod(shape) * dtype.itemsize, source)


def check_bytes(needed: int, source: str, limit: int | None = None) -> None:
    limit = limit or MAX_FILE_BYTES
    if needed > limit:
        raise ConfigError(
            f"{source} must have at most {limit / 2**30:.3g} GiB without compression (got {needed / 2**30:.3g} GiB). "
            "Save a sample of its rows."
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the name is too long
        return False


def _unreadable(path: Path, error: BaseException) -> ConfigError:
    pickled = any(word in str(error).lower() for word in ("pickle", "object"))
    problem = "contains pickled objects" if pickled else f"cannot be read ({type(error).__name__})"
    return ConfigError(f"dataset {str(path)!r} {problem}. Save it again with numpy as a plain array of floats.")


def _rows(array: np.ndarray, path: Path) -> Iterator[np.ndarray]:
    check_form(array.dtype, array.shape, str(path))
    yield from (array[start : start + CHUNK_ROWS] for start in range(0, len(array), CHUNK_ROWS))


def _read_npy(path: Path) -> Iterator[np.ndarray]:
    if zipfile.is_zipfile(path):
        raise ConfigError(f"dataset {str(path)!r} is an archive of arrays. Rename it to .npz.")
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged file can raise almost anything, from EOFError to MemoryError
        raise _unreadable(path, error) from error
    yield from _rows(array, path)


def _read_npz(path: Path) -> Iterator[np.ndarray]:
    if not zipfile.is_zipfile(path):
        yield from _read_npy(path)
        return
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_member(archive, path)) as file:
            yield from _read_stream(file, path)  # type: ignore[arg-type]
    except ConfigError:
        raise
    except Exception as error:  # a damaged archive can raise almost anything
        raise _unreadable(path, error) from error


def _named_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the named arrays that an archive contains."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in names if f"{name}.npy" in archive.namelist()]
            size = sum(archive.getinfo(f"{name}.npy").file_size for name in found)
        check_bytes(size, str(path), MAX_COLUMN_MAJOR_BYTES)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in found}
    except ConfigError:
        raise
    except Exception as error:  # a damaged archive can raise almost anything
        raise _unreadable(path, error) from error


def _member(archive: zipfile.ZipFile, path: Path) -> str:
    """The array of the states in an archive."""
    names = [name for name in archive.namelist() if name.endswith(".npy")]
    if "states.npy" in names:
        return "states.npy"
    if len(names) == 1:
        return names[0]
    found = ", ".join(sorted(name.removesuffix(".npy")[:40] for name in names)[:20]) or "none"
    raise ConfigError(
        f"dataset {str(path)!r} must contain an array named 'states' (got arrays {found}). "
        "Save it with np.savez(path, states=...)."
    )


def _read_stream(file: io.BufferedIOBase, path: Path) -> Iterator[np.ndarray]:
    """The rows of an array in the npy format, from a file that cannot be mapped into memory."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ConfigError(f"dataset {str(path)!r} has an array of an unknown format. Save it again with numpy.")
    shape, column_major, dtype = read_header[version](file)
    if dtype.hasobject:
        raise ConfigError(
            f"dataset {str(path)!r} contains pickled objects. Save it again with numpy as a plain array of floats."
        )
    check_form(dtype, shape, str(path))
    if column_major:
        check_bytes(math.prod(shape) * dtype.itemsize, str(path), MAX_COLUMN_MAJOR_BYTES)
        yield np.frombuffer(_exactly(file, math.prod(shape) * dtype.itemsize), dtype).reshape(shape[::-1]).T
        return
    for start in range(0, shape[0], CHUNK_ROWS):
        rows = min(CHUNK_ROWS, shape[0] - start)
        data = _exactly(file, rows * shape[1] * dtype.itemsize)
        yield np.frombuffer(data, dtype).reshape(rows, shape[1])


def _exactly(file: io.BufferedIOBase, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise EOFError("the file is truncated")
    return data


def _read_csv(path: Path) -> Iterator[np.ndarray]:
    check_bytes(path.stat().st_size, str(path))
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from _csv_chunks(file, path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"dataset {str(path)!r} is not text ({error}). Save it as comma-separated numbers."
        ) from error


Line = tuple[int, str]
"""A line of a file and its number, starting at 1."""


def _csv_chunks(file: io.TextIOBase, path: Path) -> Iterator[np.ndarray]:
    lines = _lines(file, path)
    first = list(itertools.islice(lines, 2))
    cells = [next(csv.reader([text]), []) for _, text in first]
    if first and _is_header(cells[0], cells[1] if len(cells) > 1 else [], path):
        first = first[1:]
    if not first:
        raise ConfigError(f"dataset {str(path)!r} is empty. Save at least one row of numbers.")
    width, lines = len(next(csv.reader([first[0][1]]))), itertools.chain(first, lines)
    while chunk := list(itertools.islice(lines, CHUNK_ROWS)):
        found = _parse_quickly(chunk, width)
        yield _parse_carefully(chunk, width, first[0][0], path) if found is None else found


def _lines(file: io.TextIOBase, path: Path) -> Iterator[Line]:
    """The lines that have any cells."""
    for number in itertools.count(1):
        text = file.readline(MAX_LINE)
        if not text:
            return
        if len(text) == MAX_LINE:
            raise ConfigError(f"dataset {str(path)!r} has a line of over {MAX_LINE} characters (line {number}).")
        if text.strip(" \t\r\n,"):
            yield number, text


def _is_header(first: Sequence[str], second: Sequence[str], path: Path) -> bool:
    """Whether the first line names the columns. pandas names them 0, 1, ... by default."""
    if not any(_is_number(cell) for cell in first):
        return True
    names, numbers = [cell.strip() for cell in first], [str(i) for i in range(len(first))]
    if names == ["", *numbers[:-1]]:  # an unnamed index, then 0, 1, ...
        return True
    fractions = any(_is_number(cell) and not cell.strip().lstrip("+-").isdigit() for cell in second)
    if names != numbers or len(first) < 2 or not fractions:
        return False
    warnings.warn(
        f"the first line of {str(path)!r}, {','.join(names)[:40]!r}, is read as the names of the columns.",
        RunWarning,
        stacklevel=2,
    )
    return True


def _parse_quickly(chunk: Sequence[Line], width: int) -> np.ndarray | None:
    """The numbers of some lines; None if not all cells are numbers."""
    try:
        found = np.loadtxt([text for _, text in chunk], delimiter=",", comments=None, quotechar='"', ndmin=2)
    except ValueError:
        return None
    return found if found.shape == (len(chunk), width) else None


def _parse_carefully(chunk: Sequence[Line], width: int, first_line: int, path: Path) -> np.ndarray:
    """The same, cell by cell, with a message that says where a cell is not a number."""
    rows = []
    for line, text in chunk:
        row = next(csv.reader([text]))
        if len(row) != width:
            raise ConfigError(
                f"dataset {str(path)!r} has {len(row)} cells in line {line} but {width} in line {first_line}. "
                "Give all rows the same length."
            )
        for column, cell in enumerate(row, 1):
            if not _is_number(cell):
                raise ConfigError(
                    f"dataset {str(path)!r} must contain numbers (got {cell[:40]!r} in line {line}, column {column}). "
                    "Replace that cell by a number, or remove the line."
                )
        rows.append([float(cell) for cell in row])
    return np.array(rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> Iterator[np.ndarray]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            f"dataset {str(path)!r} needs pyarrow, which is not installed. "
            "In a checkout, pip install '.[data]', or save it as .npz."
        ) from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            lists = _check_parquet(file, path, pyarrow)
            if file.metadata.num_rows == 0:
                raise ConfigError(f"{path} is empty (it has no rows). Save at least one state.")
            width = None
            for batch in file.iter_batches(CHUNK_ROWS):
                if batch.num_rows:
                    yield (rows := _list_rows(batch, path, width) if lists else _column_rows(batch))
                    width = rows.shape[1]
    except (pyarrow.ArrowException, OSError) as error:
        raise ConfigError(
            f"dataset {str(path)!r} cannot be read as parquet ({type(error).__name__}). Save it again."
        ) from error


def _check_parquet(file: Any, path: Path, pyarrow: Any) -> bool:
    """Check types and sizes in the metadata. Whether the file has one column of lists."""
    metadata, schema = file.metadata, file.schema_arrow
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    values = sum(group.column(i).num_values for group in groups for i in range(group.num_columns))
    check_bytes(8 * max(values, metadata.num_rows * len(schema)), str(path))
    if len(schema) == 1 and pyarrow.types.is_list(schema[0].type):
        kind = schema[0].type.value_type
        if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
            return True
    for field in schema:
        if not (pyarrow.types.is_integer(field.type) or pyarrow.types.is_floating(field.type)):
            raise ConfigError(
                f"dataset {str(path)!r} must contain numbers (got column {field.name[:40]!r} of type {field.type}). "
                "Remove that column."
            )
    return False


def _list_rows(batch: Any, path: Path, width: int | None) -> np.ndarray:
    column = batch.column(0)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    expected = lengths[0] if width is None else width
    if column.null_count or not (lengths == expected).all():
        raise ConfigError(f"dataset {str(path)!r} has lists of unequal lengths. Give all rows the same length.")
    values = np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.float64)
    return values.reshape(batch.num_rows, int(expected))


def _column_rows(batch: Any) -> np.ndarray:
    columns = [np.asarray(each.to_numpy(zero_copy_only=False), np.float64) for each in batch.columns]
    return np.stack(columns, axis=1) if columns else np.zeros((batch.num_rows, 0))


READERS: dict[str, Callable[[Path], Iterator[np.ndarray]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
