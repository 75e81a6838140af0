import { codeFolder } from "../src/platform/node/cache-place.ts";
import { keepCompiledCode } from "./compiled-code.ts";

/** The script of a worker thread of the bundled command line. */

if (process.env["TARE_CACHE_SIZE"] !== "0") keepCompiledCode(codeFolder(process.env), "read");
void import("../src/platform/node/worker-entry.ts");
