"""What a model holds, as JSON that both sides write the same way."""
import hashlib
import json
import os
import struct

from gguf import GGUFReader, GGUFValueType as V
from safetensors import deserialize, safe_open

VALUE_TYPES = {V.UINT8: "u8", V.INT8: "i8", V.UINT16: "u16", V.INT16: "i16", V.UINT32: "u32", V.INT32: "i32",
               V.FLOAT32: "f32", V.BOOL: "bool", V.STRING: "string", V.ARRAY: "array", V.UINT64: "u64", V.INT64: "i64",
               V.FLOAT64: "f64"}


def tensor_fact(name, dtype, shape, data):
    return {"name": name, "dtype": dtype, "shape": [int(d) for d in shape], "sha256": hashlib.sha256(data).hexdigest()}


def text_of(value):
    """Integers as digits, floats as the bits of a double, so that nothing is rounded on the way."""
    if isinstance(value, (list, tuple)):
        return [text_of(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    return str(value)


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    tensors = [tensor_fact(name, info["dtype"], info["shape"], bytes(info["data"])) for name, info in deserialize(data)]
    with safe_open(path, "np") as opened:
        metadata = opened.metadata() or {}
    return tensors, [[key, "string", value] for key, value in metadata.items()]


def read_index(path):
    with open(path) as file:
        index = json.load(file)
    tensors, metadata = [], {}
    for name in sorted(set(index["weight_map"].values())):
        found, entries = read_safetensors(os.path.join(os.path.dirname(path), name))
        for tensor in found:
            assert index["weight_map"][tensor["name"]] == name, tensor["name"]
        tensors += found
        metadata.update({key: [key, kind, value] for key, kind, value in entries})
    assert len(tensors) == len(index["weight_map"])
    return tensors, list(metadata.values())


def read_gguf(path):
    reader = GGUFReader(path)
    tensors = []
    for tensor in reader.tensors:
        tensors.append(tensor_fact(tensor.name, tensor.tensor_type.name, reversed(tensor.shape), tensor.data.tobytes()))
    metadata = []
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):  # the package also shows the file header as fields
            metadata.append([key, VALUE_TYPES[field.types[0]], text_of(field.contents())])
    return tensors, metadata


def read_parts(paths):
    tensors, metadata = [], []
    for number, path in enumerate(paths):
        found, entries = read_gguf(path)
        tensors += found
        metadata += entries if number == 0 else []
    return tensors, metadata


def read_model(paths):
    """The facts of a file, or of the files of a set; an index means its shards."""
    first = paths[0]
    if first.endswith(".index.json"):
        tensors, metadata = read_index(first)
    elif first.endswith(".safetensors"):
        tensors, metadata = read_safetensors(first)
    else:
        tensors, metadata = read_parts(paths)
    return {"tensors": tensors, "metadata": metadata}
