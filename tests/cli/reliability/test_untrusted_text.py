"""Text from files and names is shown and stored as text: it is no markup, no terminal code, no command, no path."""

import ast
import io
import json
import shlex
import tokenize

import pytest

import edl
from edl.cli import main, printable
from edl.cli.console import new_console
from edl.config import ConfigError
from edl.interop import env_names
from edl.interop.numpy_policy import exported
from edl.runs import grid, store
from edl.runs.manifest import MANIFEST


def test_markup_and_terminal_codes_in_a_file_name_are_printed_as_text(tmp_path, capsys):
    name = "x[/y]\x1b[31m\x9b\u202e.txt"
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text("+-+-+\n|S  |\n+-+-+\n")
    words = ["explore", "--env", str(tmp_path / name), "--explore", "oracle", "--explorer.num-samples", "16"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "y]\\x1b[31m" in "".join(printed.split())
    assert not set("\x1b\x9b\u202e") & set(printed)


def test_terminal_codes_in_messages_are_escaped(capsys):
    assert main(["run", "--env", "\x1b]0;gone\x07", "--out", "none"]) == 2
    assert main(["\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err
    assert printable("a\x1b[1m\tb\n\x7f\x00é漢") == "a\\x1b[1m\tb\n\\x7f\\x00é漢"


def test_styles_of_the_console_still_work(monkeypatch):
    console = new_console()
    console._force_terminal = True
    with console.capture() as captured:
        console.print("[bold]", style="bold")
    assert "[bold]" in captured.get()


def test_commands_in_messages_are_quoted(copied, capsys, check_rejected):
    spaced = copied.rename(copied.parent / "a $(b) c")
    (spaced / "metrics.json").write_text("{}")
    (spaced / MANIFEST).unlink()
    check_rejected(["compare", spaced, spaced.parent], "holds no run|edl evaluate")
    capsys.readouterr()
    main(["compare", str(spaced)])
    printed = capsys.readouterr().err
    assert f"edl evaluate {shlex.quote(str(spaced))}" in printed


def test_an_exported_file_has_a_fixed_header(finished):
    policy = edl.load(finished).seed(0).policy
    text = exported(policy, "coding: utf-7\n\x0c# coding: rot13\x00 \u2028 import os")
    first, second, third = text.split("\n")[:3]
    assert [first, second] == ["# -*- coding: utf-8 -*-", "# Skills exported by edl."]
    assert third == "# coding: utf-7 # coding: rot13 import os"
    assert tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0] == "utf-8"
    assert not any(isinstance(node, ast.Import) and node.names[0].name == "os" for node in ast.walk(ast.parse(text)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nenv = 2020-01-01\n[grid]\nseed = [1]", r"has a date \(2020-01-01\)"),
        ("[grid]\nseed = [2020-01-01T00:00:00]", "has a datetime"),
        ("x = " + "[" * 5000 + "]" * 5000, "is not valid TOML|nested more than"),
        ("[grid]\n'learner.epsilon' = [" + "9" * 400 + "]", "number of over 64 bits"),
        ("[grid]\nseed = [" + "9" * 5000 + "]", "is not valid TOML|over 64 bits"),
        ("[grid]\n'num_skills.x' = [1]", "num_skills must be an integer"),
        ("[run]\nexplorer = 3\n[grid]\n'explorer.iterations' = [1]", "'explorer' has no settings"),
        ("metric = [1]\n[grid]\nseed = [1]", "unknown metric"),
    ],
)
def test_unusual_toml_is_rejected(tmp_path, text, message):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        grid.read(tmp_path / "sweep.toml")


def test_numbers_of_many_digits_and_long_names_are_rejected(tmp_path, check_rejected):
    (tmp_path / "c.json").write_text('{"explore": "random_walk", "learner": {"epsilon": ' + "9" * 400 + "}}")
    check_rejected(["run", "--config", tmp_path / "c.json", "--out", tmp_path / "run"], "fits into 64 bits")
    check_rejected(["run", "--env", "x" * 300, "--out", tmp_path / "run"], "unknown env")
    check_rejected(["run", "--env", "x/" * 3000, "--out", tmp_path / "run"], "cannot be read")
    check_rejected(["run", "--explore", f"dataset:{'x' * 300}.npz", "--out", tmp_path / "run"], "is not a file")


def test_a_stored_env_opens_no_file_that_the_user_did_not_name(tmp_path, copied, check_rejected):
    for name in ("edl/Maze-v0?path=mine.txt", "edl/Maze-v0?path=secret", "Ant-v5?xml_file=x", "Ant-v5?x=/etc/passwd"):
        with pytest.raises(ConfigError, match="was named by a file"):
            env_names.make_env(name)
    assert not env_names.needs_import("Ant-v5?frame_skip=2&x=1.5&flag=true")
    (copied / MANIFEST).unlink()
    config = json.loads((copied / "config.json").read_text())
    (tmp_path / "secret.txt").write_text("+-+\n|?|\n+-+\n")
    secret = tmp_path / "secret.txt"
    including = f'<mujoco><include file="{secret}"/></mujoco>'
    for env, text in ((secret, None), (f"ant:{secret}", None), (f"mjx:{secret}", None), (f"mjx:{secret}", including)):
        (copied / "config.json").write_text(json.dumps({**config, "env": str(env), "maze": text}))
        for words in (["evaluate", copied], ["run", "--resume", "--out", copied], ["learn", copied]):
            check_rejected(words, "names the file .* but lacks its text")


def test_a_file_without_end_is_rejected(check_rejected, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_SETTINGS_BYTES", 2**20)
    for words in (["run", "--config", "/dev/zero"], ["run", "--env", "/dev/zero"], ["run", "--config", "a\0b"]):
        check_rejected([*words, "--out", tmp_path / "run"], "over 1 MiB|at most .* bytes|cannot be read")
