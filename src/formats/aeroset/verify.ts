import type { Bytes } from "../../base/bytes.ts";
import { isTareError, LimitError } from "../../base/errors.ts";
import { encodeHex, printable } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { FOURCC } from "../aero/layout.ts";
import type { AeroModel } from "../aero/model.ts";
import { verifyAero } from "../aero/verify.ts";
import { tensorError } from "../aero/weights/hashed-tensor.ts";
import { JOB_EXTENTS, MAX_SHARING } from "../aero/weights/verify-shards.ts";
import { type SetModel, setModel } from "./model.ts";
import type { GlobalEntry } from "./part-tensors.ts";
import { labelOf, type PartFile } from "./parts.ts";
import type { ParsedSetFile, SetEntry } from "./set-file.ts";

type Locate = ParsedSetFile["locate"];

/** A file of the set and what the JSON says about it. */
export interface StatedFile {
  /** `key` is the path of the entry in the JSON. */
  readonly entry: SetEntry & { readonly key: string };
  readonly source: Source;
}

/** A running comparison. */
export interface FileCheck {
  /** Waits for the hashing, whether it succeeds or not. */
  settled(): Promise<void>;
  /** The findings; throws if hashing failed. */
  findings(): AsyncIterable<Finding>;
}

/** Compares the size of a whole file and, at level full, its SHA-256 with the JSON. Hashing begins at once. */
function startFileCheck(model: SetModel, file: StatedFile, context: VerifyContext): FileCheck {
  const { locate } = model.content.file;
  const { entry, source } = file;
  const isRightSize = entry.sizeBytes === undefined || entry.sizeBytes === source.byteLength;
  // A file of the wrong length cannot have the right digest.
  const isHashed = context.level === "full" && entry.sha256 !== undefined && isRightSize;
  const digest = isHashed ? hash(source, context) : undefined;
  digest?.catch(() => undefined); // thrown by findings(); until then it must not count as unhandled
  return {
    async settled() {
      await Promise.allSettled([digest]);
    },
    async *findings() {
      if (!isRightSize) yield wrongSize(file, locate);
      if (digest === undefined) {
        yield* notHashed(file, locate, context);
        return;
      }
      context.count("fileDigests");
      const found = await digest;
      if (found !== entry.sha256) yield wrongDigest(file, locate, found);
    },
  };
}

async function hash(source: Source, { engine, signal }: VerifyContext): Promise<string> {
  const { byteLength } = source;
  return encodeHex(await engine.digestRange("sha256", source, { offset: 0, byteLength, signal }));
}

function* notHashed({ entry, source }: StatedFile, locate: Locate, context: VerifyContext): Generator<Finding> {
  const name = labelOf(entry.path);
  if (context.level !== "full" && context.reach !== "remote") return;
  if (entry.sha256 === undefined) {
    const message = `The set states no SHA-256 for "${printable(name)}": the whole file was not compared with anything`;
    const at = locate(entry.sha256 ?? entry.path, `${entry.key}.sha256`);
    yield { severity: "note", code: "integrity/aeroset.no-sha256", message, at, name };
  } else if (context.reach === "remote") {
    const message = `The SHA-256 and the weights of "${printable(name)}" were not checked: that needs all ${source.byteLength} bytes`;
    const at = locate(entry.sha256 ?? entry.path, `${entry.key}.sha256`);
    yield { severity: "note", code: "integrity/not-checked", message, at, name };
  }
}

function wrongSize({ entry, source }: StatedFile, locate: Locate): Finding {
  const name = labelOf(entry.path);
  return {
    severity: "error",
    code: "integrity/aeroset.size",
    message: `"${printable(name)}" is not the file of the set: size_bytes must be ${entry.sizeBytes}, found ${source.byteLength}`,
    at: locate(entry.path, `${entry.key}.size_bytes`),
    name,
    hint: "Download the file again",
  };
}

export function wrongDigest({ entry, source }: StatedFile, locate: Locate, found: string): Finding {
  const name = labelOf(entry.path);
  return {
    severity: "error",
    code: "integrity/aeroset.sha256",
    message: `"${printable(name)}" is not the file of the set: SHA-256 of its ${source.byteLength} bytes must be ${entry.sha256}, found ${found}`,
    at: locate(entry.sha256 ?? entry.path, `${entry.key}.sha256`),
    name,
    hint: "Download the file again",
  };
}

