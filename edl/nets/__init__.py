"""Networks, distributions of actions, and the one place where an optimiser steps."""
