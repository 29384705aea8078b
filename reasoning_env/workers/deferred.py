"""Defer the import of plotting modules that the library's dependencies import and workers never use.

cellpylib, whose cellular automata one task needs, imports matplotlib: a third of the time that the fork server takes to
start. The first use of anything in a deferred module imports it after all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

PLOTTING: Mapping[str, tuple[str, ...]] = {
    "matplotlib": (),
    "matplotlib.animation": (),
    "matplotlib.collections": (),
    "matplotlib.pyplot": (),
    "mpl_toolkits": (),
    "mpl_toolkits.mplot3d": ("Axes3D",),
}
"""Modules, parents before their children, with the names that others import from them for the side effect alone."""


class DeferredModule(ModuleType):
    """Stands in for a module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the import system's own look-ups need no real module
        for waiting in [key for key, module in sys.modules.items() if isinstance(module, DeferredModule)]:
            del sys.modules[waiting]
        return getattr(importlib.import_module(self.__name__), name)


def defer(modules: Mapping[str, tuple[str, ...]]) -> None:
    """Put stand-ins into `sys.modules`, each with placeholders for the names listed with it."""
    for name, placeholders in modules.items():
        if name not in sys.modules:
            module = DeferredModule(name)
            module.__path__ = []
            for placeholder in placeholders:
                setattr(module, placeholder, None)
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, module)
