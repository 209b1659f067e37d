"""Draws docs/images/mining-theory.png: distances on the sphere, and how much of a gradient's direction is noise.

python tools/mining_theory.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from tfdml import analysis, miners


def main():
    """Write the picture: figures 2 and 3a of "Sampling matters"."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    d = np.linspace(0.01, 1.99, 400)
    for dim in (4, 8, 32, 128, 512):
        left.plot(d, np.exp(miners.log_sphere_density(d, dim)), label=f"{dim} dimensions")
    left.set(xlabel="distance of two random points of the sphere", ylabel="density q(d)", ylim=(0, None))
    for noise in (0.01, 0.03, 0.1, 0.3):
        right.plot(d, analysis.gradient_variance(d, dim=128, noise=noise), label=f"noise {noise:g}")
    right.set(xlabel="distance of a negative pair", ylabel="variance of the gradient's direction", ylim=(0, None))
    for panel in (left, right):
        panel.legend(frameon=False, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    path = Path(__file__).parents[1] / "docs" / "images" / "mining-theory.png"
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
