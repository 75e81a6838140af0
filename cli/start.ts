import { codeFolder } from "../src/platform/node/cache-place.ts";
import { keepCompiledCode } from "./compiled-code.ts";

/** The first thing that runs: everything else is loaded with what is kept of it. */

if (process.env["TARE_CACHE_SIZE"] !== "0") keepCompiledCode(codeFolder(process.env), "keep");
void import("./main.ts");
