"""The same with the gguf package: bytes of float32 a second. python3 dequantize.py BLOCKS SECONDS"""
import sys
import time

import numpy as np
from gguf import GGMLQuantizationType, quants

count, seconds = int(sys.argv[1]), float(sys.argv[2])
i = np.arange(count * 18, dtype=np.int64)
blocks = np.where(i % 18 == 1, 0x2C, (i * 7) & 255).astype(np.uint8).reshape(count // 1024, 1024 * 18)
floats = quants.dequantize(blocks, GGMLQuantizationType.Q4_0)
began = time.perf_counter()
rounds = 0
while time.perf_counter() - began < seconds:
    floats = quants.dequantize(blocks, GGMLQuantizationType.Q4_0)
    rounds += 1
print(rounds * floats.nbytes / (time.perf_counter() - began))
