"""One step down a loss, against the update worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from edl.nets.optim import descend, start


def bowl(params, scale):
    """scale * (x^2 + 3 y), with gradient (2 scale x, 3 scale)."""
    value = scale * (params["x"] ** 2 + 3.0 * params["y"])
    return value, {"loss": value}


def test_a_step_of_gradient_descent_by_hand():
    optimiser = optax.sgd(0.1)
    trained = start(optimiser, {"x": jnp.float32(2.0), "y": jnp.float32(1.0)})
    trained, metrics = descend(optimiser, trained, bowl, 2.0)
    np.testing.assert_allclose(trained.params["x"], 2.0 - 0.1 * 8.0, rtol=1e-6)
    np.testing.assert_allclose(trained.params["y"], 1.0 - 0.1 * 6.0, rtol=1e-6)
    np.testing.assert_allclose(metrics["loss"], 14.0)  # of the parameters before the step


def test_the_optimiser_remembers():
    optimiser = optax.sgd(0.1, momentum=0.5)
    trained = start(optimiser, {"x": jnp.float32(0.0), "y": jnp.float32(0.0)})
    for _ in range(2):
        trained, _ = descend(optimiser, trained, bowl, 1.0)
    np.testing.assert_allclose(trained.params["y"], -0.1 * (3.0 + 4.5), rtol=1e-6)


def test_it_is_the_body_of_a_scan():
    optimiser = optax.adam(0.1)
    trained = start(optimiser, {"x": jnp.float32(2.0), "y": jnp.float32(0.0)})
    trained, metrics = jax.jit(
        lambda trained: jax.lax.scan(lambda trained, _: descend(optimiser, trained, bowl, 1.0), trained, length=100)
    )(trained)
    assert metrics["loss"].shape == (100,)
    np.testing.assert_allclose(trained.params["x"], 0.0, atol=0.1)
