"""Seeds that do not fit into memory together run in parts, with the same result, and can be interrupted."""

import numpy as np
import pytest

import edl
from edl.explore.random_walk import RandomWalkConfig
from edl.runs import driver, evaluation, session, store
from edl.runs.checking import check_run

SETTINGS = {
    "explore": "random_walk",
    "explorer": RandomWalkConfig(iterations=3, rollouts=2, num_samples=16),
    "discover": "kmeans",
    "num_skills": 2,
    "num_seeds": 5,
    "until": "discover",
}


@pytest.fixture
def in_parts(monkeypatch):
    """Only two seeds fit into memory."""
    monkeypatch.setattr(session, "MIN_SEEDS_FOR_PARTS", 1)
    monkeypatch.setattr(session, "lanes_at_a_time", lambda total, inputs: total)  # as on an accelerator
    monkeypatch.setattr(session, "fitting_width", lambda work, keys, width, mesh: 2)
    monkeypatch.setattr(evaluation, "draw_figures", lambda run, found: evaluation.Drawings())


def test_on_a_cpu_a_seed_has_the_bits_of_a_run_of_its_own(tmp_path):
    settings = SETTINGS | {"num_seeds": 3, "seed": 4, "until": "explore"}
    run = edl.run("square", out=tmp_path / "three", **settings)
    alone = edl.run("square", **settings | {"num_seeds": 1, "seed": 5})
    np.testing.assert_array_equal(run.states.samples[1], alone.states.samples)
    assert not list((tmp_path / "three" / "checkpoint").glob("part_*"))


@pytest.mark.slow
def test_parts_give_the_same_as_all_seeds_at_once(tmp_path, monkeypatch, in_parts):
    parts = edl.run("square", out=tmp_path / "parts", **SETTINGS)
    assert not list((tmp_path / "parts" / "checkpoint").glob("part_*"))
    assert not check_run(tmp_path / "parts").bad
    monkeypatch.setattr(session, "fitting_width", lambda work, keys, width, mesh: width)
    whole = edl.run("square", out=tmp_path / "whole", **SETTINGS)
    np.testing.assert_allclose(parts.states.samples, whole.states.samples, atol=1e-6)
    np.testing.assert_allclose(parts.skills.goals, whole.skills.goals, atol=1e-5)
    assert [len(row["loss"]) for row in parts.log if "loss" in row] == [5] * sum("loss" in row for row in whole.log)

    saved, save = [], session.save_part
    monkeypatch.setattr(session, "fitting_width", lambda work, keys, width, mesh: 2)
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "CHECKPOINT_COST", 0.0)

    def stop_after_the_first(folder, part, artifact, notes):
        save(folder, part, artifact, notes)
        saved.append(part.number)
        if len(saved) == 1:
            raise KeyboardInterrupt

    write = session.Session._write_checkpoint

    def stop_in_the_second(self, stage, position, spent, part):
        write(self, stage, position, spent, part)
        if part.number == 1 and position.iteration == 2 and 1 not in saved:
            raise KeyboardInterrupt

    out = tmp_path / "stopped"
    monkeypatch.setattr(session, "save_part", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        edl.run("square", out=out, **SETTINGS)
    monkeypatch.setattr(session.Session, "_write_checkpoint", stop_in_the_second)
    # As if more memory were free now: the width of the parts that are saved is kept.
    monkeypatch.setattr(session, "fitting_width", lambda work, keys, width, mesh: width)
    with pytest.raises(KeyboardInterrupt):
        edl.run("square", out=out, resume=True, **SETTINGS)
    assert store.Folder(out).has(store.CHECKPOINT)
    monkeypatch.setattr(session.Session, "_write_checkpoint", write)
    edl.run("square", out=out, resume=True, **SETTINGS)
    assert saved[:3] == [0, 1, 2]  # no part was computed twice
    for name in ("states.safetensors", "skills.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    logs = [edl.load(path).log for path in (out, tmp_path / "parts")]
    ours, theirs = ([{k: v for k, v in row.items() if k != "seconds"} for row in log] for log in logs)
    assert ours == theirs
