import { type TareError, UsageError } from "../../src/base/errors.ts";
import { type Finding, findingFromError } from "../../src/model/finding.ts";
import type { Opened } from "../../src/model/format.ts";
import { type LayoutRow, mapLayout } from "../../src/operations/map.ts";
import { type Report, verify } from "../../src/operations/verify.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import type { Target } from "../reader/open-targets.ts";
import type { CallContext } from "../reader/serve-calls.ts";
import { watchingEngine } from "../reader/watching-engine.ts";

/**
 * Time between two messages: often enough to look alive. Each redraws a picture, which costs as much as hashing a
 * megabyte.
 */
const INTERVAL_MS = 100;

/** A run of a file, by the file's index. */
export interface Run {
  readonly part: number;
  readonly offset: number;
  readonly byteLength: number;
}

/** What happened since the last message. */
export interface VerifyProgress {
  readonly checked: readonly Run[];
  readonly findings: readonly (Finding & { readonly run?: Run | undefined })[];
}

/** Checks everything that can be checked, and reports its position and findings while it runs. */
export async function verifyTarget(target: Target, engine: Engine, context: CallContext<"verify">): Promise<Report> {
  const { opened, watch, label } = target;
  if (opened === undefined) {
    throw new UsageError("usage/not-a-model", "Cannot verify: the content was not understood", { source: label });
  }
  const painter = new Painter(target, context);
  if (target.fault !== undefined) return cutReport(target, painter);
  watch.onRead = painter.onHashed;
  try {
    const report = await verify(opened, {
      level: "full",
      engine: watchingEngine(engine, painter.onHashed),
      signal: context.signal,
      onFinding: painter.onFinding,
    });
    painter.flush();
    return report;
  } finally {
    watch.onRead = undefined;
  }
}

/** The report for a file whose end is missing: no digest of it can match, and the missing part counts as damaged. */
function cutReport({ fault, source }: Target, painter: Painter): Report {
  const { neededBytes = 0 } = fault as TareError;
  const offset = source.byteLength;
  const at = { source: source.label, offset, byteLength: neededBytes - offset };
  const finding = { ...findingFromError(fault as TareError), at };
  painter.onFinding(finding);
  painter.flush();
  return { ok: false, level: "full", weights: "not-compared", checked: {}, findings: [finding] };
}

class Painter {
  readonly #context: CallContext<"verify">;
  readonly #partOf: ReadonlyMap<string, number>;
  readonly #lengths: readonly number[];
  readonly #opened: Opened | undefined;
  #map: readonly LayoutRow[] | undefined;
  #checked: Run[] = [];
  #findings: (Finding & { readonly run?: Run | undefined })[] = [];
  #toldAt = 0;

  constructor({ opened, label, source }: Target, context: CallContext<"verify">) {
    const parts = opened?.container.parts ?? [{ label, byteLength: source.byteLength }];
    this.#context = context;
    this.#opened = opened;
    this.#partOf = new Map(parts.map((part, index) => [part.label, index]));
    this.#lengths = parts.map(({ byteLength }) => byteLength);
  }

  readonly onHashed = (label: string, offset: number, byteLength: number): void => {
    const part = this.#partOf.get(label);
    if (part === undefined) return;
    const last = this.#checked.at(-1);
    if (last !== undefined && last.part === part && last.offset + last.byteLength === offset) {
      this.#checked[this.#checked.length - 1] = { ...last, byteLength: last.byteLength + byteLength };
    } else this.#checked.push({ part, offset, byteLength });
    this.#tell();
  };

  readonly onFinding = (finding: Finding): void => {
    this.#findings.push({ ...finding, run: this.#runOf(finding) });
    this.#tell();
  };

  /**
   * The length that the finding states; else that of the map's run at that place, such as a block of a vault; else one
   * byte.
   */
  #runOf({ at: { source, offset, byteLength } }: Finding): Run | undefined {
    const part = this.#partOf.get(source);
    if (part === undefined || offset === undefined || offset >= (this.#lengths[part] ?? 0)) return undefined;
    const row = this.#rows().find((candidate) => candidate.part === part && candidate.offset === offset);
    return { part, offset, byteLength: byteLength ?? row?.byteLength ?? 1 };
  }

  #rows(): readonly LayoutRow[] {
    this.#map ??= this.#opened === undefined ? [] : mapLayout(this.#opened);
    return this.#map;
  }

  flush(): void {
    if (this.#checked.length + this.#findings.length === 0) return;
    this.#context.progress({ checked: this.#checked, findings: this.#findings });
    this.#checked = [];
    this.#findings = [];
  }

  #tell(): void {
    const now = performance.now();
    if (now - this.#toldAt < INTERVAL_MS) return;
    this.#toldAt = now;
    this.flush();
  }
}
