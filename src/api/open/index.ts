import { requireModel } from "../../formats/open.ts";
import type { Model } from "../../model/model.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { type Input, type OpenedInput, openInput } from "../inputs.ts";
import { COMMON_RULES, type CommonOptions } from "../options.ts";
import type { Vault } from "../vault/vault.ts";

/** Opens a model or a vault, whichever it is. What was opened before is returned as it is. */
export async function open(host: VerbHost, input: Input, options: CommonOptions = {}): Promise<Model | Vault> {
  const { opened, request } = await openFor(host, "open", { input, options });
  if (opened.container.kind === "model") return opened.container;
  // Pages that open models need no vaults.
  const { vaultFrom } = await import("../vault/open.ts");
  return vaultFrom(host, opened, input, request);
}

/** Opens a model; a vault is refused. */
export async function openModel(host: VerbHost, input: Input, options: CommonOptions = {}): Promise<Model> {
  const { opened } = await openFor(host, "openModel", { input, options });
  return modelOf(opened);
}

/** The model that was opened; closes what is none. */
export async function modelOf(opened: OpenedInput): Promise<Model> {
  try {
    return requireModel(opened.container);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function openFor(
  host: VerbHost,
  verb: string,
  { input, options }: { readonly input: Input; readonly options: CommonOptions },
): Promise<{ readonly opened: OpenedInput; readonly request: Request<CommonOptions> }> {
  const request = await requestOf(host, verb, options, COMMON_RULES);
  const opened = await openInput(host, input, request);
  for (const { message } of opened.notes) request.onNote?.(message);
  return { opened, request };
}
