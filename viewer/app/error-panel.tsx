import { isTareError, type Location } from "../../src/base/errors.ts";

/** An error: what went wrong, where, and what to do about it. */
export function ErrorPanel({ error, title }: { readonly error: unknown; readonly title: string }) {
  const isOurs = isTareError(error);
  const message = error instanceof Error ? error.message : String(error);
  return (
    <section class="panel problem-panel" role="alert">
      <h2>{title}</h2>
      <p>{message}</p>
      {isOurs && error.hint !== undefined ? <p class="soft">{error.hint}</p> : null}
      {isOurs ? (
        <p class="soft small mono">
          {error.code}
          {whereOf(error.at)}
        </p>
      ) : null}
    </section>
  );
}

/** " · byte 4096 · toc[3].chunk_offset" */
export function whereOf({ offset, path }: Location): string {
  return [offset === undefined ? "" : ` · byte ${offset}`, path === undefined ? "" : ` · ${path}`].join("");
}

/** Shortens digests to their ends: 64 digits are not compared by eye, and the rest of the sentence matters more. */
export function withShortDigests(message: string): string {
  return message.replace(/\b[0-9a-f]{32,}\b/g, (digest) => `${digest.slice(0, 8)}…${digest.slice(-4)}`);
}
