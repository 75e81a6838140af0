import { addonBinary } from "./addon-binary.ts";

type Addon = typeof import("@napi-rs/blake-hash");

/** The optional addon; rejects where it is not installed. */
export async function loadBlakeAddon(): Promise<Addon> {
  return (addonBinary("@napi-rs/blake-hash") as Addon | undefined) ?? (await import("@napi-rs/blake-hash"));
}
