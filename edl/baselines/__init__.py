"""Skills without stages: methods that take p(s) from the policy itself. Each gives the same `SkillPolicy`."""

from edl.baselines.forward_mi import ForwardMIConfig, forward_mi
from edl.baselines.reverse_mi import ReverseMIConfig, reverse_mi
from edl.program import Method

METHODS: dict[str, Method] = {
    "reverse_mi": Method(ReverseMIConfig, reverse_mi),
    "forward_mi": Method(ForwardMIConfig, forward_mi),
}
