"""Write what Open Bandit Pipeline's estimators say of small logs, with which tests compare ours.

    python -m venv .venv-bench && .venv-bench/bin/pip install --no-deps obp
    .venv-bench/bin/pip install numpy pandas scikit-learn
    .venv-bench/bin/python benchmarks/open_bandit.py

obp needs PyTorch, for tensors in place of arrays; here it is given arrays, so an empty module stands in for it. The
estimators are its own: only ``obp/ope/estimators.py`` is loaded, not the rest of the package.
"""

from __future__ import annotations

import importlib
import json
import sys
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

TO = Path(__file__).resolve().parent.parent / "tests" / "data" / "peers" / "open_bandit.json"


def estimators() -> Any:
    """The module ``obp.ope.estimators``, without what ``obp.ope`` imports beside it."""
    torch = ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    found = find_spec("obp")
    assert found is not None
    assert found.submodule_search_locations is not None
    package = ModuleType("obp.ope")
    package.__path__ = [str(Path(next(iter(found.submodule_search_locations))) / "ope")]
    sys.modules["obp.ope"] = package
    return importlib.import_module("obp.ope.estimators")


def main() -> None:
    obp = estimators()
    rng = np.random.default_rng(0)
    cases = []
    for case in range(9):
        n, arms = 10 + 5 * case, 2 + case % 4
        logged, wanted = (rng.dirichlet(np.ones(arms), n) * 0.9 + 0.1 / arms for _ in range(2))
        if case % 3 == 0:  # a policy that always knows what it wants
            wanted = np.eye(arms)[rng.integers(arms, size=n)]
        action = np.array([rng.choice(arms, p=row) for row in logged])
        reward, predicted = rng.normal(1.0, 1.0, n), rng.normal(1.0, 0.5, (n, arms))
        common = {"reward": reward, "action": action, "action_dist": wanted[:, :, None]}
        weighted = {**common, "pscore": logged[np.arange(n), action]}
        values = {
            "ips": obp.InverseProbabilityWeighting().estimate_policy_value(**weighted),
            "snips": obp.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**weighted),
            "dr": obp.DoublyRobust().estimate_policy_value(
                **weighted, estimated_rewards_by_reg_model=predicted[:, :, None]
            ),
        }
        if case % 3 == 0:
            values["replay"] = obp.ReplayMethod().estimate_policy_value(**common)
        given = {"logged": logged, "wanted": wanted, "arms": action, "rewards": reward, "predicted": predicted}
        cases.append({name: array.tolist() for name, array in given.items()} | {"values": values})
    data = {"command": "python benchmarks/open_bandit.py", "obp": distribution("obp").version, "cases": cases}
    TO.write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    main()
