import numpy as np
import pytest

from edl.figures.palette import BASE, palette, to_rgb, views


def least_gap(colours: list[str]) -> np.ndarray:
    """The least OKLab distance of any two colours, in each of the three kinds of vision."""
    seen = views(to_rgb(colours))
    gaps = np.linalg.norm(seen[:, :, None] - seen[:, None], axis=-1)
    return gaps[:, *np.triu_indices(len(colours), 1)].min(axis=-1)


def test_ten_skills_can_be_told_apart_by_colour_blind_readers():
    assert least_gap(palette(10)).min() > 0.1


@pytest.mark.parametrize(("num_skills", "gap"), [(20, 0.1), (50, 0.05)])
def test_many_skills_can_be_told_apart(num_skills, gap):
    assert least_gap(palette(num_skills))[0] > gap


def test_a_skill_keeps_its_colour_when_there_are_more_skills():
    assert palette(3) == list(BASE[:3])
    assert palette(50)[:20] == palette(20)
    assert len(set(palette(200))) == 200


def test_more_skills_than_colours_repeat_them():
    colours = palette(3000)
    assert len(colours) == 3000
    assert len(set(colours)) < 3000


def test_oklab_of_white_and_black():
    np.testing.assert_allclose(views(np.array([[1.0, 1, 1], [0, 0, 0]]))[0], [[1, 0, 0], [0, 0, 0]], atol=1e-3)


def test_colours_are_visible_on_white():
    assert views(to_rgb(palette(50)))[0, :, 0].max() < 0.85
