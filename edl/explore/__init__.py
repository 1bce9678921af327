"""Stage 1: samples of p(s). One explorer, one file; each is ``build(env, config) -> Program`` that ends in `States`."""

from edl.explore.frontier import FrontierConfig, frontier
from edl.explore.oracle import OracleConfig, oracle
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.program import Method

METHODS = {
    "frontier": Method(FrontierConfig, frontier),
    "oracle": Method(OracleConfig, oracle),
    "random_walk": Method(RandomWalkConfig, random_walk),
}
