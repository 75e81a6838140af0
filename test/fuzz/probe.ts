import { isTareError, type Location } from "../../src/base/errors.ts";
import { memoryOutput, memorySource } from "../../src/bytes/memory.ts";
import type { Finding } from "../../src/model/finding.ts";
import type { Opened } from "../../src/model/format.ts";
import type { MetadataValue } from "../../src/model/metadata.ts";
import type { Model } from "../../src/model/model.ts";
import { openSource } from "../../src/open.ts";
import { planConversion, writeConversion } from "../../src/operations/convert.ts";
import { inspect, metadataToJson } from "../../src/operations/inspect.ts";
import { mapLayout } from "../../src/operations/map.ts";
import { verify } from "../../src/operations/verify.ts";
import { VAULT_PASSWORD } from "../builders/crafted-vault.ts";
import { READERS, WRITERS } from "../builders/loaded-formats.ts";
import { passwordOf, quickEngine } from "../builders/sealed-apr.ts";
import { type FuzzInput, inputResolver, primaryBytes } from "./fuzz-input.ts";

// Argon2id would take longer than everything else.
const engine = quickEngine();
const password = passwordOf(VAULT_PASSWORD);

export interface ProbeOptions {
  /** Every documented code. */
  readonly codes: ReadonlySet<string>;
  /** "convert" also writes the model as every format that can be written. */
  readonly depth: "look" | "convert";
}

/** Breaks the promise "a model or a located TareError". */
export class BrokenPromise extends Error {
  override readonly name = "BrokenPromise";
}

/** Opens an input and does what users do with it. Returns "ok" or the code of the refusal; throws on anything else. */
export async function probe(input: FuzzInput, options: ProbeOptions): Promise<string> {
  const source = memorySource(primaryBytes(input), input.primary);
  let opened: Opened;
  try {
    opened = await openSource(source, { engine, resolver: inputResolver(input), password });
  } catch (error) {
    return checkRefusal(error, options.codes, "opening");
  }
  try {
    await look(opened, options.codes);
    if (options.depth === "convert") await convertAll(opened, options.codes);
  } finally {
    await opened.container.close();
  }
  return "ok";
}

/** The code of a refusal that is as promised; anything else is thrown. */
function checkRefusal(error: unknown, codes: ReadonlySet<string>, doing: "opening" | "using"): string {
  if (!isTareError(error)) throw error;
  checkCode(error.code, codes);
  const aboutBytes = /^(format|limit)\//.test(error.code);
  checkLocation(error.code, error.at, doing === "opening" && aboutBytes);
  return error.code;
}

function checkCode(code: string, codes: ReadonlySet<string>): void {
  if (!codes.has(code)) throw new BrokenPromise(`"${code}" is in no catalog`);
}

function checkLocation(code: string, at: Location, needsOffset: boolean): void {
  if (at.source === "") throw new BrokenPromise(`"${code}" names no source`);
  const { offset } = at;
  if (offset === undefined ? needsOffset : !Number.isSafeInteger(offset) || offset < 0) {
    throw new BrokenPromise(`"${code}" has the offset ${offset}`);
  }
}

async function look(opened: Opened, codes: ReadonlySet<string>): Promise<void> {
  const inspection = inspect(opened);
  JSON.stringify(metadataToJson(inspection.metadata));
  checkMap(opened);
  checkFindings(inspection.warnings, codes);
  const { container } = opened;
  if (container.kind === "model") {
    for (const { value } of container.metadata) touchValue(value);
    await touchTensors(container, codes);
  }
  for (const level of ["quick", "full"] as const) {
    try {
      checkFindings((await verify(opened, { level, engine })).findings, codes);
    } catch (error) {
      checkPasswordRefusal(error, codes);
    }
  }
}

/** Damage can make a password look wrong: that is an answer too, where it is asked for only now. */
function checkPasswordRefusal(error: unknown, codes: ReadonlySet<string>): void {
  if (!isTareError(error) || error.code !== "usage/password.wrong") throw error;
  checkRefusal(error, codes, "using");
}

function checkFindings(findings: readonly Finding[], codes: ReadonlySet<string>): void {
  for (const { code, at } of findings) {
    checkCode(code, codes);
    checkLocation(code, at, false);
  }
}

/** Nothing that is shown may lie outside its file. */
function checkMap(opened: Opened): void {
  for (const { part, offset, byteLength, name } of mapLayout(opened)) {
    const size = opened.container.parts[part]?.byteLength ?? -1;
    const isInside = offset >= 0 && byteLength >= 0 && offset + byteLength <= size;
    if (!isInside) throw new BrokenPromise(`"${name}" lies at ${offset}, ${byteLength} bytes, in a file of ${size}`);
  }
}

function touchValue(value: MetadataValue): void {
  if (value.type === "array") for (const item of value.slice(0, 4)) touchValue(item);
  if (value.type === "map") for (const entry of value.entries.slice(0, 4)) touchValue(entry.value);
}

async function touchTensors(model: Model, codes: ReadonlySet<string>): Promise<void> {
  for (const tensor of model.tensors.slice(0, 8)) {
    const byteLength = Math.min(tensor.byteLength, 64);
    try {
      const bytes = await tensor.source().read(0, byteLength);
      if (bytes.byteLength !== byteLength) throw new BrokenPromise(`"${tensor.name}" gave ${bytes.byteLength} bytes`);
    } catch (error) {
      checkRefusal(error, codes, "using");
    }
  }
}

async function convertAll(opened: Opened, codes: ReadonlySet<string>): Promise<void> {
  for (const target of WRITERS) {
    const name = `out${target.format.extensions[0]}`;
    const options = { name, formats: READERS, allowLossy: "allow-lossy" } as const;
    try {
      const conversion = planConversion(opened, target, options);
      await writeConversion(conversion, memoryOutput(name), { engine });
    } catch (error) {
      checkRefusal(error, codes, "using");
    }
  }
}
