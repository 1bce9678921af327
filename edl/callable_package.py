"""Packages that can be called: ``edl.explore("square")`` explores, and ``edl.explore.METHODS`` are the explorers.

A function and a package cannot share the name ``edl.explore``: importing the package sets the attribute ``explore`` of
`edl`, whatever was there. So the package itself is made callable, and every way of importing it gives the same object.
Python supports this: the class of a module may be replaced by a subclass of `types.ModuleType`.
"""

import importlib
import sys
import types
from typing import Any


class CallablePackage(types.ModuleType):
    """A package of methods. Calling it calls the function of the same name in `edl.api`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # By name, because the package is below `edl.api`: it is imported when a user calls it.
        stages = importlib.import_module("edl.api.stages")
        return getattr(stages, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(package: str) -> None:
    """Make a package that is being imported callable."""
    sys.modules[package].__class__ = CallablePackage
