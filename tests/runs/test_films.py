"""Pictures of skills in a Gymnasium env that renders. `test_host_run.py` has those of a whole run."""

import jax.numpy as jnp
import numpy as np
import pytest

from edl import figures
from edl.envs.host import DEFAULT_HORIZON
from edl.interop import gymnasium_envs
from edl.interop.env_names import make_env, remember_factory
from edl.interop.pictures import renders, skill_pictures
from edl.runs.films import MAX_ROWS, Film, film_caption, film_figure
from tests.interop.hosted import Lamp, Line


class Constant:
    """A policy whose action is its code."""

    def act(self, key, observation, code):
        return code


def columns(frames):
    """Where the lamp is in every picture, from 0 to 1; no number if it is not seen."""
    bright = frames[..., 0].max(axis=-2) > 127
    return bright.argmax(axis=-1) / bright.shape[-1]


def film(factory, codes, times):
    env = make_env(remember_factory(factory, "a lamp"), horizon=DEFAULT_HORIZON)
    return skill_pictures(env, Constant(), jnp.asarray(codes, jnp.float32), times)


@pytest.mark.parametrize("factory", [Lamp, lambda: Lamp(), lambda: Lamp("rgb_array")])
def test_a_row_shows_what_the_skill_does(factory):
    found = film(factory, [[1.0], [0.0], [-1.0]], [0, 3, 6])
    assert found.frames.shape == (3, 3, 160, 213, 3)
    right, still, left = columns(found.frames)
    assert right[0] == left[0] == still[0]  # all start in the same state
    np.testing.assert_allclose(still, still[0])
    np.testing.assert_allclose(np.diff(right), 0.3 * 300 / 640, atol=0.01)
    np.testing.assert_allclose(np.diff(left), -0.3 * 300 / 640, atol=0.01)


def test_an_episode_that_has_ended_stays_as_it_is():
    found = film(lambda: Lamp(ends=True), [[1.0], [-1.0]], [0, 6, 9])
    ended, other = columns(found.frames)
    assert ended[2] == ended[1]
    assert other[2] < other[1]


@pytest.mark.parametrize(
    ("trouble", "said"), [("raise", "raised RuntimeError: the motor is on fire"), ("die", "crashed its worker process")]
)
def test_an_env_that_fails_gives_a_message_and_no_error(monkeypatch, trouble, said):
    monkeypatch.setattr(gymnasium_envs, "choose_workers", lambda env: 0)  # it would step the env in this process
    found = film(lambda: Lamp(trouble=trouble), [[1.0]], [0, 6])
    assert found.frames is None
    assert said in found.problem


def test_an_env_that_does_not_render_has_no_pictures():
    assert not renders(make_env(remember_factory(Line)))
    assert film(Line, [[1.0]], [0]) is None


@pytest.mark.parametrize(("name", "shown"), [("robot", "rollout"), ("pictures", "episode")])
def test_the_caption_says_which_skills_are_shown(name, shown):
    frames = np.zeros((MAX_ROWS, 2, 4, 4, 3), np.uint8)
    film = Film(name, frames, np.array([0, 5]))
    drawn = film_figure(film)
    assert len(drawn[name].axes) == 2 * MAX_ROWS

    def caption(film, num_skills):
        ((_, caption, _),) = figures.with_captions(drawn, film_caption(film, num_skills))
        return caption

    assert caption(film, MAX_ROWS).startswith(f"One {shown} of each skill, from its start to its end")
    assert caption(film, 20).startswith(f"One {shown} of each of the first 16 skills, from its start to its end")
    assert film_caption(film._replace(frames=None), 20) == {}
    assert film_caption(None, 20) == {}
