import { writeFileSync } from "node:fs";
import { Interruption } from "../../cli/terminal/interruption.ts";

/** A program that does not end by itself once it was interrupted: it only says so. Its argument is written at the end. */
const [marker = ""] = process.argv.slice(2);
const interruption = new Interruption({ tell: () => undefined, graceMs: 2 ** 31 - 1 });
interruption.onExit(() => writeFileSync(marker, "cleaned up"));
interruption.signal.addEventListener("abort", () => process.stdout.write("interrupted\n"));
setInterval(() => undefined, 1 << 30);
process.stdout.write("ready\n");
