import type { Bytes } from "../../src/base/bytes.ts";
import type { HttpOptions, openHttp } from "../../src/bytes/http/index.ts";
import type { Fault, RangeServer } from "../support/range-server.ts";
import { patternBytes } from "./source-contract.ts";

/** What the HTTP tests share: servers that are taken down, and waits that are not waited for. */
export interface HttpTools {
  start(bytes: Bytes, fault?: Fault): Promise<RangeServer>;
  open(server: RangeServer, options?: HttpOptions): ReturnType<typeof openHttp>;
  /** Milliseconds that were to be waited before retries. */
  readonly waits: number[];
}

/** One MiB, above the head. */
export const MIB = patternBytes(1 << 20);

/** 200 and everything, whatever was asked for. */
export const ignoreRanges: Fault = ({ bytes }) => ({
  status: 200,
  headers: { "content-range": undefined },
  body: bytes,
});

/** Only the first requests are tampered with. */
export function once(fault: Fault, times = 1, from = 0): Fault {
  return (context) => (context.index >= from && context.index < from + times ? fault(context) : undefined);
}
