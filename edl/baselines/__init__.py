"""Skill discovery without stages: p(s) comes from the policy itself. Every method returns a `SkillPolicy`, like EDL."""

from edl.baselines.aps import APSConfig, aps
from edl.baselines.apt import APTConfig, apt
from edl.baselines.becl import BeCLConfig, becl
from edl.baselines.cic import CICConfig, cic
from edl.baselines.csd import CSDConfig, csd
from edl.baselines.csf import CSFConfig, csf
from edl.baselines.dads import DADSConfig, dads
from edl.baselines.diayn import DIAYNConfig, diayn
from edl.baselines.discern import DiscernConfig, discern
from edl.baselines.disco_dance import DiscoDanceConfig, disco_dance
from edl.baselines.fb import FBConfig, fb
from edl.baselines.forward_mi import ForwardMIConfig, forward_mi
from edl.baselines.hilp import HILPConfig, hilp
from edl.baselines.lsd import LSDConfig, lsd
from edl.baselines.map_elites import MAPElitesConfig, map_elites
from edl.baselines.metra import METRAConfig, metra
from edl.baselines.metra_ppo import METRAPPOConfig, metra_ppo
from edl.baselines.reverse_mi import ReverseMIConfig, reverse_mi
from edl.baselines.rsd import RSDConfig, rsd
from edl.baselines.skewfit import SkewFitConfig, skewfit
from edl.baselines.snn4hrl import SNN4HRLConfig, snn4hrl
from edl.baselines.valor import VALORConfig, valor
from edl.baselines.vic import VICConfig, vic
from edl.baselines.visr import VISRConfig, visr
from edl.program import Method

METHODS: dict[str, Method] = {
    "reverse_mi": Method(ReverseMIConfig, reverse_mi),
    "forward_mi": Method(ForwardMIConfig, forward_mi),
    "diayn": Method(DIAYNConfig, diayn),
    "dads": Method(DADSConfig, dads),
    "metra": Method(METRAConfig, metra),
    "vic": Method(VICConfig, vic),
    "snn4hrl": Method(SNN4HRLConfig, snn4hrl),
    "valor": Method(VALORConfig, valor),
    "visr": Method(VISRConfig, visr),
    "discern": Method(DiscernConfig, discern),
    "skewfit": Method(SkewFitConfig, skewfit),
    "metra_ppo": Method(METRAPPOConfig, metra_ppo),
    "lsd": Method(LSDConfig, lsd),
    "csd": Method(CSDConfig, csd),
    "csf": Method(CSFConfig, csf),
    "apt": Method(APTConfig, apt),
    "cic": Method(CICConfig, cic),
    "aps": Method(APSConfig, aps),
    "becl": Method(BeCLConfig, becl),
    "disco_dance": Method(DiscoDanceConfig, disco_dance),
    "rsd": Method(RSDConfig, rsd),
    "hilp": Method(HILPConfig, hilp, offline=True),
    "fb": Method(FBConfig, fb, offline=True),
    "map_elites": Method(MAPElitesConfig, map_elites),
}

FAMILIES: dict[str, tuple[str, ...]] = {
    "mutual information": ("vic", "snn4hrl", "valor", "diayn", "dads", "visr", "reverse_mi", "forward_mi"),
    "mutual information, with contrast or guidance": ("becl", "disco_dance"),
    "directions of a map": ("lsd", "csd", "metra", "metra_ppo", "csf", "rsd"),
    "goals": ("discern", "skewfit"),
    "entropy of states": ("apt", "aps", "cic"),
    "offline, from recorded transitions": ("fb", "hilp"),
    "evolution": ("map_elites",),
}
"""The methods by what they maximise. `edl list` and the tables of docs/methods.md group them accordingly."""


def family_of(name: str) -> str:
    """The family of a method; ``others`` for a method that was registered from outside."""
    return next((family for family, names in FAMILIES.items() if name in names), "others")
