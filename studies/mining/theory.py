"""Figures 2 and 3a of "Sampling matters": distances on the sphere, and the noise in the direction of a gradient.

python -m studies.mining.theory    # draws docs/images/mining-theory.png
"""

import numpy as np

from studies import figures, pages
from tfdml import analysis, miners


def draw(path):
    """The density of distances, and the variance of the direction of a gradient, by distance."""
    figure, (left, right) = figures.plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
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
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(pages.IMAGES / "mining-theory.png")
