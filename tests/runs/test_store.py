"""Files appear whole or not at all, inside their folder, and loading is the inverse of saving."""

import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.nets.mlp import MLP, mlp
from edl.runs import store, tensors


def tree():
    return {
        "net": mlp(jax.random.key(0), (2, 3, 1)),
        "keys": jax.random.split(jax.random.key(1), 4),
        "key": jax.random.key(2),
        "count": jnp.int32(7),
        "flags": jnp.array([True, False]),
        "none": None,
        "empty": jnp.zeros((0, 2)),
        "pair": (jnp.arange(3.0), [jnp.float32(1.5)]),
    }


def skeleton():
    return jax.eval_shape(tree)


@pytest.fixture
def folder(tmp_path):
    return store.create(tmp_path / "run")


def test_save_then_load_is_the_identity(folder):
    folder.save("a.safetensors", tree(), {"stage": "learn"})
    loaded = folder.load("a.safetensors", skeleton())
    assert jax.tree.structure(loaded) == jax.tree.structure(tree())
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(tree()), strict=True):
        assert a.dtype == b.dtype
        assert bool(jnp.all(a == b))
    assert float(jax.random.normal(loaded["key"])) == float(jax.random.normal(tree()["key"]))
    data = folder.read("a.safetensors")
    assert tensors.notes_of(data, "a") == {"stage": "learn"}
    assert data == tensors.encode(loaded, {"stage": "learn"})
    assert "pair.1.0" in tensors.arrays_of(data, "a")


class Pair(eqx.Module):
    first: jax.Array
    second: MLP | None


def test_a_field_that_older_files_lack_is_none(folder):
    whole = Pair(jnp.zeros(2), mlp(jax.random.key(0), (2, 3, 1)))
    expected = jax.eval_shape(lambda: whole)
    folder.save("old.safetensors", Pair(whole.first, None))
    folder.save("new.safetensors", whole)
    folder.save("partly.safetensors", eqx.tree_at(lambda pair: pair.second.biases, whole, [None, None]))
    assert folder.load("old.safetensors", expected, optional=("second",)).second is None
    loaded = folder.load("new.safetensors", expected, optional=("second",))
    assert jax.tree.structure(loaded) == jax.tree.structure(whole)
    for name, options in (("old.safetensors", ()), ("partly.safetensors", ("second",))):
        with pytest.raises(ConfigError, match="lacks array 'second"):
            folder.load(name, expected, optional=options)


@pytest.mark.parametrize("keep", [0, 3, 8, 60, 0.5, -1])
def test_a_truncated_file_is_rejected(folder, keep):
    data = tensors.encode(tree())
    size = int(keep * len(data)) if isinstance(keep, float) else keep
    folder.write("a.safetensors", data[:size])
    with pytest.raises(ConfigError, match=r"a\.safetensors is damaged"):
        folder.load("a.safetensors", skeleton())


def test_a_changed_byte_is_detected(folder):
    data = bytearray(tensors.encode(tree()))
    data[-1] ^= 1
    folder.write("a.safetensors", bytes(data))
    with pytest.raises(ConfigError, match="checksum"):
        folder.load("a.safetensors", skeleton())


def test_a_changed_note_is_detected(folder):
    data = tensors.encode(tree(), {"iteration": 17})
    folder.write("a.safetensors", data.replace(b"17", b"71"))
    with pytest.raises(ConfigError, match="checksum"):
        folder.load("a.safetensors", skeleton())


@pytest.mark.parametrize(
    "data", [b"", b"garbage" * 100, b"\xff" * 64, b"\x80\x04\x95 pickle", b"{}", b"\x02" + 7 * b"\0" + b"{}"]
)
def test_garbage_is_rejected(folder, data):
    folder.write("a.safetensors", data)
    with pytest.raises(ConfigError, match="damaged"):
        folder.load("a.safetensors", skeleton())


