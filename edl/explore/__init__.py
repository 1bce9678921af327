"""Stage 1: samples of p(s). One file per explorer; ``build(env, config)`` returns a `Program` that ends in `States`.

``edl.explore("square")`` runs this stage: see `edl.api.stages`.
"""

from edl.callable_package import make_callable
from edl.explore.beyond import BeyondConfig, beyond
from edl.explore.drift import DriftConfig, drift
from edl.explore.frontier import FrontierConfig, frontier
from edl.explore.go_explore import GoExploreConfig, go_explore
from edl.explore.hindsight import HindsightConfig, hindsight
from edl.explore.knn import KNNConfig, knn
from edl.explore.maxent import MaxEntConfig, maxent
from edl.explore.oracle import OracleConfig, oracle
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.explore.rnd import RNDConfig, rnd
from edl.explore.smm import SMMConfig, smm
from edl.explore.tldr import TLDRConfig, tldr
from edl.program import Method

METHODS: dict[str, Method] = {
    "frontier": Method(FrontierConfig, frontier),
    "oracle": Method(OracleConfig, oracle),
    "random_walk": Method(RandomWalkConfig, random_walk),
    "smm": Method(SMMConfig, smm),
    "rnd": Method(RNDConfig, rnd),
    "knn": Method(KNNConfig, knn),
    "maxent": Method(MaxEntConfig, maxent),
    "go_explore": Method(GoExploreConfig, go_explore),
    "drift": Method(DriftConfig, drift),
    "beyond": Method(BeyondConfig, beyond),
    "tldr": Method(TLDRConfig, tldr),
    "hindsight": Method(HindsightConfig, hindsight),
}

make_callable(__name__)
