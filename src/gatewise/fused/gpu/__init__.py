"""Generated forms for GPUs: Triton kernels from the trace that the C loops are made of.

Triton is optional. Without it, and wherever compiled code may not run, units on a GPU are torch's
operations.
"""

from gatewise.fused.gpu.building import TARGETS as TARGETS
from gatewise.fused.gpu.building import device_code as device_code
from gatewise.fused.gpu.launching import GpuKernel as GpuKernel
from gatewise.fused.gpu.launching import gpu_kernel as gpu_kernel
