import { join } from "node:path";
import { cacheFolder } from "../src/platform/node/cache-place.ts";
import { keepCompiledCode } from "./compiled-code.ts";

/** The script of a worker thread of the bundled command line. */

if (process.env["TARE_CACHE_SIZE"] !== "0") keepCompiledCode(join(cacheFolder(process.env), "code"), "read");
void import("../src/platform/node/worker-entry.ts");
