import { IntegrityError, isTareError, type Location, UsageError } from "../../base/errors.ts";
import { encodeHex, printable } from "../../base/text.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import { alteredSink, type Output, withSinks } from "../../bytes/sink.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source } from "../../bytes/source.ts";
import type { FormatWriter, ModelContent, PasswordSource, WritePlan } from "../../model/format.ts";
import type { Model } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import type { Engine } from "../../primitives/engine.ts";
import { mapTensors } from "../reading/concurrency.ts";
import { verify } from "../verify.ts";

/** Tensors hashed at once. */
const CONCURRENCY = 4;
/** Tensors below this are hashed at once: setting up a job would cost more than the hashing. */
const WHOLE_BYTES = 64 << 10;

/** What was planned to be written. */
export interface Written {
  readonly writer: FormatWriter;
  readonly plan: WritePlan;
  readonly content: ModelContent;
}

/** Options for reading back and hashing the payloads as well. */
export interface PayloadCheck {
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

export interface CheckContext {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  /** Opens an encrypted output. */
  readonly password?: PasswordSource | undefined;
  readonly payloads?: PayloadCheck | undefined;
}

/**
 * Opens the unpublished file: every tensor must have its place and its length. With `payloads`, everything that the
 * format has digests for is verified; if it has none, each tensor is compared with its source by BLAKE3. Throws
 * `integrity/written`, with the tensor's name if one is known.
 */
export async function checkWritten(written: Written, files: Resolver, context: CheckContext): Promise<void> {
  const model = await openWritten(written, files, context);
  checkLengths(written, model);
  if (context.payloads !== undefined) await checkPayloads(written, model, context);
}

/** The same output, but it refuses destinations that cannot be read back, because nothing could be checked there. */
export function readableOutput(output: Output): Output {
  return withSinks(output, async (name) => {
    const sink = await output.create(name);
    if (sink.reopen !== undefined) return sink;
    await sink.abort();
    throw unreadableError(sink.label);
  });
}

/** The error for verifying an output that goes into a pipe. */
export function unreadableError(label: string): UsageError {
  const message = `Cannot verify what is written to ${label}: it cannot be read back`;
  return new UsageError(
    "usage/verify-output",
    message,
    { source: label },
    { hint: "Name a file, or leave out the option verify" },
  );
}

async function openWritten({ writer, plan }: Written, files: Resolver, context: CheckContext): Promise<Model> {
  const { engine, signal, password } = context;
  const source = await files.resolve(plan.primary);
  try {
    const resolver = { ...files, name: plan.primary };
    const container = await (await writer.format.read()).open(source, {
      engine,
      limits: {},
      resolver,
      signal,
      password,
    });
    if (container.kind === "model") return container;
  } catch (error) {
    if (!isTareError(error) || !/^(format|integrity)\//.test(error.code)) throw error;
    throw writtenError(`it does not open: ${error.message}`, error.at, error);
  }
  throw writtenError("it was written as a model and opened as an archive", { source: source.label });
}

function checkLengths({ plan, content }: Written, model: Model): void {
  const lost = lostNames(plan);
  const lengths = new Map(model.tensors.map((tensor) => [tensor.name, tensor.byteLength]));
  for (const { name, byteLength } of content.tensors) {
    const found = lengths.get(name);
    if (found === byteLength || (lost.has(name) && found === undefined)) continue;
    const problem = `tensor "${printable(name)}" must have ${byteLength} bytes, found ${found ?? "no such tensor"}`;
    throw writtenError(problem, { source: labelOf(model), path: name });
  }
}

async function checkPayloads(written: Written, model: Model, context: CheckContext): Promise<void> {
  const { engine, signal, payloads } = context;
  const { format } = written.writer;
  const opened = { container: model, format, reader: await format.read(), notes: [] };
  const report = await verify(opened, { level: "full", engine, signal, onProgress: payloads?.onProgress });
  const fault = report.findings.find(({ severity }) => severity === "error");
  if (fault === undefined && report.weights === "compared") return;
  // The format may have no digests, or one digest may cover a whole shard. Only the sources tell which tensor it is.
  await compareTensors(written, model, context);
  if (fault !== undefined) throw writtenError(`${fault.message} [${fault.code}]`, fault.at);
}

/** Throws for the first tensor whose bytes differ from its source. */
async function compareTensors({ plan, content }: Written, model: Model, context: CheckContext): Promise<void> {
  const { signal } = context;
  const lost = lostNames(plan);
  const sources = content.tensors.filter(({ name }) => !lost.has(name));
  const wanted = await digestsByName(sources, signal, (tensor) =>
    digestSource(tensor.source(), tensor.byteLength, context),
  );
  const found = await digestsByName(model.tensors, signal, (tensor) => digestStored(tensor, model, context));
  for (const [name, hex] of wanted) {
    const is = found.get(name);
    if (is === hex) continue;
    const { offset, storedByteLength, file } = model.tensor(name);
    const where = `BLAKE3 of bytes ${offset} to ${offset + storedByteLength}`;
    const problem = `tensor "${printable(name)}" is not what was written: ${where} must be ${hex}, found ${is}`;
    throw writtenError(problem, { source: file ?? labelOf(model), offset, path: name });
  }
}

async function digestsByName(
  tensors: readonly Tensor[],
  signal: AbortSignal | undefined,
  digest: (tensor: Tensor) => Promise<string>,
): Promise<Map<string, string>> {
  const digests = await mapTensors(tensors, { concurrency: CONCURRENCY, signal }, digest);
  return new Map(tensors.map(({ name }, i) => [name, digests[i] as string]));
}

/** A verified read also fails if only a neighbour in the same page is damaged. Then the stored bytes decide. */
async function digestStored(tensor: Tensor, model: Model, context: CheckContext): Promise<string> {
  const { byteLength, offset, storedByteLength, file } = tensor;
  try {
    return await digestSource(tensor.source(), byteLength, context);
  } catch (error) {
    const part = model.parts.find(({ label }) => file === undefined || label === file);
    const isDamage = isTareError(error) && error.code.startsWith("integrity/");
    if (!isDamage || part === undefined || storedByteLength < byteLength) throw error;
    return digestSource(sliceSource(part.source, offset, byteLength), byteLength, context);
  }
}

async function digestSource(source: Source, byteLength: number, context: CheckContext): Promise<string> {
  const { engine, signal, payloads } = context;
  const onProgress = payloads?.onProgress;
  if (byteLength >= WHOLE_BYTES) {
    return encodeHex(await engine.digestRange("blake3", source, { offset: 0, byteLength, signal, onProgress }));
  }
  const digest = await engine.digest("blake3", await source.read(0, byteLength, { signal }));
  onProgress?.(byteLength);
  return encodeHex(digest);
}

function lostNames({ losses }: WritePlan): ReadonlySet<string> {
  return new Set(losses.map(({ name }) => name));
}

function labelOf({ parts, format }: Model): string {
  return parts[0]?.label ?? format;
}

function writtenError(problem: string, at: Location, cause?: unknown): IntegrityError {
  const extra = { hint: "Check the disk and the memory, then write it again", cause };
  return new IntegrityError("integrity/written", `Cannot trust what was written: ${problem}`, at, extra);
}

/** Nothing becomes visible before `prove` has resolved. */
export function provenOutput(output: Output, prove: () => Promise<void>): Output {
  return withSinks(output, async (name) => {
    const sink = await output.create(name);
    return alteredSink(sink, {
      async commit() {
        await prove();
        await sink.commit();
      },
    });
  });
}
