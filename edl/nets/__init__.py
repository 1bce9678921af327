"""Networks, action distributions, densities, and the only place where an optimiser takes a step."""
