import { printable } from "../../../src/base/text.ts";
import type { PasswordSource } from "../../../src/model/format.ts";
import type { SidecarFate } from "../../../src/platform/node/vault-parity.ts";
import type { Context } from "../../context.ts";
import { writeContext } from "./change.ts";

/** Renews the sidecar of a vault whose key slots or extensions were changed, or removes it; and says so. */
export async function noteSidecar(
  context: Context,
  vault: string,
  password: PasswordSource | undefined,
): Promise<SidecarFate> {
  const { renewSidecar } = await import("../../../src/platform/node/vault-parity.ts");
  const fate = await renewSidecar(vault, await writeContext(context), password);
  const name = printable(`${vault}.aerocorrect`);
  if (fate === "renewed") context.note(`note: "${name}" was made anew, as it was of the state before`);
  if (fate === "removed") {
    context.warn(`warning: "${name}" was removed, as it was of the state before and could not be made anew`);
  }
  return fate;
}
