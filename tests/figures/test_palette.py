import numpy as np
import pytest

from edl.figures.palette import BASE, palette, to_rgb, views


def smallest_distance(colours: list[str]) -> np.ndarray:
    """The smallest OKLab distance between any two colours, for each of the three kinds of vision."""
    seen = views(to_rgb(colours))
    gaps = np.linalg.norm(seen[:, :, None] - seen[:, None], axis=-1)
    return gaps[:, *np.triu_indices(len(colours), 1)].min(axis=-1)


def test_colour_blind_readers_can_distinguish_ten_skills():
    assert smallest_distance(palette(10)).min() > 0.1


@pytest.mark.parametrize(("num_skills", "gap"), [(20, 0.1), (50, 0.05)])
def test_many_skills_have_distinct_colours(num_skills, gap):
    assert smallest_distance(palette(num_skills))[0] > gap


def test_a_skill_has_the_same_colour_for_any_number_of_skills():
    assert palette(3) == list(BASE[:3])
    assert palette(50)[:20] == palette(20)
    assert len(set(palette(200))) == 200


def test_colours_repeat_if_there_are_more_skills_than_colours():
    colours = palette(3000)
    assert len(colours) == 3000
    assert len(set(colours)) < 3000


def test_oklab_of_white_and_black():
    np.testing.assert_allclose(views(np.array([[1.0, 1, 1], [0, 0, 0]]))[0], [[1, 0, 0], [0, 0, 0]], atol=1e-3)


def test_colours_are_visible_on_white():
    assert views(to_rgb(palette(50)))[0, :, 0].max() < 0.85
