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

NOTES = "edl"
"""All notes go under one key of the header, because the order of several keys is not fixed."""


def encode(tree: PyTree, notes: Mapping[str, Any] | None = None) -> bytes:
    """The arrays of a tree and notes in JSON, with a checksum."""
    arrays = {name: _to_numpy(leaf) for name, leaf in _named(tree).items()}
    header = {"checksum": _checksum(arrays, notes or {}), "notes": dict(notes or {})}
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
    if _checksum(arrays, header["notes"]) != header["checksum"]:
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


def check_finite(tree: PyTree, whose: str) -> None:
    """Reject NaN and infinity."""
    for name, leaf in _named(tree).items():
        array = _to_numpy(leaf)
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


def _checksum(arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> int:
    total = zlib.crc32(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(arrays):
        total = zlib.crc32(np.ascontiguousarray(arrays[name]).data, zlib.crc32(name.encode(), total))
    return total


def _header(data: bytes, whose: str) -> dict[str, Any]:
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][NOTES])
        return {"checksum": int(header["checksum"]), "notes": dict(header["notes"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(whose, "has no readable header") from error


def _damaged(whose: str, how: str) -> ConfigError:
    return ConfigError(
        f"{whose} is damaged: it {how}. Restore it from a copy, or delete the run's folder and run again."
    )


def _foreign(whose: str, how: str) -> ConfigError:
    return ConfigError(f"{whose} {how}: it does not belong to this run's config. Restore both, or run again.")