/** Checks that an open part holds what the global index says: names, types, shapes, lengths, digests, shard numbers. */
function* verifyAgreement(model: SetModel, part: PartFile, numbers: readonly number[]): Generator<Finding> {
  const opened = part.model;
  if (opened === undefined) return;
  yield* verifyShardCount(part, opened);
  const order = new Map(part.entry.shards.map((shard, k) => [shard, k]));
  const oddities = new Oddities(opened);
  for (const number of numbers) {
    const entry = model.content.entries[number] as GlobalEntry;
    try {
      const { ownShard } = model.place(number);
      if (ownShard === undefined) oddities.add("format/aeroset.unindexed-tensor", entry.name);
      else if (ownShard !== entry.shardId && ownShard !== order.get(entry.shardId)) {
        oddities.add("format/aeroset.shard-number", entry.name);
      }
    } catch (error) {
      if (!isTareError(error)) throw error;
      yield { ...findingFromError(error), name: entry.name };
    }
  }
  const listed = new Set(numbers.map((number) => model.content.entries[number]?.name));
  for (const { name } of opened.tensors) if (!listed.has(name)) oddities.add("format/aeroset.unlisted-tensor", name);
  yield* oddities.findings();
}

function* verifyShardCount(part: PartFile, opened: AeroModel): Generator<Finding> {
  const { toc } = opened.content.control;
  const found = toc.chunks.filter((chunk) => chunk.fourcc === FOURCC.weights).length;
  const wanted = part.entry.shards.length;
  if (found === wanted) return;
  const message = `"${printable(part.label)}" must hold the ${wanted} shards that the set lists for it, found ${found}`;
  const at = { source: opened.content.source.label, offset: 0, path: "toc" };
  yield { severity: "error", code: "format/aeroset.shard-count", message, at, name: part.label };
}

const TEXTS = {
  "format/aeroset.unindexed-tensor": "that the set lists and the part's own index does not",
  "format/aeroset.shard-number": "whose shard number in the part is neither the global one nor its place there",
  "format/aeroset.unlisted-tensor": "that the part holds and the set does not list there",
} as const;

/** One line for each kind, however many tensors have it. */
class Oddities {
  readonly #rows = new Map<keyof typeof TEXTS, { count: number; readonly first: string }>();
  readonly #opened: AeroModel;

  constructor(opened: AeroModel) {
    this.#opened = opened;
  }

  add(code: keyof typeof TEXTS, name: string): void {
    const row = this.#rows.get(code);
    if (row === undefined) this.#rows.set(code, { count: 1, first: name });
    else row.count++;
  }

  *findings(): Generator<Finding> {
    const { source, indexChunk } = this.#opened.content;
    for (const [code, { count, first }] of this.#rows) {
      const message = `${count} ${count === 1 ? "tensor" : "tensors"} ${TEXTS[code]}, the first is "${printable(first)}"`;
      const at = { source: source.label, offset: indexChunk?.offset ?? 0, path: "tensors" };
      yield { severity: "warning", code, message, at, name: first };
    }
  }
}

interface HashTask {
  readonly context: VerifyContext;
  readonly numbers: readonly number[];
}

/** A digest in the global index for a tensor that has none in the part. */
interface Row {
  readonly name: string;
  readonly hash: string;
  readonly offset: number;
  readonly byteLength: number;
}

/** Checks digests that only the global index has; those that the part has too are already compared with its bytes. */
async function* verifyGlobalHashes(model: SetModel, part: PartFile, task: HashTask): AsyncGenerator<Finding> {
  const { context, numbers } = task;
  const source = part.model?.content.source;
  if (source === undefined) return;
  const rows = numbers.flatMap((number) => rowOf(model, number));
  const total = rows.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (total > MAX_SHARING * source.byteLength) {
    yield findingFromError(tooMuch(total, part, source.byteLength));
    return;
  }
  for (let start = 0; start < rows.length; start += JOB_EXTENTS) {
    const job = rows.slice(start, start + JOB_EXTENTS);
    const extents = job.map(({ offset, byteLength }) => ({ offset, byteLength }));
    const digests = await context.engine.digestExtents("blake3", source, extents, { signal: context.signal });
    context.count("tensorHashes", job.length);
    for (const [i, row] of job.entries()) {
      const found = encodeHex(digests[i] as Bytes);
      if (found === row.hash) continue;
      yield { ...findingFromError(tensorError({ ...row, label: source.label }, found)), name: row.name };
    }
  }
}

function rowOf(model: SetModel, number: number): Row[] {
  const { name, hash } = model.content.entries[number] as GlobalEntry;
  if (hash === undefined) return [];
  try {
    const { tensor, ownHash } = model.place(number);
    if (ownHash !== undefined) return [];
    return [{ name, hash, offset: tensor.offset, byteLength: tensor.storedByteLength }];
  } catch (error) {
    if (isTareError(error)) return []; // verifyAgreement reports it
    throw error;
  }
}

