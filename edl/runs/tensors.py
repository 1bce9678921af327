"""A pytree of arrays as bytes (safetensors) and back. Loading builds arrays and nothing else: no code, no pickle.

Leaves are named by their path in the tree, e.g. ``experience.paths``. Anything that is not an array, such as an
activation function, is not stored: the reader passes a skeleton of the same structure, traced from the config, and all
names, shapes and types must agree with it.
"""

import json
import operator
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from jaxtyping import PyTree
from safetensors import SafetensorError

from edl.config import ConfigError
from edl.runs.errors import RetryableError

NOTES = "edl"
"""All notes go under one key of the header, because the order of several keys is not fixed."""
FORMAT = 2
"""Version of the checksum. In files of format 1, which have no version, it does not cover types and shapes."""


def encode(tree: PyTree, notes: Mapping[str, Any] | None = None) -> bytes:
    """The arrays of a tree and notes in JSON, with a checksum."""
    arrays = {name: _to_numpy(leaf) for name, leaf in _named(tree).items()}
    header = {"checksum": _checksum(arrays, notes or {}, FORMAT), "format": FORMAT, "notes": dict(notes or {})}
    return safetensors.numpy.save(arrays, metadata={NOTES: json.dumps(header, sort_keys=True)})


def notes_of(data: bytes, whose: str) -> dict[str, Any]:
    return _header(data, whose)["notes"]


def arrays_of(data: bytes, whose: str) -> dict[str, np.ndarray]:
    """The arrays by name."""
    header = _header(data, whose)
    try:
        arrays = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _damaged(whose, "cannot be read") from error
    if _checksum(arrays, header["notes"], header["format"]) != header["checksum"]:
        raise _damaged(whose, "does not match its checksum")
    return arrays


def decode(data: bytes, skeleton: PyTree, whose: str, *, finite: bool = True, optional: Collection[str] = ()) -> PyTree:
    """The encoded tree, in the structure of ``skeleton``. ``whose`` names the file in messages.

    ``optional`` are fields of the skeleton, a module, that older files lack. A field without any array becomes None.
    """
    return rebuild(arrays_of(data, whose), skeleton, whose, finite=finite, optional=optional)


def rebuild(
    arrays: Mapping[str, np.ndarray],
    skeleton: PyTree,
    whose: str,
    *,
    finite: bool = True,
    optional: Collection[str] = (),
) -> PyTree:
    """`decode` for arrays that have been read already."""
    for field in optional:
        missing = [name for name in _named(skeleton) if name.startswith(f"{field}.")]
        if missing and not any(name.startswith(f"{field}.") for name in arrays):
            skeleton = eqx.tree_at(operator.attrgetter(field), skeleton, None)
    expected = _named(skeleton)
    for name in sorted(expected.keys() ^ arrays.keys()):
        got = "lacks" if name in expected else "has an unexpected"
        raise _foreign(whose, f"{got} array {name!r}")
    for name, leaf in expected.items():
        shape, dtype = _stored_as(leaf)
        array = arrays[name]
        if array.shape != shape or array.dtype != dtype:
            raise _foreign(whose, f"has {name!r} as {array.dtype}{list(array.shape)} instead of {dtype}{list(shape)}")
    if finite:
        check_finite(arrays, whose)
    leaves = [_from_numpy(arrays[name], leaf) for name, leaf in expected.items()]
    return jax.tree.unflatten(jax.tree.structure(skeleton), leaves)


def not_finite(tree: PyTree, lanes: int) -> dict[int, str]:
    """The lanes with NaN or infinity in an array, which has a leading axis of lanes, and the name of the first one."""
    found: dict[int, str] = {}
    for name, leaf in _named(tree).items():
        array = _to_numpy(leaf)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            for lane in np.flatnonzero(~np.isfinite(array.reshape(lanes, -1)).all(axis=1)):
                found.setdefault(int(lane), name)
    return found


def check_finite(tree: PyTree, whose: str, except_lanes: Collection[int] = ()) -> None:
    """Reject NaN and infinity, except in some lanes."""
    for name, leaf in _named(tree).items():
        array = _to_numpy(leaf)
        if except_lanes and array.ndim:
            array = np.delete(array, [lane for lane in except_lanes if lane < len(array)], axis=0)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ConfigError(
                f"{whose} has NaN or infinity in {name!r}. If it was trained here, training diverged: "
                "lower the learning rate."
            )


def _named(tree: PyTree) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator=".") or "value": leaf for path, leaf in leaves}


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_numpy(leaf: Any) -> np.ndarray:
    array = jnp.asarray(leaf) if isinstance(leaf, int | float) else leaf
    # np.ascontiguousarray would add an axis to a scalar.
    return np.asarray(jax.random.key_data(array) if _is_key(array) else array, order="C")


def _stored_as(leaf: Any) -> tuple[tuple[int, ...], np.dtype]:
    stored = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return tuple(stored.shape), np.dtype(stored.dtype)


def _from_numpy(array: np.ndarray, leaf: Any) -> jax.Array:
    return jax.random.wrap_key_data(jnp.asarray(array)) if _is_key(leaf) else jnp.asarray(array)


def _checksum(arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any], version: int) -> int:
    total = zlib.crc32(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        label = name if version == 1 else f"{name} {array.dtype.str} {list(array.shape)}"
        total = zlib.crc32(np.ascontiguousarray(array).data, zlib.crc32(label.encode(), total))
    return total


def _header(data: bytes, whose: str) -> dict[str, Any]:
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][NOTES])
        version = int(header.get("format", 1))
        if version not in (1, FORMAT):
            raise ValueError(f"format {version}")
        return {"checksum": int(header["checksum"]), "format": version, "notes": dict(header["notes"])}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _damaged(whose, "has no readable header") from error


def _damaged(whose: str, how: str) -> RetryableError:
    return RetryableError(
        f"{whose} is damaged: it {how}. Restore it from a copy, or delete it: `edl run --resume` computes it again."
    )


def _foreign(whose: str, how: str) -> RetryableError:
    return RetryableError(f"{whose} {how}: it does not belong to this run's config.json. Restore both from a copy.")
