import { useState } from "preact/hooks";
import { ErrorPanel } from "../app/error-panel.tsx";
import type { ViewProps } from "../app/lazy-view.tsx";
import type { SimilarityMatrix } from "../pages/sentences.ts";

const MAX_SENTENCES = 24;

const EXAMPLE = `A cat sits on the mat.
A kitten is lying on the rug.
The stock market fell today.
Shares lost value this afternoon.`;

/** Sentences, and their similarity according to the model. */
export function EmbedPage({ session, overview }: ViewProps) {
  const [text, setText] = useState(EXAMPLE);
  const [result, setResult] = useState<{ readonly matrix: SimilarityMatrix; readonly texts: readonly string[] }>();
  const [error, setError] = useState<unknown>(undefined);
  const [isBusy, setBusy] = useState(false);
  const texts = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .slice(0, MAX_SENTENCES);
  const run = (event: Event): void => {
    event.preventDefault();
    setError(undefined);
    setBusy(true);
    session.reader
      .call("embed", { target: overview.target, texts })
      .then((matrix) => setResult({ matrix, texts }), setError)
      .finally(() => setBusy(false));
  };
  return (
    <div class="embed">
      <h1>How near are these sentences?</h1>
      <form onSubmit={run}>
        <label for="sentences">One sentence in each line, {MAX_SENTENCES} at most</label>
        <textarea id="sentences" rows={6} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <div class="buttons">
          <button type="submit" class="primary" disabled={isBusy || texts.length === 0}>
            {isBusy ? "Embedding …" : "Embed"}
          </button>
        </div>
      </form>
      {error === undefined ? null : <ErrorPanel title="Cannot embed" error={error} />}
      {result === undefined ? null : <Matrix {...result} />}
    </div>
  );
}

function Matrix({ matrix, texts }: { readonly matrix: SimilarityMatrix; readonly texts: readonly string[] }) {
  const { cosines, count, dimension, milliseconds, notes } = matrix;
  return (
    <section aria-labelledby="matrix-title">
      <h2 id="matrix-title">Cosine similarity</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Similarity matrix">
        <table class="matrix">
          <thead>
            <tr>
              <td />
              {texts.map((text, i) => (
                <th key={`${i} ${text}`} scope="col" title={text}>
                  {i + 1}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {texts.map((text, y) => (
              <tr key={`${y} ${text}`}>
                <th scope="row">
                  <span class="soft">{y + 1}</span> {text}
                </th>
                {Array.from({ length: count }, (_, x) => {
                  const value = cosines[y * count + x] ?? 0;
                  return (
                    <td key={x} style={{ backgroundColor: shadeOf(value) }}>
                      {formatCosine(value)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft small">
        {count} vectors of {dimension} numbers in {milliseconds.toFixed(0)} ms, here in the page.
      </p>
      {notes.map((note) => (
        <p key={note} class="soft small">
          {asSentence(note)}
        </p>
      ))}
    </section>
  );
}

/** Two digits, and no minus before a zero. */
function formatCosine(value: number): string {
  return value.toFixed(2).replace("-0.00", "0.00");
}

/** The library's notes are parts of a line elsewhere. */
function asSentence(note: string): string {
  return `${note.charAt(0).toUpperCase()}${note.slice(1)}.`;
}

function shadeOf(value: number): string {
  return `color-mix(in srgb, var(--matrix-fill) ${Math.round(100 * Math.max(0, Math.min(1, value)))}%, transparent)`;
}
