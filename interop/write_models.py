"""Writes random models with the reference packages: write_models.py FOLDER SEED COUNT.

Prints a JSON array of {"path", "tensors", "metadata"}: what the packages were given, not what they read back.
"""
import json
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFValueType as V, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from safetensors import TensorSpec, serialize

from facts import VALUE_TYPES, tensor_fact, text_of

folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(seed)

# Name in the package, name in the file, bits.
DTYPES = [("bool", "BOOL", 8), ("uint8", "U8", 8), ("int8", "I8", 8), ("uint16", "U16", 16), ("int16", "I16", 16),
          ("uint32", "U32", 32), ("int32", "I32", 32), ("uint64", "U64", 64), ("int64", "I64", 64),
          ("float16", "F16", 16), ("bfloat16", "BF16", 16), ("float32", "F32", 32), ("float64", "F64", 64),
          ("complex64", "C64", 64), ("float8_e4m3fn", "F8_E4M3", 8), ("float8_e5m2", "F8_E5M2", 8),
          ("float8_e8m0fnu", "F8_E8M0", 8), ("float8_e4m3fnuz", "F8_E4M3FNUZ", 8), ("float8_e5m2fnuz", "F8_E5M2FNUZ", 8)]
# Those that GGUF has too.
SHARED = [row for row in DTYPES if row[1] in ("I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64")]
WORDS = ["model", "layers", "attn", "weight", "größe", "数", "🧊", "a b", 'quo"te', "back\\slash", "tab\t", "__proto__",
         "constructor", "0", "-", "\u007f", "\u2028"]


def name_for(i):
    words = [WORDS[random.integers(len(WORDS))] for _ in range(random.integers(1, 4))]
    return ".".join(words + [str(i)])


def shape_for():
    rank = int(random.integers(0, 5))
    return [int(random.choice([0, 1, 2, 3, 5, 8, 17], p=[0.05, 0.2, 0.2, 0.2, 0.15, 0.1, 0.1])) for _ in range(rank)]


def write_safetensors(path, dtypes):
    specs, keep, facts = {}, [], []
    for i in range(int(random.integers(0, 12))):
        package, dtype, bits = dtypes[random.integers(len(dtypes))]
        name, shape = name_for(i), shape_for()
        byte_length = int(np.prod(shape, dtype=np.int64)) * bits // 8
        data = random.integers(0, 2 if dtype == "BOOL" else 256, byte_length, dtype=np.uint8)
        keep.append(data)
        specs[name] = TensorSpec(dtype=package, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        facts.append(tensor_fact(name, dtype, shape, data.tobytes()))
    metadata = {f"{WORDS[random.integers(len(WORDS))]}{i}": name_for(i) for i in range(int(random.integers(0, 4)))}
    with open(path, "wb") as file:
        file.write(serialize(specs, metadata=metadata or None))
    return {"path": path, "tensors": facts, "metadata": [[key, "string", value] for key, value in metadata.items()]}


SCALARS = [(V.UINT8, 0, 2**8), (V.INT8, -2**7, 2**7), (V.UINT16, 0, 2**16), (V.INT16, -2**15, 2**15),
           (V.UINT32, 0, 2**32), (V.INT32, -2**31, 2**31), (V.UINT64, 0, 2**63 - 1), (V.INT64, -2**63, 2**63 - 1)]


def scalar_for():
    kind = int(random.integers(0, 12))
    if kind < 8:
        vtype, low, high = SCALARS[kind]
        return vtype, int(random.integers(low, high))
    if kind == 8:
        return V.FLOAT32, float(np.float32(random.standard_normal()))
    if kind == 9:
        return V.FLOAT64, float(random.standard_normal())
    if kind == 10:
        return V.BOOL, bool(random.integers(2))
    return V.STRING, name_for(kind)


def values_for():
    vtype, first = scalar_for()
    values = [first]
    while len(values) < 5:
        other, value = scalar_for()
        if other == vtype:
            values.append(value)
    return vtype, values


def add_metadata(writer, facts):
    for i in range(int(random.integers(0, 10))):
        key = f"test.{name_for(i)}"
        if random.integers(3) == 0:
            vtype, values = values_for()
            writer.add_key_value(key, values, V.ARRAY, vtype)
            facts.append([key, "array", text_of(values)])
        else:
            vtype, value = scalar_for()
            writer.add_key_value(key, value, vtype)
            facts.append([key, VALUE_TYPES[vtype], text_of(value)])


PLAIN = [(Q.F32, 4), (Q.F16, 2), (Q.BF16, 2), (Q.F64, 8), (Q.I8, 1), (Q.I16, 2), (Q.I32, 4), (Q.I64, 8)]
NUMPY = {Q.F32: np.float32, Q.F16: np.float16, Q.F64: np.float64, Q.I8: np.int8, Q.I16: np.int16, Q.I32: np.int32,
         Q.I64: np.int64}
# The package gives Q8_1 blocks 40 bytes, ggml 36 (two halves and 32 bytes). They exist only in memory, never in a file.
BLOCKS = [q for q in Q if GGML_QUANT_SIZES[q][0] > 1 and q != Q.Q8_1]


def add_tensor(writer, i, facts, types):
    name = name_for(i)[:20] + str(i)
    rows = [int(random.integers(1, 4)) for _ in range(int(random.integers(0, 3)))]
    if types == "all" and random.integers(2) == 0:
        q = BLOCKS[random.integers(len(BLOCKS))]
        elements, size = GGML_QUANT_SIZES[q]
        blocks = int(random.integers(1, 3))
        data = random.integers(0, 256, [*rows, blocks * size], dtype=np.uint8)
        shape = [*rows, blocks * elements]
        writer.add_tensor(name, data, raw_dtype=q)
    else:
        q, size = PLAIN[random.integers(len(PLAIN))]
        shape = [*rows, int(random.integers(1, 40))]
        data = random.integers(0, 256, [*shape[:-1], shape[-1] * size], dtype=np.uint8)
        if q == Q.BF16:
            writer.add_tensor(name, data, raw_dtype=q)
        else:
            writer.add_tensor(name, data.view(NUMPY[q]))
    facts.append(tensor_fact(name, q.name, shape, data.tobytes()))


def write_gguf(path, types):
    writer = GGUFWriter(path, "interop")
    metadata, tensors = [["general.architecture", "string", "interop"]], []
    if random.integers(3) == 0:
        alignment = int(random.choice([32, 64, 256, 4096]))
        writer.add_custom_alignment(alignment)
        metadata.append(["general.alignment", "u32", str(alignment)])
    add_metadata(writer, metadata)
    for i in range(int(random.integers(0, 10))):
        add_tensor(writer, i, tensors, types)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {"path": path, "tensors": tensors, "metadata": metadata}


models = []
for number in range(count):
    base = os.path.join(folder, f"model{number}")
    models.append(write_safetensors(f"{base}.safetensors", SHARED if number % 2 else DTYPES))
    models.append(write_gguf(f"{base}.gguf", "plain" if number % 2 else "all"))
json.dump(models, sys.stdout)
