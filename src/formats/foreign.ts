import { startsWith } from "../base/bytes.ts";
import type { Head } from "../model/format.ts";

/** Content that is not a weights file we read, and advice for the user. */
export interface Foreign {
  readonly code: `unsupported/foreign.${string}`;
  /** Completes "This is …". */
  readonly what: string;
  readonly hint: string;
}

interface Signature extends Foreign {
  readonly matches: (head: Head) => boolean;
}

/** Names the foreign content; undefined if it is not known. */
export function recogniseForeign(head: Head): Foreign | undefined {
  return SIGNATURES.find((signature) => signature.matches(head));
}

const loadWith = (program: string): string =>
  `Load it with ${program} and save the arrays with save_file() of the safetensors package`;
const NO_PICKLE = `${loadWith("PyTorch")}. tare never runs pickled code`;
const TAKE_ORIGINAL = "Take the model that it was converted from: SafeTensors, ONNX or GGUF";
const CHECK_NAME = "Check the name: another file was probably meant";
const UNPACK = "Unpack it first, then open the file inside";

/** One of these comes first. Each character is a byte. */
function begins(...marks: readonly string[]): (head: Head) => boolean {
  return has(0, marks);
}

function has(at: number, marks: readonly string[]): (head: Head) => boolean {
  const bytes = marks.map((mark) => Array.from(mark, (c) => c.charCodeAt(0)));
  return (head) => bytes.some((mark) => startsWith(head.bytes, mark, at));
}

/** The beginning as text, lower case, without leading white space: enough to tell a web page from weights. */
function opening(head: Head): string {
  return new TextDecoder("latin1").decode(head.bytes.subarray(0, 512)).trimStart().toLowerCase();
}

const isZip = begins("PK\u0003\u0004");

/** The name of the first file of a zip archive, lower case; empty if the archive has none or this is none. */
function firstInZip(head: Head): string {
  const { bytes } = head;
  if (!isZip(head) || bytes.byteLength < 30) return "";
  const length = (bytes[26] ?? 0) | ((bytes[27] ?? 0) << 8);
  return new TextDecoder("latin1").decode(bytes.subarray(30, 30 + length)).toLowerCase();
}

/** As torch.save() writes it: a folder with data.pkl, or with the version of the archive first. */
const isTorchZip = (head: Head): boolean =>
  /^[^/]*\/(data\.pkl|version|byteorder|\.data\/|\.format_)/.test(firstInZip(head));

/** A map of few keys, the first of which is short text: what Flax makes of a tree of parameters. */
function isMessagePackTree({ bytes }: Head): boolean {
  const [first = 0] = bytes;
  const at = inRange(first, 0x81, 0x8f) ? 1 : first === 0xde ? 3 : undefined;
  if (at === undefined) return false;
  const length = (bytes[at] ?? 0) & 0x1f;
  const key = bytes.subarray(at + 1, at + 1 + length);
  return inRange(bytes[at], 0xa1, 0xbf) && key.byteLength === length && key.every((byte) => inRange(byte, 0x20, 0x7e));
}

/**
 * A Core ML model: specification_version and then a description, which is a message. ONNX has the name of the program
 * that wrote the file in the second place, which is text.
 */
function isCoreMl({ bytes }: Head): boolean {
  const length = (bytes[3] ?? 0) < 0x80 ? 1 : 2;
  return bytes[0] === 0x08 && inRange(bytes[1], 1, 30) && bytes[2] === 0x12 && bytes[3 + length] === 0x0a;
}

/** How much of a file is looked at to call it text. */
const TEXT_BYTES = 4096;

/** Letters of fewer bytes may be a magic that is left of a file. */
const LEAST_TEXT_BYTES = 16;

