"""Networks, action distributions, densities, hashed cells, and the only place where an optimiser takes a step."""
