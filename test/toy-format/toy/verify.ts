import type { FormatVerifier } from "../../../src/model/format.ts";
import { CRC_BYTES } from "./layout.ts";

export const verifier: FormatVerifier = {
  async *verify({ parts }, { engine, count }) {
    const source = parts[0]?.source;
    if (source === undefined) return;
    count("files");
    const end = source.byteLength - CRC_BYTES;
    const stated = new DataView((await source.read(end, CRC_BYTES)).slice().buffer).getUint32(0, true);
    if ((await engine.crc32(await source.read(0, end))) === stated) return;
    const at = { source: source.label, offset: end };
    yield { severity: "error", code: "format/struct", message: "The CRC of the file is another one", at };
  },
};