/** UTF-8 without control characters. A character may be cut at the end of what is looked at. */
function isPlainText({ bytes }: Head): boolean {
  if (bytes.byteLength < LEAST_TEXT_BYTES) return false;
  const begin = bytes.subarray(0, TEXT_BYTES);
  const isControl = (byte: number): boolean =>
    byte === 0x7f || (byte < 0x20 && !inRange(byte, 0x08, 0x0d) && byte !== 0x1b);
  if (begin.some(isControl)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(begin, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** Pickle protocols 2 to 5 begin with PROTO and the version. */
const isPickle = (head: Head): boolean => head.bytes[0] === 0x80 && inRange(head.bytes[1], 2, 5);

function inRange(value: number | undefined, low: number, high: number): boolean {
  return value !== undefined && value >= low && value <= high;
}

/** The first that matches names the content. Their texts are those of the errors too. */
export const SIGNATURES: readonly Signature[] = [
  {
    code: "unsupported/foreign.git-lfs",
    what: "a Git LFS pointer: a few lines of text in place of the real file",
    hint: "Run `git lfs pull` in the repository, or download the file itself",
    matches: (head) => opening(head).startsWith("version https://git-lfs"),
  },
  {
    code: "unsupported/foreign.html",
    what: "an HTML page saved under a model's name, such as a sign-in or error page",
    hint: "Open the link in a browser to see what it says; gated models need a token (HF_TOKEN)",
    matches: (head) => /^(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b/s.test(opening(head)),
  },
  {
    code: "unsupported/foreign.openvino",
    what: "the graph of an OpenVINO model (.xml), whose weights lie in the .bin beside it",
    hint: TAKE_ORIGINAL,
    matches: (head) => /^(<\?xml[^>]*>\s*)?<net\b/.test(opening(head)),
  },
  {
    code: "unsupported/foreign.xml",
    what: "an XML document, such as an object store's error reply",
    hint: "Look at its text: it usually says why the download was refused",
    matches: (head) => /^<(\?xml|error>)/.test(opening(head)),
  },
  {
    code: "unsupported/foreign.pytorch",
    what: "a PyTorch checkpoint (.pt, .pth, .bin): a zip archive with pickled code in it",
    hint: NO_PICKLE,
    matches: isTorchZip,
  },
  {
    code: "unsupported/foreign.npz",
    what: "NumPy arrays in a zip archive (.npz)",
    hint: loadWith("numpy"),
    matches: (head) => firstInZip(head).endsWith(".npy"),
  },
  {
    code: "unsupported/foreign.zip",
    what: "a zip archive",
    hint: UNPACK,
    matches: begins("PK\u0003\u0004", "PK\u0005\u0006"),
  },
  {
    code: "unsupported/foreign.pickle",
    what: "a Python pickle: loading it can run any code its author put in",
    hint: NO_PICKLE,
    matches: isPickle,
  },
  {
    code: "unsupported/foreign.hdf5",
    what: "an HDF5 file (Keras .h5, NetCDF)",
    hint: loadWith("h5py"),
    matches: begins("\u0089HDF\u000d\u000a\u001a\u000a"),
  },
  {
    code: "unsupported/foreign.tflite",
    what: "a TensorFlow Lite model",
    hint: TAKE_ORIGINAL,
    matches: has(4, ["TFL3"]),
  },
  {
    code: "unsupported/foreign.ggml",
    what: "a llama.cpp file from before GGUF (GGML, GGMF, GGJT or a GGLA adapter)",
    hint: "Convert it with the convert_llama_ggml_to_gguf script of llama.cpp, or download a GGUF",
    matches: begins("lmgg", "fmgg", "tjgg", "algg"),
  },
  {
    code: "unsupported/foreign.npy",
    what: "a NumPy array (.npy)",
    hint: loadWith("numpy"),
    matches: begins("\u0093NUMPY"),
  },
  {
    code: "unsupported/foreign.compressed",
    what: "a compressed file (gzip, zstd, xz, bzip2 or 7z)",
    hint: UNPACK,
    matches: begins("\u001f\u008b", "(\u00b5/\u00fd", "\u00fd7zXZ", "BZh", "7z\u00bc\u00af'\u001c"),
  },
  {
    code: "unsupported/foreign.rar",
    what: "a RAR archive",
    hint: UNPACK,
    matches: begins("Rar!\u001a\u0007"),
  },
  {
    code: "unsupported/foreign.sqlite",
    what: "an SQLite database",
    hint: CHECK_NAME,
    matches: begins("SQLite format 3\0"),
  },
  {
    code: "unsupported/foreign.parquet",
    what: "a Parquet file: a table, such as a dataset, and no weights",
    hint: CHECK_NAME,
    matches: begins("PAR1"),
  },
  {
    code: "unsupported/foreign.flax",
    what: "MessagePack, as Flax keeps weights (flax_model.msgpack)",
    hint: loadWith("flax"),
    matches: isMessagePackTree,
  },
  {
    code: "unsupported/foreign.coreml",
    what: "a Core ML model (.mlmodel)",
    hint: TAKE_ORIGINAL,
    matches: isCoreMl,
  },
  {
    code: "unsupported/foreign.aerocorrect",
    what: "an .aerocorrect sidecar: parity of the file beside it",
    hint: "Use it with tare correct verify and tare correct repair, or with tare vault repair where it is of a vault",
    matches: begins("AEROCORR"),
  },
  {
    code: "unsupported/foreign.tar",
    what: "a tar archive",
    hint: UNPACK,
    matches: has(257, ["ustar"]),
  },
  {
    code: "unsupported/foreign.json",
    what: "a JSON document that is no index of a model, such as a config.json or an error reply",
    hint: "Open the weights beside it, or the model's directory",
    matches: (head) => /^(\{\s*["}]|\[\s*[[{"\d])/.test(opening(head)),
  },
  {
    code: "unsupported/foreign.other",
    what: "a picture, document or program, not weights",
    hint: CHECK_NAME,
    matches: begins("%PDF", "\u0089PNG", "\u007fELF", "#!/"),
  },
  {
    code: "unsupported/foreign.utf-16",
    what: "text in UTF-16, as some editors and shells save it",
    hint: `Save it as UTF-8 if it is an index. ${CHECK_NAME}`,
    matches: begins("\u00ff\u00fe", "\u00fe\u00ff"),
  },
  {
    code: "unsupported/foreign.text",
    what: "plain text",
    hint: `${CHECK_NAME}, or the server sent a message in place of the model`,
    matches: isPlainText,
  },
];
