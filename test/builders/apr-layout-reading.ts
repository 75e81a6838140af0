import { type Bytes, concatBytes } from "../../src/base/bytes.ts";
import { isTareError } from "../../src/base/errors.ts";
import type { LimitOverrides } from "../../src/base/limits.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import type { AprModel } from "../../src/formats/apr/model.ts";
import { reader } from "../../src/formats/apr/read.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { Section } from "../../src/model/format.ts";
import { openSource } from "../../src/open.ts";
import { verify } from "../../src/operations/verify.ts";
import { portableEngine } from "../../src/primitives/portable.ts";

/** Opens bytes by their content, as any command does. */
export async function openBytes(bytes: Bytes, limits: LimitOverrides = {}): Promise<AprModel> {
  const { container } = await openSource(memorySource(bytes, "model.apr"), { name: "model.apr", limits });
  return container as AprModel;
}

/** Errors of verify --full. */
export async function faultsOf(bytes: Bytes): Promise<readonly Finding[]> {
  const opened = await openSource(memorySource(bytes, "model.apr"), { name: "model.apr" });
  const report = await verify(opened, { level: "full", engine: portableEngine() });
  return report.findings.filter(({ severity }) => severity === "error");
}

/** The code by which opening refuses the bytes; "opened" where it does not. */
export async function refusalOf(bytes: Bytes, limits?: LimitOverrides): Promise<string> {
  try {
    await openBytes(bytes, limits);
    return "opened";
  } catch (error) {
    if (isTareError(error)) return error.code;
    throw error;
  }
}

/**
 * Cuts the file at every length and flips a bit of every byte: each time it must open, tensors included, with sections
 * inside the file, or be refused by an error of ours. Returns how often it opened.
 */
export async function survives(bytes: Bytes): Promise<number> {
  let opened = 0;
  const engine = portableEngine();
  const attempt = async (damaged: Bytes): Promise<void> => {
    const source = memorySource(damaged, "model.apr");
    try {
      const model = await reader.open(source, { engine, limits: {} });
      if (model.kind === "model") for (const tensor of model.tensors) await tensor.bytes();
      checkSections(reader.sections(model), damaged.byteLength);
      opened++;
    } catch (error) {
      if (!isTareError(error)) throw error;
    }
  };
  for (let length = 1; length < bytes.byteLength; length++) await attempt(bytes.slice(0, length));
  for (let i = 0; i < bytes.byteLength; i++) {
    const flipped = concatBytes([bytes]);
    flipped[i] = (flipped[i] as number) ^ (1 << (i % 8));
    await attempt(flipped);
  }
  return opened;
}

function checkSections(sections: readonly Section[], byteLength: number): void {
  for (const section of sections) {
    const end = section.offset + section.byteLength;
    if (section.offset < 0 || section.byteLength < 0 || end > byteLength) {
      throw new Error(`${section.name} from ${section.offset} to ${end} is outside a file of ${byteLength} bytes`);
    }
  }
}
