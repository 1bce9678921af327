import numpy as np
import pytest

from edl.figures.palette import palette
from edl.figures.skills import last_points, nearest_to_median, skills_figure


@pytest.mark.parametrize("num_skills", [1, 10, 12])
def test_every_skill_is_drawn_in_its_colour(num_skills, make_run, pixels):
    run = make_run("bottleneck", num_skills)
    picture = pixels(skills_figure(run.layout, run.paths, run.goals))
    for colour in palette(num_skills):
        assert picture.count(colour) > 20


def test_a_path_is_drawn_at_its_coordinates(run, pixels):
    paths = np.zeros((1, 1, 2, 2))
    paths[0, 0, :, 1] = (-0.25, -3.25)
    picture = pixels(skills_figure(run.layout, paths, run.goals[:1] * 0 + np.array([4.0, 0])))
    line, beside = picture.at(0, -2.0), picture.at(0.3, -2.0)
    assert line.min() < 200 < beside.min()


def test_goals_are_stars_outlined_in_the_colour_of_the_skill(run, pixels):
    goals = np.array([[2.0, 0.0], [4.0, 0.0]])
    picture = pixels(skills_figure(run.layout, np.zeros((2, 1, 3, 2)), goals))
    bare = pixels(skills_figure(run.layout, np.zeros((2, 1, 3, 2)), goals * 0))
    assert picture.at(2.0, 0.0).min() > 250
    assert np.any(picture.values != bare.values)
    figure = skills_figure(run.layout, run.paths, run.goals)
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert numbers == [str(i) for i in range(10)]


def test_numbers_stay_inside_the_picture(run):
    low, high = run.layout.bounds
    corners = np.array([[low[0], low[1]], [low[0], high[1]], [high[0], low[1]], [high[0], high[1]]])
    figure = skills_figure(run.layout, run.paths[:4], corners)
    figure.canvas.draw()
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_without_goals_the_number_is_at_the_end_of_a_rollout():
    ends = np.array([[[0.0, 0], [0, 2], [2, 0], [2, 2], [0.9, 0.8]]])
    np.testing.assert_array_equal(nearest_to_median(ends), [[0.9, 0.8]])


def test_states_after_the_end_of_an_episode_are_ignored(run, pixels):
    paths = run.paths.copy()
    paths[:, ::2, 7:] = np.nan
    np.testing.assert_array_equal(last_points(paths)[:, 0], paths[:, 0, 6])
    np.testing.assert_array_equal(last_points(paths)[:, 1], paths[:, 1, -1])
    assert pixels(skills_figure(run.layout, paths)).count(palette(3)[2]) > 20


@pytest.mark.parametrize("size", [1, 2, 5])
def test_envs_without_walls(size, pixels):
    paths = np.random.default_rng(0).normal(size=(3, 4, 6, size)).cumsum(axis=2)
    picture = pixels(skills_figure(None, paths, paths[:, 0, -1]))
    for colour in palette(3):
        assert picture.count(colour) > 20
