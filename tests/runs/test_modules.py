"""The docstring of `edl.runs` is a map of the package."""

import pkgutil
import re

from edl import runs


def test_the_map_of_the_package_names_every_module_once():
    named = re.findall(r"`(\w+)`", runs.__doc__ or "")
    assert sorted(named) == sorted(module.name for module in pkgutil.iter_modules(runs.__path__))
