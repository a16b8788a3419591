"""The factorial model of a whole layer by brute force, and the shortcut for orthogonal slopes."""

import math

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.units import check_input

LARGEST = 2**20  # the most combinations of regions


def joint_log_posterior(slopes: Tensor, offsets: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return ``log p(t | z)`` of every combination of regions, if all units make the input.

    .. math:: z = \sum_k A_{k, t_k} + \epsilon, \qquad \epsilon \sim N(0, I), \qquad
        p(t_k = r) = \pi_{kr} \propto \exp(B_{kr} + \|A_{kr}\|^2 / 2)

    This is a mixture of :math:`R^K` Gaussians (the print says R), computed by brute force: every
    combination is formed, at most 2**20 of them.

    Args:
        slopes: :math:`A`, ``(K, R, D)``.
        offsets: :math:`B`, ``(K, R)``.
        z: the inputs, ``(*, D)``.

    Returns:
        The log posterior ``(*, R**K)``, and the combinations ``(R**K, K)`` to which it refers.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274, section 5.
    """
    _check(slopes, offsets, z)
    combinations = _combinations(*slopes.shape[:2], device=slopes.device)
    units = torch.arange(slopes.shape[0], device=slopes.device)
    prior = torch.log_softmax(offsets + slopes.square().sum(-1) / 2, -1)
    log_joint = (
        prior[units, combinations].sum(-1)
        - _squared_distances(z, slopes[units, combinations].sum(1)) / 2
    )
    return torch.log_softmax(log_joint, -1), combinations


def joint_map(slopes: Tensor, offsets: Tensor, z: Tensor) -> Tensor:
    """Return the most probable combination of regions under :func:`joint_log_posterior`.

    Args:
        slopes: :math:`A`, ``(K, R, D)``.
        offsets: :math:`B`, ``(K, R)``.
        z: the inputs, ``(*, D)``.

    Shape: the result is ``(*, K)``.
    """
    posterior, combinations = joint_log_posterior(slopes, offsets, z)
    return combinations[posterior.argmax(-1)]


def per_unit_map(slopes: Tensor, offsets: Tensor, z: Tensor) -> Tensor:
    """Return the most probable region of each unit, which is its hard selection.

    It equals :func:`joint_map` if slopes of different units are orthogonal (Theorem 4 and Corollary
    1), in K R steps instead of R**K. Otherwise the two may differ, see :func:`largest_overlap`.

    Args:
        slopes: :math:`A`, ``(K, R, D)``.
        offsets: :math:`B`, ``(K, R)``.
        z: the inputs, ``(*, D)``.

    Shape: the result is ``(*, K)``.
    """
    _check(slopes, offsets, z)
    return (torch.einsum("krd,...d->...kr", slopes, z) + offsets).argmax(-1)


def largest_overlap(slopes: Tensor) -> float:
    r"""Return the largest :math:`|\langle A_{kr}, A_{k'r'} \rangle|` of two different units.

    It is 0 if condition (11) of the paper holds.

    Args:
        slopes: :math:`A`, ``(K, R, D)``.
    """
    if check_input("largest_overlap", slopes).dim() != 3 or 0 in slopes.shape:
        got = f"shape {tuple(slopes.shape)}"
        raise ArgumentError(
            "largest_overlap: slopes have a wrong shape",
            got=got,
            allowed="(K, R, D)",
        )
    gram = torch.einsum("krd,jsd->krjs", slopes, slopes).abs()
    # Slopes of one unit may overlap.
    same = torch.eye(len(slopes), dtype=torch.bool, device=slopes.device)[:, None, :, None]
    return float(gram.masked_fill(same, 0.0).max())


def _squared_distances(z: Tensor, means: Tensor) -> Tensor:
    return (
        torch.cdist(z.reshape(-1, z.shape[-1]), means, compute_mode="donot_use_mm_for_euclid_dist")
        .square()
        .reshape(*z.shape[:-1], len(means))
    )


def _combinations(units: int, regions: int, device: torch.device) -> Tensor:
    if units * math.log2(regions) > math.log2(LARGEST):
        raise ArgumentError(
            "joint_map: too many combinations of regions",
            got=f"{regions}**{units}",
            allowed=f"at most {LARGEST:,}",
            fix="fewer units, or orthogonal slopes and per_unit_map",
        )
    numbers = torch.arange(regions**units, device=device)
    return torch.stack([numbers // regions**k % regions for k in reversed(range(units))], -1)


def _check(slopes: Tensor, offsets: Tensor, z: Tensor) -> None:
    for value in (slopes, offsets, z):
        check_input("joint_map", value)
    fits = (
        slopes.dim() == 3
        and offsets.shape == slopes.shape[:2]
        and z.dim() > 0
        and z.shape[-1] == slopes.shape[-1]
    )
    if not fits or 0 in slopes.shape:
        raise ArgumentError(
            "joint_map: slopes, offsets and z do not fit",
            got=f"slopes {tuple(slopes.shape)}, offsets {tuple(offsets.shape)}, z {tuple(z.shape)}",
            allowed="slopes (K, R, D), offsets (K, R), z (*, D)",
        )
    if not slopes.dtype == offsets.dtype == z.dtype:
        got = f"{slopes.dtype}, {offsets.dtype}, {z.dtype}"
        raise ArgumentError("joint_map: slopes, offsets and z must be of one dtype", got=got)
