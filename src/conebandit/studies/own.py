"""Policies and environments of the user's own, by import path: ``mine:EpsilonGreedy``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conebandit.environments.base import Environment
from conebandit.policies.base import Policy
from conebandit.studies.modules import read_module


def is_own(name: str) -> bool:
    """Whether a name is an import path, a module and a name in it with a colon between.

    Examples
    --------
    >>> is_own("mine:EpsilonGreedy"), is_own("ConeTree")
    (True, False)
    """
    return ":" in name


def imported(path: str, folders: Sequence[str] = ()) -> Any:
    """What an import path names, as it is in its file now; :func:`read_module` says where modules are looked for.

    Raises
    ------
    ValueError
        If there is no such module or nothing of this name in it, or if the module cannot be imported.

    Examples
    --------
    >>> imported("conebandit.environments:paper").__name__
    'paper'
    """
    module_name, _, name = path.partition(":")
    if not module_name or not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{path!r} is not an import path; write module:name, such as mine:EpsilonGreedy.")
    try:
        module = read_module(module_name, folders)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ValueError(f"{path!r} needs the module {error.name}, which is not installed.") from error
        where = f" in {' or '.join(folders)}, nor installed" if folders else ""
        raise ValueError(f"{path!r}: there is no module {module_name}{where}.") from None
    except (Exception, SystemExit) as error:  # whatever somebody's module raises
        raise ValueError(f"{path!r} cannot be imported: {type(error).__name__}: {error}.") from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path!r}: {module_name} has no {name}.")
        found = getattr(found, part)
    return found


def made_for(maker: Callable[..., Any], environment: Environment, seed: int, settings: Mapping[str, Any]) -> Policy:
    """A policy for an environment: ``maker(n_arms, cone, context_dim, ...)``.

    Seed and bounds of contexts are handed over if it takes them, and if the environment knows its bounds.

    Examples
    --------
    >>> import conebandit as cb
    >>> made_for(cb.ParetoUCB1, cb.environments.paper(n_arms=4), 7, {"width": 0.2}).seed
    7
    """
    known = {"seed": seed, "bounds": getattr(environment, "bounds", None)}
    wanted = {name: value for name, value in known.items() if value is not None and takes(maker, name)}
    made: Policy = maker(environment.n_arms, environment.cone, environment.context_dim, **{**wanted, **settings})
    return made


def drawn_by(maker: Any, seed: int, settings: Mapping[str, Any]) -> Environment:
    """An environment from a function or a class, which gets the seed of the run if it takes one; or one as it is.

    Examples
    --------
    >>> import conebandit as cb
    >>> drawn_by(cb.environments.paper, 0, {"n_arms": 4}).n_arms
    4
    """
    if not callable(maker):
        if settings:
            raise ValueError(f"it is an environment already, and has no setting {next(iter(settings))!r}.")
        environment: Environment = maker
        return environment
    drawn: Environment = maker(**{**({"seed": seed} if takes(maker, "seed") else {}), **settings})
    return drawn


def takes(maker: Callable[..., Any], name: str) -> bool:
    """Whether a function or class has a parameter of this name."""
    try:
        return name in inspect.signature(maker).parameters
    except (TypeError, ValueError):  # some builtins do not tell
        return False


@dataclass(frozen=True)
class OwnPolicy:
    """Makes a policy by import path. It is handed to other processes, which import it themselves."""

    path: str
    folders: tuple[str, ...]

    def __call__(self, world: Any, seed: int, /, **settings: Any) -> Policy:
        """The policy for an environment and the seed of a run."""
        return made_for(imported(self.path, self.folders), world, seed, settings)


@dataclass(frozen=True)
class OwnEnvironment:
    """Makes an environment by import path. It is handed to other processes, which import it themselves."""

    path: str
    folders: tuple[str, ...]

    def __call__(self, seed: int, /, **settings: Any) -> Any:
        """The environment for the seed of a run."""
        return drawn_by(imported(self.path, self.folders), seed, settings)
