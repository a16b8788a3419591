"""What a run records about its units, and how they run."""

from small_runs import small_run

import gatewise as gw
from gatewise.train.loop import assemble, load_data


def test_fuse_is_a_setting_that_is_recorded_and_fuses_the_units_of_the_run():
    plain, config = small_run(), small_run(fuse=True)
    assert config.plain["fuse"] is True and config.digest != plain.digest
    assert small_run(fuse=False).digest == plain.digest
    data = load_data(config)
    for each in (plain, config):
        units = [m for m in assemble(each, data=data).model.modules() if isinstance(m, gw.nn.Swish)]
        assert units and all(unit.fused == each.fuse for unit in units)
