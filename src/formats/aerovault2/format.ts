import { UsageError } from "../../base/errors.ts";
import type { Container } from "../../model/container.ts";
import type { Format } from "../../model/format.ts";
import { knownAerovault2 } from "./known.ts";
import { AEROVAULT2_LIMITS } from "./limits.ts";
import { openAerovault2 } from "./open.ts";
import { vault2Sections } from "./sections.ts";
import { Vault2Archive } from "./vault2-archive.ts";

/** AeroVault v2: read, listed, extracted and upgraded; never written. */
export const aerovault2: Format = {
  ...knownAerovault2,
  limits: AEROVAULT2_LIMITS,
  errors: async () => (await import("./errors.ts")).AEROVAULT2_ERRORS,
  open: openAerovault2,
  async *verify(container, context) {
    const { verifyAerovault2 } = await import("./verify.ts");
    yield* verifyAerovault2(vault2Archive(container), context);
  },
  sections: (container) => vault2Sections(vault2Archive(container).vault),
  fields: async (container) => (await import("./fields.ts")).vault2Fields(vault2Archive(container).vault),
};

function vault2Archive(container: Container): Vault2Archive {
  if (container instanceof Vault2Archive) return container;
  const message = `Cannot treat a ${container.format} container as AeroVault v2`;
  throw new UsageError("usage/aerovault.container", message, { source: container.parts[0]?.label ?? container.format });
}
