import type { Sink } from "../../bytes/sink.ts";
import type { Warned } from "../../model/finding.ts";
import type { MetadataValue } from "../../model/metadata.ts";
import { valueToJson } from "../../operations/inspect.ts";
import { signatureName } from "../../operations/sign.ts";
import {
  type MetadataChange,
  type MetadataEdit,
  planStamp,
  type StampPlan,
  typeOf,
  writeStamp,
} from "../../operations/stamp.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import {
  anyRule,
  checkOptions,
  type OneOrMany,
  objectRule,
  switchRule,
  textsRule,
  WRITE_RULES,
  type WriteOptions,
} from "../options.ts";
import { commitTo, type Destination, destinationOf, type Output, writeOne } from "../outputs.ts";
import { type OwnPlace, ownPlace } from "../own-place.ts";
import { withProgress } from "../progress.ts";
import { enteredOf } from "./json-values.ts";

export interface StampChoices extends WriteOptions {
  /** Writes the whole file again, even if the room suffices. */
  readonly rewrite?: boolean | undefined;
  /** Leaves out the signature inside a signed file. */
  readonly unsign?: boolean | undefined;
  /** Where the edited file goes; if absent, in the place of the file that is read. */
  readonly output?: Output | undefined;
}

export interface StampOptions extends StampChoices {
  /** New values by key. A key keeps its type where the value fits it. */
  readonly set?: Readonly<Record<string, unknown>> | undefined;
  /** Keys to remove. */
  readonly unset?: OneOrMany<string> | undefined;
}

/** What `tare stamp --json` prints. */
export interface StampResult extends Warned {
  readonly dryRun: boolean;
  readonly path: string;
  readonly mode: "nothing" | "in place" | "rewritten" | "new file";
  readonly byteLength: number;
  readonly changes: readonly StampChange[];
}

export interface StampChange {
  readonly key: string;
  readonly before: StampedValue | null;
  readonly after: StampedValue | null;
}

export interface StampedValue {
  /** "u32", or "array of u32". */
  readonly type: string;
  /** Long arrays are summarised. */
  readonly value: unknown;
}

const CHOICES = { ...WRITE_RULES, rewrite: switchRule, unsign: switchRule, output: anyRule };

/** Edits metadata and leaves the tensors alone. */
export async function stamp(host: VerbHost, input: Input, options: StampOptions = {}): Promise<StampResult> {
  checkOptions("stamp", options, { ...CHOICES, set: objectRule, unset: textsRule });
  const { set = {}, unset = [], ...choices } = options;
  const given = enteredOf(set, "stamp").map(([key, entered]): MetadataEdit => ({ kind: "set", key, entered }));
  const edits = [...given, ...[unset].flat().map((key): MetadataEdit => ({ kind: "unset", key }))];
  return (await stampInput(host, input, edits, choices)).result;
}

/** A result, and the plan that it reports: for those who show its values in another form. */
export interface Stamped {
  readonly result: StampResult;
  readonly changes: readonly MetadataChange[];
}

/** The same with edits as they were typed. */
export async function stampInput(
  host: VerbHost,
  input: Input,
  edits: readonly MetadataEdit[],
  options: StampChoices,
): Promise<Stamped> {
  const request = await requestOf(host, "stamp", options, CHOICES);
  await finishEarlier(host, input, request);
  return withInput(host, input, request, async (opened) => {
    const { engine, limits, signal, unsign, dryRun, output } = request;
    const context = { engine, limits, signal, signature: unsign === true ? ("drop" as const) : undefined };
    const target =
      output === undefined
        ? await ownTarget({ host, input, opened, request })
        : await outputTarget({ host, opened, request }, output);
    const plan = await planStamp(opened, edits, context);
    for (const note of plan.notes) request.onNote?.(note);
    const mode = target.modeOf(plan);
    if (mode !== "nothing") await target.check(mode);
    if (dryRun !== true && mode !== "nothing") await target.write(plan, mode);
    if (mode !== "nothing" && output === undefined) await noteSignature(host, target.path, request);
    const { changes } = plan;
    const result = {
      dryRun: dryRun === true,
      path: target.path,
      mode,
      byteLength: plan.result.byteLength,
      changes: changes.map(stampChange),
    };
    return { result, changes };
  });
}

