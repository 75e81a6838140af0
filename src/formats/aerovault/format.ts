import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format } from "../../model/format.ts";
import { knownAerovault } from "./known.ts";
import { AEROVAULT_LIMITS } from "./limits.ts";
import { openAerovault } from "./open.ts";
import { vaultSections } from "./sections.ts";
import { VaultArchive } from "./vault-archive.ts";

/** AeroVault v3: encrypted or plain, deduplicated, compressed; every entry is a Source. */
export const aerovault: Format = {
  ...knownAerovault,
  limits: AEROVAULT_LIMITS,
  errors: async () => (await import("./errors.ts")).AEROVAULT_ERRORS,
  open: openAerovault,
  async *verify(container, context) {
    const { verifyAerovault } = await import("./verify.ts");
    yield* verifyAerovault(vaultArchive(container), context);
  },
  sections: (container) => vaultSections(vaultArchive(container).vault),
  fields: async (container, range) => (await import("./fields.ts")).vaultFields(vaultArchive(container).vault, range),
};

/** The container as a vault; another one is refused. */
export function vaultArchive(container: Container): VaultArchive {
  if (container instanceof VaultArchive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}
