"""The extra ``mjx``: what a user is told if it is missing or does not fit."""

import pytest

from edl.config import ConfigError
from edl.envs.mjx import library
from edl.envs.mjx.library import check_versions, load_library, read_gym_model


@pytest.mark.parametrize(("mujoco", "mjx"), [("3.17.0", "3.17.0"), ("3.17.1", "3.17.0")])
def test_versions_of_one_release_fit(mujoco, mjx):
    check_versions(mujoco, mjx)


def test_versions_that_were_not_released_together_are_rejected():
    with pytest.raises(
        ConfigError, match=r"\(got mujoco 4.0.0 and mujoco-mjx 3.17.0\).*in a checkout, pip install '\.\[mjx\]'"
    ):
        check_versions("4.0.0", "3.17.0")


@pytest.mark.parametrize(("versions", "missing"), [({"mujoco": "3.17.0"}, "mujoco-mjx"), ({}, "mujoco and mujoco-mjx")])
def test_missing_packages_are_named_with_the_extra(monkeypatch, versions, missing):
    monkeypatch.setattr(library, "installed_version", versions.get)
    with pytest.raises(
        ConfigError, match=rf"that are not installed: {missing}\. .*in a checkout, pip install '\.\[mjx\]'"
    ):
        load_library()


def test_an_import_that_fails_says_what_to_do(monkeypatch):
    def fail(name):
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    monkeypatch.setattr(library, "installed_version", lambda package: "3.17.0")
    monkeypatch.setattr(library.importlib, "import_module", fail)
    library._import_library.cache_clear()
    with pytest.raises(ConfigError, match=r"glGetError.*Unset MUJOCO_GL"):
        load_library()


def test_the_models_of_gym_are_found_without_importing_it():
    assert '<mujoco model="ant">' in read_gym_model("ant.xml")
    with pytest.raises(ConfigError, match=r"'no_such.xml' is part of gymnasium"):
        read_gym_model("no_such.xml")
