import { formatInteger, formatSize } from "../../../src/base/figures.ts";
import type { Report } from "../../../src/operations/verify.ts";
import { ErrorPanel, whereOf, withShortDigests } from "../../app/error-panel.tsx";
import type { Found, Verification } from "./verification.ts";

interface VerifyPanelProps {
  readonly state: Verification;
  readonly byteLength: number;
  readonly verb: string;
  readonly onStart: () => void;
  readonly onStop: () => void;
  readonly onShow: (found: Found) => void;
}

/** The progress of a verification, and its findings. */
export function VerifyPanel({ state, byteLength, verb, onStart, onStop, onShow }: VerifyPanelProps) {
  const { phase, checked, found, report, error } = state;
  const done = checked?.total ?? 0;
  const errors = found.filter(({ severity }) => severity === "error");
  return (
    <section class="verify" aria-label="Verification">
      <div class="verify-line">
        {phase === "running" ? (
          <button type="button" onClick={onStop}>
            Stop
          </button>
        ) : (
          <button type="button" class="primary" onClick={onStart}>
            {phase === "done" ? `${verb} again` : verb}
          </button>
        )}
        {phase === "running" ? (
          <progress max={byteLength} value={done} aria-label="Bytes checked">
            {formatSize(done)}
          </progress>
        ) : null}
        <p role="status" class={errors.length > 0 ? "bad" : ""}>
          {phase === "running" ? `${formatSize(done)} of ${formatSize(byteLength)}` : ""}
          {phase === "running" && errors.length > 0 ? `, ${formatInteger(errors.length)} damaged` : ""}
          {phase === "done" && report !== undefined ? verdictOf(report, state.milliseconds) : ""}
        </p>
      </div>
      {error === undefined ? null : <ErrorPanel title="Cannot verify" error={error} />}
      {report === undefined && errors.length === 0 ? null : (
        <Findings found={report === undefined ? errors : [...withRuns(report, found)]} onShow={onShow} />
      )}
    </section>
  );
}

function verdictOf({ ok, weights, checked, findings }: Report, milliseconds: number): string {
  const errors = findings.filter(({ severity }) => severity === "error").length;
  if (!ok) return errors === 1 ? "Damaged: one fault." : `Damaged: ${formatInteger(errors)} faults.`;
  const seconds = `${(milliseconds / 1000).toFixed(1)} s`;
  const bytes = checked["bytes"] === undefined ? "" : `, ${formatSize(checked["bytes"])} in ${seconds}`;
  return weights === "compared"
    ? `Whole: everything agrees with its digests${bytes}.`
    : "The structure is sound. The file has no digests of its weights to compare them with.";
}

/** Findings of the report, with the places that were reported while it ran. */
function* withRuns(report: Report, found: readonly Found[]): Generator<Found> {
  const keyOf = ({ code, message }: Found): string => `${code} ${message}`;
  const told = new Map(found.map((finding) => [keyOf(finding), finding]));
  for (const finding of report.findings) yield told.get(keyOf(finding)) ?? finding;
}

const SHOWN = 200;

function Findings({ found, onShow }: { readonly found: readonly Found[]; readonly onShow: (found: Found) => void }) {
  if (found.length === 0) return null;
  return (
    <ul class="findings" tabIndex={0}>
      {found.slice(0, SHOWN).map((finding, i) => (
        <li key={`${i} ${finding.code}`} class={finding.severity}>
          {finding.name === undefined ? null : <strong class="mono">{finding.name} </strong>}
          <span title={finding.message}>{withShortDigests(finding.message)}</span>
          {finding.run === undefined ? null : (
            <button type="button" class="link" onClick={() => onShow(finding)}>
              Show
            </button>
          )}
          {finding.hint === undefined ? null : <p class="soft">{finding.hint}</p>}
          <p class="soft small mono">
            {finding.code}
            {whereOf(finding.at)}
          </p>
        </li>
      ))}
      {found.length > SHOWN ? <li class="soft">and {formatInteger(found.length - SHOWN)} more</li> : null}
    </ul>
  );
}
