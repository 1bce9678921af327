"""Bad input: exit status 2, one message that says how to fix it, no traceback, and no files."""

import re

import numpy as np
import pytest

from edl.cli import main
from edl.runs import evaluation
from tests.cli.settings import TINY

BAD_FLAGS = [
    (["--env", "sqare"], r"unknown env 'sqare'\. Did you mean 'square'\? Available: square, tree"),
    (["--env", "nowhere.txt"], r"maze 'nowhere\.txt' cannot be read"),
    (["--explore", "orcale"], r"unknown explorer 'orcale'\. Did you mean 'oracle'\?"),
    (["--discover", "vqvea"], r"unknown discoverer 'vqvea'\. Did you mean 'vqvae'\?"),
    (["--preset", "fats"], r"unknown preset 'fats'\. Did you mean 'fast'\?"),
    (["--num-skills", "0"], r"num_skills must be an integer of at least 1 \(got 0\)\. Change --num-skills\."),
    (["--num-skills", "-3"], r"num_skills must be .* \(got -3\)"),
    (["--num-seeds", "0"], r"num_seeds must be .* \(got 0\)"),
    (["--num-seeds", "-1"], r"num_seeds must be .* \(got -1\)"),
    (["--seed", "-1"], r"seed must be .* \(got -1\)"),
    (["--seed", "3000000000"], r"seeds must be below 2147483648 \(got seed=3000000000\)"),
    (["--num-skills", "ten"], "--num-skills.*ten"),
    (["--number-of-skills", "3"], "Unrecognized.*--num-skills"),
    (["--explorer.iterations", "0"], r"explorer\.iterations must be .* \(got 0\)"),
    (["--explorer.persistence", "nan"], r"explorer\.persistence must be a number \(got nan\)"),
    (["--learner.ppo.learning-rate", "-1"], r"learner\.ppo\.learning_rate must be at least 0 \(got -1\.0\)"),
    (["--num-skills", "500"], "num_skills=500 exceeds the 256 states explored"),
    (["--horizon", "-1"], r"horizon must be .* \(got -1\)"),
    (["--features", "0"], r"env 'square' has fixed features \(got features='0'\)\. Leave out --features\."),
    (["--region", "x>100"], "region 'x>100' is empty"),
    (["--region", "x>100", "--log", "csv"], "region 'x>100' is empty"),
    (["--region", "s2>0"], "uses dimension 2, but the states of this env have 2"),
    (["--region", "q>0"], "unknown variable 'q'"),
    (["--region", "x"], "region 'x': it compares nothing"),
    (["--region", "__import__('os').mkdir('pwned')"], "is none of numbers, variables,"),
    (["--explore", "dataset:none.npz"], r"dataset 'none\.npz' is not a file"),
    (["--explore", "dataset:states.pkl"], r"dataset 'states\.pkl' must end in one of \.npz"),
    (["--config", "none.json"], r"'none\.json' cannot be read"),
    (["--resume"], r"resume needs the run's folder: pass --out DIR\."),
]


@pytest.mark.parametrize(("words", "message"), BAD_FLAGS, ids=[" ".join(words) for words, _ in BAD_FLAGS])
def test_bad_flags_are_rejected_and_nothing_is_written(check_rejected, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    out = [] if words == ["--resume"] else ["--out", "run"]
    base = [] if "--explore" in words and "--explorer.iterations" not in words else TINY
    check_rejected(["run", *base, *words, *out], message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.array([[0.0, 1.0], [np.nan, 0.0]]), "nan in row 1, column 0"),
        (np.zeros((4, 3)), "has 3 columns, but the states of this env have 2"),
        (np.zeros((0, 2)), r"states\.npy is empty"),
        (np.array([[1, {}]], dtype=object), "contains pickled objects"),
        (np.zeros((5, 2)), "num_skills=10 exceeds the 5 states explored"),
    ],
)
def test_bad_datasets_are_rejected(check_rejected, tmp_path, states, message):
    np.save(tmp_path / "states.npy", states, allow_pickle=True)
    check_rejected(["run", "--explore", f"dataset:{tmp_path / 'states.npy'}", "--out", tmp_path / "run"], message)
    assert not (tmp_path / "run").exists()


def test_an_offline_method_rejects_states_without_transitions(check_rejected, tmp_path):
    out = ["--out", tmp_path / "run"]
    check_rejected(["baseline", "fb", "--explore", "oracle", *out], "fb learns from recorded transitions")
    np.savez(tmp_path / "logs.npz", states=np.zeros((3, 2)))
    check_rejected(
        ["baseline", "hilp", "--explore", f"dataset:{tmp_path / 'logs.npz'}", *out], "missing: actions, ends"
    )
    check_rejected(["baseline", "diayn", "--explore", "oracle", *out], "Unrecognized.*--explore")
    assert not (tmp_path / "run").exists()


