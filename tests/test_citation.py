"""Every method and every explorer can be cited, and methods have a family."""

import sys

import pytest

import edl
from edl import baselines, explore
from edl.citation import IN_THE_PAPER, OURS, REFERENCES, year_of
from edl.config import ConfigError


@pytest.mark.parametrize("method", baselines.METHODS)
def test_every_method_has_a_reference_and_a_family(method):
    text = edl.citation(method)
    assert text.startswith("@")
    assert text.count("{") == text.count("}")
    assert 2010 < year_of(method) < 2027
    assert baselines.family_of(method) in baselines.FAMILIES


@pytest.mark.parametrize("explorer", explore.METHODS)
def test_every_explorer_has_a_reference_or_is_ours(explorer):
    text = edl.citation(explorer)
    assert text.startswith("@")
    assert text.count("{") == text.count("}")
    if explorer in OURS:
        assert year_of(explorer) is None
        assert text.startswith("@software{edl,")
        assert text in edl.citation()
    else:
        assert str(year_of(explorer)) in text


def test_the_docstrings_of_explorers_name_their_reference():
    for name in explore.METHODS.keys() & REFERENCES.keys():
        first_line = sys.modules[explore.METHODS[name].build.__module__].__doc__.split("\n")[0]
        assert REFERENCES[name].authors.partition(",")[0] in first_line
        assert str(year_of(name)) in first_line


def test_references_and_families_belong_to_methods():
    assert {*REFERENCES, *IN_THE_PAPER, *OURS} == {*baselines.METHODS, *explore.METHODS, "edl"}
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


@pytest.mark.parametrize(
    ("name", "first", "venue"),
    [
        ("smm", "@misc{lee2019,", "  note      = {arXiv:1906.05274},"),
        ("go_explore", "@article{ecoffet2021,", "  journal   = {Nature},"),
    ],
)
def test_the_kind_of_an_entry_follows_from_its_venue(name, first, venue):
    lines = edl.citation(name).splitlines()
    assert lines[0] == first
    assert venue in lines


def test_an_unknown_method_is_rejected():
    with pytest.raises(ConfigError, match="Did you mean 'csf'"):
        edl.citation("cfs")
