"""Stage 2: skills from explored states. One file per method; ``build(states, config)`` returns a `Program`.

``edl.discover(states, num_skills=6)`` runs this stage: see `edl.api.stages`.
"""

from edl.callable_package import make_callable
from edl.discover.gaussian_vae import GaussianVAEConfig, gaussian_vae
from edl.discover.kmeans import KMeansConfig, kmeans
from edl.discover.report import off_support, skill_report
from edl.discover.samples import check_states
from edl.discover.vqvae import VQVAEConfig, vqvae
from edl.program import Method

METHODS: dict[str, Method] = {
    "vqvae": Method(VQVAEConfig, vqvae),
    "kmeans": Method(KMeansConfig, kmeans),
    "gaussian_vae": Method(GaussianVAEConfig, gaussian_vae),
}

__all__ = ["METHODS", "check_states", "off_support", "skill_report"]

make_callable(__name__)