type Mode = StampResult["mode"];

/** Where the edited file goes. */
interface Target {
  readonly path: string;
  modeOf(plan: StampPlan): Mode;
  check(mode: Mode): Promise<void>;
  write(plan: StampPlan, mode: Mode): Promise<void>;
}

interface Call {
  readonly host: VerbHost;
  readonly opened: OpenedInput;
  readonly request: Request<StampChoices>;
}

async function ownTarget(call: Call & { readonly input: Input }): Promise<Target> {
  const { request } = call;
  const own = await ownPlace(call.host, { ...call, kind: "edit" }, { name: (path) => path, inputs: "rewritten" });
  await own.checkInputs();
  return {
    path: own.path,
    modeOf: ({ changes, patches }) => {
      if (changes.length === 0) return "nothing";
      const isPatched = patches !== undefined && own.patch !== undefined && request.rewrite !== true;
      return isPatched ? "in place" : "rewritten";
    },
    check: () => own.checkReplaceable(),
    write: (plan, mode) => writeOwn(own, plan, { mode, request }),
  };
}

async function writeOwn(
  own: OwnPlace,
  plan: StampPlan,
  { mode, request }: { readonly mode: Mode; readonly request: Request },
): Promise<void> {
  request.signal?.throwIfAborted();
  if (mode === "in place") await own.patch?.(plan.patches ?? []);
  else await writeWhole(plan, request, async (write) => commitTo(await own.create(), write));
}

async function outputTarget({ host, opened, request }: Call, output: Output): Promise<Target> {
  const place: Destination = await destinationOf(host, output, request, { names: "file" });
  const name = place.fileName ?? baseName(opened.label);
  await place.checkAbsent([name]);
  return {
    path: place.pathOf(name),
    modeOf: () => "new file",
    check: async () => undefined,
    write: (plan) => writeWhole(plan, request, (write) => writeOne(place, name, write)),
  };
}

function baseName(label: string): string {
  const path = label.replace(/[?#].*$/s, "");
  return path.split(/[\\/]/).at(-1) || "model";
}

/** `commit` gives the writer a file, and completes it. */
function writeWhole(
  plan: StampPlan,
  { signal, onProgress }: Request,
  commit: (write: (sink: Sink) => Promise<void>) => Promise<void>,
): Promise<void> {
  return withProgress({ label: "writing", total: plan.result.byteLength }, onProgress, (progress) =>
    commit((sink) => writeStamp(plan, sink, { signal, onProgress: progress.add })),
  );
}

/** An edit that a crash interrupted may have left a file that does not open. */
async function finishEarlier(host: VerbHost, input: Input, request: Request<StampChoices>): Promise<void> {
  const isText = typeof input === "string" || input instanceof URL;
  if (!isText || request.dryRun === true) return;
  const disk = await host.disk?.(request);
  const path = await disk?.finishEdit(String(input));
  if (path !== undefined) request.onNote?.(`finished an earlier edit of ${path} that was interrupted`);
}

async function noteSignature(host: VerbHost, path: string, request: Request): Promise<void> {
  const beside = signatureName(path);
  const disk = await host.disk?.(request);
  if ((await disk?.has(beside)) === true)
    request.onNote?.(`${beside} was made before this edit and no longer fits; sign again`);
}

function stampChange({ key, before, after }: MetadataChange): StampChange {
  return { key, before: stampedValue(before), after: stampedValue(after) };
}

function stampedValue(value: MetadataValue | undefined): StampedValue | null {
  return value === undefined ? null : { type: typeOf(value), value: valueToJson(value) };
}
