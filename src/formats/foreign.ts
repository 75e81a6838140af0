import { startsWith } from "../base/bytes.ts";
import type { ErrorCatalog } from "../base/errors.ts";
import { encodeHex } from "../base/text.ts";
import type { Head } from "../model/format.ts";

/** Something that is not a weights file we read, and what to tell the person who has it. */
export interface Foreign {
  readonly code: `unsupported/foreign.${string}`;
  /** Completes "This is …". */
  readonly what: string;
  readonly hint: string;
}

interface Signature extends Foreign {
  readonly matches: (head: Head) => boolean;
}

/** Names the foreign content, or undefined where nothing is known about it. */
export function recogniseForeign(head: Head): Foreign | undefined {
  return SIGNATURES.find((signature) => signature.matches(head));
}

/** What to say of content that is none of these either. */
export function describeUnknown(head: Head): string {
  const shown = encodeHex(head.bytes.slice(0, 8)).replace(/(..)(?=.)/g, "$1 ");
  return `Cannot recognise the content: ${head.byteLength} bytes that begin with ${shown}`;
}

const CONVERT_ONCE = "Convert it where it was made: load it with PyTorch and save_file() of the safetensors package";
const UNPACK = "Unpack it first, then open the file inside";

const magic =
  (bytes: readonly number[], at = 0) =>
  (head: Head): boolean =>
    startsWith(head.bytes, bytes, at);

const ascii = (text: string, at = 0): ((head: Head) => boolean) =>
  magic(
    [...text].map((c) => c.charCodeAt(0)),
    at,
  );

/** The beginning as text, lower case, without leading white space: enough to tell a web page from weights. */
function opening(head: Head): string {
  return new TextDecoder("latin1").decode(head.bytes.subarray(0, 512)).trimStart().toLowerCase();
}

/** Pickle protocols 2 to 5 begin with PROTO and the version. */
const isPickle = (head: Head): boolean => head.bytes[0] === 0x80 && inRange(head.bytes[1], 2, 5);

function inRange(value: number | undefined, low: number, high: number): boolean {
  return value !== undefined && value >= low && value <= high;
}

const SIGNATURES: readonly Signature[] = [
  {
    code: "unsupported/foreign.git-lfs",
    what: "a Git LFS pointer: a few lines of text that stand for the real file",
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
    code: "unsupported/foreign.xml",
    what: "an XML document, such as an object store's error reply",
    hint: "Look at its text: it usually says why the download was refused",
    matches: (head) => /^<(\?xml|error>)/.test(opening(head)),
  },
  {
    code: "unsupported/foreign.zip",
    what: "a zip archive: PyTorch (.pt, .pth, .bin) keeps pickled code in one, Keras and NumPy use it too",
    hint: `${CONVERT_ONCE}. tare never runs pickled code`,
    matches: (head) => magic([0x50, 0x4b, 0x03, 0x04])(head) || magic([0x50, 0x4b, 0x05, 0x06])(head),
  },
  {
    code: "unsupported/foreign.pickle",
    what: "a Python pickle: loading it can run any code its author put in",
    hint: `${CONVERT_ONCE}. tare never runs pickled code`,
    matches: isPickle,
  },
  {
    code: "unsupported/foreign.hdf5",
    what: "an HDF5 file (Keras .h5, NetCDF)",
    hint: "Load it with h5py and save the arrays with save_file() of the safetensors package",
    matches: magic([0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a]),
  },
  {
    code: "unsupported/foreign.tflite",
    what: "a TensorFlow Lite model",
    hint: "Export the weights of the original model as SafeTensors instead",
    matches: ascii("TFL3", 4),
  },
  {
    code: "unsupported/foreign.ggml",
    what: "a llama.cpp file from before GGUF (GGML, GGMF, GGJT or a GGLA adapter)",
    hint: "Convert it with the convert_llama_ggml_to_gguf script of llama.cpp, or download a GGUF",
    matches: (head) => ["lmgg", "fmgg", "tjgg", "algg"].some((text) => ascii(text)(head)),
  },
  {
    code: "unsupported/foreign.npy",
    what: "a NumPy array (.npy)",
    hint: "Load it with numpy and save it with save_file() of the safetensors package",
    matches: magic([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]),
  },
  {
    code: "unsupported/foreign.compressed",
    what: "a compressed file (gzip, zstd, xz, bzip2 or 7z)",
    hint: UNPACK,
    matches: (head) =>
      magic([0x1f, 0x8b])(head) ||
      magic([0x28, 0xb5, 0x2f, 0xfd])(head) ||
      magic([0xfd, 0x37, 0x7a, 0x58, 0x5a])(head) ||
      ascii("BZh")(head) ||
      magic([0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c])(head),
  },
  {
    code: "unsupported/foreign.aerocorrect",
    what: "an .aerocorrect sidecar: parity of the file beside it",
    hint: "Use it with tare correct verify and tare correct repair, or with tare vault repair where it is of a vault",
    matches: ascii("AEROCORR"),
  },
  {
    code: "unsupported/foreign.tar",
    what: "a tar archive",
    hint: UNPACK,
    matches: ascii("ustar", 257),
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
    hint: "Check the name: another file was probably meant",
    matches: (head) =>
      ascii("%PDF")(head) || ascii("\u0089PNG")(head) || magic([0x7f, 0x45, 0x4c, 0x46])(head) || ascii("#!/")(head),
  },
];

/** Printed by `tare explain`; made from the signatures so that no advice is written twice. */
export const FOREIGN_ERRORS: ErrorCatalog = Object.fromEntries(
  SIGNATURES.map((signature) => [
    signature.code,
    {
      what: `The file is ${signature.what}.`,
      why: "tare recognised the content by its first bytes; it is not one of the formats it reads.",
      fix: `${signature.hint}.`,
    },
  ]),
);
