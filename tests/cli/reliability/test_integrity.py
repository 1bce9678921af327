"""Damage to any file of a run is found, and says which file it is and how to repair it."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.cli import main
from edl.config import ConfigError
from edl.runs import manifest, store, tensors
from edl.runs.manifest import MANIFEST


@pytest.fixture
def folder(tmp_path):
    folder = store.create(tmp_path / "run")
    folder.start_manifest()
    return folder


def test_a_changed_type_or_shape_is_detected():
    data = tensors.encode({"x": jnp.arange(4.0).reshape(2, 2)})
    for old, new in ((b'"F32"', b'"I32"'), (b"[2,2]", b"[1,4]"), (b"[2,2]", b"[4,1]")):
        changed = data.replace(old, new)
        assert changed != data
        with pytest.raises(ConfigError, match="does not match its checksum"):
            tensors.arrays_of(changed, "x.safetensors")


def test_files_of_the_first_format_can_be_read():
    """The checksum of edl 0.2 covers names and contents; its value here was computed by that version."""
    import safetensors.numpy

    header = {"checksum": 3977708145, "notes": {"stage": "learn"}}
    data = safetensors.numpy.save({"x": np.arange(3, dtype=np.float32)}, {tensors.NOTES: json.dumps(header)})
    np.testing.assert_array_equal(tensors.arrays_of(data, "x")["x"], [0, 1, 2])
    assert tensors.notes_of(data, "x") == {"stage": "learn"}


def test_the_manifest_lists_old_and_new_hashes_until_the_file_is_replaced(folder):
    folder.write("a.json", b"1")
    assert folder.hashes() == {"a.json": [manifest.hash_of(b"1"), manifest.ABSENT]}
    folder.write("a.json", b"2")
    assert folder.hashes() == {"a.json": [manifest.hash_of(b"2"), manifest.hash_of(b"1")]}
    folder.write("b.json", b"3")
    new = [manifest.hash_of(b"3"), manifest.ABSENT]
    assert folder.hashes() == {"a.json": [manifest.hash_of(b"2")], "b.json": new}
    folder.remove("b.json")
    assert folder.hashes() == {"a.json": [manifest.hash_of(b"2")]}
    with store.locked(folder):
        folder.write("a.json", b"4")
    assert folder.hashes() == {"a.json": [manifest.hash_of(b"4")]}


def test_a_file_that_is_not_as_it_was_written_is_rejected(folder):
    folder.write_json("metrics.json", {"x": 1.0})
    (folder.path / "metrics.json").write_bytes(folder.read("metrics.json").replace(b"1.0", b"1.5"))
    with pytest.raises(ConfigError, match=r"metrics\.json is damaged or was changed.*edl evaluate"):
        folder.read_json("metrics.json")


def test_a_damaged_manifest_is_rejected(folder):
    folder.write("a.json", b"1")
    data = (folder.path / MANIFEST).read_bytes()
    for damaged in (b"", b"[]", b'{"files": {}}', data.replace(b'"format": 1', b'"format": 2'), data[:-9], b"[" * 9999):
        (folder.path / MANIFEST).write_bytes(damaged)
        with pytest.raises(ConfigError, match=r"manifest\.json is damaged"):
            folder.read("a.json")
    later = {"format": 2, "files": {}}
    (folder.path / MANIFEST).write_text(json.dumps({**later, "checksum": manifest._checksum(later)}))
    with pytest.raises(ConfigError, match="has format 2, and this version of edl reads format 1"):
        folder.read("a.json")


def test_the_last_two_checkpoints_are_kept(folder):
    for number in range(3):
        folder.save_checkpoint({"x": jnp.float32(number)}, {"iteration": number})
    kept = [folder.load(name, {"x": jnp.float32(0)}) for name in (store.CHECKPOINT, store.PREVIOUS_CHECKPOINT)]
    assert [float(each["x"]) for each in kept] == [2.0, 1.0]


FILES = ["config.json", "provenance.json", "states.safetensors", "skills.safetensors", "policy.safetensors"]
FILES += ["metrics.json", "log.jsonl", "checkpoint/progress.json", "figures/skills.png", "report.html", MANIFEST]


@pytest.mark.parametrize("name", FILES)
def test_edl_check_names_the_damaged_file_and_nothing_else(copied, capsys, name):
    place = copied / name
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    capsys.readouterr()
    assert main(["check", str(copied)]) == 1
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert [row[0] for row in rows if row[1:2] in (["damaged"], ["missing"])] == [name]
    assert "1 damaged or missing" in printed


def test_edl_check_finds_missing_files_and_remnants(copied, capsys):
    assert main(["check", str(copied)]) == 0
    assert "no file is damaged or missing" in capsys.readouterr().out
    (copied / "policy.safetensors").unlink()
    (copied / "notes.txt").write_text("mine")
    (copied / f"{store.TEMPORARY}0").write_text("half")
    assert main(["check", str(copied)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "policy.safetensors missing" in printed
    assert "notes.txt not recorded" in printed
    assert "killed while it wrote" in printed


def test_runs_of_earlier_versions_have_no_manifest_and_load(copied, capsys):
    expected = edl.load(copied)
    (copied / MANIFEST).unlink()
    provenance = json.loads((copied / "provenance.json").read_text())
    del provenance["folder_format"]
    (copied / "provenance.json").write_text(json.dumps(provenance))
    assert edl.load(copied).metrics == expected.metrics
    assert main(["check", str(copied)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "made by an earlier version of edl" in printed
    assert "config.json not checked" in printed
    assert "states.safetensors ok" in printed
    assert main(["evaluate", str(copied)]) == 0
    assert not (copied / MANIFEST).exists()


@pytest.mark.parametrize(("name", "value"), [("env", "tree"), ("seed", 1), ("region", "x > 0"), ("horizon", 20)])
def test_artifacts_are_bound_to_the_config(copied, check_rejected, name, value):
    """Even without a manifest, results cannot be computed with other settings than those of the artifacts."""
    (copied / MANIFEST).unlink()
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, name: value}))
    before = (copied / "metrics.json").read_bytes()
    check_rejected(
        ["evaluate", copied], r"states\.safetensors was made with other settings than those in .*config\.json"
    )
    assert (copied / "metrics.json").read_bytes() == before


def test_changed_settings_of_a_later_stage_leave_the_earlier_ones_valid(copied, check_rejected):
    (copied / MANIFEST).unlink()
    config = json.loads((copied / "config.json").read_text())
    config["learner"]["ppo"]["learning_rate"] *= 2
    (copied / "config.json").write_text(json.dumps(config))
    check_rejected(["evaluate", copied], r"policy\.safetensors was made with other settings")


def test_a_changed_config_is_rejected_before_anything_else(copied, check_rejected):
    text = (copied / "config.json").read_text()
    (copied / "config.json").write_text(text.replace('"num_seeds": 1', '"num_seeds": 2'))
    for words in (["evaluate", copied], ["run", "--resume", "--out", copied], ["learn", copied], ["export", copied]):
        check_rejected(words, r"config\.json is damaged or was changed.*edl run --config")


def test_damaged_metrics_are_computed_again(copied, check_rejected):
    before = json.loads((copied / "metrics.json").read_text())
    (copied / "metrics.json").write_text("{")
    with pytest.raises(ConfigError, match="edl evaluate"):
        edl.load(copied)
    check_rejected(["compare", copied, copied.parent], "edl evaluate|holds no run")
    assert main(["evaluate", str(copied)]) == 0
    after = json.loads((copied / "metrics.json").read_text())
    assert after["per_seed"] == before["per_seed"]
    assert after["steps"] == before["steps"]


def test_a_deleted_artifact_is_computed_again_with_the_same_bits(copied):
    before = {name: (copied / name).read_bytes() for name in ("states.safetensors", "policy.safetensors")}
    (copied / "policy.safetensors").unlink()
    assert main(["run", "--resume", "--out", str(copied)]) == 0
    assert {name: (copied / name).read_bytes() for name in before} == before
    assert main(["check", str(copied)]) == 0


def test_resuming_with_another_jax_warns_and_with_another_edl_is_rejected(copied, capsys, check_rejected, monkeypatch):
    folder = store.Folder(copied)
    recorded = folder.read_json("provenance.json")
    folder.write_json("provenance.json", {**recorded, "packages": {**recorded["packages"], "jax": "0.0.1"}})
    assert main(["run", "--resume", "--out", str(copied)]) == 0
    assert "was started with jax 0.0.1 (now" in capsys.readouterr().err
    folder.write_json("provenance.json", {**recorded, "edl": "0.0.1"})
    check_rejected(["run", "--resume", "--out", copied], "was started by edl 0.0.1 and must be resumed by it")
