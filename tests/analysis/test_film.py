"""Films of partitions over checkpoints."""

import io
from pathlib import Path

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, FileError
from gatewise.files import write_tensors

POINTS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2))


def test_models_state_dicts_and_files_give_the_same_film(tmp_path: Path) -> None:
    models = [network(seed) for seed in range(3)]
    for number, model in enumerate(models):
        write_tensors(tmp_path / f"{number}.safetensors", model.state_dict())
    base, told = network(9), []
    before = base[0].weight.clone()
    films = [
        gw.analysis.film(models, POINTS, progress=lambda done, total: told.append((done, total))),
        gw.analysis.film((model.state_dict() for model in models), POINTS, model=base),
        gw.analysis.film(
            [tmp_path / f"{number}.safetensors" for number in range(3)], POINTS, model=base
        ),
    ]
    want = tuple(gw.analysis.partition(model, POINTS).count for model in models)
    assert all(film.counts == want for film in films) and told == [(1, 3), (2, 3), (3, 3)]
    assert torch.equal(base[0].weight, before)


def test_a_film_has_a_picture_a_checkpoint_and_is_small(tmp_path: Path) -> None:
    from PIL import Image

    made = gw.analysis.film([network(seed) for seed in range(3)], POINTS, seconds=0.5)
    with Image.open(made.save(tmp_path / "film.gif")) as film:
        assert (film.format, film.n_frames, film.info["duration"]) == ("GIF", 3, 500)
    assert Image.open(io.BytesIO(made.gif)).n_frames == 3 and len(made.gif) < 500_000
    assert (
        "regions" in repr(made)
        and "data:image/gif" in made._repr_html_()
        and made.plot() is not None
    )
    assert made.to_dict()["counts"] == list(made.counts)


def test_a_film_of_soft_networks_shows_their_entropy() -> None:
    soft = nn.Sequential(nn.Linear(2, 4), nn.SiLU(), nn.Linear(4, 1))
    made = gw.analysis.film([soft, soft], POINTS, steps=16)
    assert made.counts == (None, None) and "soft" in repr(made) and made.plot() is not None


def test_files_of_others_are_read_and_damaged_ones_of_ours_are_noticed(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    save_file(network(0).state_dict(), theirs)
    write_tensors(ours, network(0).state_dict())
    assert (
        gw.analysis.film([theirs, ours], POINTS, model=network(9)).counts
        == (gw.analysis.partition(network(0), POINTS).count,) * 2
    )
    ours.write_bytes(ours.read_bytes()[:-1])
    with pytest.raises(FileError, match="cannot be read"):
        gw.analysis.film([ours], POINTS, model=network(9))
    with pytest.raises(FileError, match="checkpoint 2 cannot be read"):
        gw.analysis.film([theirs, tmp_path / "missing.safetensors"], POINTS, model=network(9))


def test_what_makes_no_film_is_said() -> None:
    with pytest.raises(ArgumentError, match="no checkpoint"):
        gw.analysis.film([], POINTS)
    with pytest.raises(ArgumentError, match="need a model"):
        gw.analysis.film([network(0).state_dict()], POINTS)
    with pytest.raises(ArgumentError, match="checkpoint 1 does not fit"):
        gw.analysis.film([{"0.weight": torch.zeros(3, 3)}], POINTS, model=network(0))
    with pytest.raises(ArgumentError, match="checkpoint 1 is not a checkpoint"):
        gw.analysis.film([3], POINTS, model=network(0))  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="seconds"):
        gw.analysis.film([network(0)], POINTS, seconds=0.0)
