"""Every method can be cited and has a family."""

import pytest

import edl
from edl import baselines
from edl.citation import REFERENCES, year_of
from edl.config import ConfigError


@pytest.mark.parametrize("method", baselines.METHODS)
def test_every_method_has_a_reference_and_a_family(method):
    text = edl.citation(method)
    assert text.startswith("@")
    assert text.count("{") == text.count("}")
    assert 2010 < year_of(method) < 2027
    assert baselines.family_of(method) in baselines.FAMILIES


def test_references_and_families_belong_to_methods():
    assert set(REFERENCES) <= {*baselines.METHODS, "tldr"}
    named = [name for names in baselines.FAMILIES.values() for name in names]
    assert sorted(named) == sorted(baselines.METHODS)


def test_a_reference_in_full():
    assert edl.citation("csf") == (
        "@inproceedings{zheng2025,\n"
        "  title     = {Can a {MISL} Fly? Analysis and Ingredients for Mutual Information Skill Learning},\n"
        "  author    = {Zheng, Chongyi and Tuyls, Jens and Peng, Joanne and Eysenbach, Benjamin},\n"
        "  booktitle = {International Conference on Learning Representations},\n"
        "  year      = {2025},\n"
        "}\n"
    )
    assert "campos2020edl" in edl.citation("reverse_mi")


def test_an_unknown_method_is_rejected():
    with pytest.raises(ConfigError, match="Did you mean 'csf'"):
        edl.citation("cfs")
