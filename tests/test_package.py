"""Imports, package data, pinned versions, the compile cache, and the targets of the Makefile."""

import importlib.resources
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import edl
from edl.runtime import compile_cache

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]


def python(code: str, **environment: str) -> str:
    """Run ``code`` in a new Python process and return its output."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.check_output(command, env=os.environ | environment, cwd=ROOT, text=True).strip()


def pins(file: str) -> dict[str, list[Version]]:
    """The versions that a constraints file pins, by distribution; several if they differ by Python or platform."""
    found: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / file).read_text(), re.MULTILINE):
        found.setdefault(name, []).append(Version(version))
    return found


def test_import_edl_imports_no_heavy_package():
    loaded = python("import sys, edl; dir(edl); print(*sys.modules)").split()
    heavy = {"jax", "equinox", "numpy", "matplotlib", "gymnasium", "tyro", "rich"}
    assert not heavy.intersection(loaded)


def test_training_imports_neither_gymnasium_nor_tyro():
    loaded = python("import sys, edl; edl.run, edl.load, edl.make_env; print(*sys.modules)").split()
    assert "jax" in loaded
    assert not {"gymnasium", "tyro"}.intersection(loaded)


def test_there_are_at_most_20_public_names_and_all_exist():
    assert len(edl.__all__) <= 20
    assert set(dir(edl)) == set(edl.__all__)
    for name in edl.__all__:
        assert getattr(edl, name) is not None


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'teleport'"):
        edl.teleport  # noqa: B018


def test_the_source_distribution_lists_paths_that_exist():
    included = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert "/edl" in included
    assert all((ROOT / path.lstrip("/")).exists() for path in included)


def test_layouts_are_package_data():
    layouts = importlib.resources.files("edl.envs") / "layouts"
    names = {file.name for file in layouts.iterdir()}
    assert {"square.txt", "tree.txt", "bottleneck.txt", "corridor_center.txt", "corridor_left.txt"} <= names


def test_citation_names_library_and_paper():
    assert f"version = {{{edl.__version__}}}" in edl.citation()
    assert "Unsupervised Discovery of State-Covering Skills" in edl.citation()
    assert edl.citation().count("{") == edl.citation().count("}")


def test_citation_file_and_changelog_contain_the_version():
    assert f"\nversion: {edl.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {edl.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("file", ["core.txt", "dev.txt", "docs.txt"])
def test_constraints_are_hashed_and_name_no_registry(file: str):
    text = (ROOT / "requirements" / file).read_text()
    assert not re.search(r"://|--(extra-)?index|--find-links", text)
    blocks = re.split(r"\n(?=[\w-]+==)", text)[1:]
    assert len(blocks) >= len(PROJECT["dependencies"])
    for block in blocks:
        assert "--hash=sha256:" in block, block


def test_constraints_pin_every_dependency_within_its_bounds():
    core, dev = pins("core.txt"), pins("dev.txt")
    for text in PROJECT["dependencies"]:
        required = Requirement(text)
        assert core[required.name], f"{required.name} is not pinned: make lock"
        assert all(version in required.specifier for version in core[required.name]), f"{required.name}: make lock"
    assert {name: dev[name] for name in core} == core


def test_both_ends_of_the_supported_jax_are_pinned():
    assert {version.minor for version in pins("core.txt")["jax"]} == {10, 12}


def test_compiled_programs_are_cached(tmp_path: Path):
    folder = tmp_path / "cache"
    code = """
import jax
from edl.runtime import compile_cache
jax.jit(lambda x: x + 1)(1)  # the cache can be enabled after the first compilation
print(compile_cache.enable())
jax.jit(lambda kept: kept * 2)(1)
"""
    assert python(code, EDL_CACHE=str(folder)) == str(folder)
    assert any("lambda" in entry.name for entry in folder.iterdir())


@pytest.fixture
def no_cache() -> Iterator[None]:
    """A JAX without a compile cache."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("no_cache")
def test_a_cache_folder_that_cannot_be_written_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("EDL_CACHE", str(tmp_path / "file" / "cache"))
    assert compile_cache.enable() is None
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.usefixtures("no_cache")
def test_an_empty_edl_cache_disables_the_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EDL_CACHE", "")
    assert compile_cache.enable() is None
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.usefixtures("no_cache")
def test_a_cache_folder_that_was_set_in_jax_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EDL_CACHE", str(tmp_path / "ours"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert compile_cache.enable() == tmp_path / "theirs"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "theirs")


def test_make_help_lists_every_target():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    listed = subprocess.check_output(["make", "--no-print-directory", "-C", str(ROOT)], text=True)
    assert set(re.findall(r"make ([a-z-]+)", listed)) >= set(targets[1].split())


@pytest.fixture
def build_hook(monkeypatch):
    """`hatch_build.py`, which is imported when a wheel is built. hatchling is installed for the build only."""
    interface = types.SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_links_of_a_published_readme_are_absolute_and_point_to_files(build_hook):
    text = build_hook.with_absolute_links((ROOT / "README.md").read_text(), "https://host/owner/edl/", "1.2.0")
    targets = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(targets) > 20
    for target in targets:
        assert target.startswith(("https://", "#")), target
        if target.startswith("https://host/"):
            path = re.fullmatch(r"https://host/owner/edl/(?:raw|blob)/v1\.2\.0/([^#]+)(?:#.*)?", target)
            assert path is not None, target
            assert (ROOT / path.group(1)).exists(), target
    assert re.search(r"!\[[^\]]*\]\(https://host/owner/edl/raw/v1\.2\.0/", text) or 'src="https://host' in text


def test_links_elsewhere_are_kept_and_development_versions_point_to_the_newest_commit(build_hook):
    text = "[a](https://b/c) [d](#e) ![f](./g.png) [h](docs/i.md#j)"
    found = build_hook.with_absolute_links(text, "https://host/edl", "1.2.0.dev0")
    raw, blob = "https://host/edl/raw/HEAD", "https://host/edl/blob/HEAD"
    assert found == f"[a](https://b/c) [d](#e) ![f]({raw}/g.png) [h]({blob}/docs/i.md#j)"


def test_the_build_hook_reads_the_version_and_sets_the_readme(build_hook):
    hook = build_hook.AbsoluteLinks()
    hook.root = str(ROOT)
    metadata = {"urls": {"Source": "https://host/edl"}}
    hook.update(metadata)
    assert build_hook.read_version(ROOT) == edl.__version__
    assert metadata["readme"]["content-type"] == "text/markdown"
    assert "](docs/" not in metadata["readme"]["text"]
    hook.update(plain := {})
    assert plain["readme"]["text"] == (ROOT / "README.md").read_text()
