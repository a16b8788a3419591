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
    assert "1 gates have a threshold" in found.stdout and "perplexity" in found.stdout


def test_bad_input_is_one_error(run):
    for arguments, words in (
        (("--target", 2), "share of zeros"),
        (("--method", "weights"), "no method of that name"),
        (("--where", "nothing"), "no linear layer"),
    ):
        found = run("sparsify", "gatewise:small_llama", *SMALL, "--examples", 4, *arguments)
        assert found.exit_code == 2 and words in found.stderr, found.output
        assert found.stderr.count("error:") == 1
