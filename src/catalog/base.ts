import type { ErrorCatalog } from "../base/errors.ts";

/** Errors that belong to no single format: arithmetic, limits, and mistakes of callers. */
export const BASE_ERRORS = {
  "limit/integer": {
    what: "A 64-bit field holds a number above 2^53 - 1.",
    why: "No real file is that long; such a value is damage or an attack on readers that cut it down.",
    fix: "Get another copy of the file.",
  },
  "format/overflow": {
    what: "Adding or multiplying numbers from the file exceeds 2^53 - 1.",
    why: "Readers that let this wrap end up with a small size for a huge tensor.",
    fix: "Get another copy of the file.",
  },
  "limit/budget": {
    what: "An operation would hold more bytes in memory than it is allowed.",
    why: "Memory is bounded whatever the file says.",
    fix: "Raise --memory, or ask for fewer rows or tensors.",
  },
} as const satisfies ErrorCatalog;

/** Errors of fixed-layout records for which a format has no code of its own. */
export const STRUCT_ERRORS = {
  "format/struct": {
    what: "A fixed-length record is cut short, or a field that has only one legal value holds another.",
    why: "The record's table is exact: reading on would give wrong offsets for everything after it.",
    fix: "Get another copy of the file.",
  },
  "usage/struct": {
    what: "A value does not fit the field it should be written to, or a record's table is inconsistent.",
    why: "Cutting the value down would write a file that says something else.",
    fix: "This is a mistake in the program, not in the file: report it.",
  },
} as const satisfies ErrorCatalog;

/** What strict JSON refuses, in any format. */
export const JSON_ERRORS = {
  "format/json.utf8": {
    what: "JSON text holds bytes that are not UTF-8.",
    why: "JSON inside model files is UTF-8 by specification; other bytes are damage or another encoding.",
    fix: "Get another copy of the file, or write it again as UTF-8.",
  },
  "format/json.syntax": {
    what: "JSON text breaks the grammar of RFC 8259.",
    why: "Two readers that forgive differently would see two different files, so nothing is forgiven.",
    fix: "Write the JSON again with a real JSON writer, or get another copy of the file.",
  },
  "format/json.duplicate-key": {
    what: "A JSON object has the same key twice.",
    why: "Readers disagree on which of the two counts, which is how one file shows two faces.",
    fix: "Remove one of the two.",
  },
  "format/json.object": {
    what: "A JSON text is something else than an object.",
    why: "Its members are taken as keys and values; a list, a number or nothing at all has none.",
    fix: 'Write it as one object: {"key": value, …}',
  },
  "limit/json.depth": {
    what: "JSON arrays and objects are nested deeper than 127 levels.",
    why: "Deep nesting serves only to exhaust the stack of a reader; 127 is what common readers accept.",
    fix: "Flatten the value.",
  },
  "limit/json.values": {
    what: "JSON text holds more values than this reader builds in memory.",
    why: "Two bytes of text can become sixty bytes of memory, so the count is bounded whatever the length.",
    fix: "Split the document, or raise the limit where you call the parser.",
  },
} as const satisfies ErrorCatalog;

