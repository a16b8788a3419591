"""What a new user types wrongly: every command refuses it with a remedy, and ignores nothing."""

from pathlib import Path

import pytest

NETWORK = """
from torch import nn

def make(width=12):
    return nn.Sequential(nn.Flatten(1), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

def wrong(image):
    return image.none
"""


def written() -> list[Path]:
    """Return what is in the folder. Python keeps the compiled network there."""
    return sorted(path for path in Path().iterdir() if path.name != "__pycache__")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NETWORK)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("list units crelu --family soft", "leave out the name or these options"),
        ("list units crelu --page page.html", "leave out the name or these options"),
        ("inspect net.py", "did you mean 'net.py:FUNCTION'?"),
        ("swap small_cnn --out a.safetensors", "fix: --unit NAME, or --plan FILE"),
        ("swap small_cnn --unit silu", "fix: --dry-run to see the plan, or --out"),
        ("sparsify small_cnn --epochs 3", "fix: add --relu relu, or leave out --epochs"),
        ("sparsify small_cnn --shift 2 --norms", "without --relu nothing is trained"),
        ("sparsify small_cnn --tokenizer x", "fix: name the inputs with --data"),
        (
            "diagnose small_cnn --data digits --transform net.py:wrong --examples 8",
            "--transform: net.py:wrong failed on an image",
        ),
        (
            "diagnose small_cnn --data digits --transform net.py:make --examples 8",
            "--transform: net.py:make failed on an image",
        ),
        ("compare demo --test a.npz --out o", "--test: it is for arrays alone"),
        ("train small_cnn --test a.npz --out o", "--test: it is for arrays alone"),
        ("report none", "there is no such file or folder"),
        ("stats none.csv", "there is no such file"),
        ("explore --out a.txt", "allowed: .html, .htm"),
    ],
)
def test_it_is_refused_with_a_remedy(run, home, words, said) -> None:
    before = written()
    ended = run(*words.split())
    assert ended.exit_code == 2 and said in ended.stderr, ended.output
    assert written() == before
