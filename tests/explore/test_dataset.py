"""A dataset is read as rows of finite numbers, or rejected with a message that says what is wrong and where."""

import sys

import jax
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.maze import maze
from edl.explore import dataset as module
from edl.explore.dataset import dataset, load_dataset, load_experience
from edl.explore.region import Region
from edl.program import run_program

STATES = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)


def write(path, array=STATES):
    """Save an array in the format that the suffix names."""
    if path.suffix == ".npz":
        np.savez(path, states=array, actions=np.zeros(3))
    elif path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".csv":
        np.savetxt(path, array, delimiter=",", fmt="%.9g")
    else:
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({f"s{i}": array[:, i] for i in range(array.shape[1])}), path)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
def test_states_survive_saving_and_loading(tmp_path, suffix):
    path = write(tmp_path / f"data{suffix}")
    states = load_dataset(path, 2)
    assert states.dtype == np.float32
    np.testing.assert_array_equal(states, STATES)
    right = load_dataset(str(path), 2, Region("x>0"))
    np.testing.assert_array_equal(right, STATES[STATES[:, 0] > 0])


def test_other_forms_of_the_same_files(tmp_path):
    np.savez(tmp_path / "only.npz", whatever=STATES.astype(np.float64))
    np.testing.assert_array_equal(load_dataset(tmp_path / "only.npz"), STATES)
    (tmp_path / "header.csv").write_text("\ufeffx,y\n1,2\n\n3.5,-4e0\n")
    np.testing.assert_array_equal(load_dataset(tmp_path / "header.csv"), [[1, 2], [3.5, -4]])
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"states": STATES.tolist()}), tmp_path / "lists.parquet")
    np.testing.assert_allclose(load_dataset(tmp_path / "lists.parquet"), STATES)
    np.save(tmp_path / "ints.npy", np.arange(6).reshape(3, 2))
    np.testing.assert_array_equal(load_dataset(tmp_path / "ints.npy", 2), np.arange(6).reshape(3, 2))


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_rejected_by_row_and_column(tmp_path, suffix, bad):
    array = STATES.copy()
    array[7, 1] = bad
    with pytest.raises(ConfigError, match=r"must contain finite numbers \(got -?(nan|inf) in row 7, column 1"):
        load_dataset(write(tmp_path / f"data{suffix}", array), 2)


def test_numbers_beyond_float32_are_rejected(tmp_path):
    np.save(tmp_path / "big.npy", np.array([[1e300, 0.0]]))
    with pytest.raises(ConfigError, match="inf in row 0, column 0"):
        load_dataset(tmp_path / "big.npy")


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
def test_wrong_widths_and_empty_files_are_rejected(tmp_path, suffix):
    path = write(tmp_path / f"data{suffix}")
    with pytest.raises(ConfigError, match=r"has 2 columns.*have 3"):
        load_dataset(path, 3)
    with pytest.raises(ConfigError, match="empty"):
        load_dataset(write(tmp_path / f"empty{suffix}", STATES[:0]), 2)
    with pytest.raises(ConfigError, match=r"region 'x>99' is empty.*40 states"):
        load_dataset(path, 2, Region("x>99"))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1, 2], [3, "a"]], object), "pickled"),
        (np.array([["1", "2"]]), "must contain numbers"),
        (np.zeros((4, 3, 2)), r"one row per state.*got shape \(4, 3, 2\)"),
        (np.zeros(4), r"one row per state.*got shape \(4,\)"),
        (np.zeros((2, 2), np.complex64), "must contain numbers"),
    ],
)
def test_arrays_that_are_not_states_are_rejected(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(ConfigError, match=message):
        load_dataset(tmp_path / "a.npy", 2)
    np.savez(tmp_path / "a.npz", states=array)
    with pytest.raises(ConfigError, match=message):
        load_dataset(tmp_path / "a.npz", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,four\n", "'four' in line 2, column 2"),
        ("1,2\n3,\n", "'' in line 2, column 2"),
        ("1,2\n3\n", "1 cells in line 2 but 2 in line 1"),
        ("x,y\n", "is empty"),
        ("", "is empty"),
    ],
)
def test_a_csv_without_numbers_is_rejected(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_dataset(tmp_path / "a.csv", 2)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
def test_damaged_files_are_rejected(tmp_path, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"\x80\x04\x95\xff\xfe garbage")
    with pytest.raises(ConfigError):
        load_dataset(path, 2)
    whole = write(tmp_path / f"b{suffix}").read_bytes()
    if suffix != ".csv":
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ConfigError):
            load_dataset(path, 2)


def test_missing_files_and_unknown_formats_are_rejected(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="not a file"):
        load_dataset(tmp_path / "none.npz")
    with pytest.raises(ConfigError, match=r"must end in one of \.npz, .* \(got '\.pkl'\)"):
        load_dataset(tmp_path / "a.pkl")
    np.savez(tmp_path / "two.npz", a=STATES, b=STATES)
    with pytest.raises(ConfigError, match=r"named 'states' \(got arrays a, b\)"):
        load_dataset(tmp_path / "two.npz")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[data\]'"):
        load_dataset(tmp_path / "a.parquet")


def test_a_dataset_is_a_program():
    states, _ = jax.jit(lambda key, samples: run_program(dataset(samples), key))(jax.random.key(0), STATES)
    np.testing.assert_array_equal(states.samples, STATES)
    assert states.experience is None


def test_recorded_episodes_are_read_with_their_actions(tmp_path):
    env = maze("square")
    states = np.arange(12.0).reshape(6, 2) / 10
    actions = np.arange(12.0).reshape(6, 2) / 100
    np.savez(tmp_path / "log.npz", states=states, actions=actions, ends=[0, 0, 1, 1, 0, 1])
    found = load_experience(tmp_path / "log.npz", env)
    assert found.samples.shape == (5, 2)  # the episode of one state has no step
    np.testing.assert_array_equal(found.experience.lengths, [2, 1])
    np.testing.assert_allclose(found.experience.paths[0], states[:3], rtol=1e-6)
    np.testing.assert_allclose(found.experience.actions[1, :1], actions[4:5], rtol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"states": np.zeros((3, 2))}, "missing: actions, ends"),
        ({"states": np.zeros((3, 2)), "actions": np.zeros((2, 2)), "ends": np.ones(3)}, "got 3, 2 and 3"),
        ({"states": np.zeros((3, 2)), "actions": np.zeros((3, 5)), "ends": np.ones(3)}, "has 5 columns"),
        ({"states": np.zeros((3, 2)), "actions": np.zeros((3, 2)), "ends": np.ones(3)}, "at least two states"),
    ],
)
def test_unusable_episodes_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "log.npz", **arrays)
    with pytest.raises(ConfigError, match=message):
        load_experience(tmp_path / "log.npz", maze("square"))
    with pytest.raises(ConfigError, match=r"must be a \.npz file"):
        load_experience(tmp_path / "log.csv", maze("square"))


def test_an_empty_region_is_described_by_all_states_of_a_long_file(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ROWS", 2)
    path = write(tmp_path / "long.npy", np.array([[-5.0, 0.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1.0], [0.0, 9.0]]))
    with pytest.raises(ConfigError, match=r"none of the 5 states of .*\(s0 from -5 to 3, s1 from 0 to 9\)"):
        load_dataset(path, 2, Region("x>2.5 and y>8"))
