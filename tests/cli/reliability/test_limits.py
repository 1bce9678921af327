"""A run or sweep that is too large is refused with an estimate, before anything is computed or written."""

import jax
import pytest

from edl.cli import main
from edl.config import ConfigError
from edl.runs import grid, limits
from edl.runs.config import RunConfig
from tests.cli.settings import TINY


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learner.ppo.iterations", "1000000000"], r"learner\.ppo\.iterations=1000000000 would take about 12 days"),
        (["--explorer.iterations", "1000000000"], r"explorer\.iterations=1000000000 would take about 12 days"),
        (["--learner.ppo.iterations", "100000000000"], r"learner\.ppo\.iterations must be at most 2147483647"),
        (["--num-seeds", "1000000000"], r"num_seeds=1000000000 would take about 11,574 days to evaluate"),
        (["--num-skills", "1000000000"], r"num_skills=1000000000 needs about 728 TiB of memory to evaluate"),
        (["--explorer.rollouts", "1000000000"], "the arrays of this run are too large"),
        (["--explorer.rollouts", "10000000"], r"stage 'explore' .* needs at least .* of memory, and 3 GiB can be used"),
        (["--explorer.num-samples", "200000000"], r"stage 'explore' .* needs at least 4\.47 GiB of memory"),
        (["--learner.ppo.minibatches", "201"], "minibatches=201 exceeds the 200 steps per iteration"),
        (["--learner.ppo.rollouts", "10000000"], r"stage 'learn' with learner\.ppo\.rollouts=10000000 needs at least"),
        (["--learner.ppo.epochs", "1000000000"], r"stage 'learn' with learner\.ppo\.epochs=1000000000 "),
        (["--learner.ppo.hidden", *["8"] * 101], r"learner\.ppo\.hidden must have at most 100 numbers \(got 101\)"),
        (["--learner.ppo.hidden", "1000000"], r"stage 'learn' .* needs at least .* of memory, and 3 GiB can be used"),
    ],
)
def test_absurd_numbers_are_refused_before_any_stage_runs(check_rejected, tmp_path, monkeypatch, words, message):
    monkeypatch.setattr(limits, "total_memory", lambda: 4.0 * 2**30)
    hidden = ["--learner.ppo.hidden", "1000000", "1000000"] if words[1:] == ["1000000"] else words
    check_rejected(["run", *TINY, *hidden, "--out", tmp_path / "run"], message)
    assert not (tmp_path / "run").exists()


def test_iterations_are_refused_by_their_time_on_a_machine_of_any_size(check_rejected, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "total_memory", lambda: 4.0 * 2**40)
    words = ["run", *TINY, "--learner.ppo.iterations", "1000000000", "--out", tmp_path / "run"]
    check_rejected(words, r"would take about 12 days at 1,000 iterations per second, and must be at most 100000000")


def test_memory_that_runs_out_is_one_message(tmp_path, capsys, monkeypatch):
    def fail(*args, **settings):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 204400016832 bytes.\nmore")

    monkeypatch.setattr("edl.runs.session.advance", fail)
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 1
    message = " ".join(capsys.readouterr().err.split())
    assert "edl run: out of memory (RESOURCE_EXHAUSTED: Out of memory allocating 204400016832 bytes.)" in message
    assert "Choose smaller numbers" in message
    assert "Traceback" not in message


def test_many_skills_are_refused_by_the_memory_of_their_evaluation(monkeypatch):
    monkeypatch.setattr(limits, "total_memory", lambda: 4.0 * 2**30)
    limits.check_skills(RunConfig(num_skills=4000))
    with pytest.raises(ConfigError, match=r"num_skills=50000 needs about 37\.3 GiB of memory to evaluate"):
        limits.check_skills(RunConfig(num_skills=50_000))
    limits.check_sizes(RunConfig(num_skills=50_000))  # a smaller machine can load the run


def test_more_skills_than_samples_are_refused_with_an_estimate(check_rejected, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "total_memory", lambda: 8.0 * 2**30)
    check_rejected(
        ["run", "--env", "square", "--num-skills", "5000", "--out", tmp_path / "run"],
        r"num_skills=5000 exceeds num_samples=4096: raise num_samples .*\(--discoverer\.num-samples 5000\), or ask for "
        r"fewer skills\. num_skills=5000 needs about 3\.73 GiB of memory to evaluate",
    )
    assert not (tmp_path / "run").exists()


def test_the_points_of_a_grid_are_counted_before_they_are_expanded():
    axes = {f"learner.{name}": list(range(1, 101)) for name in ("epsilon", "a", "b", "c")}
    with pytest.raises(ConfigError, match=r"at most 10,000 points \(got 100,000,000\)"):
        grid.parse({"grid": axes}, "sweep.toml")
    with pytest.raises(ConfigError, match=r"at most 10,000 points \(got 1,000,000\)"):
        grid.parse({"grid": {"seed": list(range(1_000_000))}}, "sweep.toml")