def test_arrays_of_another_shape_or_name_are_rejected(folder):
    folder.save("a.safetensors", {"x": jnp.zeros((2, 3))})
    with pytest.raises(ConfigError, match=r"'x' as float32\[2, 3\] instead of float32\[2, 4\]"):
        folder.load("a.safetensors", {"x": jnp.zeros((2, 4))})
    with pytest.raises(ConfigError, match="instead of int32"):
        folder.load("a.safetensors", {"x": jnp.zeros((2, 3), jnp.int32)})
    with pytest.raises(ConfigError, match="lacks array 'y'"):
        folder.load("a.safetensors", {"x": jnp.zeros((2, 3)), "y": jnp.zeros(1)})
    with pytest.raises(ConfigError, match="unexpected array 'x'"):
        folder.load("a.safetensors", {})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_is_rejected_in_artifacts_and_allowed_in_checkpoints(folder, bad):
    folder.save("a.safetensors", {"x": jnp.array([1.0, bad])})
    with pytest.raises(ConfigError, match="NaN or infinity in 'x'"):
        folder.load("a.safetensors", {"x": jnp.zeros(2)})
    kept = folder.load("a.safetensors", {"x": jnp.zeros(2)}, finite=False)
    np.testing.assert_array_equal(kept["x"], [1.0, bad])


def test_a_failed_write_leaves_the_old_file_and_nothing_else(folder, monkeypatch):
    folder.write("a.json", b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        folder.write("a.json", b"new and longer")
    assert folder.read("a.json") == b"old"
    assert [path.name for path in folder.path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "name", ["../a", "/etc/passwd", "a/b", "figures/../../a", "", ".hidden", "a\0b", "x" * 300, "figures/"]
)
def test_nothing_is_written_outside_the_folder(folder, name):
    with pytest.raises(ConfigError, match="file names must consist of"):
        folder.write(name, b"x")


def test_links_are_not_followed(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "victim").write_text("precious")
    (folder.path / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="must be a folder, not a link"):
        folder.save_picture("a", b"x")
    (folder.path / "metrics.json").symlink_to(tmp_path / "victim")
    folder.write_json("metrics.json", {})
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (folder.path / "metrics.json").is_symlink()


def test_a_folder_in_use_is_rejected(tmp_path):
    path = tmp_path / "a" / "b"
    folder = store.create(path)
    folder.write_json("config.json", {})
    with pytest.raises(ConfigError, match=r"already holds a run.*--resume"):
        store.create(path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        store.create(tmp_path / "full")
    with pytest.raises(ConfigError, match="is a file"):
        store.create(tmp_path / "full" / "notes.txt")
    with pytest.raises(ConfigError, match="cannot be created"):
        store.create(tmp_path / "full" / "notes.txt" / "run")
    with pytest.raises(ConfigError, match="holds no run"):
        store.open_run(tmp_path / "full")
    assert store.open_run(path).path == path


def test_a_run_is_locked_and_temporary_files_are_removed(folder):
    with store.locked(folder), pytest.raises(ConfigError, match="another process"), store.locked(folder):
        pass
    (folder.path / f"{store.TEMPORARY}left").write_text("half")
    with store.locked(folder):
        assert not list(folder.path.iterdir())


def test_json_has_no_nan(folder):
    folder.write_json("a.json", {"x": np.float32(1.5), "y": [float("nan"), np.inf, None], "z": np.arange(2), "b": True})
    text = folder.read("a.json").decode()
    assert json.loads(text, parse_constant=pytest.fail) == {"x": 1.5, "y": [None, None, None], "z": [0, 1], "b": True}
    folder.write("a.json", b'{"x": 1')
    with pytest.raises(ConfigError, match="is not valid JSON"):
        folder.read_json("a.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        folder.read_json("none.json")


def test_the_log_has_one_row_per_line(folder):
    assert folder.read_log() == []
    rows = [{"stage": "learn", "iteration": 1, "loss": [0.5, float("nan")]}, {"stage": "learn", "iteration": 2}]
    folder.write_log(rows)
    assert folder.read("log.jsonl").count(b"\n") == 2
    assert folder.read_log()[0]["loss"] == [0.5, None]
    folder.write("log.jsonl", b"[1]\n")
    with pytest.raises(ConfigError, match="damaged"):
        folder.read_log()


def test_static_parts_come_from_the_skeleton(folder):
    class Net(eqx.Module):
        w: jax.Array
        name: str = eqx.field(static=True)

    folder.save("a.safetensors", Net(jnp.ones(2), "saved"))
    assert folder.load("a.safetensors", Net(jnp.zeros(2), "mine")).name == "mine"
