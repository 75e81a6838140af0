import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sourceContract } from "../../../../test/contracts/source-contract.ts";
import type { SourceDescriptor } from "../../../bytes/source.ts";
import { openBlockingFile } from "./blocking-source.ts";
import { openFile } from "./source.ts";

type FileDescriptor = Extract<SourceDescriptor, { readonly kind: "file" }>;

async function describeFile(path: string): Promise<FileDescriptor> {
  const source = await openFile(path);
  await source.close();
  return source.descriptor as FileDescriptor;
}

sourceContract("blocking file", async (bytes) => {
  const folder = await mkdtemp(join(tmpdir(), "tare-blocking-"));
  await writeFile(join(folder, "f"), bytes);
  const source = openBlockingFile(await describeFile(join(folder, "f")));
  return { source, dispose: () => rm(folder, { recursive: true }) };
});

test("openBlockingFile() refuses a file that was replaced, and one that is gone", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tare-blocking-"));
  const path = join(folder, "f");
  await writeFile(path, "one");
  const descriptor = await describeFile(path);
  await writeFile(path, "three");
  expect(() => openBlockingFile(descriptor)).toThrow(expect.objectContaining({ code: "source/changed" }));
  await rm(folder, { recursive: true });
  expect(() => openBlockingFile(descriptor)).toThrow(expect.objectContaining({ code: "source/not-found" }));
});
