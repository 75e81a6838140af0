"""An independent reader of AERO v0.1, written only from the specification and the two AIPs.

Reads a JSON list of paths on standard input, checks every rule that a writer must keep, and prints for each file what
it holds: {"problems": [...], "chunks": [...], "tensors": [...], "json": {...}}. Problems are sentences; none means that
the file is sound.
"""

import hashlib
import json
import struct
import sys

import msgpack
import zstandard
from blake3 import blake3

HEADER, TOC_HEADER, ENTRY = 96, 16, 80
ITEM_BYTES = {0: 2, 1: 4, 2: 2, 3: 8, 4: 1, 5: 1, 6: 2, 7: 2, 8: 4, 9: 4, 10: 8, 11: 8, 12: 1}
NEVER_COMPRESSED = ("IHSH", "PHSH", "WTSH")


def digest(data):
    return blake3(data).digest()


def read_header(data, problems):
    fields = struct.unpack_from("<4sHHIQQQQQ16s28s", data, 0)
    magic, major, minor, size, toc_at, toc_len, names_at, names_len, flags, uuid, reserved = fields
    for what, found, wanted in (
        ("magic", magic, b"AERO"),
        ("version", (major, minor), (0, 1)),
        ("header_size", size, HEADER),
        ("toc_offset", toc_at, HEADER),
        ("file_flags", flags, 0),
        ("reserved", reserved, bytes(28)),
    ):
        if found != wanted:
            problems.append(f"header: {what} is {found!r}, not {wanted!r}")
    return toc_at, toc_len, names_at, names_len, uuid


