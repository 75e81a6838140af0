import type { Format } from "../../model/format.ts";
import type { Engine } from "../../primitives/engine.ts";
import { addressDestination, addressHost } from "../addresses.ts";
import type { Input } from "../inputs.ts";
import { vaultOf } from "../vault/open.ts";
import type { Vault } from "../vault/vault.ts";
import { type OpenOneOptions, openOne } from "./one-format.ts";

/** Opens vaults of one format: `open` of "tare/formats/aerovault". */
export function vaultOpener(
  format: Format,
  engine: () => Engine,
): (input: Input, options?: OpenOneOptions) => Promise<Vault> {
  return async (input, options = {}) => {
    const opened = await openOne(format, engine, { input, options });
    try {
      const host = { ...addressHost({ formats: [format], engine }), destinationOf: addressDestination };
      return vaultOf(host, opened);
    } catch (error) {
      await opened.close();
      throw error;
    }
  };
}
