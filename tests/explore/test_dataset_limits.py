"""Files of any size are read in little memory, or rejected by their metadata."""

import tracemalloc
import zipfile

import numpy as np
import pytest

from edl.config import ConfigError, RunWarning
from edl.explore import dataset
from edl.explore.dataset import UniformSample, load_dataset
from edl.explore.region import Region

GIB = 2**30


@pytest.fixture
def peak():
    """The most memory that Python and NumPy held since the start of the test, in MiB."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()


def write_npz(path, shape):
    """An archive of zeros of any size, which takes few bytes."""
    form, left = {"descr": "<f4", "fortran_order": False, "shape": shape}, 4 * shape[0] * shape[1]
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
    with archive, archive.open("states.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, form)
        while left > 0:
            file.write(b"\0" * min(left, 2**20))
            left -= 2**20
    return path


def test_a_compressed_array_is_read_in_chunks(tmp_path, peak, monkeypatch):
    monkeypatch.setattr(dataset, "MAX_STATES", 50_000)
    path = write_npz(tmp_path / "a.npz", (4_000_000, 2))
    assert path.stat().st_size < 2**16
    with pytest.warns(RunWarning, match=r"has 4,000,000 states\. A uniform sample of 50,000 is used"):
        assert load_dataset(path, 2).shape == (50_000, 2)
    assert peak() < 20  # the array itself has 31 MiB


def test_sizes_are_checked_before_anything_is_read(tmp_path, peak):
    form = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 2)}
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("states.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, form)
    with pytest.raises(ConfigError, match=r"at most 4 GiB without compression \(got 14\.9 GiB\)"):
        load_dataset(tmp_path / "a.npz", 2)
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, form)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_dataset(tmp_path / "a.npy", 2)
    with open(tmp_path / "a.csv", "wb") as file:
        file.truncate(5 * GIB)
    with pytest.raises(ConfigError, match=r"at most 4 GiB"):
        load_dataset(tmp_path / "a.csv", 2)
    assert peak() < 10


def test_a_large_parquet_file_is_rejected_by_its_metadata(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(dataset, "MAX_FILE_BYTES", 2**20)
    pq.write_table(pa.table({"x": np.zeros(2**17), "y": np.zeros(2**17)}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2**14
    with pytest.raises(ConfigError, match=r"at most 0\.000977 GiB without compression \(got 0\.00195 GiB\)"):
        load_dataset(tmp_path / "a.parquet", 2)
    pq.write_table(pa.table({"x": [[0.0] * 2**18]}), tmp_path / "b.parquet")
    with pytest.raises(ConfigError, match=r"at most 0\.000977 GiB without compression \(got 0\.00195 GiB\)"):
        load_dataset(tmp_path / "b.parquet", 2)


def test_a_csv_is_read_in_chunks(tmp_path, peak, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", fmt="%.9g")
    monkeypatch.setattr(dataset, "CHUNK_ROWS", 64)
    np.testing.assert_array_equal(load_dataset(tmp_path / "a.csv", 2), rows)
    assert peak() < 2
    monkeypatch.setattr(dataset, "MAX_LINE", 100)
    (tmp_path / "a.csv").write_text("1," * 60)
    with pytest.raises(ConfigError, match=r"line of over 100 characters \(line 1\)"):
        load_dataset(tmp_path / "a.csv", 2)


def test_errors_in_a_later_chunk_name_their_row_and_line(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "CHUNK_ROWS", 4)
    rows = np.ones((11, 2))
    rows[9, 1] = np.nan
    np.save(tmp_path / "a.npy", rows)
    with pytest.raises(ConfigError, match="nan in row 9, column 1"):
        load_dataset(tmp_path / "a.npy", 2)
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n\n" * 7 + "1,two\n")
    with pytest.raises(ConfigError, match="'two' in line 16, column 2"):
        load_dataset(tmp_path / "a.csv", 2)


def test_a_sample_is_uniform_ordered_and_always_the_same(monkeypatch):
    monkeypatch.setattr(dataset, "MAX_STATES", 100)

    def sample(size):
        found = UniformSample()
        for start in range(0, 10_000, size):
            found.add(np.arange(start, min(start + size, 10_000), dtype=np.float32)[:, None])
        return found.states()[:, 0]

    assert len(sample(64)) == 100
    np.testing.assert_array_equal(sample(64), np.sort(sample(64)))
    np.testing.assert_array_equal(sample(64), sample(1000))  # the chunks make no difference
    assert 4000 < sample(64).mean() < 6000


def test_a_region_is_applied_before_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "MAX_STATES", 10)
    np.save(tmp_path / "a.npy", np.stack([np.linspace(-1, 1, 1000), np.zeros(1000)], axis=1))
    with pytest.warns(RunWarning, match="has 50 states"):
        found = load_dataset(tmp_path / "a.npy", 2, Region("x > 0.9"))
    assert found.shape == (10, 2)
    assert (found[:, 0] > 0.9).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1\n0.5,2\n", [[0.5, 2]]),
        ("0,1\n1,2\n", [[0, 1], [1, 2]]),
        ("0,1\n", [[0, 1]]),
        ("0,1.0\n0.5,2\n", [[0, 1], [0.5, 2]]),
        ('"0","1"\n-0.5,2\n', [[-0.5, 2]]),
    ],
)
@pytest.mark.filterwarnings("ignore:the first line:edl.config.RunWarning")
def test_the_column_names_of_pandas_are_no_data(tmp_path, text, expected):
    (tmp_path / "a.csv").write_text(text)
    np.testing.assert_array_equal(load_dataset(tmp_path / "a.csv", 2), expected)


def test_an_unnamed_index_of_pandas_is_named_as_the_problem(tmp_path):
    (tmp_path / "a.csv").write_text(",0,1\n0,0.5,2\n")
    with pytest.raises(ConfigError, match="has 3 columns, but the states of this env have 2"):
        load_dataset(tmp_path / "a.csv", 2)


def test_an_archive_with_a_member_that_is_no_array_is_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("states.npy", "no array")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_dataset(tmp_path / "a.npz", 2)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("states.txt", "no array")
    with pytest.raises(ConfigError, match=r"must contain an array named 'states' \(got arrays none\)"):
        load_dataset(tmp_path / "b.npz", 2)


def test_column_major_arrays_are_read(tmp_path):
    rows = np.asfortranarray(np.arange(10.0).reshape(5, 2))
    np.savez(tmp_path / "a.npz", states=rows)
    np.save(tmp_path / "a.npy", rows)
    for name in ("a.npz", "a.npy"):
        np.testing.assert_array_equal(load_dataset(tmp_path / name, 2), rows)
