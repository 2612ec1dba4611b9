"""Contextual bandits with vector rewards, a preference cone and a shifting population.

Examples
--------
>>> import conebandit as cb
>>> cone = cb.Cone.orthant(2)
>>> cb.pareto_mask([[0.9, 1.2], [1.4, 0.6], [0.8, 0.9]], cone)
array([ True,  True, False])
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from conebandit._version import __version__ as __version__

if TYPE_CHECKING:
    from conebandit._public import *  # noqa: F403
    from conebandit._public import __all__ as __all__


class _Package(ModuleType):
    """Loads the public names, all of them, when the first is asked for: a service needs few, and starts sooner."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" or not name.startswith("__"):
            public = vars(importlib.import_module("conebandit._public"))
            for known in public.get("__all__", ()):  # none yet while they are being loaded
                setattr(self, known, public[known])
            if "__all__" in public:
                self.__all__ = public["__all__"]
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        # Whoever imports the module `simulate` would put it in place of the function.
        if name != "simulate" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # By its name, as other modules are: functions that refer to it travel to the workers of joblib, Dask and Ray.
        return importlib.import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


sys.modules[__name__].__class__ = _Package
