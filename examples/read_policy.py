"""Read an exported policy without conebandit: the probabilities of all arms in a context.

Run ``python examples/read_policy.py`` for the policy beside this file, in the context (0.3,), or
``python examples/read_policy.py policy.json 0.3 0.7`` for your own, from ``json.dump(policy.export(), file)``.
"""

import json
import sys
from pathlib import Path


def probabilities(policy, context):
    """Walk from the root to a leaf."""
    point = []
    for value, (low, high) in zip(context, policy["bounds"], strict=True):
        if not low <= value <= high:
            raise ValueError(f"{value} must lie between {low} and {high}")
        point.append((value - low) / (high - low))
    node = policy["tree"]
    while "probabilities" not in node:
        node = node["low"] if point[node["coordinate"]] < node["below"] else node["high"]
    return node["probabilities"]


def main():
    """Print the probabilities as JSON."""
    path, *context = sys.argv[1:] or [Path(__file__).with_name("policy.json"), "0.3"]
    policy = json.loads(Path(path).read_text())
    print(json.dumps(probabilities(policy, [float(value) for value in context])))


if __name__ == "__main__":
    main()
