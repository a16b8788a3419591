"""Data sets that several papers use. Importing a module registers its sets."""

from gatewise_papers.data import mnist_files as mnist_files
from gatewise_papers.data import svhn as svhn
from gatewise_papers.data import synthetic as synthetic
from gatewise_papers.data.idx import parse_idx as parse_idx
from gatewise_papers.data.mnist_files import mnist as mnist
from gatewise_papers.data.svhn import parse_matlab as parse_matlab
