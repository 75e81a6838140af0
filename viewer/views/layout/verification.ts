import { useRef, useState } from "preact/hooks";
import type { Report } from "../../../src/operations/verify.ts";
import type { Session } from "../../app/session.ts";
import type { VerifyProgress } from "../../pages/verifying.ts";
import type { Overview } from "../../shared/protocol.ts";
import type { AddressSpace } from "./address-space.ts";
import { type Interval, IntervalSet } from "./interval-set.ts";

export type Found = VerifyProgress["findings"][number];

export interface Verification {
  readonly phase: "idle" | "running" | "done" | "failed";
  /** Undefined before a verification. */
  readonly checked: IntervalSet | undefined;
  readonly damaged: IntervalSet;
  readonly found: readonly Found[];
  readonly report: Report | undefined;
  readonly error: unknown;
  /** Changes with every message. */
  readonly version: number;
  /** Milliseconds that it took, or has taken so far. */
  readonly milliseconds: number;
}

const IDLE: Omit<Verification, "damaged"> = {
  phase: "idle",
  checked: undefined,
  found: [],
  report: undefined,
  error: undefined,
  version: 0,
  milliseconds: 0,
};

/** A shard is wrong if one of its pages is, so only faults without a smaller fault inside are painted. */
export function narrowest(faults: readonly Interval[]): IntervalSet {
  const set = new IntervalSet();
  const isInside = (a: Interval, b: Interval): boolean =>
    a.start >= b.start && a.end <= b.end && a.end - a.start < b.end - b.start;
  for (const fault of faults) {
    if (!faults.some((other) => isInside(other, fault))) set.add(fault.start, fault.end);
  }
  return set;
}

/** What the tables of a file speak of and the file does not have: that is damage before anything is verified. */
export function missingRuns({ table, bases }: AddressSpace): readonly Interval[] {
  return table.files.flatMap(({ presentBytes }, i) =>
    presentBytes === undefined ? [] : [{ start: (bases[i] ?? 0) + presentBytes, end: bases[i + 1] ?? 0 }],
  );
}

/** Runs a verification and keeps what it has reported so far. */
export function useVerification(session: Session, overview: Overview, space: AddressSpace) {
  const [state, setState] = useState<Verification>(() => ({ ...IDLE, damaged: narrowest(missingRuns(space)) }));
  const controller = useRef<AbortController | undefined>(undefined);
  const start = (): void => {
    const running = new AbortController();
    controller.current = running;
    const started = performance.now();
    const checked = new IntervalSet();
    const faults = [...missingRuns(space)];
    setState({ ...IDLE, damaged: narrowest(faults), phase: "running", checked, version: state.version + 1 });
    const change = (next: (old: Verification) => Partial<Verification>): void => {
      const milliseconds = performance.now() - started;
      setState((old) => ({ ...old, milliseconds, version: old.version + 1, ...next(old) }));
    };
    const onProgress = ({ checked: runs, findings }: VerifyProgress): void => {
      for (const { part, offset, byteLength } of runs) {
        const address = space.address(part, offset);
        checked.add(address, address + byteLength);
      }
      for (const { severity, run } of findings) {
        if (severity !== "error" || run === undefined) continue;
        const start = space.address(run.part, run.offset);
        faults.push({ start, end: start + run.byteLength });
      }
      change(({ found, damaged }) =>
        findings.length === 0
          ? {}
          : { found: [...found, ...findings], damaged: faults.length === 0 ? damaged : narrowest(faults) },
      );
    };
    session.reader.call("verify", { target: overview.target }, { signal: running.signal, onProgress }).then(
      (report) => change(() => ({ phase: "done", report })),
      (error: unknown) => {
        change(() => (running.signal.aborted ? { phase: "idle" } : { phase: "failed", error }));
      },
    );
  };
  return { state, start, stop: () => controller.current?.abort() };
}
