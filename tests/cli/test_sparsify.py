"""``gatewise sparsify``: a receipt, JSON and a page; bad input is one error."""

import json

SMALL = ("--set", "width=16", "--set", "depth=1", "--set", "heads=2")


def test_receipt_json_and_page(run, tmp_path):
    page = tmp_path / "sparse.html"
    found = run(
        "sparsify",
        "gatewise:small_llama",
        *SMALL,
        "--data",
        "text",
        "--examples",
        8,
        "--json",
        "--where",
        "*.down",
        "--target",
        0.6,
        "--out",
        page,
    )
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    (layer,) = record["layers"]
    assert layer["layer"] == "blocks.0.feed_forward.down" and record["reached"]
    assert record["before"]["loss"] > 0 and record["target"] == 0.6
    assert "Quality against sparsity" in page.read_text()


def test_the_receipt_as_text(run):
    found = run(
        "sparsify",
        "gatewise:small_gpt",
        *SMALL,
        "--set",
        "unit=gelu",
        "--method",
        "gate",
        "--all-layers",
        "--data",
        "text",
        "--examples",
        4,
    )
    assert found.exit_code == 0, found.output
    assert "1 gate with a threshold" in found.stdout and "perplexity" in found.stdout


def test_relu_with_training(run, tmp_path):
    page = tmp_path / "relu.html"
    options = ("--relu", "relu", "--train-examples", 16, "--lr", 1e-3, "--penalty", 0.0)
    common = ("--data", "text", "--examples", 4, "--all-layers")
    found = run("sparsify", "gatewise:small_llama", *SMALL, *common, *options, "--out", page)
    assert found.exit_code == 0, found.output
    assert "relu in place of 1 activation" in found.stdout and "trained for 1 step " in found.stdout
    assert "Training" in page.read_text()
    found = run("sparsify", "gatewise:small_llama", *SMALL, *common, *options, "--norms")
    assert found.exit_code == 0 and "ReLU after 2 norms" in found.stdout, found.output
    found = run("sparsify", "gatewise:small_llama", *SMALL, "--examples", 4, *options)
    assert found.exit_code == 2 and "needs labels" in found.stderr


def test_a_target_of_zero_prints_no_threshold(run):
    common = ("--data", "text", "--examples", 4, "--all-layers", "--target", 0)
    found = run("sparsify", "gatewise:small_llama", *SMALL, *common)
    assert found.exit_code == 0 and "none" in found.stdout, found.output


def test_bad_input_is_one_error(run):
    for arguments, words in (
        (("--target", 2), "a finite number >= 0 and < 1"),
        (("--method", "weights"), "no method of that name"),
        (("--where", "nothing"), "no linear layer"),
    ):
        found = run("sparsify", "gatewise:small_llama", *SMALL, "--examples", 4, *arguments)
        assert found.exit_code == 2 and words in found.stderr, found.output
        assert found.stderr.count("error:") == 1
