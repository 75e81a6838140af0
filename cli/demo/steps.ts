import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { formatCount, formatSize, plural } from "../../src/base/figures.ts";
import { FORMATS, formatForName, readersOf } from "../../src/formats/registry.ts";
import type { Format } from "../../src/model/format.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import { requireModel } from "../../src/open.ts";
import { originFormats, planConversion, requireWriter, writeConversion } from "../../src/operations/convert.ts";
import { diff } from "../../src/operations/diff.ts";
import { inspect } from "../../src/operations/inspect.ts";
import { type Report, verify } from "../../src/operations/verify.ts";
import type { Context } from "../context.ts";
import { renderInspection } from "../render/inspection.ts";
import { encodeJson } from "../render/json.ts";
import { openOutputFile, openOutputFolder } from "../targets/outputs.ts";
import { makeDemoModel } from "./model.ts";

export const FIRST = "demo.safetensors";
export const DAMAGED = "damaged.safetensors";
export const DIGESTS = "digests.json";
/** The tensor in which a byte is flipped. */
const VICTIM = "model.layers.2.mlp.down_proj.weight";

export interface Step {
  readonly step: "make" | "inspect" | "verify" | "convert" | "compare" | "damage" | "find";
  readonly file: string;
  readonly result: string;
}

/** Every writable format; the one that the model is made in comes first. */
export function demoFiles(): readonly { readonly name: string; readonly format: Format }[] {
  const writable = FORMATS.filter((format) => format.write !== undefined);
  const first = formatForName(FIRST);
  const others = writable.filter((format) => format !== first);
  return [first, ...others].flatMap((format) =>
    format === undefined ? [] : [{ format, name: `demo${format.extensions[0]}` }],
  );
}

export class Demo {
  readonly #context: Context;
  readonly #directory: string;
  readonly #steps: Step[] = [];
  /** What `tare inspect` shows about the model. */
  screen = "";

  constructor(context: Context, directory: string) {
    this.#context = context;
    this.#directory = directory;
  }

  async run(): Promise<readonly Step[]> {
    const [first, ...others] = demoFiles();
    if (first === undefined) return [];
    await this.#make(first.format);
    await this.#inspect(FIRST);
    const digests = await this.#verify(FIRST);
    await this.#writeText(DIGESTS, `${encodeJson(digests, "pretty")}\n`);
    for (const { name, format } of others) {
      await this.#convert(name, format);
      await this.#verify(name);
      await this.#compare(name);
    }
    await this.#damage();
    await this.#find(digests);
    return this.#steps;
  }

  async #make(format: Format): Promise<void> {
    const content = makeDemoModel();
    const writer = await requireWriter(format);
    const plan = writer.plan(content, { name: FIRST });
    const output = await openOutputFolder(this.#context, this.#directory, FIRST, { links: "replace" });
    await writer.write(plan, output, { engine: await this.#context.engine() });
    const parameters = content.tensors.reduce((sum, tensor) => sum + tensor.elementCount, 0);
    const byteLength = plan.files.reduce((sum, file) => sum + file.byteLength, 0);
    const count = plural(content.tensors.length, "tensor");
    this.#add("make", FIRST, `${formatCount(parameters)} parameters, ${count}, ${formatSize(byteLength)}`);
  }

  async #inspect(name: string): Promise<void> {
    const start = performance.now();
    const opened = await this.#context.open(join(this.#directory, name));
    const inspection = inspect(opened);
    const cost = { ...opened.cost, milliseconds: Math.round(performance.now() - start) };
    this.screen = renderInspection(inspection, { label: opened.label, cost, metadata: "first" }, this.#context);
    const types = inspection.dtypes.map(({ dtype }) => dtype).join(", ");
    this.#add("inspect", name, `${types}; ${plural(cost.reads, "read")} of ${formatSize(cost.bytes)}`);
  }

  async #verify(name: string): Promise<Report> {
    const opened = await this.#context.open(join(this.#directory, name));
    const engine = await this.#context.engine();
    const report = await verify(opened, { level: "full", engine, digest: "sha256", signal: this.#context.signal });
    expectOutcome(report.ok, `${name} does not verify`);
    this.#add("verify", name, `ok, ${plural(report.digests?.length ?? 0, "digest")}`);
    return report;
  }

  async #convert(name: string, format: Format): Promise<void> {
    const opened = await this.#context.open(join(this.#directory, FIRST));
    const formats = await readersOf(originFormats(opened));
    const conversion = planConversion(opened, await requireWriter(format), { name, formats });
    const output = await openOutputFolder(this.#context, this.#directory, name, { links: "replace" });
    await writeConversion(conversion, output, { engine: await this.#context.engine(), signal: this.#context.signal });
    this.#add("convert", name, `${opened.format.name} to ${format.name}`);
  }

  async #compare(name: string): Promise<void> {
    const a = await this.#context.open(join(this.#directory, FIRST));
    const b = await this.#context.open(join(this.#directory, name));
    const report = await diff(requireModel(a.container), requireModel(b.container), { signal: this.#context.signal });
    expectOutcome(report.equal, `${name} differs from ${FIRST}`);
    this.#add("compare", name, `${plural(report.unchanged, "tensor")} equal, bit for bit`);
  }

  async #damage(): Promise<void> {
    const victim = await this.#victim(FIRST);
    const bytes = new Uint8Array(await readFile(join(this.#directory, FIRST)));
    const at = victim.offset + Math.floor(victim.byteLength / 2);
    bytes[at] = (bytes[at] ?? 0) ^ 0x10;
    const sink = await openOutputFile(this.#context, join(this.#directory, DAMAGED), { links: "replace" });
    await sink.append(bytes);
    await sink.commit();
    this.#add("damage", DAMAGED, `a copy with one bit flipped at byte ${at}`);
  }

  async #find(digests: Report): Promise<void> {
    const opened = await this.#context.open(join(this.#directory, DAMAGED));
    const engine = await this.#context.engine();
    const report = await verify(opened, { level: "full", engine, expected: digests.digests });
    const found = report.findings.filter((finding) => finding.severity === "error").map((finding) => finding.name);
    expectOutcome(found.length === 1 && found[0] === VICTIM, `${DAMAGED} was not found out`);
    this.#add("find", DAMAGED, `damaged: ${found.join(", ")}`);
  }

  async #victim(name: string): Promise<Tensor> {
    const opened = await this.#context.open(join(this.#directory, name));
    return requireModel(opened.container).tensor(VICTIM);
  }

  async #writeText(name: string, text: string): Promise<void> {
    const sink = await openOutputFile(this.#context, join(this.#directory, name), { links: "replace" });
    await sink.append(new TextEncoder().encode(text));
    await sink.commit();
  }

  #add(step: Step["step"], file: string, result: string): void {
    this.#steps.push({ step, file, result });
  }
}

/** The demo promises these outcomes: another one is a bug, and must not look like a success. */
function expectOutcome(held: boolean, otherwise: string): void {
  if (!held) throw new Error(`the demo went wrong: ${otherwise}`);
}
