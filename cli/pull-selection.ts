import { join } from "node:path";
import { UsageError } from "../src/base/errors.ts";
import type { Output } from "../src/bytes/sink.ts";
import { readersOf } from "../src/formats/registry.ts";
import { originFormats, prepareConversion, requireWriter, writeConversion } from "../src/operations/convert.ts";
import { TokenBucket } from "../src/operations/pull/fetch.ts";
import type { PulledFile } from "../src/operations/pull/file-job.ts";
import type { PullReport } from "./commands/pull.ts";
import type { Context } from "./context.ts";
import { outputBaseName } from "./output-name.ts";
import { checkAbsent, openOutputFolder } from "./output-target.ts";

export interface Selection {
  readonly url: string;
  readonly directory: string;
  readonly include: readonly string[];
  /** Bytes a second. */
  readonly rate: number | undefined;
}

/**
 * Writes the tensors that match as a model of the same format: a conversion of the remote model, which reads only the
 * ranges it needs and compares them as every read does.
 */
export async function pullSelection(context: Context, selection: Selection): Promise<Omit<PullReport, "milliseconds">> {
  const { url, directory, include, rate } = selection;
  const opened = await context.open(url);
  const name = outputBaseName(opened.label, opened.format);
  const formats = await readersOf(originFormats(opened));
  const writer = await requireWriter(opened.format);
  const conversion = await prepareConversion(opened, writer, { name, include, formats, signal: context.signal });
  if (conversion.tensorCount === 0) {
    const message = `Cannot pull: no tensor matches ${include.map((glob) => `"${glob}"`).join(", ")}`;
    throw new UsageError("usage/tensor-not-found", message, { source: opened.label }, { hint: "See: tare ls URL" });
  }
  for (const file of conversion.plan.files) await checkAbsent(context, join(directory, file.name));
  if (context.flags["dry-run"] !== true) {
    const progress = context.progress({ label: "pulling", total: conversion.dataBytes });
    const output = await openOutputFolder(context, directory, name);
    await writeConversion(conversion, rate === undefined ? output : slowOutput(output, rate), {
      engine: await context.engine(),
      signal: context.signal,
      onProgress: (byteLength) => progress.add(byteLength),
    });
    progress.end();
  }
  const verified = verificationOf(opened, conversion.content.tensors);
  const files = conversion.plan.files.map(({ name: file, byteLength }) => {
    return { path: join(directory, file), byteLength, fetchedBytes: byteLength, resumedBytes: 0, verified };
  });
  return { format: opened.format.id, files, requests: opened.cost.requests };
}

type Opened = Awaited<ReturnType<Context["open"]>>;

/** The weakest of what the tensors' bytes were compared with. */
function verificationOf({ container }: Opened, tensors: readonly { readonly name: string }[]): PulledFile["verified"] {
  if (container.kind !== "model" || container.verificationOf === undefined) return "none";
  const kinds = new Set(tensors.map(({ name }) => container.verificationOf?.(container.tensor(name))));
  if (kinds.has("unverified") || kinds.has(undefined)) return "none";
  return kinds.has("tensor") ? "chunks" : "pages";
}

/** Holding back what is written holds back what is read. */
function slowOutput(output: Output, bytesPerSecond: number): Output {
  const bucket = new TokenBucket(bytesPerSecond);
  return {
    ...output,
    async create(name) {
      const sink = await output.create(name);
      const { append } = sink;
      const slow: typeof append = async (bytes) => {
        const written = append.call(sink, bytes);
        await bucket.take(bytes.byteLength);
        await written;
      };
      return new Proxy(sink, {
        get: (target, key) => {
          if (key === "append") return slow;
          const value: unknown = Reflect.get(target, key, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
  };
}
