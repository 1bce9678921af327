"""A user's own process: import edl, run something, and check that no setting of the process has changed."""

import gc
import signal
import sys

import jax


def settings():
    hooks = [finder for finder in sys.meta_path if type(finder).__module__.startswith("edl")]
    return dict(jax.config.values), gc.get_threshold(), signal.getsignal(signal.SIGINT), hooks


def lowered_random_bits():
    return jax.jit(lambda key: jax.random.bits(key)).lower(jax.random.key(0)).as_text()


def main():
    before, text = settings(), lowered_random_bits()
    import edl
    from edl.explore.random_walk import RandomWalkConfig

    walk = RandomWalkConfig(iterations=1, rollouts=2)
    edl.run("square", until="explore", explore="random_walk", explorer=walk)
    jax.clear_caches()
    assert settings() == before, "a setting was changed"
    assert lowered_random_bits() == text, "the lowering of random numbers was changed"
    assert len(jax.devices()) == 1


if __name__ == "__main__":
    main()
