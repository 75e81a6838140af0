import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isTareError } from "../../src/base/errors.ts";
import { memorySource } from "../../src/bytes/memory.ts";
import { openSource } from "../../src/open.ts";
import { verify } from "../../src/operations/verify.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { Outcome } from "../outcome.ts";

interface Row {
  readonly id: string;
  readonly description: string;
  readonly apr_format_reader: "accept" | "reject";
  readonly b64: string;
}

/** The result for a file: the code that refuses it, "error" findings of verify --full, or nothing. */
type Verdict = `refused ${string}` | `faults ${string}` | "fine";

/** Where our verdict differs from the reference's reader, which never checks checksums, sizes, bounds and versions. */
const OURS: Readonly<Record<string, Verdict>> = {
  cut_footer1: "faults format/apr.footer",
  cut_tensor: "refused format/apr.tensor-bounds",
  data_flip: "faults integrity/apr.crc",
  trailing: "faults format/apr.trailing-bytes",
  hcrc_zero: "fine",
  magic_41505232: "fine",
  magic_4150524e: "fine",
  ver3_0: "refused unsupported/apr.version",
  do_past: "refused format/apr.tensor-bounds",
  do_unaligned: "refused format/apr.index",
  tc3: "faults format/apr.mislabelled",
  dtype2: "faults format/apr.mislabelled",
  dtype9: "faults format/apr.mislabelled",
  dtype11: "faults format/apr.mislabelled",
  dtype15: "faults format/apr.mislabelled",
  dtype20: "faults format/apr.unknown-type",
  dtype30: "faults format/apr.mislabelled",
  dtype127: "faults format/apr.unknown-type",
  dtype129: "faults format/apr.mislabelled",
  dtype255: "faults format/apr.unknown-type",
  size_big: "faults format/apr.mislabelled",
  into_footer: "faults format/apr.tensor-bounds",
  meta_null: "fine",
  meta_apr2: "fine",
  meta_neg: "fine",
  meta_created_int: "fine",
  unsorted: "fine",
  name_badutf8: "faults format/apr.name-utf8",
  nd9: "refused limit/apr.dimensions",
  dim_overflow: "refused limit/integer",
  off_wrap: "refused limit/integer",
  overlap: "faults format/apr.overlap",
};

/** Every row of malformed.json ends as the table says, or as in the reference; never otherwise, never in a crash. */
export async function checkMalformed(folder: string): Promise<Outcome> {
  const outcome = new Outcome("damaged APR files");
  const { cases } = JSON.parse(readFileSync(join(folder, "malformed.json"), "utf8")) as { cases: readonly Row[] };
  for (const row of cases) {
    const found = await judge(row);
    const wanted = OURS[row.id] ?? (row.apr_format_reader === "accept" ? "fine" : "refused");
    const agrees = wanted === "refused" ? found.startsWith("refused ") : found === wanted;
    outcome.check(`${row.id} (${row.description})`, agrees ? [] : [`must be "${wanted}", found "${found}"`]);
  }
  return outcome;
}

async function judge({ id, b64 }: Row): Promise<Verdict | string> {
  const source = memorySource(new Uint8Array(Buffer.from(b64, "base64")), `${id}.apr`);
  try {
    const opened = await openSource(source, { name: `${id}.apr` });
    const report = await verify(opened, { level: "full", engine: portableEngine() });
    const errors = report.findings.filter(({ severity }) => severity === "error").map(({ code }) => code);
    return errors.length === 0 ? "fine" : `faults ${[...new Set(errors)].join(" ")}`;
  } catch (error) {
    if (isTareError(error)) return `refused ${error.code}`;
    return `crashed: ${String(error)}`;
  }
}
