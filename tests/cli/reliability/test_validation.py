"""A folder with any content is loaded or rejected with one message, which names the file and says how to repair it.

The folders have no manifest.json, whose hashes would reject most of them before their content is looked at.
"""

import json
import re
import shutil

import jax.numpy as jnp
import pytest

from edl.cli import main
from edl.runs import store
from edl.runs.manifest import MANIFEST

MISSING = object()
NAN = float("nan")


def at(path, value):
    """A change of one value of nested dicts and lists: ``at("per_seed.0.seed", None)``."""

    def change(content):
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        node = content
        for part in parents:
            node = node[part]
        if value is MISSING:
            del node[last]
        else:
            node[last] = value
        return content

    return change


def to(value):
    return lambda content: value


def check_one_message(capsys, words, said):
    """The command is rejected with one message, without a traceback, that says what to do about one file."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    printed = capsys.readouterr()
    message = " ".join(printed.err.split())
    assert printed.out == ""
    assert "Traceback" not in message
    assert message.count(f"edl {words[0]}:") == 1
    assert re.search(said, message), message
    assert not re.search(r"(delete|remove) (the|this) folder", message, re.IGNORECASE), message


@pytest.fixture(scope="module")
def folder(finished, tmp_path_factory):
    """A copy of the finished run without a manifest."""
    path = tmp_path_factory.mktemp("crafted") / "run"
    shutil.copytree(finished, path)
    (path / MANIFEST).unlink(missing_ok=True)
    return path


@pytest.fixture
def crafted(folder):
    """The folder, and a function that changes one of its JSON files. Afterwards all files are as before."""
    before = {place: place.read_bytes() for place in folder.rglob("*") if place.is_file()}

    def craft(name, change):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(change(content)))
        return folder

    yield craft
    for place in folder.rglob("*"):
        if place.is_file() and place not in before:
            place.unlink()
    for place, data in before.items():
        place.write_bytes(data)


CONFIGS = {
    "no skills": (at("num_skills", 0), "config.json.*num_skills must be an integer of at least 1"),
    "negative skills": (at("num_skills", -1), "config.json.*num_skills must be an integer of at least 1"),
    "skills as text": (at("num_skills", "3"), "num_skills must be an integer"),
    "skills as a fraction": (at("num_skills", 2.5), "num_skills must be an integer"),
    "skills without end": (at("num_skills", 1e400), "num_skills must be|not valid JSON|finite"),
    "negative seed": (at("seed", -1), "config.json.*seed"),
    "large seed": (at("seed", 2**70), "config.json.*seeds? must be"),
    "seed as a list": (at("seed", [0]), "seed must be an integer"),
    "no seeds": (at("num_seeds", 0), "config.json.*num_seeds must be an integer of at least 1"),
    "a baseline's name": (at("method", "diayn"), "config.json|other settings: method was 'diayn' and is now 'edl'"),
    "an unknown method": (at("method", "none"), "unknown method 'none'"),
    "an unknown explorer": (at("explore", "none"), "unknown explorer 'none'"),
    "an unknown discoverer": (at("discover", "none"), "unknown discoverer 'none'"),
    "an unknown preset": (at("preset", "none"), "preset"),
    "an unknown env": (at("env", "none"), "none"),
    "env as a number": (at("env", 5), "env must be"),
    "negative horizon": (at("horizon", -1), "horizon must be"),
    "half a region": (at("region", "x >"), "region|states.safetensors was made with other settings"),
    "region as a list": (at("region", [1]), "region in .*config.json must be text"),
    "learner as a number": (at("learner", 3), "learner"),
    "ppo as text": (at("learner.ppo", "x"), "ppo"),
    "no iterations": (at("learner.ppo.iterations", 0), "iterations must be"),
    "hidden as a number": (at("learner.ppo.hidden", 8), "hidden"),
    "negative learning rate": (at("learner.ppo.learning_rate", -1.0), "learning_rate must be"),
    "an unknown setting": (at("colour", "red"), "unknown setting|colour"),
    "a list": (to([]), "config.json"),
    "null": (to(None), "config.json"),
    "text": (to("x"), "config.json"),
}


@pytest.mark.parametrize(("change", "said"), CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_a_crafted_config_is_rejected(crafted, capsys, change, said, command):
    path = crafted("config.json", change)
    before = (path / "metrics.json").read_bytes()
    words = ["evaluate", path] if command == "evaluate" else ["run", "--resume", "--out", path]
    check_one_message(capsys, words, said)
    assert (path / "metrics.json").read_bytes() == before


@pytest.mark.parametrize(("name", "value"), [("num_skills", 4), ("num_seeds", 2)])
def test_artifacts_of_another_size_are_rejected(crafted, capsys, name, value):
    path = crafted("config.json", at(name, value))
    check_one_message(capsys, ["evaluate", path], r"(states|skills)\.safetensors was made with other settings")


PROGRESS = {
    "a list": to([]),
    "a number for a stage": at("explore", 3),
    "nothing for a stage": at("explore", {}),
    "no times": at("explore.seconds", MISSING),
    "times as text": at("explore.seconds", "x"),
    "negative times": at("explore.seconds", -1),
    "times without end": at("explore.compile_seconds", NAN),
    "failures as a list": at("explore.failed", [1]),
    "failures of no seed": at("explore.failed", {"x": "why"}),
}


@pytest.mark.parametrize("change", PROGRESS.values(), ids=PROGRESS)
@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_a_crafted_progress_file_is_rejected(crafted, capsys, change, command):
    path = crafted(store.PROGRESS, change)
    words = ["evaluate", path] if command == "evaluate" else ["run", "--resume", "--out", path]
    check_one_message(capsys, words, r"progress\.json is damaged.*delete it: `edl run --resume`")


METRICS = {
    "a list": to([]),
    "nothing": to({}),
    "seeds as a number": at("per_seed", 3),
    "a seed as text": at("per_seed.0", "x"),
    "a metric as text": at("per_seed.0.goal_success", "x"),
    "aggregate as a list": at("aggregate", []),
    "a mean as text": at("aggregate.goal_success.mean", "x"),
    "half an interval": at("aggregate.goal_success.ci95", [0.1]),
}


@pytest.mark.parametrize("change", METRICS.values(), ids=METRICS)
def test_crafted_metrics_are_rejected(finished, crafted, capsys, change):
    path = crafted("metrics.json", change)
    check_one_message(capsys, ["compare", finished, path], r"metrics\.json (is damaged|has no per_seed).*edl evaluate")


@pytest.mark.parametrize(
    "change", [to([]), to("x"), at("packages", 3), at("packages", [1])], ids=["a list", "text", "a number", "names"]
)
def test_a_crafted_provenance_is_rejected(crafted, capsys, change):
    path = crafted("provenance.json", change)
    check_one_message(capsys, ["run", "--resume", "--out", path], r"provenance\.json is damaged.*delete it")


NOTES = {"stage": "learn", "iteration": 3, "sums": {}, "spent": {"seconds": 1.0, "compile_seconds": 1.0}}
CHECKPOINTS = {
    "no iteration": {k: v for k, v in NOTES.items() if k != "iteration"},
    "iteration as text": {**NOTES, "iteration": "3"},
    "negative iteration": {**NOTES, "iteration": -3},
    "a late iteration": {**NOTES, "iteration": 10**9},
    "sums as a list": {**NOTES, "sums": []},
    "sums of other seeds": {**NOTES, "sums": {"loss": [1.0, 2.0]}},
    "times as text": {**NOTES, "spent": {"seconds": "x"}},
    "another state": NOTES,
}


@pytest.mark.parametrize("notes", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_a_crafted_checkpoint_is_rejected(crafted, capsys, notes):
    path = crafted(store.PROGRESS, at("learn", MISSING))
    (path / "policy.safetensors").unlink()
    store.Folder(path).save(store.CHECKPOINT, {"x": jnp.zeros(3)}, notes)
    check_one_message(capsys, ["run", "--resume", "--out", path], r"state\.safetensors")
