import type { ErrorJson } from "../../src/base/errors.ts";
import type { ArchiveStorage } from "../../src/model/archive.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { DTypeShare, ModelDescription, TensorSummary } from "../../src/operations/inspect.ts";
import type { ReaderCalls } from "./calls.ts";

/** A file that was dropped or chosen, with its path inside the folder it came from. */
export interface ChosenFile {
  readonly path: string;
  readonly file: File;
}

/** The content to open. */
export type OpenRequest =
  | { readonly kind: "files"; readonly files: readonly ChosenFile[]; readonly primary?: string | undefined }
  | { readonly kind: "url"; readonly url: string; readonly allowOrigins: readonly string[] }
  /** A file inside a vault that is already open. */
  | { readonly kind: "entry"; readonly target: number; readonly path: string };

export type OpenReply =
  | { readonly kind: "opened"; readonly overview: Overview }
  /** Several whole models among the files: the user has to choose one. */
  | { readonly kind: "choose"; readonly candidates: readonly string[] };

/** One line of metadata, short enough to be shown as it is. */
export interface MetadataLine {
  readonly key: string;
  readonly type: string;
  readonly text: string;
  /** Members or elements; absent for plain values. */
  readonly length?: number | undefined;
}

export interface FileFacts {
  readonly label: string;
  readonly byteLength: number;
  /** Of a file whose end is missing, how much of it is there. */
  readonly presentBytes?: number | undefined;
}

/** The contents of the first page. Everything comes from the control region; no weights are read for it. */
export interface Overview {
  /** Identifies the opened content in further calls. */
  readonly target: number;
  readonly label: string;
  /** "unreadable" if the content could not be understood; its bytes can still be viewed. */
  readonly kind: "model" | "archive" | "unreadable";
  readonly formatName: string;
  readonly format: string;
  readonly version: string | undefined;
  readonly byteLength: number;
  readonly files: readonly FileFacts[];
  readonly tensorCount?: number | undefined;
  readonly parameterCount?: number | undefined;
  readonly entryCount?: number | undefined;
  readonly quantization?: string | undefined;
  readonly bitsPerWeight?: number | undefined;
  readonly description: ModelDescription;
  readonly dtypes: readonly DTypeShare[];
  readonly largest: readonly TensorSummary[];
  readonly facts: readonly (readonly [string, string])[];
  readonly warnings: readonly Finding[];
  readonly integrity: "digests" | "none";
  readonly metadata: readonly MetadataLine[];
  readonly metadataCount: number;
  readonly storage?: ArchiveStorage | undefined;
  /** Whether it can embed sentences. */
  readonly embeds: "yes" | "no";
  /** Why the content was not understood, or why only a part of it is there. */
  readonly error?: ErrorJson | undefined;
  readonly cost: { readonly requests: number; readonly bytes: number };
}

export type CallName = keyof ReaderCalls;
export type CallRequest<N extends CallName> = ReaderCalls[N]["request"];
export type CallResult<N extends CallName> = ReaderCalls[N]["result"];
export type CallProgress<N extends CallName> = ReaderCalls[N]["progress"];

/** From the page to the reader. */
export type ToReader =
  | { readonly type: "call"; readonly id: number; readonly name: CallName; readonly request: unknown }
  | { readonly type: "cancel"; readonly id: number }
  /** The answer to "ask"; undefined if the user declined. */
  | { readonly type: "answer"; readonly id: number; readonly password: Uint8Array<ArrayBuffer> | undefined };

/** From the reader to the page: for each call any number of progress messages and exactly one end. */
export type FromReader =
  | { readonly type: "progress"; readonly id: number; readonly progress: unknown }
  | { readonly type: "done"; readonly id: number; readonly result: unknown }
  | { readonly type: "failed"; readonly id: number; readonly error: ErrorJson }
  /** A password is needed for the label. The id belongs to the question. */
  | { readonly type: "ask"; readonly id: number; readonly label: string };

/** The kinds of runs of bytes; the table stores the index. */
export const KINDS = ["header", "metadata", "index", "tensor", "data", "integrity", "padding", "gap"] as const;
export type Kind = (typeof KINDS)[number];

/** Redirects that the policy of the page blocks: the reader notices them, and the page asks where they lead. */

/** What the page asks the worker that follows redirects, and its answer: an origin, or none if no reply came. */
export interface RedirectQuestion {
  readonly url: string;
}
export interface RedirectAnswer {
  readonly origin: string | undefined;
}

export const BLOCKED = "source/http.blocked-redirect";

/**
 * A worker that is loaded from an address has the policy that its server sends with it, and static servers send none. A
 * worker from a blob inherits the policy of the page that starts it (CSP 3, "Policy inheritance"). So all our workers
 * start from a blob that imports the script.
 */
export function inheritingScript(script: URL): string {
  return URL.createObjectURL(new Blob([`import ${JSON.stringify(script.href)};`], { type: "text/javascript" }));
}

/** The short name of a file: without folder, server, and the vaults around it. */
export function lastName(label: string): string {
  const inner = label.slice(label.lastIndexOf("::") + 1).replace(/^:/, "");
  const path = inner.replace(/[?#].*$/, "");
  return path.slice(path.lastIndexOf("/") + 1) || label;
}

/** Elements per row if a tensor of one dimension is shown as a plane. */
const WRAPPED_COLUMNS = 256;

/** Two dimensions of a tensor; `start` is its first element. */
export interface Plane {
  readonly rows: number;
  readonly columns: number;
  readonly start: number;
}

/** The plane of the last two dimensions at the given indices of the others. A single dimension is wrapped into rows. */
export function planeOf(shape: readonly number[], leading: readonly number[]): Plane {
  if (shape.length < 2) {
    const count = shape[0] ?? 1;
    const columns = Math.max(1, Math.min(count, WRAPPED_COLUMNS));
    return { rows: Math.ceil(count / columns), columns, start: 0 };
  }
  const rows = shape.at(-2) ?? 1;
  const columns = shape.at(-1) ?? 1;
  let index = 0;
  for (let i = 0; i < shape.length - 2; i++) index = index * (shape[i] ?? 1) + (leading[i] ?? 0);
  return { rows, columns, start: index * rows * columns };
}

/** Up to `most` positions of `count` from `first` on, evenly spread. */
export function sampleAxis(first: number, count: number, most: number): Uint32Array {
  const taken = Math.max(0, Math.min(count, most));
  return Uint32Array.from({ length: taken }, (_, i) => first + Math.floor(((i + 0.5) * count) / taken));
}