/** Errors of the engine: the table of hashes, checksums and later primitives. */
export const PRIMITIVE_ERRORS = {
  "unsupported/engine.primitive": {
    what: "No implementation of an algorithm works on this machine.",
    why: "Each one is tried with an input whose result is known; none loaded and gave that result.",
    fix: "Run `tare doctor`, and use --engine portable if another engine was chosen.",
  },
  "unsupported/engine.native": {
    what: "The native engine was asked for, but a part of it is missing.",
    why: "Native parts are optional packages with binaries for common platforms; this one has none, or it was left out.",
    fix: "Use --engine auto, which takes what is there, or reinstall with optional dependencies.",
  },
  "usage/engine.range": {
    what: "A range to hash has an offset or a length that is not a whole number from 0 up.",
    why: "Such a range names no bytes.",
    fix: "Pass the offset and byteLength of an extent inside the source.",
  },
  "format/zstd.frame": {
    what: "Compressed bytes are not one whole zstd frame.",
    why: "They are cut short or damaged, need a dictionary, or have something before or after the frame.",
    fix: "Get another copy of the file.",
  },
  "format/zstd.size": {
    what: "A zstd frame gives more or fewer bytes than the file says.",
    why: "One of the two is damaged, or the frame was crafted to break readers.",
    fix: "Get another copy of the file.",
  },
  "format/deflate.stream": {
    what: "Compressed bytes are not one whole deflate stream.",
    why: "They are damaged or cut short, or something follows the stream.",
    fix: "Get another copy of the file.",
  },
  "limit/deflate.output": {
    what: "A deflate stream would give more bytes than the file says.",
    why: "A few bytes can expand a thousandfold; the output is limited whatever the stream says.",
    fix: "Do not trust the file.",
  },
  "usage/aes.blocks": {
    what: "AES was given a key that is not 32 bytes long, or something that is not whole blocks.",
    why: "Modes are built of whole blocks of 16 bytes.",
    fix: "Pass a key of 32 bytes and a multiple of 16 bytes.",
  },
  "usage/aes.siv": {
    what: "AES-SIV was given a key that is not 64 bytes long.",
    why: "One half authenticates, the other enciphers.",
    fix: "Pass a key of 64 bytes.",
  },
  "usage/chacha20-poly1305": {
    what: "ChaCha20-Poly1305 was given a key or nonce of another length than it has.",
    why: "Keys have 32 bytes, nonces 12.",
    fix: "Pass a key of 32 bytes and a nonce of 12.",
  },
  "format/lz4.block": {
    what: "A compressed block is no LZ4 block, or holds another number of bytes than the file says.",
    why: "It is damaged or cut short, or was crafted to break readers.",
    fix: "Get another copy of the file.",
  },
  "integrity/zstd.checksum": {
    what: "The checksum of a zstd frame does not match its content.",
    why: "The bytes are not the ones that were compressed.",
    fix: "Get another copy of the file.",
  },
  "limit/zstd.output": {
    what: "A zstd frame would give more bytes than are allowed.",
    why: "A few bytes can expand without bound; the output is limited whatever the frame says.",
    fix: "Raise the limit if you trust this file.",
  },
  "limit/zstd.window": {
    what: "A zstd frame asks its reader to keep a window above 128 MiB.",
    why: "Memory is bounded whatever the frame says; common levels of zstd stay below.",
    fix: "Compress the file again without a long window.",
  },
  "usage/zstd.level": {
    what: "A zstd level is not a whole number from 1 to 22.",
    why: "There is no such level.",
    fix: "Pass a level from 1 to 22, or none.",
  },
  "usage/zstd.limit": {
    what: "Decompression was given no sensible limit for its output.",
    why: "Nothing is decompressed without a bound.",
    fix: "Pass maxBytes from 0 up.",
  },
  "format/msgpack.truncated": {
    what: "MessagePack ends in the middle of a value, or announces more entries than bytes are left.",
    why: "Counts and lengths are checked before anything is made of them, so a short file cannot ask for much memory.",
    fix: "Get another copy of the file.",
  },
  "format/msgpack.type": {
    what: "A MessagePack value has another type than its field, such as bytes where text is due.",
    why: "Guessing what was meant would give another reading than other programs have.",
    fix: "Get another copy of the file, or write it again with a program that keeps to the format.",
  },
  "format/msgpack.text": {
    what: "Text in MessagePack is not UTF-8.",
    why: "The specification has only UTF-8 text; bytes have a type of their own.",
    fix: "Get another copy of the file, or write it again with a program that keeps to the format.",
  },
  "format/msgpack.duplicate-key": {
    what: "A MessagePack map has the same key twice.",
    why: "Readers differ in which of the two they take, so one file would mean two things.",
    fix: "Write the file again with every key once.",
  },
  "format/msgpack.trailing": {
    what: "Bytes follow the one MessagePack value that should fill its place.",
    why: "Readers differ in whether they look at them, so something could hide there.",
    fix: "Get another copy of the file, or write it again.",
  },
  "limit/msgpack.depth": {
    what: "MessagePack nests arrays and maps deeper than is allowed.",
    why: "Depth costs stack; real metadata has a few levels.",
    fix: "Write the file again with flatter metadata.",
  },
  "limit/msgpack.values": {
    what: "MessagePack metadata holds more values than is allowed.",
    why: "Each value costs many times its bytes once it is in memory.",
    fix: "Raise the limit if you trust this file.",
  },
  "usage/msgpack.value": {
    what: "A value has no MessagePack form: an integer beyond 64 bits, or text with half a surrogate pair.",
    why: "Cutting it down would write a file that says something else.",
    fix: "Pass a value that MessagePack can hold.",
  },
  "usage/argon2": {
    what: "Argon2id was called with parameters that it does not have.",
    why: "Memory must be at least 8 KiB a lane and the salt 8 bytes; far more than any machine has is not tried.",
    fix: "Pass parameters that RFC 9106 allows.",
  },
  "limit/argon2.memory": {
    what: "There is not enough memory to derive a key from a password.",
    why: "Argon2id takes as much memory as its parameters say, so that guessing passwords costs much; 128 MiB for a vault.",
    fix: "Close other programs or pages, or use a machine with more memory.",
  },
  "usage/gcm-siv": {
    what: "AES-256-GCM-SIV was given bytes of another length than it has, or a key that was wiped.",
    why: "RFC 8452 has keys of 32 bytes and nonces of 12, and a sealed message is 16 bytes longer.",
    fix: "Pass bytes of those lengths, and make the key ready again after wiping it.",
  },
  "usage/blake3.key": {
    what: "The keyed mode of BLAKE3 was given a key of another length than 32 bytes.",
    why: "There is only this one length.",
    fix: "Pass a key of 32 bytes, or derive one.",
  },
  "usage/gear.rule": {
    what: "A rule for cutting streams by their content contradicts itself.",
    why: "It needs 256 numbers, an average that is a power of two, and a minimum from 64 bytes up to the maximum.",
    fix: "Pass a rule that keeps to this.",
  },
  "usage/reed-solomon": {
    what: "An erasure code was asked for with impossible counts, or its shards have different lengths.",
    why: "Every shard needs an element of its own of a field with 256, and shards are combined byte by byte.",
    fix: "Pass at least one data and one parity shard, at most 256 together, all of one length.",
  },
  "usage/key.pem": {
    what: "A key file is not PEM, or holds the other half of a pair.",
    why: "A private key signs and a public key verifies; each has a heading of its own.",
    fix: "Pass NAME.key to `tare sign --key` and NAME.pub to `tare verify --public-key`.",
  },
  "unsupported/key.form": {
    what: "A key file is encrypted or in OpenSSH's own form.",
    why: "Only unencrypted PKCS#8 is read.",
    fix: "Convert the key with `openssl pkey`, or make one with `tare keygen`.",
  },
  "unsupported/key.algorithm": {
    what: "A key is not one of Ed25519.",
    why: "Signatures here are Ed25519 only, so that no reader needs to choose.",
    fix: "Make a pair with `tare keygen -o NAME`.",
  },
} as const satisfies ErrorCatalog;
