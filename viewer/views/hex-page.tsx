import { useState } from "preact/hooks";
import { formatInteger, formatOffset } from "../../src/base/figures.ts";
import { ErrorPanel } from "../app/error-panel.tsx";
import type { ViewProps } from "../app/lazy-view.tsx";
import { at, formatRoute } from "../app/route.ts";
import { useCall } from "../app/use-call.ts";
import type { HexPage as Bytes, FieldRow } from "../pages/hex-page.ts";
import { lastName } from "../shared/protocol.ts";
import { useMedia } from "../widgets/browser.ts";

const ROWS = 32;

/** Any range of a file, with the fields of the format. */
export function HexPage({ session, overview, route }: ViewProps) {
  // As many as fit.
  const lineBytes = useMedia("(max-width: 48rem)") ? 8 : 16;
  const part = route.part ?? 0;
  const wanted = route.offset ?? 0;
  const offset = wanted - (wanted % lineBytes);
  const pageBytes = ROWS * lineBytes;
  const request = { target: overview.target, part, offset, byteLength: pageBytes };
  const key = JSON.stringify(request);
  const page = useCall(session.reader, "hex", request, key);
  const fields = useCall(session.reader, "fields", request, key);
  const [field, setField] = useState<FieldRow | undefined>(undefined);
  const move = (next: number, file = part): void => {
    const end = overview.files[file]?.byteLength ?? 0;
    const clamped = Math.max(0, Math.min(next, Math.max(0, end - 1)));
    location.hash = formatRoute(at(route, { view: "hex", part: file, offset: clamped }));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const keys: Record<string, number> = {
      PageDown: offset + pageBytes,
      PageUp: offset - pageBytes,
      ArrowDown: offset + lineBytes,
      ArrowUp: offset - lineBytes,
      Home: 0,
      End: (overview.files[part]?.byteLength ?? 0) - 1,
    };
    const next = keys[event.key];
    if (next === undefined) return;
    event.preventDefault();
    move(next);
  };
  if (page.error !== undefined) return <ErrorPanel title="Cannot read the bytes" error={page.error} />;
  return (
    <div class="hex">
      <div class="toolbar">
        <h1 class="away">Bytes</h1>
        {overview.files.length > 1 ? (
          <label>
            File{" "}
            <select value={part} onChange={(event) => move(0, Number(event.currentTarget.value))}>
              {overview.files.map(({ label }, i) => (
                <option key={label} value={i}>
                  {lastName(label)}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <OffsetField key={wanted} offset={wanted} onMove={move} />
        <span class="buttons">
          <button type="button" disabled={offset === 0} onClick={() => move(offset - pageBytes)}>
            Earlier
          </button>
          <button
            type="button"
            disabled={page.result !== undefined && offset + pageBytes >= page.result.byteLength}
            onClick={() => move(offset + pageBytes)}
          >
            Later
          </button>
        </span>
        <p class="soft">of {formatInteger(page.result?.byteLength ?? 0)} bytes</p>
      </div>
      <div class="hex-columns">
        <div
          class="hex-lines"
          role="region"
          tabIndex={0}
          aria-label="Bytes; page up and page down move"
          onKeyDown={onKeyDown}
        >
          {page.result === undefined ? null : (
            <Lines page={page.result} lineBytes={lineBytes} fields={fields.result ?? []} field={field} at={wanted} />
          )}
        </div>
        <Fields fields={fields.result} field={field} onField={setField} onMove={move} />
      </div>
    </div>
  );
}

function OffsetField({ offset, onMove }: { readonly offset: number; readonly onMove: (offset: number) => void }) {
  const [text, setText] = useState(formatOffset(offset));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const next = Number(text.trim());
        if (Number.isSafeInteger(next)) onMove(next);
      }}
    >
      <label class="offset-field">
        Offset
        <input
          type="text"
          class="mono"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
    </form>
  );
}

interface LinesProps {
  readonly page: Bytes;
  readonly lineBytes: number;
  readonly fields: readonly FieldRow[];
  readonly field: FieldRow | undefined;
  /** The byte that the address names. */
  readonly at: number;
}

function Lines({ page, lineBytes, fields, field, at: asked }: LinesProps) {
  const lines = [];
  for (let start = 0; start < page.bytes.length; start += lineBytes) {
    const bytes = [...page.bytes.subarray(start, start + lineBytes)];
    const address = page.offset + start;
    lines.push(
      <div class="hex-line" key={address}>
        <span class="hex-address soft">{formatOffset(address)}</span>
        <span class="hex-bytes">
          {bytes.map((byte, i) => (
            <span key={address + i} class={classOf(address + i, fields, field, asked)}>
              {byte.toString(16).padStart(2, "0")}
            </span>
          ))}
        </span>
        <span class="hex-text">
          {bytes.map((byte) => (byte > 0x1f && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("")}
        </span>
      </div>,
    );
  }
  return <>{lines}</>;
}

function classOf(
  address: number,
  fields: readonly FieldRow[],
  chosen: FieldRow | undefined,
  asked: number,
): string | undefined {
  const holds = ({ offset, byteLength }: FieldRow): boolean => address >= offset && address < offset + byteLength;
  if (chosen !== undefined && holds(chosen)) return "chosen";
  if (address === asked && asked !== 0) return "asked";
  const index = fields.findIndex(holds);
  return index < 0 ? undefined : index % 2 === 0 ? "even" : "odd";
}

interface FieldsProps {
  readonly fields: readonly FieldRow[] | undefined;
  readonly field: FieldRow | undefined;
  readonly onField: (field: FieldRow | undefined) => void;
  readonly onMove: (offset: number) => void;
}

function Fields({ fields, field, onField, onMove }: FieldsProps) {
  if (fields === undefined) return <p class="soft">…</p>;
  if (fields.length === 0) return <p class="soft fields-none">The format has no named fields here.</p>;
  return (
    <section class="fields" aria-label="Fields">
      <h2>Fields here</h2>
      <ul>
        {fields.map((row) => (
          <li key={`${row.offset} ${row.name}`}>
            <button
              type="button"
              class={row === field ? "chosen" : ""}
              onMouseEnter={() => onField(row)}
              onMouseLeave={() => onField(undefined)}
              onFocus={() => onField(row)}
              onBlur={() => onField(undefined)}
              onClick={() => onMove(row.offset)}
            >
              <span class="mono">{row.name}</span>
              <span class="mono value">{row.value}</span>
              <span class="soft small">
                {row.type}, {formatInteger(row.byteLength)} B at {formatOffset(row.offset)}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
