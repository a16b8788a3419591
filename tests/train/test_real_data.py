"""A run on real CIFAR-10.

Bytes from the published files, mirrored images, stopped and gone on with.
"""

import pytest
from test_loop import StopAt

from gatewise.data import load
from gatewise.train.config import find_recipe, run_config
from gatewise.train.run import train

pytestmark = pytest.mark.data


@pytest.mark.slow
def test_convpool_cnn_trains_on_cifar_10_and_goes_on_to_the_same_bits(tmp_path, data_folder):
    options = {"train": 130, "test": 64}
    data = load("cifar10", folder=data_folder, **options)
    recipe = find_recipe(
        "crelu_cifar",
        changes=[
            "epochs = 2",
            "batch = 64",
            "schedule = {name = 'constant'}",
            "start = 'he'",
            "optimiser.lr = 0.001",
        ],
    )
    config = run_config(
        model="convpool_cnn",
        unit="crelu",
        model_options={"scale": 0.125},
        data="cifar10",
        data_options=options,
        recipe=recipe,
    )
    whole = train(config, tmp_path / "whole", data=data)
    assert whole.status == "finished" and whole.steps == 6 and whole.data_sha256 == data.digest
    asks = StopAt(4)
    assert train(config, tmp_path / "run", data=data, watchers=[asks], stop=asks.signal) is None
    assert (
        train(config, tmp_path / "run", data_folder=str(data_folder)).state_sha256
        == whole.state_sha256
    )
