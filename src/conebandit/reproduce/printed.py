"""What the paper prints: its ten arms, its two cones and its gap table (appendix, "Figure 1" and Table 1)."""

from __future__ import annotations

import numpy as np

from conebandit.geometry.cone import Cone

ARM_NAMES = tuple(f"A{k}" for k in range(10))

ARMS = np.array(
    [
        [0.80, 0.90],
        [1.20, 0.50],
        [0.60, 1.10],
        [1.00, 0.70],
        [1.10, 1.00],
        [0.90, 1.20],
        [1.40, 0.60],
        [0.70, 0.80],
        [1.25, 1.05],
        [0.95, 1.15],
    ]
)

# The appendix calls the narrow cone C2 in the figure and C3 in the table; it is the same cone.
CONES = {"C1": Cone.orthant(2), "C3": Cone.from_rays([[1, 0.6], [0.6, 1]])}

FRONTS = {"C1": {"A5", "A6", "A8", "A9"}, "C3": {"A1", "A2", "A4", "A5", "A6", "A8", "A9"}}

GAPS = {
    "C1": ("0.1719", "0.1542", "0.0870", "0.2231", "0.0488", "0.0000", "0.0000", "0.3054", "0.0000", "0.0000"),
    "C3": ("0.0000", "0.0000", "0.0000", "0.0392", "0.0000", "0.0000", "0.0000", "0.0556", "0.0000", "0.0000"),
}
