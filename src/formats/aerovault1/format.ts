import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format } from "../../model/format.ts";
import { knownAerovault1 } from "./known.ts";
import { AEROVAULT1_LIMITS } from "./limits.ts";
import { openAerovault1 } from "./open.ts";
import { vault1Sections } from "./sections.ts";
import { Vault1Archive } from "./vault1-archive.ts";

/** AeroVault v1, a ZIP with WinZip's encryption: read, listed, extracted and upgraded; never written. */
export const aerovault1: Format = {
  ...knownAerovault1,
  limits: AEROVAULT1_LIMITS,
  errors: async () => (await import("./errors.ts")).AEROVAULT1_ERRORS,
  open: openAerovault1,
  async *verify(container, context) {
    const { verifyAerovault1 } = await import("./verify.ts");
    yield* verifyAerovault1(vault1Archive(container), context);
  },
  sections: (container) => vault1Sections(vault1Archive(container).vault),
  fields: async (container, range) => (await import("./fields.ts")).vault1Fields(vault1Archive(container).vault, range),
};

function vault1Archive(container: Container): Vault1Archive {
  if (container instanceof Vault1Archive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault v1`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}
