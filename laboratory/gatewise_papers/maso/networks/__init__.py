"""The network of the MASO paper."""

from gatewise_papers.maso.networks import large_cnn as large_cnn