def read_toc(data, problems):
    toc_at, toc_len, names_at, names_len, uuid = read_header(data, problems)
    count, *reserved = struct.unpack_from("<IIQ", data, toc_at)
    if any(reserved):
        problems.append("toc: reserved fields are not zero")
    if toc_len != TOC_HEADER + ENTRY * count:
        problems.append(f"toc: length {toc_len} does not fit {count} entries")
    if names_at != toc_at + toc_len or names_len % 8 != 0:
        problems.append(f"string table: at {names_at}, {names_len} bytes")
    names = data[names_at : names_at + names_len]
    chunks, expected = [], 0
    for i in range(count):
        entry = struct.unpack_from("<4sIQQQIIQ32s", data, toc_at + TOC_HEADER + i * ENTRY)
        fourcc, flags, offset, length, ulen, name_off, name_len, reserved, hashed = entry
        if name_off != expected or names[name_off + name_len : name_off + name_len + 1] != b"\0":
            problems.append(f"toc[{i}]: name at {name_off}, not {expected}, or without NUL")
        expected = name_off + name_len + 1
        if reserved != 0:
            problems.append(f"toc[{i}]: reserved0 is {reserved}")
        chunk = {"fourcc": fourcc.decode("ascii"), "name": names[name_off : name_off + name_len].decode("utf-8")}
        chunks.append({**chunk, "flags": flags, "offset": offset, "length": length, "ulen": ulen, "hash": hashed})
    if any(names[expected:]):
        problems.append("string table: padding is not zero")
    payloads = -(-(names_at + names_len) // 16) * 16
    return chunks, payloads, uuid


def content_of(data, chunk, problems):
    stored = data[chunk["offset"] : chunk["offset"] + chunk["length"]]
    if chunk["flags"] & 1:
        if chunk["fourcc"] in NEVER_COMPRESSED:
            problems.append(f"{chunk['name']}: {chunk['fourcc']} must not be compressed")
        size = zstandard.frame_content_size(stored)
        if size != chunk["ulen"]:
            problems.append(f"{chunk['name']}: the zstd frame declares {size}, chunk_ulen is {chunk['ulen']}")
        decoder = zstandard.ZstdDecompressor().decompressobj()
        stored = decoder.decompress(stored)
        if decoder.unused_data:
            problems.append(f"{chunk['name']}: bytes behind the zstd frame")
    if len(stored) != chunk["ulen"]:
        problems.append(f"{chunk['name']}: {len(stored)} bytes, chunk_ulen is {chunk['ulen']}")
    if digest(stored) != chunk["hash"]:
        problems.append(f"{chunk['name']}: BLAKE3 differs")
    return stored


def check_places(data, chunks, payloads, problems):
    """No overlap, 16-byte starts, TOC order is file order, zeros in between, nothing after the last chunk."""
    position = payloads
    for chunk in chunks:
        if chunk["offset"] % 16 != 0:
            problems.append(f"{chunk['name']}: begins at {chunk['offset']}")
        if chunk["offset"] < position:
            problems.append(f"{chunk['name']}: begins at {chunk['offset']}, before {position}")
        if any(data[position : chunk["offset"]]):
            problems.append(f"{chunk['name']}: the gap before it is not zero")
        position = chunk["offset"] + chunk["length"]
    if position != len(data):
        problems.append(f"the last chunk ends at {position}, the file at {len(data)}")


def check_control(data, content, chunks, payloads, problems):
    if len(content) != 256:
        problems.append(f"IHSH: {len(content)} bytes, not 256")
    unpacker = msgpack.Unpacker(raw=False)
    unpacker.feed(content)
    value = unpacker.unpack()
    if any(content[unpacker.tell() :]):
        problems.append("IHSH: padding is not zero")
    if value["algo"] != "blake3-256" or value["covered_ranges"] != [[0, payloads]]:
        problems.append(f"IHSH: {value['algo']} over {value['covered_ranges']}")
    region = bytearray(data[:payloads])
    for i in range(len(chunks)):
        start = HEADER + TOC_HEADER + i * ENTRY + 48
        region[start : start + 32] = bytes(32)
    if digest(bytes(region)) != value["digest"]:
        problems.append("IHSH: the digest differs")


def check_pages(content, chunk, shards, problems):
    value = msgpack.unpackb(content, raw=False)
    shard = shards.get(value["shard_name"])
    if shard is None or chunk["name"] != value["shard_name"] + ".phsh":
        problems.append(f"{chunk['name']}: names {value['shard_name']}")
        return
    size = value["page_size"]
    wanted = [digest(shard[at : at + size]) for at in range(0, len(shard), size)]
    if value["digests"] != wanted:
        problems.append(f"{chunk['name']}: page digests differ")


def read_tensors(content, shards, starts, align, problems):
    tensors, names = [], set()
    for row in msgpack.unpackb(content, raw=False)["tensors"]:
        name, shard_id = row["name"], row["shard_id"]
        if name in names:
            problems.append(f"{name!r}: twice")
        names.add(name)
        shard = shards.get(f"weights.shard{shard_id}")
        end = row["data_off"] + row["data_len"]
        if shard is None or end > len(shard):
            problems.append(f"{name!r}: ends at {end} of shard {shard_id}")
            continue
        data = shard[row["data_off"] : end]
        if (starts[shard_id] + row["data_off"]) % align != 0:
            problems.append(f"{name!r}: not on a multiple of {align}")
        if "hash_b3" in row and row["hash_b3"] != digest(data).hex():
            problems.append(f"{name!r}: hash_b3 differs")
        item = ITEM_BYTES.get(row["dtype"])
        for dimension in row["shape"]:
            item = None if item is None else item * dimension
        if item is not None and item != len(data):
            problems.append(f"{name!r}: {len(data)} bytes, shape and dtype give {item}")
        kept = {key: row[key] for key in ("name", "dtype", "shape", "shard_id", "quant_id", "quant_params") if key in row}
        tensors.append({**kept, "hashed": "hash_b3" in row, "sha256": hashlib.sha256(data).hexdigest()})
    return tensors


def check_manifest(content, chunks, problems):
    value = msgpack.unpackb(content, raw=False)
    if value["format"] != {"name": "AERO", "version": [0, 1]}:
        problems.append(f"MMSG: format is {value['format']}")
    listed = [(row["toc_index"], row["fourcc"]) for row in value["chunks"]]
    if listed != [(i, chunk["fourcc"]) for i, chunk in enumerate(chunks)]:
        problems.append("MMSG: chunks are not those of the TOC")
    for row in value["shards"]:
        chunk = chunks[row["toc_index"]]
        if chunk["name"] != f"weights.shard{row['shard_id']}" or chunk["length"] != row["size_bytes"]:
            problems.append(f"MMSG: shard {row['shard_id']} is not {chunk['name']}")
    return value["model"]


def read_file(path, align):
    problems = []
    with open(path, "rb") as file:
        data = file.read()
    chunks, payloads, uuid = read_toc(data, problems)
    check_places(data, chunks, payloads, problems)
    contents = [content_of(data, chunk, problems) for chunk in chunks]
    weights = [i for i, chunk in enumerate(chunks) if chunk["fourcc"] == "WTSH"]
    shards = {chunks[i]["name"]: contents[i] for i in weights}
    starts = {int(chunks[i]["name"].removeprefix("weights.shard")): chunks[i]["offset"] for i in weights}
    tensors, model, meta = [], None, None
    for chunk, content in zip(chunks, contents):
        match chunk["fourcc"]:
            case "IHSH":
                check_control(data, content, chunks, payloads, problems)
            case "PHSH":
                check_pages(content, chunk, shards, problems)
            case "TIDX":
                tensors = read_tensors(content, shards, starts, align, problems)
            case "MMSG":
                model = check_manifest(content, chunks, problems)
            case "MJSN":
                meta = json.loads(content.decode("ascii"))
    if meta is not None and model != {"name": meta.get("model_name"), "architecture": meta.get("architecture")}:
        problems.append(f"MMSG names the model {model}, MJSN differently")
    listed = [f"{chunk['fourcc']} {chunk['name']}" for chunk in chunks]
    return {"problems": problems, "uuid": uuid.hex(), "chunks": listed, "tensors": tensors, "json": meta}


def main():
    wanted = json.load(sys.stdin)
    print(json.dumps([read_file(row["path"], row["align"]) for row in wanted]))


if __name__ == "__main__":
    main()
