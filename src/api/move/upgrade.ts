import { UnsupportedError, UsageError } from "../../base/errors.ts";
import type { Archive } from "../../model/archive.ts";
import { type Password, passwordSource } from "../../model/password.ts";
import type { Tensor } from "../../model/tensor.ts";
import { castTensor } from "../../model/values/casts.ts";
import { hasNumbers } from "../../model/values/numbers.ts";
import { isBlockType } from "../../operations/quantize.ts";
import { nameAfter } from "../../operations/reading/file-names.ts";
import { upgrade as upgradeModel } from "../../operations/upgrade.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { COMMON_RULES, choiceRule, switchRule, WRITE_RULES, type WriteOptions } from "../options.ts";
import { destinationOf, type Output } from "../outputs.ts";
import { checkNamed, lossy, runConversion } from "./conversion.ts";
import type { UpgradeResult, VaultProfile } from "./results.ts";

export type { UpgradeResult } from "./results.ts";

export interface UpgradeOptions extends WriteOptions {
  /** Keeps the payload of an APRN container as one tensor of bytes. */
  readonly wrap?: boolean | undefined;
  /** Writes blocks that APR v2 has no type for as f32. */
  readonly dequantize?: boolean | undefined;
  /** Goes on although something cannot be carried; the result lists it. */
  readonly allowLossy?: boolean | undefined;
  /** Of a vault: how hard to compress. Balanced if absent. */
  readonly profile?: VaultProfile | undefined;
  /** Of a vault: another password than the old one's. */
  readonly newPassword?: Password | undefined;
}

const RULES = {
  ...WRITE_RULES,
  wrap: switchRule,
  dequantize: switchRule,
  allowLossy: switchRule,
  profile: choiceRule("fast", "balanced", "archive"),
  newPassword: COMMON_RULES.password,
};

export async function upgrade(
  host: VerbHost,
  input: Input,
  output: Output,
  options: UpgradeOptions = {},
): Promise<UpgradeResult> {
  const request = await requestOf(host, "upgrade", options, RULES);
  const place = await destinationOf(host, output, request);
  return withInput(host, input, request, async (opened) => {
    const { container } = opened;
    if (container.kind === "archive") return upgradeVault(host, request, { opened, archive: container, output });
    refuseOptions(request, ["profile", "newPassword"], "a model");
    await checkNamed(place); // after the kind of the input is known: where a vault goes, more than the name matters
    const upgraded = await upgradeModel(opened, {
      engine: request.engine,
      limits: request.limits ?? {},
      signal: request.signal,
      payload: request.wrap === true ? "wrap" : undefined,
    });
    const transform = request.dequantize === true ? { transform: toSpecType } : {};
    return runConversion(host, request, {
      opened: { ...upgraded, siblings: opened.siblings },
      target: opened.format,
      place,
      options: {
        name: place.fileName ?? nameAfter(opened.label, opened.format),
        ...transform,
        ...lossy(request.allowLossy),
      },
      // What goes out as it comes cannot be read back.
      verify: place.isReadable === false ? undefined : "verify",
    });
  });
}

interface OldVault {
  readonly opened: OpenedInput;
  readonly archive: Archive;
  readonly output: Output;
}

async function upgradeVault(
  host: VerbHost,
  request: Request<UpgradeOptions>,
  { opened, archive, output }: OldVault,
): Promise<UpgradeResult> {
  refuseOptions(request, ["wrap", "dequantize", "allowLossy"], "a vault");
  const path = output instanceof URL ? output.href : output;
  if (host.upgradeVault === undefined || typeof path !== "string") {
    const message = `Cannot upgrade "${opened.label}": a vault is written to a path on disk`;
    const hint = 'Import upgrade from "tare/node", and name a path';
    throw new UnsupportedError("unsupported/vault.place", message, { source: opened.label }, { hint });
  }
  const { profile = "balanced", password, newPassword } = request;
  const job = { label: opened.label, path, profile, password: passwordSource(newPassword ?? password, request.signal) };
  return host.upgradeVault(archive, job, request);
}

/** Refuses options that have no meaning for this upgrade; they must not be ignored. */
function refuseOptions(request: UpgradeOptions, names: readonly (keyof UpgradeOptions)[], what: string): void {
  const name = names.find((one) => request[one] !== undefined && request[one] !== false);
  if (name === undefined) return;
  throw new UsageError("usage/arguments", `Cannot use the option ${name} with ${what}`, { source: "options" });
}

/** Block types with an id in the specification; the others become floats. */
const SPEC_BLOCKS: ReadonlySet<string> = new Set(["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]);

function toSpecType(tensor: Tensor): Tensor {
  const stays = SPEC_BLOCKS.has(tensor.dtype) || !isBlockType(tensor) || !hasNumbers(tensor.dtype);
  return stays ? tensor : castTensor(tensor, "F32");
}
