"""How many arms, objectives and context coordinates there are: what policies and environments must agree on."""

from __future__ import annotations

from typing import Protocol


class Sizes(Protocol):
    """The three numbers that a policy and its environment share."""

    @property
    def n_arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def n_objectives(self) -> int:
        """Number of objectives, M."""
        ...

    @property
    def context_dim(self) -> int:
        """Number of context coordinates, d."""
        ...