function tooMuch(total: number, part: PartFile, fileBytes: number): LimitError {
  const message = `Cannot hash the tensors of "${part.label}": they share bytes ${Math.ceil(total / Math.max(1, fileBytes))} times over, must be <= ${MAX_SHARING}`;
  return new LimitError("limit/aeroset.tensor-sharing", message, { source: part.label, offset: 0, path: "tensors" });
}

/** Problems that opening tolerates and that are errors in a set to be relied on. */
const GRAVE: ReadonlySet<string> = new Set([
  "format/aeroset.repeated-shard",
  "format/aeroset.missing-shard",
  "format/aeroset.sha256",
]);

/** Yields findings as they arise; a missing or broken part does not hide the others. */
async function* verifyAeroset(model: SetModel, given: VerifyContext): AsyncGenerator<Finding> {
  // Level "control" covers everything that can be known without the weights.
  const context: VerifyContext = given.reach === "remote" ? { ...given, level: "control" } : given;
  const { entries, warnings, partFiles } = model.content;
  context.count("tensors", entries.length);
  for (const finding of warnings) if (GRAVE.has(finding.code)) yield { ...finding, severity: "error" };
  yield* verifyIndex(model, context);
  if (context.level === "quick") return;
  const numbers = numbersByPart(model);
  for (const part of partFiles) {
    yield* verifyPart(model, part, { context, numbers: numbers.get(part) ?? [] });
  }
}

async function* verifyIndex(model: SetModel, context: VerifyContext): AsyncGenerator<Finding> {
  const { index, file } = model.content;
  const entry = { ...file.globalIndex, key: "global_tidx" };
  // The index is read whole in any case, so its digest costs nothing more, even over a network.
  const level = context.reach === "remote" ? "full" : context.level;
  const check = startFileCheck(model, { entry, source: index.content.source }, { ...context, level, reach: undefined });
  try {
    for await (const finding of verifyAero(index, insideSet(context))) {
      // The index of a set has no weights, and is complete without them.
      if (finding.code !== "format/aero.missing-shard") yield finding;
    }
  } finally {
    await check.settled();
  }
  yield* check.findings();
}

/** The set counts its tensors once, by its index. */
function insideSet(context: VerifyContext): VerifyContext {
  const { count } = context;
  return {
    ...context,
    count: (what, by) => {
      if (what !== "tensors") count(what, by);
    },
  };
}

interface PartTask {
  readonly context: VerifyContext;
  /** Entries of the global index that the part should hold. */
  readonly numbers: readonly number[];
}

async function* verifyPart(model: SetModel, part: PartFile, task: PartTask): AsyncGenerator<Finding> {
  try {
    yield* verifyOpened(model, part, task);
    task.context.count("parts");
  } catch (error) {
    if (!isTareError(error)) throw error;
    const lost = task.numbers.length;
    const tensors = lost === 0 ? "" : ` (${lost} ${lost === 1 ? "tensor" : "tensors"})`;
    const finding = findingFromError(error);
    yield { ...finding, message: finding.message + tensors, name: part.label };
  }
}

async function* verifyOpened(model: SetModel, part: PartFile, { context, numbers }: PartTask): AsyncGenerator<Finding> {
  const file = await part.open();
  const { source } = file.content;
  yield* file.warnings;
  const entry = { ...part.entry, key: `parts[${part.number}]` };
  // SHA-256 and the digests inside the file both need every byte, so they run at the same time, in workers.
  const check = startFileCheck(model, { entry, source }, context);
  try {
    yield* verifyAero(file, insideSet(context));
    yield* verifyAgreement(model, part, numbers);
    if (context.level === "full") yield* verifyGlobalHashes(model, part, { context, numbers });
  } finally {
    await check.settled();
  }
  yield* check.findings();
  // If there is a digest of the whole file, the check above has already said what is needed.
  const isSaid = part.entry.sha256 !== undefined;
  if (context.reach === "remote" && !isSaid) yield weightsNotChecked(part, source.byteLength);
}

function weightsNotChecked(part: PartFile, byteLength: number): Finding {
  const message = `The weights of "${printable(part.label)}" were not compared with their digests: that needs all ${byteLength} bytes`;
  return { severity: "note", code: "integrity/not-checked", message, at: { source: part.label }, name: part.label };
}

function numbersByPart(model: SetModel): Map<PartFile, number[]> {
  const numbers = new Map<PartFile, number[]>();
  for (const [i, entry] of model.content.entries.entries()) {
    const part = model.partOf(entry);
    if (part === undefined) continue;
    const list = numbers.get(part);
    if (list === undefined) numbers.set(part, [i]);
    else list.push(i);
  }
  return numbers;
}

export const verifier: FormatVerifier = {
  verify: (container, context) => verifyAeroset(setModel(container), context),
};