def test_a_broken_maze_is_rejected_with_row_and_column(check_rejected, tmp_path):
    (tmp_path / "maze.txt").write_text("+-+\n|?|\n+-+\n")
    check_rejected(
        ["run", "--env", tmp_path / "maze.txt", "--out", tmp_path / "run"], r"row 2, column 2: unknown character '\?'"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "not a run's config"),
        ('{"num_skils": 3}', "Did you mean 'num_skills'"),
        ('{"num_skills": "3"}', r"num_skills must be an integer \(got '3'\)"),
        ('{"explore": "random_walk", "explorer": {"iteratoins": 3}}', "Did you mean 'iterations'"),
        ('{"explore": "nothing"}', "unknown explorer 'nothing'"),
    ],
)
def test_bad_config_files_are_rejected(check_rejected, tmp_path, text, message):
    (tmp_path / "c.json").write_text(text)
    check_rejected(["run", "--config", tmp_path / "c.json", "--out", tmp_path / "run"], message)
    assert not (tmp_path / "run").exists()


def test_unknown_commands_and_wrong_arguments_are_rejected(check_rejected, tmp_path):
    check_rejected(["rnu"], r"unknown command 'rnu'\. Did you mean 'run'\? Available: run, explore")
    check_rejected(["list", "all"], r"edl list takes no arguments \(got 'all'\)")
    check_rejected(["evaluate"], "Missing from edl evaluate: RUN")
    check_rejected(["evaluate", tmp_path, "--evn", "square"], "Unrecognized.*--env")
    check_rejected(["evaluate", tmp_path], "holds no run")
    check_rejected(["figure", tmp_path / "none"], "holds no run")
    check_rejected(["export", tmp_path / "none"], "holds no run")
    check_rejected(["downstream", tmp_path / "none"], "holds no run")
    check_rejected(["downstream"], "needs at least one run")
    check_rejected(["discover"], r"RUN is missing\. Name the folder of a run first: edl discover RUN\.")
    check_rejected(["learn", tmp_path], "holds no run")
    check_rejected(["baseline"], "METHOD is missing.*Available: reverse_mi")
    check_rejected(["baseline", "nothing"], "unknown method 'nothing'")
    check_rejected(["sweep"], "Missing from edl sweep: FILE")
    check_rejected(["sweep", tmp_path / "none.toml"], r"none\.toml' cannot be read")
    check_rejected(["reproduce", "fig_gridworld", "--jobs", "-1"], r"--jobs must be at least 0 \(got -1\)")


def test_bad_paths_are_bad_input(check_rejected, tmp_path, finished):
    file, long = tmp_path / "file", "x" * 300
    file.write_text("")
    check_rejected(["run", "--out", long], "File name too long.*Choose another path")
    check_rejected(["evaluate", long], "File name too long")
    check_rejected(["learn", long], "File name too long")
    check_rejected(["export", finished, "--out", long], "File name too long")
    check_rejected(["bench", "--out", tmp_path / "none" / "bench.json"], "none' does not exist")
    check_rejected(["bench", "--out", tmp_path], "--out must be a file")
    check_rejected(["run", *TINY, "--out", file / "run", "--log", "csv"], "cannot be created|Not a directory")
    check_rejected(["tables", "--fill", "--out", file], "--out must be the folder of the tables")
    check_rejected(["tables", "--out", file], "--out must be the folder of the tables")
    assert list(tmp_path.iterdir()) == [file]


def test_a_table_is_not_written_over_a_folder(tmp_path, finished, capsys):
    for words in (["--csv", tmp_path], ["--markdown", finished / "metrics.json" / "table.md"]):
        assert main(["compare", str(finished), *map(str, words)]) == 2
        assert re.search(r"Is a directory|Not a directory|File exists", capsys.readouterr().err)


def test_names_are_checked_before_anything_is_played(check_rejected, copied, monkeypatch):
    def played(*args, **settings):
        pytest.fail("the run is played")

    monkeypatch.setattr(evaluation, "_play", played)
    check_rejected(["figure", copied, "--only", "skils"], "Did you mean 'skills'")
    check_rejected(["evaluate", copied, "--cross-check"], "needs the env of a robot .got env 'square'")


def test_a_policy_is_needed_to_export_one(check_rejected, tmp_path, finished):
    check_rejected(["export", finished, "--out", tmp_path / "none" / "policy.py"], "none' does not exist")
    check_rejected(["export", finished, "--index", "1"], r"must be between 0 and 0 \(got 1\)")


def test_the_env_of_a_run_cannot_be_changed_by_a_later_stage(check_rejected, finished):
    check_rejected(["learn", finished, "--env", "tree"], r"--env must be the env of the run, 'square' \(got 'tree'\)")
