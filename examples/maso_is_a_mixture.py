"""Is a layer of max-affine splines a mixture model? Compare it with scikit-learn's K-means and Gaussian mixture."""

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.mixture import GaussianMixture
from torch import nn

from gatewise_papers.maso import MASO


def mixture_of(maso: MASO, unit: int) -> GaussianMixture:
    """scikit-learn's mixture with unit covariance, means A and weights pi, filled in by hand."""
    mixture = GaussianMixture(maso.regions, covariance_type="spherical")
    mixture.weights_ = maso.prior()[unit].detach().numpy()
    mixture.means_ = maso.slopes[unit].detach().numpy()
    mixture.covariances_ = mixture.precisions_cholesky_ = np.ones(maso.regions)
    return mixture


def main() -> None:
    """Print the answer."""
    torch.manual_seed(0)
    digits = load_digits().data / 4.0
    z = torch.tensor(digits)

    kmeans = KMeans(10, n_init=1, random_state=0).fit(digits)
    quantiser = MASO.from_centroids(torch.tensor(kmeans.cluster_centers_)[None])
    same = (quantiser.select(z)[:, 0].argmax(-1).numpy() == kmeans.predict(digits)).mean()
    print(
        f"{same:.2%} of {len(z)} digits: the region with the largest score is K-means' nearest centroid"
    )

    layer = nn.Linear(64, 4).double()
    hard, soft = (MASO.from_layer(layer, "relu", inference=how) for how in ("hard", "soft"))
    print(
        f"{(hard(z) - layer(z).relu()).abs().max():.1e} largest difference between that MASO and relu(linear)"
    )
    print(
        f"{(soft(z) - nn.functional.silu(layer(z))).abs().max():.1e} between its soft form and silu(linear)"
    )

    worst_share = worst_density = agreed = 0.0
    for unit in range(4):
        mixture = mixture_of(soft, unit)
        shares = soft.select(z)[:, unit].detach().numpy()
        worst_share = max(worst_share, abs(shares - mixture.predict_proba(digits)).max())
        density = soft.log_likelihood(z)[:, unit].detach().numpy()
        worst_density = max(worst_density, abs(density - mixture.score_samples(digits)).max())
        agreed += (hard.select(z)[:, unit].argmax(-1).numpy() == mixture.predict(digits)).mean() / 4
    print(f"{agreed:.2%} of hard selections are the mixture's most probable component")
    print(f"{worst_share:.1e} largest difference between soft selection and responsibilities")
    print(f"{worst_density:.1e} largest difference between log-likelihoods")
    active = hard.prior()[:, 1].tolist()
    print("prior of the active region, per unit:", ", ".join(f"{p:.2f}" for p in active))


if __name__ == "__main__":
    main()
