"""Stage 2: discover skills in the states explored. Every entry builds a program from `States` to a `SkillModel`."""

from edl.discover.gaussian_vae import GaussianVAEConfig, gaussian_vae
from edl.discover.kmeans import KMeansConfig, kmeans
from edl.discover.vqvae import VQVAEConfig, vqvae
from edl.program import Method

METHODS: dict[str, Method] = {
    "vqvae": Method(VQVAEConfig, vqvae),
    "kmeans": Method(KMeansConfig, kmeans),
    "gaussian_vae": Method(GaussianVAEConfig, gaussian_vae),
}
