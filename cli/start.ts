import { join } from "node:path";
import { cacheFolder } from "../src/platform/node/cache-place.ts";
import { keepCompiledCode } from "./compiled-code.ts";

/** The first thing that runs: everything else is loaded with what is kept of it. */

if (process.env["TARE_CACHE_SIZE"] !== "0") keepCompiledCode(join(cacheFolder(process.env), "code"), "keep");
void import("./main.ts");
