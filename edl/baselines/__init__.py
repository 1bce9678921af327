"""Skill discovery without stages: p(s) comes from the policy itself. Every method returns a `SkillPolicy`, like EDL."""

from edl.baselines.dads import DADSConfig, dads
from edl.baselines.diayn import DIAYNConfig, diayn
from edl.baselines.discern import DiscernConfig, discern
from edl.baselines.forward_mi import ForwardMIConfig, forward_mi
from edl.baselines.metra import METRAConfig, metra
from edl.baselines.reverse_mi import ReverseMIConfig, reverse_mi
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
}
