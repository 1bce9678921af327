"""Random and damaged input: every outcome is a clean error or a correct result.

No traceback (`ConfigError` is the only exception), no hang over `SECONDS`, no more than `GIBIBYTES` of memory, and no
changed number. `make test` tries a few inputs of each kind and `make test-slow` many; `pytest -s` prints the counts.
"""

import collections
import contextlib
import copy
import hashlib
import io
import json
import math
import resource
import shutil
import signal
import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edl
from edl.config import ConfigError, RunWarning
from edl.envs import layouts
from edl.explore.dataset import load_dataset
from edl.explore.region import inside, parse_region
from edl.runs import grid, session, store
from edl.runs.checking import check_run
from edl.runs.config import RunConfig, to_json
from edl.runs.manifest import MANIFEST
from edl.runs.presets import from_json
from edl.runs.resolve import resolve_config

SECONDS = 10
GIBIBYTES = 2
SHORT, LONG = 1, 30
"""Factors of the number of inputs of each kind."""
COUNTS: collections.Counter[str] = collections.Counter()
BUDGETS = [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", autouse=True)
def _counts():
    yield
    print("\n" + "\n".join(f"{name}: {count}" for name, count in sorted(COUNTS.items())))


def used_memory():
    """The most memory that this process ever had, in GiB. macOS counts in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if peak > 2**32 else 2**20)


@contextlib.contextmanager
def time_limit():
    def stop(number, frame):
        raise AssertionError(f"it took over {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def outcome(kind, function, *args):
    """The result of a call, or None if it was rejected. Anything else fails the test."""
    before = used_memory()
    with time_limit(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        try:
            result = function(*args)
        except ConfigError:
            COUNTS[f"{kind}, rejected"] += 1
            return None
    assert used_memory() - before < GIBIBYTES
    COUNTS[f"{kind}, accepted"] += 1
    return result


def fuzz(examples, **strategies):
    """Run a test on random inputs, the same ones each time."""
    chosen = settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    return lambda test: chosen(given(**strategies)(test))()


MAZE = (layouts.FOLDER / "bottleneck.txt").read_text("utf-8")
EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(["+", "-", "|", " ", "#", "S", "\n", "?", ""])), max_size=4
)


def edited(text, edits):
    """The text with some characters replaced or deleted."""
    for place, new in edits:
        place %= len(text) or 1
        text = text[:place] + new + text[place + 1 :]
    return text


@pytest.mark.parametrize("budget", BUDGETS)
def test_mazes(budget):
    @fuzz(
        12 * budget, text=st.one_of(EDITS.map(lambda e: edited(MAZE, e)), st.text("+-|# S\n", max_size=80), st.text())
    )
    def check(text):
        layout = outcome("mazes", layouts.parse, text, "maze")
        if layout is not None:
            again = layouts.parse(layout.text, "maze")
            assert again.text == layout.text
            np.testing.assert_array_equal(again.cells, layout.cells)


TERMS = st.sampled_from(["x", "y", "0", "1.5", "2", "(x - y)", "abs(y)"])
NUMBERS = st.one_of(TERMS, st.floats(-9, 9).map(lambda number: f"{number:.3f}"))
COMPARISONS = st.tuples(NUMBERS, st.sampled_from(["<", "<=", ">", ">="]), NUMBERS).map(" ".join)


def either(each):
    return st.tuples(each, st.sampled_from(["and", "or"]), each).map(lambda words: f"({' '.join(words)})")


REGIONS = st.recursive(COMPARISONS, either, max_leaves=5)
POINTS = np.random.default_rng(0).uniform(-5, 5, size=(50, 2)).astype(np.float32)


def region_at(text, points):
    return inside(parse_region(text, 2), points)


@pytest.mark.parametrize("budget", BUDGETS)
def test_regions(budget):
    @fuzz(4 * budget, text=REGIONS)
    def check(text):
        found = outcome("regions", region_at, text, POINTS)
        if found is not None:
            expected = [eval(text, {"abs": abs, "x": float(x), "y": float(y)}) for x, y in POINTS]
            assert np.mean(np.asarray(found) == np.array(expected)) > 0.95  # float32 rounds at the border

    @fuzz(12 * budget, text=st.one_of(st.tuples(REGIONS, EDITS).map(lambda t: edited(*t)), st.text(max_size=60)))
    def check_damaged(text):
        outcome("damaged regions", region_at, text, POINTS[:2])


NAMES = st.sampled_from(["inf", "edl", "diayn", "dataset:x.npz", "paper", "random:3x3?seed=1", "a:b", "Ant-v5"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=20),
    NAMES,
)


def containers(each):
    return st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3)


VALUES = st.recursive(SCALARS, containers, max_leaves=4)


def changed(content, place, value):
    """A copy of nested dicts and lists in which one value, chosen by a number, is another."""
    content = copy.deepcopy(content)
    places = []

    def walk(node):
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, each in items:
            places.append((node, key))
            walk(each)

    walk(content)
    if places:
        node, key = places[place % len(places)]
        node[key] = value
    return content


@pytest.mark.parametrize("budget", BUDGETS)
def test_configs(finished, budget):
    saved = json.loads((finished / "config.json").read_text())

    @fuzz(12 * budget, place=st.integers(0, 10**4), value=VALUES)
    def check(place, value):
        config = outcome("configs", lambda c: resolve_config(from_json(c, "c.json")), changed(saved, place, value))
        if config is not None:
            assert isinstance(config, RunConfig)
            again = resolve_config(from_json(json.loads(json.dumps(to_json(config))), "c.json"))
            assert to_json(again) == to_json(config)


@pytest.mark.parametrize("budget", BUDGETS)
def test_sweep_files(budget, tmp_path):
    content = {
        "metric": "goal_success",
        "run": {"env": "square", "explore": "random_walk", "num_skills": 3, "explorer": {"iterations": 4}},
        "grid": {"learner.epsilon": [2.5, 5.0], "num_skills": [3, 4], "learner.ppo.learning_rate": [1e-3]},
    }

    @fuzz(5 * budget, place=st.integers(0, 10**4), value=VALUES)
    def check(place, value):
        asked = changed(content, place, value)
        found = outcome("sweeps", grid.parse, asked, "sweep.json")
        if found is not None:
            assert len(found.points) == math.prod(len(values) for values in asked["grid"].values())

    path = tmp_path / "sweep.toml"
    text = 'metric = "goal_success"\n[run]\nenv = "square"\nexplore = "random_walk"\n'
    text += '[grid]\n"learner.epsilon" = [2.5, 5.0]\n'

    @fuzz(5 * budget, edits=EDITS)
    def check_text(edits):
        path.write_text(edited(text, edits))
        outcome("damaged sweep files", grid.read, path)


def damaged(data, place, how, value):
    """Bytes with one place flipped, cut off, doubled or replaced."""
    place %= len(data) or 1
    flipped = data[:place] + bytes([(data[place] if data else 0) ^ (1 << value % 8)]) + data[place + 1 :]
    cases = [flipped, data[:place], data[:place] + data, data[:place] + bytes([value % 256]) + data[place:]]
    return [*cases, data[:place] + data[place + value :]][how % 5]


DAMAGE = {"place": st.integers(0, 10**7), "how": st.integers(0, 4), "value": st.integers(1, 300)}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_datasets(tmp_path, suffix, budget):
    path, buffer = tmp_path / f"a{suffix}", io.BytesIO()
    if suffix == ".npz":
        np.savez_compressed(buffer, states=POINTS)
    elif suffix == ".npy":
        np.save(buffer, POINTS)
    elif suffix == ".csv":
        np.savetxt(buffer, POINTS, delimiter=",", fmt="%.6g")
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"x": POINTS[:, 0], "y": POINTS[:, 1]}), buffer)

    @fuzz(8 * budget, **DAMAGE)
    def check(place, how, value):
        path.write_bytes(damaged(buffer.getvalue(), place, how, value))
        found = outcome(f"datasets {suffix}", load_dataset, path, 2)
        assert found is None or (found.dtype == np.float32 and found.shape[1] == 2 and np.isfinite(found).all())


def fingerprint(path):
    """Everything that a loaded run holds."""
    run = edl.load(path)
    arrays = jax.tree.leaves((run.states, run.skills, run.policy))
    digest = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in arrays)).hexdigest()
    return digest, json.dumps([run.metrics, run.log, to_json(run.config)], sort_keys=True)


def read_all(path):
    """Load a run, read its checkpoint, and check its files."""
    folder = store.Folder(path)
    try:
        return fingerprint(path)
    finally:
        with contextlib.suppress(ConfigError):
            session.read_checkpoint(folder)
        check_run(path)


@pytest.fixture(scope="module")
def folder(finished, tmp_path_factory):
    """A copy of the finished run, with a checkpoint as if it were running."""
    path = tmp_path_factory.mktemp("fuzz") / "run"
    shutil.copytree(finished, path)
    notes = {"stage": "learn", "identity": "x", "iteration": 3, "sums": {"loss": [0.5]}, "spent": {"seconds": 1.0}}
    for number in range(2):
        store.Folder(path).save_checkpoint({"x": np.full(3, number, np.float32)}, notes)
    store.Folder(path).settle()
    return path


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_file_of_a_run_folder(folder, budget):
    """With a manifest, damage to any file is found: nothing that can be loaded has changed."""
    names = sorted(str(place.relative_to(folder)) for place in folder.rglob("*") if place.is_file())
    whole = fingerprint(folder)

    @fuzz(12 * budget, name=st.sampled_from(names), delete=st.integers(0, 9), **DAMAGE)
    def check(name, delete, place, how, value):
        data = (folder / name).read_bytes()
        new = damaged(data, place, how, value)
        try:
            (folder / name).unlink() if delete == 0 else (folder / name).write_bytes(new)
            found = outcome("run folders", read_all, folder)
            if found is not None and delete:
                assert found == whole, name
            if delete and new != data and (folder / "config.json").is_file():
                assert [each.name for each in check_run(folder).bad] == [name]
        finally:
            (folder / name).write_bytes(data)


@pytest.mark.parametrize("budget", BUDGETS)
def test_crafted_run_folders(folder, budget):
    """Without a manifest, any JSON that somebody wrote is either rejected or loaded."""
    names = ["config.json", "provenance.json", "metrics.json", "checkpoint/progress.json"]
    manifest = (folder / MANIFEST).read_bytes()

    @fuzz(12 * budget, name=st.sampled_from(names), place=st.integers(0, 10**4), value=VALUES, whole=st.integers(0, 9))
    def check(name, place, value, whole):
        data = (folder / name).read_bytes()
        try:
            (folder / MANIFEST).unlink()
            crafted = value if whole == 0 else changed(json.loads(data), place, value)
            (folder / name).write_text(json.dumps(crafted))
            outcome("crafted run folders", read_all, folder)
        finally:
            (folder / name).write_bytes(data)
            (folder / MANIFEST).write_bytes(manifest)
